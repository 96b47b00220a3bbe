//! A running agent: lines in, lines out, its stderr kept at hand, its tree ended with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use trunkline_process::{
    AgentDirection, AgentWire, Child, Exit, Signal, SpawnError, StderrDrain, StderrTail, spawn,
};
use trunkline_sdk::{Category, Error};

use super::failure;
use super::launch::Launch;
use super::lines::{AgentLine, Lines};
use super::log::{ProcessLog, SessionLog};

/// Limit for the kept end of an agent's stderr, in bytes.
const STDERR_KEPT: usize = 64 * 1024;

/// Lines that wait to be written. A writer that meets more of them waits itself.
const UNWRITTEN: usize = 256;

/// Timeout for the end of stderr after the end of the process.
const STDERR_GRACE: Duration = Duration::from_millis(200);

/// Timeout for the end of stdout after the end of the process, and with it its tree.
const STDOUT_GRACE: Duration = Duration::from_secs(1);

/// The agent's stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdin {
    /// The agent reads an end of input at once.
    Null,
    /// [`Agent::input`] writes to it.
    Owned,
}

/// A process of an agent in a tree of its own. Dropping it kills the tree.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    lines: Lines<ChildStdout>,
    input: Option<AgentInput>,
    stderr: StderrTail,
    drain: AbortOnDropHandle<()>,
    /// Task that writes its stdin; an agent that reads nothing cannot keep it.
    _writer: Option<AbortOnDropHandle<()>>,
    log: ProcessLog,
    /// Hands what passes to the host's wire log, if it keeps one.
    wire: Option<Arc<AgentWire>>,
    name: String,
    /// After the process ended: until when its stdout is read.
    last_call: Option<Instant>,
}

/// The agent's stdin: a queue of lines in front of its pipe. Clones write to the same pipe; the end
/// of the last one, and of the [`Agent`] or [`Agent::close_input`], is the agent's end of input.
#[derive(Debug, Clone)]
pub(crate) struct AgentInput(mpsc::Sender<Bytes>);

/// The agent takes no more input: it has closed its stdin or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputClosed;

impl AgentInput {
    /// Queues one line; its LF is added. Waits while too many are unwritten.
    ///
    /// # Cancel safety
    /// It is queued whole or not at all.
    pub(crate) async fn line(&self, line: impl Into<Vec<u8>>) -> Result<(), InputClosed> {
        let mut line: Vec<u8> = line.into();
        line.push(b'\n');
        self.bytes(line).await
    }

    /// Queues bytes as they are.
    ///
    /// # Cancel safety
    /// They are queued whole or not at all.
    pub(crate) async fn bytes(&self, bytes: impl Into<Bytes>) -> Result<(), InputClosed> {
        self.0.send(bytes.into()).await.map_err(|_| InputClosed)
    }

    /// Queues one line if there is room at once. For answers that a reader gives: it must not wait.
    pub(crate) fn try_line(&self, line: impl Into<Vec<u8>>) -> Result<(), InputClosed> {
        let mut line: Vec<u8> = line.into();
        line.push(b'\n');
        self.0.try_send(line.into()).map_err(|_| InputClosed)
    }
}

/// The end of an agent's process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessEnd {
    pub(crate) exit: Exit,
    /// The end of its stderr; secrets are hidden.
    pub(crate) stderr: String,
    /// This side has signalled it: the exit code is no report of its own.
    pub(crate) is_forced: bool,
    name: String,
}

impl ProcessEnd {
    /// The end of a program called `agent`, for tests of what reads it.
    #[cfg(test)]
    pub(crate) fn with_stderr(code: i32, stderr: &str) -> Self {
        let exit = Exit {
            code: Some(code),
            signal: None,
        };
        Self {
            exit,
            stderr: stderr.to_owned(),
            is_forced: false,
            name: "agent".to_owned(),
        }
    }

    /// The failure of a turn that this end has cut short. The category is read from the end of
    /// stderr, otherwise, and if a signal ended it, `process_exit`.
    pub(crate) fn error(&self) -> Error {
        let last = last_lines(&self.stderr);
        let category = match failure::classify(&last, None) {
            Category::Other => Category::ProcessExit,
            _ if self.exit.signal.is_some() => Category::ProcessExit,
            category => category,
        };
        let text = if last.is_empty() {
            format!("{} ended: {}", self.name, self.exit)
        } else {
            format!(
                "{} ended: {}; its last output: {last}",
                self.name, self.exit
            )
        };
        failure::with_category(category, text, None)
    }
}

impl Agent {
    /// Starts the program, and logs in this session how, before anything that it prints.
    ///
    /// # Errors
    /// `not_installed` if there is no such program, otherwise why it did not start.
    pub(crate) async fn start(
        launch: &Launch,
        stdin: Stdin,
        session: Option<&Arc<SessionLog>>,
    ) -> Result<Self, Error> {
        let name = launch.name().to_string_lossy().into_owned();
        let log = ProcessLog::new(launch);
        if let Some(session) = session {
            log.attach(session);
        }
        let mut child = spawn(launch.spec())
            .await
            .map_err(|error| not_started(&error))?;
        let stdout = child.take_stdout();
        let stderr = child.take_stderr();
        let (Some(stdout), Some(stderr), Some(pipe)) = (stdout, stderr, child.take_stdin()) else {
            return Err(Error::other(format!(
                "{name} was started without its pipes"
            )));
        };
        let tail = StderrTail::new(STDERR_KEPT);
        let mut drain = StderrDrain::new(stderr, tail.clone());
        // An unreadable stderr ends the drain; the process itself is judged by its end.
        let lines = log.clone();
        let drain = tokio::spawn(async move {
            drop(drain.run(|line| lines.stderr(&line)).await);
        });
        let drain = AbortOnDropHandle::new(drain);
        let wire = session.and_then(|_| AgentWire::connect()).map(Arc::new);
        let (input, writer) = match stdin {
            Stdin::Null => (None, None),
            Stdin::Owned => {
                let (sender, queue) = mpsc::channel(UNWRITTEN);
                let writer = AbortOnDropHandle::new(tokio::spawn(write(pipe, queue, wire.clone())));
                (Some(AgentInput(sender)), Some(writer))
            }
        };
        let lines = Lines::new(stdout, launch.max_line);
        Ok(Self {
            child,
            lines,
            input,
            stderr: tail,
            drain,
            _writer: writer,
            log,
            wire,
            name,
            last_call: None,
        })
    }

    /// The agent's stdin, while it is open.
    pub(crate) fn input(&self) -> Result<&AgentInput, InputClosed> {
        self.input.as_ref().ok_or(InputClosed)
    }

    /// Gives its stdin to another owner: only that one closes it.
    pub(crate) fn take_input(&mut self) -> Option<AgentInput> {
        self.input.take()
    }

    /// Gives it its whole input, then the end of input. It is queued at once; the end of an agent
    /// that has ended has the reason.
    pub(crate) async fn write_input(&mut self, input: impl Into<Bytes>) {
        if let Some(stdin) = self.take_input() {
            let _ = stdin.bytes(input).await;
        }
    }

    /// Closes its stdin, once nothing else holds its input and what is queued is written.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// The next line of its stdout; nothing once stdout has ended, which the process's end brings about.
    ///
    /// # Cancel safety
    /// No line is lost.
    pub(crate) async fn next(&mut self) -> Option<AgentLine> {
        let line = self.next_line().await;
        if let Some(AgentLine::TooLong(bytes)) = &line {
            self.log.too_long(*bytes);
        }
        if let (Some(line), Some(wire)) = (&line, &self.wire) {
            show_line(wire, line);
        }
        line
    }

    async fn next_line(&mut self) -> Option<AgentLine> {
        loop {
            if let Some(until) = self.last_call {
                // What holds the pipe now has left the tree.
                return timeout_at(until, self.lines.next())
                    .await
                    .ok()
                    .and_then(Result::ok)
                    .flatten();
            }
            tokio::select! {
                biased;
                line = self.lines.next() => return line.ok().flatten(),
                _ = self.child.wait() => self.last_call = Some(Instant::now() + STDOUT_GRACE),
            }
        }
    }

    /// Returns true if it can send nothing more: its process or its stdout has ended. Lines that
    /// wait are kept.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_some() || self.lines.has_ended()
    }

    /// Signals its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = self.child.signal_tree(signal) {
            tracing::debug!(name = self.name, ?signal, %error, "the agent was not signalled");
        }
    }

    /// The end of its stderr.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> &ProcessLog {
        &self.log
    }

    /// Returns its stderr, for another owner.
    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.stderr.clone()
    }

    /// Ends it: closes its stdin, after `eof` sends SIGTERM, after `term` more kills the tree;
    /// reads on meanwhile. Waits of zero pass at once. When this returns the tree is gone.
    pub(crate) async fn end(mut self, eof: Duration, term: Duration) -> ProcessEnd {
        self.close_input();
        let mut is_forced = false;
        for (wait, next) in [(eof, Signal::Terminate), (term, Signal::Kill)] {
            let lines = &mut self.lines;
            let wire = &self.wire;
            let read = async {
                while let Ok(Some(line)) = lines.next().await {
                    if let Some(wire) = wire {
                        show_line(wire, &line);
                    }
                }
            };
            let gone = tokio::select! {
                biased;
                _ = self.child.wait() => true,
                () = async { read.await; std::future::pending().await } => false,
                () = tokio::time::sleep(wait) => false,
            };
            if gone {
                break;
            }
            self.signal(next);
            is_forced = true;
        }
        ProcessEnd {
            is_forced,
            ..self.ended().await
        }
    }

    /// Waits for its end, which something else brings about.
    pub(crate) async fn ended(mut self) -> ProcessEnd {
        let exit = self.child.wait().await;
        if timeout(STDERR_GRACE, &mut self.drain).await.is_err() {
            self.drain.abort();
        }
        let stderr = self.stderr.text();
        let name = self.name;
        self.child.finish().await;
        ProcessEnd {
            exit,
            stderr,
            is_forced: false,
            name,
        }
    }
}

/// Hands a line of the agent to the host's wire log.
fn show_line(wire: &AgentWire, line: &AgentLine) {
    match line {
        AgentLine::Whole(line) => wire.line(AgentDirection::FromAgent, line, 0),
        AgentLine::TooLong(bytes) => wire.line(AgentDirection::FromAgent, b"", *bytes),
    }
}

async fn write(
    mut pipe: ChildStdin,
    mut queue: mpsc::Receiver<Bytes>,
    wire: Option<Arc<AgentWire>>,
) {
    while let Some(bytes) = queue.recv().await {
        if let Some(wire) = &wire {
            wire.line(AgentDirection::ToAgent, &bytes, 0);
        }
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Levels of log lines that explain no failure.
const CHATTER: [&str; 3] = [" INFO ", " DEBUG ", " TRACE "];

/// The last lines of a stderr, without escapes and without the agent's own log of its work.
pub(crate) fn last_lines(stderr: &str) -> String {
    let stderr = trunkline_sdk::preview::without_escapes(stderr);
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.trim().is_empty())
        .filter(|line| !CHATTER.iter().any(|level| line.contains(level)))
        .collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// The failure of a program that did not start, by its category.
pub(crate) fn not_started(error: &SpawnError) -> Error {
    let category = match error {
        SpawnError::NotFound { .. }
        | SpawnError::Interpreter { .. }
        | SpawnError::Folder { .. }
        | SpawnError::PermissionDenied { .. } => Category::NotInstalled,
        SpawnError::Resources { .. } => Category::Overloaded,
        _ => Category::Other,
    };
    let mut text = format!("failed to {error}");
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&source.to_string());
    }
    failure::with_category(category, text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        Launch::new("sh").arg("-c").arg(script)
    }

    async fn text(agent: &mut Agent) -> Vec<String> {
        let mut got = Vec::new();
        while let Some(line) = agent.next().await {
            let AgentLine::Whole(line) = line else {
                panic!("{line:?}")
            };
            got.push(String::from_utf8(line.to_vec()).unwrap());
        }
        got
    }

    #[tokio::test]
    async fn lines_go_in_and_out_and_the_end_says_how_it_was() {
        let mut agent = Agent::start(&shell("cat; echo bye >&2; exit 3"), Stdin::Owned, None)
            .await
            .unwrap();
        agent.input().unwrap().line("one").await.unwrap();
        assert_eq!(agent.next().await, Some(AgentLine::Whole("one".into())));
        agent.close_input();
        assert_eq!(text(&mut agent).await, [""; 0]);
        let ended = agent.ended().await;
        assert_eq!((ended.exit.code, ended.stderr.as_str()), (Some(3), "bye\n"));
        let error = ended.error();
        assert_eq!(error.failure().category, Some(Category::ProcessExit));
        assert_eq!(
            error.failure().message.as_deref(),
            Some("sh ended: exit status 3; its last output: bye")
        );
    }

    #[tokio::test]
    async fn without_an_input_the_agent_reads_the_end_at_once() {
        let mut agent = Agent::start(&shell("cat; echo done"), Stdin::Null, None)
            .await
            .unwrap();
        assert!(agent.input().is_err());
        assert_eq!(text(&mut agent).await, ["done"]);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_not_installed() {
        let error = Agent::start(&Launch::new("no-such-agent"), Stdin::Null, None)
            .await
            .unwrap_err();
        assert_eq!(error.failure().category, Some(Category::NotInstalled));
        assert!(
            error.to_string().contains("no-such-agent") && error.to_string().contains("install it"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_end_is_seen_before_the_runtime_has_noticed_it() {
        let mut agent = Agent::start(&shell("exit 3"), Stdin::Owned, None)
            .await
            .unwrap();
        // This task holds the only thread meanwhile.
        let state = format!("/proc/{}/stat", agent.child.pid());
        while !std::fs::read_to_string(&state).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(agent.has_ended());
        assert_eq!(agent.ended().await.exit.code, Some(3));
    }

    #[tokio::test]
    async fn an_end_takes_a_deaf_tree_with_it() {
        let deaf = shell("trap '' TERM; (trap '' TERM; echo ready; while :; do sleep 9; done)");
        let mut agent = Agent::start(&deaf, Stdin::Owned, None).await.unwrap();
        assert_eq!(agent.next().await, Some(AgentLine::Whole("ready".into())));
        let ended = agent.end(Duration::ZERO, Duration::ZERO).await;
        assert_eq!(ended.exit.signal, Some(9));
    }
}
