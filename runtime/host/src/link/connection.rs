//! Run of an adapter: its pipes and, if it is a process, the child.

use std::{
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    process::{ChildStderr, ChildStdin, ChildStdout},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use trunkline_core::{Ended, ExitStatus, ProcessEnd};
use trunkline_process::{
    AgentWireEvent, AgentWireListener, Child, ChildSpec, Signal, SpawnError, StderrDrain,
    StderrTail, read_held,
};
use trunkline_protocol::{Category, Failure, HostMessage, LineReader};
use trunkline_redact as redact;
use trunkline_wirelog::{WireDirection, WireEvent};

use super::{outbox::Outbox, tap::Tap};
use crate::{config::EnvError, health::end_of};

/// Time for the process to end after its output has, unless it is being stopped.
pub(super) const EXIT_GRACE: Duration = Duration::from_millis(250);
/// Number of [`Signal::Kill`] in an exit status.
const SIGKILL: i32 = 9;
/// Time to read stderr after the process has ended while a descendant holds it open.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// Says how the process is started, with the values that its variables have now. Blocks.
pub(crate) type MakeSpec = Arc<dyn Fn() -> Result<ChildSpec, EnvError> + Send + Sync>;

/// Method to start a run of the adapter.
pub(crate) enum Connect {
    /// By starting a process. What is started is made anew for each start, and blocks.
    Process(MakeSpec),
    /// Over streams that someone else makes, such as an in-memory pipe.
    Streams(Box<dyn FnMut() -> Streams + Send>),
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process(_) => "Process",
            Self::Streams(_) => "Streams",
        })
    }
}

/// The adapter's output to read and its input to write.
pub(crate) type Streams = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

/// Input of the driver: the adapter's output.
pub(super) enum Output {
    Pipe(ChildStdout),
    Stream(Box<dyn AsyncRead + Send + Unpin>),
}

/// A run.
pub(super) struct Connection {
    pub(super) output: Option<Output>,
    pub(super) input: Option<Input>,
    pub(super) lines: LineReader,
    pub(super) outbox: Outbox,
    pub(super) child: Option<Child>,
    stderr: Option<Stderr>,
    /// Reads what passes between the adapter and the agents that it wraps.
    agent_wire: Option<AgentWireListener>,
    /// Sees what passes.
    pub(super) tap: Option<Tap>,
    /// Reason of its end, if the host caused it.
    pub(super) ending: Option<Ended>,
}

/// Output of the driver: the adapter's input.
pub(super) enum Input {
    Pipe(ChildStdin),
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
}

struct Stderr {
    task: JoinHandle<()>,
    tail: StderrTail,
    finish: oneshot::Sender<()>,
}

impl Connection {
    pub(super) fn over((output, input): Streams, tap: Option<Tap>, max_line: usize) -> Self {
        tap.iter()
            .for_each(|tap| tap.take(WireEvent::Started { pid: None }));
        Self {
            output: Some(Output::Stream(output)),
            input: Some(Input::Stream(input)),
            lines: LineReader::of_peer(max_line),
            outbox: Outbox::default(),
            child: None,
            stderr: None,
            agent_wire: None,
            tap,
            ending: None,
        }
    }

    pub(super) fn to_child(
        mut child: Child,
        agent: Arc<str>,
        tap: Option<Tap>,
        max_line: usize,
        stderr_tail: usize,
    ) -> Self {
        // Before any of its output.
        tap.iter().for_each(|tap| {
            tap.take(WireEvent::Started {
                pid: Some(child.pid()),
            })
        });
        // Before it gets a message, on which it may start an agent.
        let agent_wire = tap.as_ref().and_then(|tap| listen(&child, tap));
        let stderr = child.take_stderr();
        let stderr = stderr.map(|stderr| Stderr::drain(stderr, agent, tap.clone(), stderr_tail));
        Self {
            output: child.take_stdout().map(Output::Pipe),
            input: child.take_stdin().map(Input::Pipe),
            lines: LineReader::of_peer(max_line),
            outbox: Outbox::default(),
            child: Some(child),
            stderr,
            agent_wire,
            tap,
            ending: None,
        }
    }

    /// The private folder that the process may write files to.
    pub(super) fn temp_dir(&self) -> Option<PathBuf> {
        self.child.as_ref().map(|child| child.temp_dir().to_owned())
    }

    /// A process of its tree that is suspended.
    pub(super) fn suspended(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::suspended)
    }

    /// The end of its standard error so far, without secrets.
    pub(super) fn stderr_tail(&self) -> String {
        let text = self
            .stderr
            .as_ref()
            .map(|stderr| stderr.tail.text())
            .unwrap_or_default();
        end_of(&text).to_owned()
    }

    /// Ends the process by force; streams are just dropped.
    pub(super) fn kill(&mut self, why: Ended) {
        self.ending.get_or_insert(why);
        match &self.child {
            // An error means that no process is left that we may signal.
            Some(child) => drop(child.signal_tree(Signal::Kill)),
            None => self.output = None,
        }
        // Behind the signal: a program that writes what it has when its input ends would seem to
        // have answered in time.
        self.close_input();
    }

    /// Closes the adapter's input.
    pub(super) fn close_input(&mut self) {
        let Some(input) = self.input.take() else {
            return;
        };
        self.see(WireEvent::StdinClosed);
        if let Input::Stream(mut stream) = input {
            // A stream that cannot be shut down at once is closed by dropping it.
            let _ = Pin::new(&mut stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Appends a message to the buffer, and returns the length of its line.
    pub(super) fn push(&mut self, message: &HostMessage) -> u64 {
        let before = self.outbox.end();
        self.outbox.push(message);
        if self.tap.is_some() {
            self.see(WireEvent::ToAdapter(self.outbox.since(before)));
        }
        self.outbox.end() - before
    }

    /// Passes an event to the tap, if there is one.
    pub(super) fn see(&self, event: WireEvent<'_>) {
        if let Some(tap) = &self.tap {
            tap.take(event);
        }
    }

    /// Asks the process to end.
    pub(super) fn terminate(&self) {
        if let Some(child) = &self.child {
            // As above.
            let _ = child.signal_tree(Signal::Terminate);
        }
    }

    /// Reads what a process that has ended left in its pipe ([process.3]).
    pub(super) fn read_rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Some(Output::Pipe(pipe)) = &self.output {
            // A pipe that cannot be read holds nothing for us.
            let _ = read_held(pipe, |bytes| rest.extend_from_slice(bytes));
        }
        self.output = None;
        rest
    }

    /// Waits for the process's end, for a moment, then makes it end; reads its stderr to the end; reaps it.
    pub(super) async fn finish(mut self, grace: Duration) -> ProcessEnd {
        let written = self.outbox.written();
        let mut why = self.ending.unwrap_or(Ended::Exit);
        self.close_input();
        let mut memory_kills = 0;
        let exit = match self.child.take() {
            None => {
                why = self.ending.unwrap_or(Ended::EndOfStream);
                ExitStatus::default()
            }
            Some(mut child) => {
                let is_late = timeout(grace, child.wait()).await.is_err();
                if is_late {
                    let _ = child.signal_tree(Signal::Kill);
                }
                child.wait().await;
                memory_kills = child.memory_kills();
                let exit = child.finish().await;
                // On a busy machine an end is seen late. What our signal did not end has ended by itself.
                if is_late && exit.signal == Some(SIGKILL) && memory_kills == 0 {
                    why = self.ending.unwrap_or(Ended::EndOfStream);
                }
                ExitStatus {
                    code: exit.code,
                    signal: exit.signal,
                }
            }
        };
        if let Some(agent_wire) = self.agent_wire.take() {
            agent_wire.finish().await;
        }
        let stderr_tail = match self.stderr.take() {
            Some(stderr) => Some(stderr.finish().await),
            None => None,
        };
        self.see(WireEvent::Exited {
            code: exit.code,
            signal: exit.signal,
        });
        ProcessEnd {
            why,
            exit,
            memory_kills,
            stderr_tail,
            written,
        }
    }
}

/// Listens for what passes between an adapter and the agents that it wraps, if the sink wants it.
/// Without a socket the adapter works as it does without a sink.
fn listen(child: &Child, tap: &Tap) -> Option<AgentWireListener> {
    let directions = [WireDirection::ToAgent, WireDirection::FromAgent];
    if !directions.into_iter().any(|direction| tap.wants(direction)) {
        return None;
    }
    let sink = tap.clone();
    let take = move |process, event: AgentWireEvent<'_>| sink.take_agent_line(process, event);
    AgentWireListener::bind(child.temp_dir(), take)
        .inspect_err(|error| {
            tracing::warn!(%error, "the wire log has no lines between the adapter and its agents");
        })
        .ok()
}

impl Stderr {
    /// Drains a child's stderr to its end, whatever happens.
    fn drain(stderr: ChildStderr, agent: Arc<str>, tap: Option<Tap>, limit: usize) -> Self {
        let tail = StderrTail::new(limit);
        let (finish, finished) = oneshot::channel::<()>();
        let mut drain = StderrDrain::new(stderr, tail.clone());
        let task = tokio::spawn(async move {
            let log = |line: trunkline_process::StderrLine<'_>| {
                tracing::debug!(target: "trunkline::stderr", agent = &*agent, line = &*line.text);
                if let Some(tap) = &tap {
                    tap.take(WireEvent::Stderr {
                        line: &line.text,
                        omitted: line.omitted,
                    });
                }
            };
            let ended = tokio::select! {
                ended = drain.run(log) => ended.is_ok(),
                _ = finished => false,
            };
            if !ended {
                // The rest that cannot be read is ignored.
                let _ = drain.finish(STDERR_GRACE, log).await;
            }
        });
        Self { task, tail, finish }
    }

    async fn finish(self) -> String {
        drop(self.finish);
        // A task that panicked has drained what it could.
        let _ = self.task.await;
        self.tail.text()
    }
}

impl Output {
    pub(super) fn poll_read(
        &mut self,
        space: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(space);
        let read = match self {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, &mut buffer),
            Self::Stream(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        };
        read.map_ok(|()| buffer.filled().len())
    }
}

impl Input {
    pub(super) fn poll_write(
        &mut self,
        outbox: &mut Outbox,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Pipe(pipe) => outbox.poll_write(pipe, cx),
            Self::Stream(stream) => outbox.poll_write(stream, cx),
        }
    }
}

/// Starts a process, and gives what the sessions that wait learn where it does not start.
pub(super) async fn spawn(make: MakeSpec) -> Result<Child, Failure> {
    let spec = match tokio::task::spawn_blocking(move || make()).await {
        Ok(Ok(spec)) => spec,
        Ok(Err(error)) => return Err(failure(Category::Auth, &format!("failed to {error}"))),
        // The runtime ends, and this task with it.
        Err(error) => return Err(failure(Category::ProcessExit, &error.to_string())),
    };
    trunkline_process::spawn(spec)
        .await
        .map_err(|error| start_failure(&error))
}

/// Converts a spawn error to the failure that waiting sessions receive.
fn start_failure(error: &SpawnError) -> Failure {
    let category = match error {
        SpawnError::NotFound { .. } | SpawnError::Interpreter { .. } => Category::NotInstalled,
        _ => Category::ProcessExit,
    };
    let mut text = format!("failed to {error}");
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&source.to_string());
    }
    failure(category, &text)
}

/// A failure whose text names programs, folders and variables as they were found, without known
/// secrets.
fn failure(category: Category, text: &str) -> Failure {
    Failure::new(category, redact::message(text))
}

#[cfg(test)]
mod tests {
    use trunkline_process::Containment;

    use super::*;

    #[tokio::test]
    async fn an_end_that_is_seen_late_is_still_the_processs_own() {
        let spec = ChildSpec::new("/bin/sh")
            .args(["-c", "exit 3"])
            .containment(Containment::Group);
        let child = trunkline_process::spawn(spec).await.unwrap();
        let stat = format!("/proc/{}/stat", child.pid());
        // It has ended, and the runtime has not seen it yet: nothing here awaits.
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        let end = Connection::to_child(child, "sh".into(), None, 1024, 1024)
            .finish(Duration::ZERO)
            .await;
        assert_eq!((end.why, end.exit.code), (Ended::Exit, Some(3)));
    }
}
