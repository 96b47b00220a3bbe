//! A host on both its ends: it is driven as a relay from above, and the stub that it launches
//! records what it does below. Instructions for the stub travel through the host, in the content of
//! inputs.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;

use super::{CaseSession, ReceivedMessage, Trial};
use crate::{
    clauses::Side,
    history::{PipePair, Record, RecordedEvent},
    process, stub,
    verdict::{Outcome, Stop},
};

mod act;
mod tail;

pub(crate) use act::say_and_complete;
use tail::{LogTail, StubStarts};

/// An adapter of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostAdapter {
    /// `{adapter}`.
    First,
    /// `{adapter2}`.
    Second,
}

impl HostAdapter {
    fn placeholder(self) -> &'static str {
        match self {
            Self::First => "{adapter}",
            Self::Second => "{adapter2}",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::First => "script.json",
            Self::Second => "script-2.json",
        }
    }

    fn log(self) -> &'static str {
        match self {
            Self::First => "stub.jsonl",
            Self::Second => "stub-2.jsonl",
        }
    }
}

/// The logs of the stubs below a host.
#[derive(Debug, Default)]
pub(super) struct Stubs {
    tails: Vec<LogTail>,
    starts: Arc<StubStarts>,
}

impl Stubs {
    /// Waits until the history holds all that has been logged by now.
    fn catch_up(&self) {
        self.tails.iter().for_each(LogTail::catch_up);
    }

    /// Reads the logs to their ends.
    pub(super) fn finish(&mut self) {
        self.tails.drain(..).for_each(LogTail::finish);
    }
}

/// A message on a lower link.
#[derive(Debug, Clone)]
pub(crate) struct LowerMessage {
    /// The stub's process, as in [`PipePair::Lower`].
    pub process: u32,
    /// Writer of the message.
    pub by: Side,
    /// The message.
    pub seen: ReceivedMessage,
}

impl LowerMessage {
    fn from_record(index: usize, record: &Record) -> Option<Self> {
        let PipePair::Lower(process) = record.link else {
            return None;
        };
        let by = match record.event {
            RecordedEvent::Host { .. } => Side::Host,
            RecordedEvent::Adapter { .. } => Side::Adapter,
            _ => return None,
        };
        Some(Self {
            process,
            by,
            seen: ReceivedMessage::from_record(index, record)?,
        })
    }
}

/// A session as the stub knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StubbedSession {
    /// The stub's process, as in [`PipePair::Lower`].
    pub process: u32,
    /// The session's id there.
    pub id: String,
}

impl Trial {
    /// Gives the stub a script. Before the host is started.
    ///
    /// # Errors
    ///
    /// When the script is wrong or cannot be written.
    pub(crate) fn stub_script(&mut self, script: &Value) -> Outcome {
        self.stub_script_of(HostAdapter::First, script)
    }

    /// Gives one of the stubs a script. Before the host is started.
    ///
    /// # Errors
    ///
    /// When the script is wrong or cannot be written.
    pub(crate) fn stub_script_of(&mut self, which: HostAdapter, script: &Value) -> Outcome {
        let text = script.to_string();
        stub::check_script(&text)
            .map_err(|error| Stop::Harness(format!("the stub's script: {error}")))?;
        std::fs::write(self.path(which.script()), text)?;
        Ok(())
    }

    /// The stub's log.
    pub(crate) fn log_path(&self, which: HostAdapter) -> PathBuf {
        self.path(which.log())
    }

    /// The command by which the stub is launched, quoted for a shell.
    pub(crate) fn stub_command(&self, which: HostAdapter) -> String {
        let path = |path: PathBuf| path.display().to_string();
        shell_words::join([
            path(self.subject.stub.clone()),
            "stub".to_owned(),
            "--script".to_owned(),
            path(self.path(which.script())),
            "--log".to_owned(),
            path(self.path(which.log())),
        ])
    }

    /// The host's command with the stubs in the places that it has for adapters.
    pub(crate) fn host_command(&self) -> Vec<String> {
        if self.subject.side != Side::Host {
            return self.subject.command.clone();
        }
        let first = self.stub_command(HostAdapter::First);
        let second = self.stub_command(HostAdapter::Second);
        let journal = self.path("journal").display().to_string();
        let fill = |argument: &String| {
            let adapters = argument.replace(HostAdapter::First.placeholder(), &first);
            adapters
                .replace(HostAdapter::Second.placeholder(), &second)
                .replace("{journal}", &journal)
        };
        self.subject.command.iter().map(fill).collect()
    }

    /// Begins to follow the stubs' logs; writes an empty script where there is none.
    pub(super) fn begin_below(&mut self) -> Outcome {
        if self.subject.side != Side::Host || !self.stubs.tails.is_empty() {
            return Ok(());
        }
        for which in [HostAdapter::First, HostAdapter::Second] {
            if !self.path(which.script()).exists() {
                std::fs::write(self.path(which.script()), "{}")?;
            }
            let tail = LogTail::follow(
                self.log_path(which),
                self.history.clone(),
                self.stubs.starts.clone(),
            );
            self.stubs.tails.push(tail);
        }
        Ok(())
    }

    /// Everything on the lower links, in the order in which the runner learnt of it.
    pub(crate) fn below(&self) -> Vec<LowerMessage> {
        self.stubs.catch_up();
        let mut below = Vec::new();
        self.history.scan(0, |index, record| {
            below.extend(LowerMessage::from_record(index, record));
            None::<()>
        });
        below
    }

    /// Returns the messages of hosts on the lower links.
    pub(crate) fn written(&self) -> Vec<LowerMessage> {
        let mut below = self.below();
        below.retain(|below| below.by == Side::Host);
        below
    }

    /// Returns the host's messages to the stub in a session.
    pub(crate) fn written_to(&self, lower: &StubbedSession) -> Vec<ReceivedMessage> {
        let of = self.below_of(lower).into_iter();
        of.filter(|below| below.by == Side::Host)
            .map(|below| below.seen)
            .collect()
    }

    /// Returns the messages between host and stub in a session.
    pub(crate) fn below_of(&self, lower: &StubbedSession) -> Vec<LowerMessage> {
        let mut below = self.below();
        below.retain(|below| below.process == lower.process && below.seen.session() == lower.id);
        below
    }

    /// Returns the host's messages of a type to the stub in a session.
    pub(crate) fn told(&self, lower: &StubbedSession, kind: &str) -> Vec<ReceivedMessage> {
        let mut told = self.written_to(lower);
        told.retain(|seen| seen.kind() == kind);
        told
    }

    /// Waits for a message on a lower link, from a place on.
    pub(crate) fn wait_below(
        &self,
        from: usize,
        within: Duration,
        wanted: impl Fn(&LowerMessage) -> bool,
    ) -> Option<LowerMessage> {
        self.history.wait(from, within, |index, record| {
            LowerMessage::from_record(index, record).filter(&wanted)
        })
    }

    /// Waits for a message of a type that the stub writes in a session.
    pub(crate) fn wait_written(
        &self,
        from: usize,
        lower: &StubbedSession,
        kind: &str,
        within: Duration,
    ) -> Option<ReceivedMessage> {
        self.wait_between(from, lower, within, |by, seen| {
            by == Side::Adapter && seen.kind() == kind
        })
    }

    /// Waits for a message of either side in a session.
    pub(crate) fn wait_between(
        &self,
        from: usize,
        lower: &StubbedSession,
        within: Duration,
        wanted: impl Fn(Side, &ReceivedMessage) -> bool,
    ) -> Option<ReceivedMessage> {
        let found = self.wait_below(from, within, |below| {
            below.process == lower.process
                && below.seen.session() == lower.id
                && wanted(below.by, &below.seen)
        });
        found.map(|below| below.seen)
    }

    /// Waits until the stub has received a message of a type in a session, and otherwise fails
    /// under this case's clause.
    ///
    /// # Errors
    ///
    /// The failure.
    pub(crate) fn expect_told_within(
        &self,
        from: usize,
        lower: &StubbedSession,
        kind: &str,
        within: Duration,
    ) -> Outcome<ReceivedMessage> {
        let told = |by, seen: &ReceivedMessage| by == Side::Host && seen.kind() == kind;
        match self.wait_between(from, lower, within, told) {
            Some(seen) => Ok(seen),
            None => {
                let got = self.exit_text().unwrap_or_else(|| "it did not".to_owned());
                self.late(
                    format!("`{kind}` reaches the adapter within {within:.1?}"),
                    got,
                )
            }
        }
    }

    /// The session as the stub knows it that a session of the hub has become: the one that was given its
    /// instructions last, else one of the same id.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause when nothing of it reaches the stub.
    pub(crate) fn lower(&self, session: &CaseSession) -> Outcome<StubbedSession> {
        let named = self
            .below()
            .into_iter()
            .rev()
            .find(|below| is_for(below, session));
        let found = named.or_else(|| {
            self.wait_below(0, self.bounds.deadline, |below| {
                is_for(below, session)
                    || (below.by == Side::Host && below.seen.is_of(session, "user.input"))
            })
        });
        match found {
            Some(below) => Ok(StubbedSession {
                process: below.process,
                id: below.seen.session().to_owned(),
            }),
            None => self.late(format!("the adapter learns of {}", session.id()), "nothing"),
        }
    }

    /// Returns the stub's log records of a kind of event, with their process.
    pub(crate) fn logged(&self, event: &str) -> Vec<(u32, Value)> {
        self.stubs.catch_up();
        let mut logged = Vec::new();
        self.history.scan(0, |_, record| {
            logged.extend(act_of(record, |act| act["ev"] == event));
            None::<()>
        });
        logged
    }

    /// Gives a cue to the stubs, which wait for it by `until`.
    ///
    /// # Errors
    ///
    /// When its file cannot be made.
    pub(crate) fn cue(&self, name: &str) -> Outcome {
        for which in [HostAdapter::First, HostAdapter::Second] {
            stub::give_cue(&self.log_path(which), name)?;
        }
        Ok(())
    }

    /// Waits for something in the stub's log.
    pub(crate) fn wait_logged(
        &self,
        from: usize,
        within: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        self.history.wait(from, within, |_, record| {
            act_of(record, &wanted).map(|(_, act)| act)
        })
    }

    /// Kills the children that the stub left by instruction, so that they do not count as left by the host.
    pub(crate) fn kill_children(&self) {
        let logs = [HostAdapter::First, HostAdapter::Second].map(|which| self.log_path(which));
        process::kill_all(|args| logs.iter().any(|log| stub::is_child(args, log)));
    }

    /// The processes of the stub, in the order of their starts.
    pub(crate) fn stub_processes(&self) -> Vec<u32> {
        self.logged("start")
            .into_iter()
            .map(|(process, _)| process)
            .collect()
    }

    /// Returns true if a process of the stub still runs: not ended and not waiting to be reaped, in
    /// any namespace.
    pub(crate) fn is_running(&self, process: u32) -> bool {
        self.stubs.starts.is_running(process)
    }
}

/// Returns true if this is an input with the instructions of a session.
fn is_for(below: &LowerMessage, session: &CaseSession) -> bool {
    below.by == Side::Host
        && below.seen.kind() == "user.input"
        && named_in(below.seen.text("content")).as_deref() == Some(session.id())
}

/// The name that instructions give to their session.
pub(crate) fn named_in(content: &str) -> Option<String> {
    if !content.starts_with("{\"$stub\"") && !content.starts_with("{\"as\"") {
        return None;
    }
    let content: Value = serde_json::from_str(content).ok()?;
    Some(content.get("as")?.as_str()?.to_owned())
}

fn act_of(record: &Record, wanted: impl Fn(&Value) -> bool) -> Option<(u32, Value)> {
    match (&record.event, record.link) {
        (RecordedEvent::Act(act), PipePair::Lower(process)) if wanted(act) => {
            Some((process, act.clone()))
        }
        _ => None,
    }
}
