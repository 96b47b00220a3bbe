//! The program under test: started in its own process group, its pipes recorded, its orphans counted.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group,
    prlimit, waitid,
};

use self::pipes::StdinState;
use crate::{
    history::{History, Intent, PipePair, RecordedEvent, Tape},
    watched::Watched,
};

mod environment;
mod orphans;
mod pipe;
mod pipes;
mod requests;
mod usage;

pub use self::orphans::{kill_all, sweep};
pub(crate) use self::{
    environment::Inherited,
    orphans::{become_subreaper, descendants, end_descendants_at_signals},
    pipe::{Connection, Pipe},
    usage::{Usage, usage_of},
};

/// Number of threads that a program may add to the machine's.
const THREADS_MORE: u64 = 16_384;
/// The name of the variable that marks every process of a case.
pub(crate) const MARK: &str = "TRUNKLINE_CONFORMANCE_CASE";

/// Treatment of the program's stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StderrMode {
    /// Read and recorded.
    Recorded,
    /// The program starts without one.
    Closed,
}

/// Description of the program's start.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// The suite's own variables that it gets besides.
    pub inherited: Inherited,
    /// Working directory.
    pub cwd: PathBuf,
    /// Treatment of stderr.
    pub stderr: StderrMode,
    /// Mark of its processes, the value of [`MARK`].
    pub mark: String,
    /// On which pipes it is recorded.
    pub link: PipePair,
}

impl Launch {
    /// Returns the reason why the program did not start, for its author.
    pub(crate) fn why_not(&self, error: &io::Error) -> String {
        if is_missing(&self.command, &self.cwd) {
            format!("there is no such file in {}", self.cwd.display())
        } else {
            error.to_string()
        }
    }
}

/// Returns true if a command names its program by a relative path that leads to no file.
pub(crate) fn is_missing(command: &[String], folder: &Path) -> bool {
    command.first().is_some_and(|program| {
        program.contains('/')
            && !program.starts_with('/')
            && folder.join(program).symlink_metadata().is_err()
    })
}

/// A running program, or one that has ended. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    pipe: Pipe,
    ended: Arc<Watched<Option<Exit>>>,
    /// True if all of its stderr has been recorded.
    stderr_ended: Arc<Watched<bool>>,
    /// Reserves its process id while this exists.
    _unreaped: mpsc::SyncSender<()>,
}

/// Exit of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// When.
    pub at: Instant,
}

impl Process {
    /// Starts the program and begins to record.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn start(launch: &Launch, history: &Arc<History>) -> io::Result<Self> {
        let (program, args) = launch
            .command
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        orphans::demand_own_proc()?;
        let mut command = Command::new(program);
        command.args(args).current_dir(&launch.cwd).process_group(0);
        // One by one: after `env_clear` the standard library forks, and copies the page tables of all
        // recorded histories, where it otherwise spawns.
        for (name, _) in std::env::vars_os().filter(|(name, _)| !launch.inherited.includes(name)) {
            command.env_remove(name);
        }
        command
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .env(MARK, &launch.mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match launch.stderr {
            StderrMode::Recorded => command.stderr(Stdio::piped()),
            // A pipe without a reader: a write fails, as on a descriptor that was closed.
            StderrMode::Closed => {
                let (reader, writer) = io::pipe()?;
                drop(reader);
                command.stderr(writer)
            }
        };
        let mut child = command.spawn()?;
        let pid = child.id();
        let tape = Tape {
            history: Arc::clone(history),
            link: launch.link,
        };
        tape.push(RecordedEvent::Started { pid: Some(pid) });
        cap_processes(pid);

        let ended = Arc::<Watched<Option<Exit>>>::default();
        let stdin = child.stdin.take().map(OwnedFd::from);
        let stdout = child.stdout.take().map(OwnedFd::from);
        let pipe = Pipe::serve(tape.clone(), stdin, stdout, &ended);
        let stderr_ended = Arc::new(Watched::new(child.stderr.is_none()));
        if let Some(stderr) = child.stderr.take() {
            let tape = tape.clone();
            let ended = Arc::clone(&stderr_ended);
            thread::spawn(move || {
                pipes::read_stderr(stderr, &tape);
                ended.change(|ended| *ended = true);
            });
        }
        let waiter = Arc::clone(&ended);
        let (unreaped, let_go) = mpsc::sync_channel(0);
        thread::spawn(move || {
            let (code, signal) = wait_unreaped(pid);
            waiter.change(|exit| {
                *exit = Some(Exit {
                    code,
                    signal,
                    at: Instant::now(),
                });
                tape.push(RecordedEvent::Exited { code, signal });
            });
            // Fails when all senders are dropped: until it is reaped no other process or group has
            // its id.
            let _ = let_go.recv();
            let _ = child.wait();
        });
        Ok(Self {
            pid,
            pipe,
            ended,
            stderr_ended,
            _unreaped: unreaped,
        })
    }

    /// Returns its process id, which is its group's too.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Queues bytes for its stdin. Never waits.
    pub(crate) fn write(&self, bytes: Vec<u8>, intent: Intent) {
        self.pipe.write(bytes, intent);
    }

    /// Queues bytes that are written in pieces, cut at the given offsets, with a pause at each cut.
    pub(crate) fn write_in_pieces(
        &self,
        bytes: Vec<u8>,
        cuts: Vec<usize>,
        gap: Duration,
        intent: Intent,
    ) {
        self.pipe.write_in_pieces(bytes, cuts, gap, intent);
    }

    /// Denies from now on what the program asks for, but for turns whose input the case answers for.
    pub(crate) fn deny_requests(&self) {
        self.pipe.input.change(|input| input.denials.on = true);
    }

    /// Says that the case answers what the turn of an input with this text asks for.
    pub(crate) fn leave_requests_of(&self, text: &str) {
        self.pipe
            .input
            .change(|input| input.denials.texts_of_case.insert(text.to_owned()));
    }

    /// Says that the case answers everything that is asked for in a session.
    pub(crate) fn leave_requests_in(&self, session: &str) {
        self.pipe
            .input
            .change(|input| input.denials.sessions_of_case.insert(session.to_owned()));
    }

    /// Waits until all that was queued has been accepted by the pipe. `false`: the time ran out, or
    /// the pipe broke.
    pub(crate) fn flushed(&self, within: Duration) -> bool {
        let done = |input: &mut StdinState| {
            let idle = input.waiting.is_empty() && !input.writing;
            (input.broken || idle).then_some(!input.broken)
        };
        self.pipe.input.wait_within(within, done).unwrap_or(false)
    }

    /// Closes its stdin when all that was queued is written.
    pub(crate) fn close_stdin(&self) {
        self.pipe.input.change(|input| input.close = true);
    }

    /// Pauses or resumes reading its stdout.
    pub(crate) fn pause_reading(&self, paused: bool) {
        self.pipe.pause_reading(paused);
    }

    /// Closes the read end of its stdout.
    pub(crate) fn close_stdout(&self) {
        self.pipe.output.change(|output| output.close = true);
        self.pipe
            .output
            .wait_within(Duration::from_secs(2), |output| output.closed.then_some(()));
    }

    /// Returns its exit, if it has ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        *self.ended.lock()
    }

    /// Waits for its end.
    pub(crate) fn wait_exit(&self, within: Duration) -> Option<Exit> {
        self.ended.wait_within(within, |exit| *exit)
    }

    /// Waits until all of its stderr has been recorded.
    pub(crate) fn wait_stderr(&self, within: Duration) {
        self.stderr_ended
            .wait_within(within, |ended| ended.then_some(()));
    }

    /// Sends a signal only to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.exit().is_none()
            && let Some(pid) = Pid::from_raw(self.pid.cast_signed())
        {
            // It may have ended in this moment; then there is nothing to signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills its process group and waits until it is gone.
    pub(crate) fn kill(&self) {
        if let Some(group) = Pid::from_raw(self.pid.cast_signed()) {
            // No such group means that no process is left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.wait_exit(Duration::from_secs(5));
    }

    /// Returns its stdin and stdout.
    pub(crate) fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    /// The history that it is recorded in.
    pub(crate) fn history(&self) -> &Arc<History> {
        &self.pipe.tape.history
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.pipe.input.change(|input| input.broken = true);
        self.pipe.output.change(|output| output.close = true);
    }
}

/// Waits for the end of a child and leaves it to be reaped; gives its status or the signal that ended it.
fn wait_unreaped(pid: u32) -> (Option<i32>, Option<i32>) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else {
        return (None, None);
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))
        .ok()
        .flatten();
    status.map_or((None, None), |status| {
        (status.exit_status(), status.terminating_signal())
    })
}

/// Bounds what the program and its children may start, so that a fork bomb costs a case and not the
/// machine. The kernel counts the threads of a user, and exempts root.
fn cap_processes(pid: u32) {
    let threads = std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|load| {
            load.split_whitespace()
                .nth(3)?
                .split_once('/')?
                .1
                .parse::<u64>()
                .ok()
        });
    let most = threads.map(|threads| threads + THREADS_MORE);
    if let (Some(pid), Some(_)) = (Pid::from_raw(pid.cast_signed()), most) {
        // The program may have ended already; an unbounded one is not a reason to stop.
        let _ = prlimit(
            Some(pid),
            Resource::Nproc,
            Rlimit {
                current: most,
                maximum: most,
            },
        );
    }
}
