//! The init program: runs one program, adopts its orphans, and lets nothing outlive it.
//!
//! # Theory of operation
//!
//! A child of a [`Namespace`](crate::Containment::Namespace) or
//! [`Reaper`](crate::Containment::Reaper) has a small process between itself and the host while it
//! lives. That process is this crate: a program whose `main` begins with [`hook`], or the program
//! `trunkline-init` of this crate ([`use_program`]). Without either, `Auto` means
//! [`Group`](crate::Containment::Group).
//!
//! ```text
//!  namespace   host ── init ─┤ init (process 1 of the namespace) ── program ── …
//!  reaper      host ── init (subreaper) ── program ── …
//!  sandbox     host ── bwrap ─┤ bwrap ── init ── program ── …
//!              host ── init ── bwrap ─┤ bwrap ── init ── program ── …      with a deadline
//!  container   host ── init ── client of the engine; then the removal of the container
//! ```
//!
//! It forwards SIGTERM and similar signals to the program's process group, reaps orphans, and ends
//! as the program ended, with the same code or signal. It keeps no pipe of the program open. It
//! reports a failed start over a descriptor, so that "not found" stays "not found". When the host
//! closes its end of a pipe, on purpose or because it ended, an init kills all descendants of the
//! program and ends after them. It does the same at a [deadline](crate::Deadline). Deadlines arrive
//! over the same connection, which is a socket then, so they also hold while the host is stopped.
//!
//! Command line, private to this crate: `PROGRAM trunkline-init [--namespace | --reaper]
//! [--lifeline FD [--deadline]] [--status FD [--holder]] [--bridge PORT=SOCKET] [--place
//! DEVICE:INODE=PATH]… [--after N WORDS…] -- PROGRAM ARGS…`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

pub mod bridge;
mod lifeline;
mod namespace;
mod options;
mod program;
mod report;
mod subreaper;

use self::lifeline::Lifeline;
pub(crate) use self::options::{InitOptions, Keep};
pub(crate) use self::report::{InitReport, RECORD};
use self::report::{Reporter, SetupStep};
use crate::system::init as system;

/// The first argument of a program that is asked to be an init.
pub(crate) const MARKER: &str = "trunkline-init";

/// Error text if an init is needed and none is available.
pub(crate) const MISSING: &str =
    "this program has no init: its `main` does not begin with `trunkline_process::init::hook()`";

/// Exit code if its command line is wrong or its program could not be started.
const NOT_STARTED: i32 = 125;

static PROGRAM: OnceLock<Init> = OnceLock::new();

#[derive(Debug)]
enum Init {
    /// The running program, and the path that it was started by.
    Itself(PathBuf),
    Another(PathBuf),
}

/// Makes this program usable as an init: the first statement of `main`, before any thread is
/// started.
///
/// When this process was started as an init it is one from here on, and this call does not return.
/// Otherwise it notes that this program can be asked, and returns.
///
/// ```no_run
/// trunkline_process::init::hook();
/// // The rest of `main`.
/// ```
pub fn hook() {
    let mut args = env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new(MARKER)) {
        process::exit(run(args));
    }
    if let Ok(program) = env::current_exe() {
        let _ = PROGRAM.set(Init::Itself(program));
    }
}

/// Names the program to be started as an init: `trunkline-init` of this crate, or one whose `main`
/// begins with
/// [`hook`]. For embedders that cannot call [`hook`] themselves. The first call of either decides.
pub fn use_program(path: impl Into<PathBuf>) {
    let _ = PROGRAM.set(Init::Another(path.into()));
}

/// The program that is started as an init, if there is one.
#[must_use]
pub fn program() -> Option<&'static Path> {
    PROGRAM.get().map(|init| {
        let (Init::Itself(path) | Init::Another(path)) = init;
        path.as_path()
    })
}

/// Returns the path by which a child of this process executes it: the running program, even if its
/// file was replaced.
pub(crate) fn executable() -> Option<&'static Path> {
    PROGRAM.get().map(|init| match init {
        Init::Itself(_) => Path::new("/proc/self/exe"),
        Init::Another(path) => path,
    })
}

/// Is an init until its program has ended; gives the exit code.
fn run(args: impl Iterator<Item = OsString>) -> i32 {
    match InitOptions::parse(args) {
        Ok(options) => match (Ties::take(&options), options.keep) {
            (Ok(ties), Keep::Namespace) => namespace::run(&options, ties),
            (Ok(ties), Keep::Reaper | Keep::Plain) => subreaper::run(&options, ties),
            (Err(code), _) => code,
        },
        Err(problem) => {
            complain(&problem);
            NOT_STARTED
        }
    }
}

/// Resources of an init while its program runs.
#[derive(Debug)]
struct Ties {
    report: Reporter,
    /// Everything ends when the host closes its end, or when a deadline that arrived over it
    /// passes.
    lifeline: Option<Lifeline>,
    /// Signals that this process has blocked.
    signals: OwnedFd,
}

impl Ties {
    /// Takes over what the host has lent. An error is the exit code.
    fn take(options: &InitOptions) -> Result<Self, i32> {
        let status = options
            .status
            .and_then(|number| system::inherited(number).ok());
        let mut report = Reporter::new(status);
        let inherited = options.lifeline.map(system::inherited).transpose();
        let lifeline = match inherited {
            Ok(end) => end
                .map(|end| Lifeline::new(end, options.counts))
                .transpose(),
            Err(error) => return Err(report.refuse(SetupStep::First, &error)),
        };
        let lifeline = lifeline.map_err(|error| report.refuse(SetupStep::Deadline, &error))?;
        match system::take_signals() {
            Ok(signals) => Ok(Self {
                report,
                lifeline,
                signals,
            }),
            Err(error) => Err(report.refuse(SetupStep::First, &error)),
        }
    }
}

/// Says something on the stderr that init shares with its program until that has started.
fn complain(problem: &str) {
    use std::io::Write;
    // A failure cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{MARKER}: {problem}");
}
