//! The processes that the stub leaves behind, and its own death.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process, setsid};

use super::action::{Death, Kinship, Pipes};
use super::log::Log;

/// The longest that a child sleeps.
const LONGEST: u64 = 600;

/// Starts a child that only sleeps, or an orphan in a session of its own.
pub(super) fn start(log: &Log, seconds: u64, kind: Kinship, pipes: Pipes) {
    let started = match kind {
        Kinship::Grandchild => sleeper(seconds, pipes, log).and_then(|mut command| {
            let mut child = command.spawn()?;
            note(log, child.id(), "grandchild");
            // Reaped when it ends, so that it does not look like a host's zombie.
            thread::spawn(move || drop(child.wait()));
            Ok(())
        }),
        Kinship::Orphan => own_command().and_then(|mut command| {
            let word = if pipes == Pipes::Hold { "hold" } else { "free" };
            command.args(["--orphan", &seconds.to_string(), word, "--log"]);
            command.arg(log.path()).stdin(Stdio::null());
            command.status().map(drop)
        }),
    };
    if let Err(error) = started {
        log.add("bad", [("error", error.to_string().into())]);
    }
}

/// Sleeps: what a child does.
pub(super) fn sleep(seconds: u64) -> ExitCode {
    thread::sleep(Duration::from_secs(seconds.min(LONGEST)));
    ExitCode::SUCCESS
}

/// Starts a sleeping child in a new session and ends, so that nobody is its parent.
pub(super) fn orphan(seconds: &str, pipes: &str, log: &Path) -> ExitCode {
    let pipes = if pipes == "hold" { Pipes::Hold } else { Pipes::Free };
    let Ok(log) = Log::open(log) else {
        return ExitCode::FAILURE;
    };
    let _ = setsid();
    let sleeper = sleeper(seconds.parse().unwrap_or(0), pipes, &log);
    match sleeper.and_then(|mut command| command.spawn()) {
        Ok(child) => note(&log, child.id(), "orphan"),
        Err(error) => log.add("bad", [("error", error.to_string().into())]),
    }
    ExitCode::SUCCESS
}

/// Ends this process by a signal.
pub(super) fn die(death: Death) -> ! {
    match death {
        Death::Kill => {
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort()
        }
        Death::Abort => std::process::abort(),
    }
}

fn note(log: &Log, child: u32, kind: &str) {
    log.add("child", [("child", child.into()), ("kind", kind.into())]);
}

fn own_command() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("stub");
    Ok(command)
}

/// The log's path is in its arguments, by which a runner finds what is left of a case.
fn sleeper(seconds: u64, pipes: Pipes, log: &Log) -> std::io::Result<Command> {
    let mut command = own_command()?;
    command.args(["--sleep", &seconds.to_string(), "--log"]);
    command.arg(log.path()).stdin(Stdio::null());
    if pipes == Pipes::Free {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    Ok(command)
}
