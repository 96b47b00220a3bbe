//! The processes that the stub leaves behind, and its own death.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process, setsid};

use super::action::{DeathSignal, Kinship, Pipes};
use super::log::Log;

/// The longest that a child sleeps.
const LONGEST: u64 = 600;

/// Starts a child that only sleeps, or an orphan in a session of its own. The log does not contain
/// its pid, which may belong to another process elsewhere: it is found by its arguments.
pub(super) fn start(log: &Log, seconds: u64, kind: Kinship, pipes: Pipes) {
    let started = match kind {
        Kinship::Grandchild => sleeper(seconds, pipes, log.path()).and_then(|mut command| {
            let mut child = command.spawn()?;
            // Reaped when it ends, so that it does not look like a host's zombie.
            thread::spawn(move || drop(child.wait()));
            Ok("grandchild")
        }),
        Kinship::Orphan => own_command().and_then(|mut command| {
            let word = if pipes == Pipes::Hold { "hold" } else { "free" };
            command.args(["--orphan", &seconds.to_string(), word, "--log"]);
            command.arg(log.path()).stdin(Stdio::null());
            match command.status()? {
                status if status.success() => Ok("orphan"),
                status => Err(std::io::Error::other(format!("no orphan: {status}"))),
            }
        }),
    };
    match started {
        Ok(kind) => log.add("child", [("kind", kind.into())]),
        Err(error) => log.add("bad", [("error", error.to_string().into())]),
    }
}

/// Returns true if these are the arguments of a sleeping child of a stub with this log.
#[must_use]
pub fn is_child<A: AsRef<[u8]>>(args: &[A], log: &Path) -> bool {
    let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
    let wanted = log.as_os_str().as_encoded_bytes();
    matches!(args.as_slice(), [_, b"stub", b"--sleep", _, b"--log", log] if *log == wanted)
}

/// Sleeps: what a child does.
pub(super) fn sleep(seconds: u64) -> ExitCode {
    thread::sleep(Duration::from_secs(seconds.min(LONGEST)));
    ExitCode::SUCCESS
}

/// Starts a sleeping child in a new session and ends, so that the child has no parent.
pub(super) fn orphan(seconds: &str, pipes: &str, log: &Path) -> ExitCode {
    let pipes = if pipes == "hold" {
        Pipes::Hold
    } else {
        Pipes::Free
    };
    let _ = setsid();
    let sleeper = sleeper(seconds.parse().unwrap_or(0), pipes, log);
    match sleeper.and_then(|mut command| command.spawn()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends this process by a signal.
pub(super) fn die(death: DeathSignal) -> ! {
    match death {
        DeathSignal::Kill => {
            // The first process of a PID namespace cannot kill itself so, but abort.
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort()
        }
        DeathSignal::Abort => std::process::abort(),
    }
}

fn own_command() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("stub");
    Ok(command)
}

/// The log's path is in its arguments, by which a runner finds what is left of a case.
fn sleeper(seconds: u64, pipes: Pipes, log: &Path) -> std::io::Result<Command> {
    let mut command = own_command()?;
    command.args(["--sleep", &seconds.to_string(), "--log"]);
    command.arg(log).stdin(Stdio::null());
    if pipes == Pipes::Free {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_known_by_its_log() {
        let args = [
            "trunkline-conformance",
            "stub",
            "--sleep",
            "30",
            "--log",
            "/a/log.jsonl",
        ];
        assert!(is_child(&args, Path::new("/a/log.jsonl")));
        assert!(!is_child(&args, Path::new("/a/log")));
        assert!(!is_child(&args[..5], Path::new("--log")));
        assert!(!is_child(
            &["vi", "stub", "--log", "/a/log.jsonl"],
            Path::new("/a/log.jsonl")
        ));
    }
}
