//! `trunkline dev wire replay`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anstream::{eprintln, println};
use anyhow::anyhow;
use clap::Args;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    time::{Instant, timeout_at},
};
use trunkline_host::{
    process::{Child, ChildSpec, Inherit, Signal, StderrTail, spawn},
    wirelog::Lines,
};

use super::{
    compare::{OWN_IDS, compare_messages},
    script::{JsonMessage, ReplayScript, ReplayStep, message_type, session_id},
};
use crate::{
    command::drain_stderr,
    error::{CliError, CommandResult},
    exit,
};

/// Limit of an adapter's output, in bytes; later output is not read.
const MAX_OUTPUT_BYTES: usize = 256 * 1024 * 1024;

/// Limit of quoted stderr of an adapter that ended early, in bytes.
const MAX_STDERR_BYTES: usize = 4096;

/// Replays the host's messages of a wire log to an adapter, and reports different answers
///
/// Each message is sent after the adapter has answered as much as in the log. Answers are compared
/// by session. Ids of requests, the splitting of texts into outputs, and times may differ. The exit
/// code is 1 if there are differences.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline run --adapter 'python3 my_adapter.py' --wire-log wire.log 'hello'
  trunkline dev wire replay wire.log -- python3 my_adapter.py")]
pub(crate) struct ReplayArgs {
    /// Wire log
    file: PathBuf,

    /// Number of the adapter's run, as in `wire show` [default: the first]
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,

    /// Replays only the complete sessions of an incomplete log
    #[arg(long)]
    partial: bool,

    /// Timeout for the adapter to answer as much as in the log, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    deadline: f64,

    /// Adapter and its arguments
    #[arg(last = true, required = true, value_name = "ADAPTER")]
    command: Vec<String>,
}

impl ReplayArgs {
    pub(super) async fn run(self) -> CommandResult {
        let script = ReplayScript::read(&self.file, self.process, self.partial)?;
        let (program, args) = self
            .command
            .split_first()
            .ok_or_else(|| CliError::usage(anyhow!("the adapter's command is empty")))?;
        let spec = ChildSpec::new(program).args(args).inherit(Inherit::All);
        let mut child = spawn(spec)
            .await
            .map_err(|error| CliError::not_started(anyhow!("failed to {error}")))?;
        let tail = StderrTail::new(MAX_STDERR_BYTES);
        let drain = drain_stderr(&mut child, &tail);
        let within = Duration::from_secs_f64(self.deadline.clamp(0.0, 3_600.0));
        let mut dialogue = AdapterDialogue::with(&mut child, within);
        let then = dialogue.play(&script.steps).await;
        let said = std::mem::take(&mut dialogue.said);
        drop(dialogue);
        if tokio::time::timeout(within, child.wait()).await.is_err() {
            // An error means that no process is left.
            let _ = child.signal_tree(Signal::Kill);
        }
        let ended = child.finish().await;
        if let Some(drain) = drain {
            drain.abort();
        }
        print_report(&script, &then, &said, &ended.to_string(), &tail.text())
    }
}

fn print_report(
    script: &ReplayScript,
    then: &[JsonMessage],
    now: &[JsonMessage],
    ended: &str,
    stderr: &str,
) -> CommandResult {
    let differences = compare_messages(then, now, script.is_ended);
    differences
        .said
        .iter()
        .for_each(|line| println!("{}", crate::terminal::shown(line)));
    let left_out = match script.left_out {
        0 => String::new(),
        1 => "; 1 session was omitted".to_owned(),
        more => format!("; {more} sessions were omitted"),
    };
    let same = differences.same;
    let sessions = differences.sessions;
    let is_hidden = |step: &ReplayStep| matches!(step, ReplayStep::Host { line, .. } if line.windows(10).any(|it| it == b"[REDACTED:"));
    let hidden = script.steps.iter().filter(|step| is_hidden(step)).count();
    if hidden > 0 {
        eprintln!(
            " note: secrets are redacted in {hidden} of the host's messages; the adapter received the placeholders"
        );
    }
    if differences.said.is_empty() {
        println!("the same: {same} messages of {sessions} sessions{left_out}");
        return Ok(exit::OK);
    }
    println!("different: {same} messages are the same{left_out}; the adapter ended with {ended}");
    if !stderr.trim().is_empty() {
        eprintln!(" its stderr: {}", crate::terminal::shown(stderr.trim_end()));
    }
    Ok(exit::FAILED)
}

/// Dialogue with the adapter.
struct AdapterDialogue {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    lines: Lines,
    /// All messages of the adapter.
    said: Vec<JsonMessage>,
    counts: BTreeMap<String, usize>,
    /// Number of bytes of the adapter's output.
    bytes: usize,
    within: Duration,
}

impl AdapterDialogue {
    fn with(child: &mut Child, within: Duration) -> Self {
        Self {
            stdin: child.take_stdin(),
            stdout: child.take_stdout(),
            lines: Lines::default(),
            said: Vec::new(),
            counts: BTreeMap::new(),
            bytes: 0,
            within,
        }
    }

    /// Sends the host's messages, in step with the answers. Returns the logged messages of the
    /// adapter.
    async fn play(&mut self, steps: &[ReplayStep]) -> Vec<JsonMessage> {
        let mut then = Vec::new();
        let mut counts = BTreeMap::<String, usize>::new();
        for step in steps {
            match step {
                ReplayStep::Adapter(message) => {
                    *counts.entry(session_id(message).to_owned()).or_default() += 1;
                    then.push(message.clone());
                }
                ReplayStep::Host { line, message } => {
                    self.read_answers(&counts).await;
                    let line =
                        with_own_id(message, &then, &self.said).unwrap_or_else(|| line.clone());
                    self.write(&line).await;
                }
                ReplayStep::StdinClosed => {
                    self.read_answers(&counts).await;
                    self.stdin = None;
                }
            }
        }
        self.read_answers(&counts).await;
        self.stdin = None;
        let deadline = Instant::now() + self.within;
        while self.stdout.is_some() && timeout_at(deadline, self.read()).await.is_ok() {}
        then
    }

    /// Reads until each session has answered as much as in the log, or the timeout expires.
    async fn read_answers(&mut self, wanted: &BTreeMap<String, usize>) {
        let deadline = Instant::now() + self.within;
        let is_behind = |it: &Self| {
            wanted.iter().any(|(session, count)| {
                it.counts.get(session).copied().unwrap_or_default() < *count
            })
        };
        while is_behind(self) && self.stdout.is_some() {
            if timeout_at(deadline, self.read()).await.is_err() {
                return;
            }
        }
    }

    /// Writes while reading, because an adapter with many answers could block otherwise.
    async fn write(&mut self, line: &[u8]) {
        let Some(mut stdin) = self.stdin.take() else {
            return;
        };
        let mut writing = std::pin::pin!(async {
            let written = stdin.write_all(line).await;
            written.and(stdin.flush().await).is_ok().then_some(stdin)
        });
        let deadline = Instant::now() + self.within;
        loop {
            tokio::select! {
                written = &mut writing => {
                    self.stdin = written;
                    return;
                }
                () = self.read(), if self.stdout.is_some() => {}
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// Reads once.
    ///
    /// # Cancel safety
    /// Cancelling loses nothing.
    async fn read(&mut self) {
        let Some(stdout) = &mut self.stdout else {
            return;
        };
        let mut chunk = vec![0; 64 * 1024];
        let read = stdout.read(&mut chunk).await.unwrap_or_default();
        let said = &mut self.said;
        let counts = &mut self.counts;
        let mut take = |line: &[u8]| {
            if let Ok(message) = serde_json::from_slice::<JsonMessage>(line) {
                *counts.entry(session_id(&message).to_owned()).or_default() += 1;
                said.push(message);
            }
        };
        self.bytes += read;
        if read == 0 || self.bytes > MAX_OUTPUT_BYTES {
            self.lines.finish(|piece| take(piece.line));
            self.stdout = None;
        } else {
            self.lines.push(&chunk[..read], |piece| take(piece.line));
        }
    }
}

/// Returns the host's message with the id that the adapter uses for the same request in this run.
fn with_own_id(
    message: &JsonMessage,
    then: &[JsonMessage],
    now: &[JsonMessage],
) -> Option<Vec<u8>> {
    let name = OWN_IDS[0];
    let id = message.get(name)?;
    let is_asked = |asked: &&JsonMessage| {
        message_type(asked).ends_with(".request")
            && session_id(asked) == session_id(message)
            && asked.contains_key(name)
    };
    let at = then
        .iter()
        .filter(is_asked)
        .position(|asked| asked.get(name) == Some(id))?;
    let own = now.iter().filter(is_asked).nth(at)?.get(name)?;
    let mut message = message.clone();
    message.insert(name.to_owned(), own.clone());
    let mut line = serde_json::to_vec(&message).ok()?;
    line.push(b'\n');
    Some(line)
}
