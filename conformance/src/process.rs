//! The program under test: started in its own process group, its pipes recorded, its leftovers counted.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_setfl},
    process::{
        Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, prlimit,
        waitid,
    },
};

use crate::{
    history::{Event, History, Intent, Link},
    wire::{Parsed, Splitter},
};

mod leftovers;
mod usage;

pub use self::leftovers::{kill_all, sweep};
pub(crate) use self::{
    leftovers::{become_subreaper, descendants},
    usage::{Usage, usage_of},
};

/// The most of a line that is kept: the program may write without an LF for ever.
const LINE_KEPT: usize = 64 << 20;
/// The most of stderr that is kept.
const STDERR_KEPT: usize = 1 << 20;
/// How many threads a program may add to those of the machine.
const THREADS_MORE: u64 = 16_384;
/// The name of the variable that marks every process of a case.
pub(crate) const MARK: &str = "TRUNKLINE_CONFORMANCE_CASE";

/// What becomes of the program's stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StderrMode {
    /// Read and recorded.
    Recorded,
    /// The program starts without one.
    Closed,
}

/// How to start the program.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Begin without the runner's own variables.
    pub clear_env: bool,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its stderr.
    pub stderr: StderrMode,
    /// What marks its processes, as the value of [`MARK`].
    pub mark: String,
}

/// A running program, or one that has ended. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    history: Arc<History>,
    input: Arc<Input>,
    output: Arc<Output>,
    ended: Arc<Ended>,
    /// Its number is its own for as long as this is there.
    _unreaped: mpsc::SyncSender<()>,
}

/// What waits for the program's stdin.
#[derive(Debug, Default)]
struct Input {
    state: Mutex<InputState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InputState {
    waiting: VecDeque<Write1>,
    writing: bool,
    close: bool,
    broken: bool,
}

/// One line, or a piece of one, and how to write it.
#[derive(Debug)]
struct Write1 {
    bytes: Vec<u8>,
    /// Where to cut it, ascending, and how long to pause at each cut.
    cuts: Vec<usize>,
    gap: Duration,
    intent: Intent,
}

/// Whether stdout is read.
#[derive(Debug, Default)]
struct Output {
    state: Mutex<OutputState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct OutputState {
    paused: bool,
    close: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Ended {
    state: Mutex<Option<Exit>>,
    changed: Condvar,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// When.
    pub at: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        leftovers::demand_own_proc()?;
        let mut command = Command::new(program);
        command.args(args).current_dir(&launch.cwd).process_group(0);
        if launch.clear_env {
            command.env_clear();
        }
        command.envs(launch.env.iter().map(|(name, value)| (name, value))).env(MARK, &launch.mark);
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
        history.push(Link::Upper, Event::Started { pid: Some(pid) });
        cap_processes(pid);

        let (input, output, ended) =
            (Arc::new(Input::default()), Arc::<Output>::default(), Arc::<Ended>::default());
        if let Some(stdin) = child.stdin.take() {
            let (input, history) = (Arc::clone(&input), Arc::clone(history));
            let ended = Arc::clone(&ended);
            thread::spawn(move || write_all(OwnedFd::from(stdin), &input, &ended, &history));
        }
        if let Some(stdout) = child.stdout.take() {
            let (output, history) = (Arc::clone(&output), Arc::clone(history));
            thread::spawn(move || read_stdout(File::from(OwnedFd::from(stdout)), &output, &history));
        }
        if let Some(stderr) = child.stderr.take() {
            let history = Arc::clone(history);
            thread::spawn(move || read_stderr(stderr, &history));
        }
        let (waiter, told) = (Arc::clone(&ended), Arc::clone(history));
        let (unreaped, let_go) = mpsc::sync_channel(0);
        thread::spawn(move || {
            let (code, signal) = wait_unreaped(pid);
            *lock(&waiter.state) = Some(Exit { code, signal, at: Instant::now() });
            told.push(Link::Upper, Event::Exited { code, signal });
            waiter.changed.notify_all();
            // Fails when no one signals it any more: until it is reaped no other process or group has its number.
            let _ = let_go.recv();
            let _ = child.wait();
        });
        Ok(Self { pid, history: Arc::clone(history), input, output, ended, _unreaped: unreaped })
    }

    /// Its process id, which is its group's too.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Queues bytes for its stdin. Never waits.
    pub(crate) fn write(&self, bytes: Vec<u8>, intent: Intent) {
        self.write_in_pieces(bytes, Vec::new(), Duration::ZERO, intent);
    }

    /// Queues bytes that are written in pieces, cut at the given offsets, with a pause at each cut.
    pub(crate) fn write_in_pieces(&self, bytes: Vec<u8>, cuts: Vec<usize>, gap: Duration, intent: Intent) {
        lock(&self.input.state).waiting.push_back(Write1 { bytes, cuts, gap, intent });
        self.input.changed.notify_all();
    }

    /// Waits until all that was queued has been accepted by the pipe. `false`: the time ran out, or the pipe broke.
    pub(crate) fn flushed(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = lock(&self.input.state);
        loop {
            if state.broken {
                return false;
            }
            if state.waiting.is_empty() && !state.writing {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.input.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes its stdin when all that was queued is written.
    pub(crate) fn close_stdin(&self) {
        lock(&self.input.state).close = true;
        self.input.changed.notify_all();
    }

    /// Stops reading its stdout, or goes on.
    pub(crate) fn pause_reading(&self, paused: bool) {
        lock(&self.output.state).paused = paused;
        self.output.changed.notify_all();
    }

    /// Closes the read end of its stdout.
    pub(crate) fn close_stdout(&self) {
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut state = lock(&self.output.state);
        state.close = true;
        self.output.changed.notify_all();
        while !state.closed && Instant::now() < deadline {
            let wait = Duration::from_millis(50);
            state = self.output.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How it ended, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        *lock(&self.ended.state)
    }

    /// Waits for its end.
    pub(crate) fn wait_exit(&self, within: Duration) -> Option<Exit> {
        let deadline = Instant::now() + within;
        let mut state = lock(&self.ended.state);
        loop {
            if let Some(exit) = *state {
                return Some(exit);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.ended.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends a signal to the program alone.
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
            // No such group means that no one is left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.wait_exit(Duration::from_secs(5));
    }

    /// The history that it is recorded in.
    pub(crate) fn history(&self) -> &Arc<History> {
        &self.history
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        lock(&self.input.state).broken = true;
        self.input.changed.notify_all();
        lock(&self.output.state).close = true;
        self.output.changed.notify_all();
    }
}

/// Waits for the end of a child and leaves it to be reaped; gives its status or the signal that ended it.
fn wait_unreaped(pid: u32) -> (Option<i32>, Option<i32>) {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return (None, None) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options)).ok().flatten();
    status.map_or((None, None), |status| (status.exit_status(), status.terminating_signal()))
}

/// Bounds what the program and its children may start, so that a fork bomb costs a case and not the machine. The kernel
/// counts the threads of a user, and exempts root.
fn cap_processes(pid: u32) {
    let threads = std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|load| load.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u64>().ok());
    let most = threads.map(|threads| threads + THREADS_MORE);
    if let (Some(pid), Some(_)) = (Pid::from_raw(pid.cast_signed()), most) {
        // The program may have ended already; an unbounded one is no reason to stop.
        let _ = prlimit(Some(pid), Resource::Nproc, Rlimit { current: most, maximum: most });
    }
}

/// Writes what is queued until stdin is closed, the pipe breaks, or the program has ended.
fn write_all(stdin: OwnedFd, input: &Input, ended: &Ended, history: &History) {
    // Not blocking, so that a program that reads nothing holds no thread after its end.
    let quick = fcntl_setfl(&stdin, OFlags::NONBLOCK).is_ok();
    let mut stdin = File::from(stdin);
    loop {
        let next = {
            let mut state = lock(&input.state);
            loop {
                if let Some(next) = state.waiting.pop_front() {
                    state.writing = true;
                    break Some(next);
                }
                if state.close || state.broken {
                    break None;
                }
                state = input.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let Some(write) = next else { break };
        record_host(history, &write.bytes, write.intent);
        let mut pieces = write.cuts;
        pieces.push(write.bytes.len());
        let mut from = 0;
        let mut whole = true;
        for to in pieces {
            if from > 0 && !write.gap.is_zero() {
                thread::sleep(write.gap);
            }
            whole = whole && write_piece(&mut stdin, &write.bytes[from..to], quick, input, ended);
            from = to;
        }
        let mut state = lock(&input.state);
        state.writing = false;
        state.broken |= !whole;
        input.changed.notify_all();
        if state.broken {
            break;
        }
    }
    drop(stdin);
    history.push(Link::Upper, Event::StdinClosed);
}

/// Records what the host's side writes: a record for each line.
fn record_host(history: &History, bytes: &[u8], intent: Intent) {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        // A reader skips a byte order mark ([frame.3]), so what follows it counts.
        let parsed = Arc::new(Parsed::lenient(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)));
        history.push(Link::Upper, Event::Host { bytes: line.into(), parsed, intent });
    }
}

fn write_piece(stdin: &mut File, mut bytes: &[u8], quick: bool, input: &Input, ended: &Ended) -> bool {
    while !bytes.is_empty() {
        match stdin.write(bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if quick && error.kind() == io::ErrorKind::WouldBlock => {
                if lock(&input.state).broken || lock(&ended.state).is_some() {
                    return false;
                }
                wait_for(stdin, PollFlags::OUT);
            }
            Err(_) => return false,
        }
    }
    true
}

/// Waits until a descriptor is ready, or a little while.
fn wait_for(file: &File, flags: PollFlags) {
    let tick = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    // An interrupted or failed poll only means another look.
    let _ = poll(&mut [PollFd::new(file, flags)], Some(&tick));
}

/// Reads stdout to its end, line by line.
fn read_stdout(mut stdout: File, output: &Output, history: &History) {
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 64 << 10]);
    loop {
        {
            let mut state = lock(&output.state);
            while state.paused && !state.close {
                state = output.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.close {
                break;
            }
        }
        wait_for(&stdout, PollFlags::IN);
        if !is_ready(&stdout) {
            continue;
        }
        let read = match stdout.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        splitter.take(&buffer[..read], |line| record_adapter(history, line, true));
        if splitter.rest().len() > LINE_KEPT {
            history.push(
                Link::Upper,
                Event::Note(format!("a line longer than {LINE_KEPT} bytes; no longer read")),
            );
            break;
        }
    }
    if !splitter.rest().is_empty() {
        record_adapter(history, splitter.rest(), false);
    }
    drop(stdout);
    history.push(Link::Upper, Event::StdoutEnded);
    lock(&output.state).closed = true;
    output.changed.notify_all();
}

fn is_ready(file: &File) -> bool {
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&now)), Ok(ready) if ready > 0)
}

fn record_adapter(history: &History, line: &[u8], ended: bool) {
    let parsed = Arc::new(Parsed::of(line));
    history.push(Link::Upper, Event::Adapter { bytes: line.into(), parsed, ended, intent: Intent::Valid });
}

/// Reads stderr to its end, whatever its size, and keeps the first of it.
fn read_stderr(mut stderr: impl Read, history: &History) {
    let (mut buffer, mut kept) = (vec![0; 16 << 10], 0);
    while let Ok(read) = stderr.read(&mut buffer) {
        if read == 0 {
            break;
        }
        if kept < STDERR_KEPT {
            kept += read;
            history.push(Link::Upper, Event::Stderr(buffer[..read].into()));
        }
    }
}
