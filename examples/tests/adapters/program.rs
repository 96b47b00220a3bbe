//! A program of this folder: what it needs, how it is started, how its end is awaited.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use trunkline_testing::skipped;

/// Timeout for a tool to report its version; on a busy machine, from a cold disk.
const TOOL: Duration = Duration::from_secs(60);

/// Python 3.10 or later.
pub(crate) static PYTHON: Need = Need::new(
    "python3 3.10",
    &[
        "python3",
        "-c",
        "import sys; sys.exit(sys.version_info < (3, 10))",
    ],
);
/// Node 20 or later.
pub(crate) static NODE: Need = Need::new(
    "node 20",
    &[
        "node",
        "-e",
        "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)",
    ],
);

/// Requirement of a program.
pub(crate) struct Need {
    name: &'static str,
    /// Succeeds where it is here.
    check: &'static [&'static str],
    here: OnceLock<bool>,
}

impl Need {
    pub(crate) const fn new(name: &'static str, check: &'static [&'static str]) -> Self {
        Self {
            name,
            check,
            here: OnceLock::new(),
        }
    }

    /// Returns true if it is available; otherwise the calling test is skipped.
    #[track_caller]
    pub(crate) fn is_here(&self) -> bool {
        let here = *self.here.get_or_init(|| {
            Program::start(&mut command(self.check))
                .is_ok_and(|mut program| program.end(Instant::now() + TOOL).1.success())
        });
        if !here {
            skipped(&format!("no program {}", self.name));
        }
        here
    }
}

/// A program and its arguments, run in the folder of the examples.
pub(crate) fn command<Word: AsRef<OsStr>>(words: &[Word]) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command
        .env_remove("ADAPTER_CONFIG")
        .env_remove("CONFORM_PROBE");
    command
}

/// An example of this package, which `cargo test` builds.
pub(crate) fn rust(name: &str) -> Command {
    let test = std::env::current_exe().expect("a path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("tests are built in a folder of the profile's");
    command(&[profile.join("examples").join(name)])
}

/// A running program in a process group of its own. Dropping it kills what still runs of it, and
/// shows its stderr if the test fails.
pub(crate) struct Program {
    /// The writer takes its stdin.
    pub(crate) child: Child,
    ended: bool,
    lines: Receiver<Vec<u8>>,
    stderr: Arc<Mutex<String>>,
}

impl Program {
    /// Starts it with three pipes.
    ///
    /// # Errors
    ///
    /// It is not there; those in Rust are built by `cargo build --examples` too.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let lines = lines(child.stdout.take().expect("piped"));
        let stderr = text(child.stderr.take().expect("piped"));
        Ok(Self {
            child,
            ended: false,
            lines,
            stderr,
        })
    }

    /// The next line of its stdout, without the LF; none at the end.
    pub(crate) fn line(&self, deadline: Instant) -> Option<Vec<u8>> {
        match self
            .lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("neither a line nor the end of stdout in time")
            }
        }
    }

    /// Closes its stdin unless that is taken, and awaits the end of its stdout, then its own.
    pub(crate) fn end(&mut self, deadline: Instant) -> (Vec<Vec<u8>>, ExitStatus) {
        drop(self.child.stdin.take());
        let rest = std::iter::from_fn(|| self.line(deadline)).collect();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                self.ended = true;
                return (rest, status);
            }
            assert!(
                Instant::now() < deadline,
                "its stdout has ended, it has not"
            );
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL); // gone meanwhile is gone
            drop(self.child.wait());
        }
        if thread::panicking() {
            eprintln!(
                "its stderr: {}",
                self.stderr
                    .lock()
                    .map(|text| text.clone())
                    .unwrap_or_default()
            );
        }
    }
}

fn lines(stdout: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (found, lines) = sync_channel(64);
    thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if found.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn text(stderr: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let text = Arc::clone(&kept);
    thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let mut text = text.lock().expect("no holder panics");
            *text += &String::from_utf8_lossy(&line);
            text.push('\n');
        }
    });
    kept
}
