//! `log` events of a wrapped agent: how it was started, its lines that are not its protocol, its
//! stderr.
//!
//! A [`ProcessLog`] belongs to a process and passes each line on to a session that the process
//! serves. A [`SessionLog`] keeps the lines of a session until a turn emits them, within bounds;
//! between turns they wait for the next one. What is over a bound is counted, and the last event of
//! the turn reports the count.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde_json::{Value, json};
use tokio::sync::Notify;
use trunkline_process::StderrLine;
use trunkline_redact as redact;
use trunkline_sdk::protocol::{Log, LogStream};
use trunkline_sdk::{Json, Status, TurnComplete};

use super::launch::Launch;
use super::locked;
use super::options::Options;
use super::report::meta_log;
use super::secrets::LogSecrets;

/// Limit for one line in the log, in bytes. The rest of it is counted.
pub(crate) const MAX_LOG_LINE: usize = 8 * 1024;

/// Limit for the lines of the log of one turn.
pub(crate) const MAX_LOG_LINES: usize = 1000;

/// Limit for all lines of the log of one turn together, in bytes.
pub(crate) const MAX_LOG_BYTES: usize = 256 * 1024;

/// Bytes before the end of a line that was cut which are searched for secrets and not shown, so
/// that none is cut in two.
const CUT_MARGIN: usize = 4 * 1024;

/// Limit for the end of each stream that the result of a failed turn has, in bytes.
const MAX_TAIL: usize = 4 * 1024;

/// Limit for the lines of stdout in the text of an error.
const MAX_ERROR_LINES: usize = 5;

/// Limit for the bytes of stdout in the text of an error.
const MAX_ERROR_BYTES: usize = 1024;

/// The profile that this process runs.
static PROFILE: OnceLock<&'static str> = OnceLock::new();

/// Sets the profile that this process runs, by which starts are logged.
pub(crate) fn set_profile(name: &'static str) {
    // A process runs one profile; tests of several keep the first.
    let _ = PROFILE.set(name);
}

/// The log of one session's agent.
#[derive(Debug, Default)]
pub(crate) struct SessionLog {
    secrets: LogSecrets,
    state: Mutex<LogState>,
    arrived: Notify,
    /// The process that serves the session, and how many of its lines without a session were reported.
    process: Mutex<Option<(Arc<LoggedProcess>, u64)>>,
}

#[derive(Debug, Default)]
struct LogState {
    waiting: VecDeque<Log>,
    /// True until the first other event of a resumed session: before that its host must learn
    /// whether the agent remembers ([process.5]).
    is_held: bool,
    counts: Counts,
    raw_tail: String,
    stderr_tail: String,
}

/// Counts since the end of the last turn.
#[derive(Debug, Default)]
struct Counts {
    lines: usize,
    bytes: usize,
    /// Lines that are not the agent's protocol.
    unread: u64,
    /// Lines over a bound, and all bytes over one.
    over_lines: u64,
    over_bytes: u64,
}

impl SessionLog {
    /// The log of a session with these options. That of a resumed session waits for its first other event.
    pub(crate) fn new(options: &Options, is_resumed: bool) -> Arc<Self> {
        let state = LogState {
            is_held: is_resumed,
            ..LogState::default()
        };
        Arc::new(Self {
            secrets: LogSecrets::from_options(options),
            state: Mutex::new(state),
            arrived: Notify::new(),
            process: Mutex::default(),
        })
    }

    /// The next event that can be emitted.
    pub(crate) fn take(&self) -> Option<Log> {
        let mut state = locked(&self.state);
        if state.is_held {
            return None;
        }
        state.waiting.pop_front()
    }

    /// Waits until there is an event that can be emitted.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub(crate) async fn wait(&self) {
        loop {
            let arrived = self.arrived.notified();
            {
                let state = locked(&self.state);
                if !state.is_held && !state.waiting.is_empty() {
                    return;
                }
            }
            arrived.await;
        }
    }

    /// The host knows whether the agent remembers. Returns true if events have waited for that.
    pub(crate) fn release(&self) -> bool {
        std::mem::take(&mut locked(&self.state).is_held)
    }

    /// A turn begins.
    pub(crate) fn begin_turn(self: &Arc<Self>) {
        if let Some((process, _)) = &*locked(&self.process) {
            add(&mut locked(&process.sessions).running, self);
        }
    }

    /// A turn ends: completes its message, and returns the events that are left, the counts last.
    pub(crate) fn end_turn(&self, end: &mut TurnComplete) -> Vec<Log> {
        let mut shared = 0;
        if let Some((process, reported)) = &mut *locked(&self.process) {
            let is_other = |known: &Weak<Self>| !std::ptr::eq(known.as_ptr(), self);
            locked(&process.sessions).running.retain(is_other);
            let count = process.shared_lines.load(Ordering::Relaxed);
            shared = count - std::mem::replace(reported, count);
        }
        let mut state = locked(&self.state);
        let LogState {
            waiting,
            counts,
            raw_tail,
            stderr_tail,
            ..
        } = std::mem::take(&mut *state);
        drop(state);
        if end.status == Some(Status::Failed) && !raw_tail.is_empty() {
            explain(end, &raw_tail, &stderr_tail);
        }
        waiting
            .into_iter()
            .chain(counts.report(shared).map(meta_log))
            .collect()
    }

    fn start(&self, start: &Value) {
        let content = self.secrets.hide_in_start(start).to_string();
        locked(&self.state).waiting.push_back(meta_log(content));
        self.arrived.notify_one();
    }

    /// Adds a line of which so many bytes were left out before; its text has no secret that the
    /// process knows.
    fn line(&self, stream: LogStream, text: &str, omitted: u64) {
        let mut state = locked(&self.state);
        let counts = &mut state.counts;
        if counts.lines >= MAX_LOG_LINES || counts.bytes >= MAX_LOG_BYTES {
            counts.over_lines += 1;
            counts.over_bytes += text.len() as u64 + omitted;
            return;
        }
        let hidden = self.secrets.hide(text);
        let margin = if omitted > 0 { CUT_MARGIN } else { 0 };
        let shown = hidden.len().saturating_sub(margin);
        let limit = MAX_LOG_LINE.min(MAX_LOG_BYTES - counts.bytes);
        let kept = hidden.floor_char_boundary(shown.min(limit));
        let omitted = omitted + (hidden.len() - kept) as u64;
        counts.lines += 1;
        counts.bytes += kept;
        counts.over_bytes += omitted;
        let content = hidden[..kept].to_owned();
        let tail = match stream {
            LogStream::Raw => &mut state.raw_tail,
            _ => &mut state.stderr_tail,
        };
        tail.push_str(&content);
        tail.push('\n');
        let cut = tail.ceil_char_boundary(tail.len().saturating_sub(MAX_TAIL));
        tail.drain(..cut);
        state.waiting.push_back(Log {
            stream: Some(stream),
            content,
            truncated: (omitted > 0).then_some(true),
            ..Log::default()
        });
        drop(state);
        self.arrived.notify_one();
    }
}

impl Counts {
    /// The last event of a turn, if there is anything to report. `shared` lines are of a process
    /// that served several sessions at that time.
    fn report(&self, shared: u64) -> Option<String> {
        let lines = |count: u64| format!("{count} {}", if count == 1 { "line" } else { "lines" });
        let mut parts = Vec::new();
        if self.unread > 0 {
            let count = lines(self.unread);
            parts.push(format!("{count} of the agent could not be read"));
        }
        if self.over_bytes > 0 || self.over_lines > 0 {
            let count = lines(self.over_lines);
            let bytes = self.over_bytes;
            parts.push(format!("{count} left out of this log ({bytes} bytes)"));
        }
        if shared > 0 {
            let count = lines(shared);
            parts.push(format!(
                "{count} left out of an agent that served several sessions"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Adds what the agent printed to the end of a turn that failed.
fn explain(end: &mut TurnComplete, raw: &str, stderr: &str) {
    if end.result.is_none() {
        let result = json!({ "raw_stdout": raw, "raw_stderr": stderr });
        end.result = Json::from_serialize(&result).ok();
    }
    if let Some(error) = &mut end.error {
        let lines: Vec<&str> = raw.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(MAX_ERROR_LINES)..].join("\n");
        let last = &last[last.ceil_char_boundary(last.len().saturating_sub(MAX_ERROR_BYTES))..];
        let last = trunkline_sdk::preview::without_escapes(last);
        let text = error.message.get_or_insert_default();
        if !text.contains(last.trim()) {
            text.push_str("; it printed: ");
            text.push_str(last.trim());
        }
    }
}

/// The log of one process, which may serve several sessions. Clones are the same log.
#[derive(Debug, Clone)]
pub(crate) struct ProcessLog(Arc<LoggedProcess>);

#[derive(Debug)]
struct LoggedProcess {
    start: Value,
    sessions: Mutex<ServedSessions>,
    /// Lines that no session could be named for.
    shared_lines: AtomicU64,
}

/// The sessions that a process serves.
#[derive(Debug, Default)]
struct ServedSessions {
    all: Vec<Weak<SessionLog>>,
    /// The sessions that run a turn.
    running: Vec<Weak<SessionLog>>,
}

/// Adds a session if it is not in the list yet. Returns true if it was added.
fn add(sessions: &mut Vec<Weak<SessionLog>>, session: &Arc<SessionLog>) -> bool {
    let is_known = |known: &Weak<SessionLog>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(session));
    let is_new = !sessions.iter().any(is_known);
    if is_new {
        sessions.push(Arc::downgrade(session));
    }
    is_new
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        if let Some((process, _)) = locked(&self.process).take() {
            let mut sessions = locked(&process.sessions);
            sessions.all.retain(|known| known.strong_count() > 0);
            sessions.running.retain(|known| known.strong_count() > 0);
        }
    }
}

impl ProcessLog {
    /// The log of a process that starts next.
    pub(crate) fn new(launch: &Launch) -> Self {
        Self(Arc::new(LoggedProcess {
            start: start(launch),
            sessions: Mutex::default(),
            shared_lines: AtomicU64::new(0),
        }))
    }

    /// The process serves this session: logs there how it was started, once.
    pub(crate) fn attach(&self, session: &Arc<SessionLog>) {
        if !add(&mut locked(&self.0.sessions).all, session) {
            return;
        }
        session.start(&self.0.start);
        let reported = self.0.shared_lines.load(Ordering::Relaxed);
        let before = locked(&session.process).replace((self.0.clone(), reported));
        if let Some((process, _)) = before {
            // What it prints while it ends is still this session's.
            let is_other =
                |known: &Weak<SessionLog>| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(session));
            locked(&process.sessions).running.retain(is_other);
        }
    }

    /// Takes a line of stdout that is not the agent's protocol.
    pub(crate) fn raw(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let known = line.len().min(MAX_LOG_LINE + CUT_MARGIN);
        let text = redact::bytes(&line[..known]);
        let omitted = (line.len() - known) as u64;
        self.put(LogStream::Raw, &String::from_utf8_lossy(&text), omitted);
    }

    /// Takes note of a line of stdout that was longer than any that is read.
    pub(crate) fn too_long(&self, bytes: u64) {
        self.with(|session| {
            let counts = &mut locked(&session.state).counts;
            counts.unread += 1;
            counts.over_lines += 1;
            counts.over_bytes += bytes;
        });
    }

    /// Takes a line of stderr, in which secrets are hidden.
    pub(crate) fn stderr(&self, line: &StderrLine<'_>) {
        self.put(LogStream::Stderr, &line.text, line.omitted);
    }

    fn put(&self, stream: LogStream, text: &str, omitted: u64) {
        self.with(|session| {
            if stream == LogStream::Raw {
                locked(&session.state).counts.unread += 1;
            }
            session.line(stream, text, omitted);
        });
    }

    /// Hands a line to the session that it belongs to: the only one, or the only one that runs a
    /// turn. Otherwise it may be of any session, and no other may read it: it is counted for all of
    /// them.
    fn with(&self, take: impl FnOnce(&SessionLog)) {
        let sessions = locked(&self.0.sessions);
        let owner = match (sessions.all.as_slice(), sessions.running.as_slice()) {
            ([session], _) | (_, [session]) => session.upgrade(),
            _ => None,
        };
        drop(sessions);
        match owner {
            Some(session) => take(&session),
            None => {
                self.0.shared_lines.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The start of a process, for its log: names of variables, and nothing of their values.
fn start(launch: &Launch) -> Value {
    let text = |text: &std::ffi::OsStr| redact::text(&text.to_string_lossy()).into_owned();
    let mut args: Vec<String> = Vec::new();
    let mut before = Cow::Borrowed("");
    for arg in &launch.args {
        let arg = arg.to_string_lossy();
        let joined = format!("{before} {arg}");
        let is_value = before.starts_with('-')
            && redact::text(&joined) != joined
            && redact::text(&before) == before;
        args.push(if is_value {
            "[REDACTED:option]".to_owned()
        } else {
            text(arg.as_ref().as_ref())
        });
        before = arg;
    }
    let env: Vec<_> = launch.env.keys().map(|name| text(name)).collect();
    let mut start = json!({
        "adapter": PROFILE.get(),
        "program": text(&launch.program),
        "args": args,
        "env": env,
    });
    let cwd = launch.cwd.clone().or_else(|| std::env::current_dir().ok());
    if let Some(cwd) = cwd {
        start["cwd"] = text(cwd.as_os_str()).into();
    }
    if let Some(prompt) = &launch.prompt {
        start["prompt"] = json!({ "bytes": prompt.bytes, "sha256": prompt.sha256 });
    }
    json!({ "started": start })
}

#[cfg(test)]
mod tests;
