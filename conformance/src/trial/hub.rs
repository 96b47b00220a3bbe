//! Hubs of a journal: each has pipes of its own, may connect by a socket, and outlives a host that
//! is killed.
//!
//! Their messages are recorded beside those of the case's other verbs, so that they are judged by
//! the rules of the journal and not by those of one pipe.

use std::{fmt::Display, path::Path, sync::Arc, thread, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{CaseSession, ReceivedMessage, Trial};
use crate::{
    history::{PipePair, Record, RecordedEvent, Tape},
    process::{Launch, Pipe},
    verdict::{Outcome, Stop},
    wire,
};

/// Extensions that a hub of a journal names at least ([journal.1]).
pub(crate) const JOURNAL: [&str; 3] = ["turns", "events", "journal"];

/// Interval between checks for a socket.
const LOOK: Duration = Duration::from_millis(5);

/// A hub of a host that keeps a journal.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    pipe: Pipe,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a case writes its message in place"
)]
impl Hub {
    /// Sends a message, and returns the length of the history before it.
    pub(crate) fn say(&self, message: Value) -> usize {
        let at = self.pipe.tape.history.len();
        self.pipe
            .write(wire::line_of(&message), Trial::intent(false));
        at
    }

    /// Sends a message of a session, given its type and further members.
    pub(crate) fn tell(&self, session: &CaseSession, kind: &str, members: Value) -> usize {
        self.say(wire::with(
            json!({"type":kind,"session_id":session.id()}),
            &members,
        ))
    }

    /// Starts a session that asks for the journal, with more members.
    pub(crate) fn start(&self, session: &CaseSession, more: Value) -> usize {
        self.tell(
            session,
            "session.start",
            wire::with(json!({"protocol":1,"extensions":JOURNAL}), &more),
        )
    }

    /// Attaches to a session behind an entry, with more members.
    pub(crate) fn attach(&self, session: &CaseSession, after: u64, more: Value) -> usize {
        let attach = json!({"protocol":1,"extensions":JOURNAL,"after":after});
        self.tell(session, "session.attach", wire::with(attach, &more))
    }

    /// Sends an input by the ids of its turn and of its message.
    pub(crate) fn input(
        &self,
        session: &CaseSession,
        turn: &str,
        message: &str,
        content: &str,
    ) -> usize {
        self.tell(
            session,
            "user.input",
            json!({"turn_id":turn,"message_id":message,"content":content}),
        )
    }

    /// Pauses or resumes reading.
    pub(crate) fn pause_reading(&self, paused: bool) {
        self.pipe.pause_reading(paused);
    }

    fn seen(&self, index: usize, record: &Record) -> Option<ReceivedMessage> {
        let whole = matches!(record.event, RecordedEvent::Adapter { ended: true, .. });
        (record.link == self.pipe.tape.link && whole)
            .then(|| ReceivedMessage::from_record(index, record))
            .flatten()
    }

    /// Returns the messages that it has received of a session, from a place on.
    pub(crate) fn heard(&self, session: &CaseSession, from: usize) -> Vec<ReceivedMessage> {
        let mut heard = Vec::new();
        self.pipe.tape.history.scan(from, |index, record| {
            heard.extend(
                self.seen(index, record)
                    .filter(|seen| seen.session() == session.id()),
            );
            None::<()>
        });
        heard
    }

    /// Returns the entries that it has received of a session, from a place on.
    pub(crate) fn entries(&self, session: &CaseSession, from: usize) -> Vec<ReceivedMessage> {
        let mut heard = self.heard(session, from);
        heard.retain(ReceivedMessage::is_entry);
        heard
    }

    /// Waits for a message of a session, from a place on.
    pub(crate) fn wait(
        &self,
        session: &CaseSession,
        from: usize,
        within: Duration,
        wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Option<ReceivedMessage> {
        self.pipe.tape.history.wait(from, within, |index, record| {
            self.seen(index, record)
                .filter(|seen| seen.session() == session.id() && wanted(seen))
        })
    }
}

impl ReceivedMessage {
    /// Returns true if it is an entry of a journal ([journal.3]).
    pub(crate) fn is_entry(&self) -> bool {
        self.get("seq").is_some() && self.kind() != "input.result"
    }

    /// A member that is a number, or 0.
    pub(crate) fn number(&self, member: &str) -> u64 {
        self.get(member).and_then(Value::as_u64).unwrap_or_default()
    }
}

impl Trial {
    /// A session that only hubs of the journal know.
    pub(crate) fn journaled(&mut self) -> CaseSession {
        CaseSession::named(self.fresh("j"))
    }

    fn next_tape(&mut self) -> Tape {
        self.hubs += 1;
        Tape {
            history: Arc::clone(&self.history),
            link: PipePair::Hub(self.hubs),
        }
    }

    /// Starts the host; the hub has its stdin and stdout.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn hub(&mut self) -> Outcome<Hub> {
        let launch = Launch {
            link: self.next_tape().link,
            ..self.launch()
        };
        self.start_with(&launch)?;
        self.expect_gone();
        Ok(Hub {
            pipe: self.process()?.pipe().clone(),
        })
    }

    /// Connects another hub to the running host, by its socket.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause if the socket accepts no connection in time.
    pub(crate) fn further_hub(&mut self) -> Outcome<Hub> {
        let journal = self.path("journal").display().to_string();
        let path = self
            .subject
            .hubs
            .as_deref()
            .unwrap_or_default()
            .replace("{journal}", &journal);
        let tape = self.next_tape();
        let mut left = self.bounds.deadline;
        loop {
            match Pipe::connect(Path::new(&path), tape.clone()) {
                Ok(connection) => {
                    let pipe = connection.pipe.clone();
                    self.connections.push(connection);
                    return Ok(Hub { pipe });
                }
                Err(error) if left.is_zero() => {
                    return self.late(
                        "the socket `hubs` takes a further hub",
                        format!("{path}: {error}"),
                    );
                }
                Err(_) => thread::sleep(LOOK),
            }
            left = left.saturating_sub(LOOK);
        }
    }

    /// Ends what came by the socket.
    pub(crate) fn leave_further_hubs(&mut self) {
        self.connections.clear();
    }

    /// Kills the host by SIGKILL, and waits until all that it had written is recorded.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub(crate) fn kill_host(&mut self) -> Outcome {
        let Some(process) = self.process.take() else {
            return Ok(());
        };
        process.signal(Signal::KILL);
        let within = self.bounds.secs(5.0);
        if process.wait_exit(within).is_none() {
            return Err(Stop::Harness("the host does not end by SIGKILL".to_owned()));
        }
        let link = process.pipe().tape.link;
        let ended = |_, record: &Record| {
            (record.link == link && matches!(record.event, RecordedEvent::StdoutEnded))
                .then_some(())
        };
        self.history.wait(0, within, ended);
        self.connections.clear();
        Ok(())
    }

    /// Waits for a message that a hub receives of a session, or fails under this case's clause.
    ///
    /// # Errors
    ///
    /// The failure, with the messages received instead.
    pub(crate) fn hear(
        &self,
        hub: &Hub,
        session: &CaseSession,
        from: usize,
        expected: impl Display,
        wanted: impl Fn(&ReceivedMessage) -> bool,
    ) -> Outcome<ReceivedMessage> {
        let within = self.bounds.deadline;
        match hub.wait(session, from, within, wanted) {
            Some(seen) => Ok(seen),
            None => {
                let heard = hub.heard(session, from);
                let kinds: Vec<&str> = heard
                    .iter()
                    .rev()
                    .take(8)
                    .rev()
                    .map(ReceivedMessage::kind)
                    .collect();
                let got = self.exit_text().unwrap_or_else(|| match heard.len() {
                    0 => format!("nothing for {}", session.id()),
                    many => format!("{many} messages, the last {}", kinds.join(", ")),
                });
                self.late(format!("{expected} within {within:.1?}"), got)
            }
        }
    }

    /// The same for a type of message.
    ///
    /// # Errors
    ///
    /// As [`Self::hear`].
    pub(crate) fn hear_kind(
        &self,
        hub: &Hub,
        session: &CaseSession,
        from: usize,
        kind: &str,
    ) -> Outcome<ReceivedMessage> {
        self.hear(hub, session, from, format!("`{kind}`"), |seen| {
            seen.kind() == kind
        })
    }

    /// Waits for the end of a turn that is an entry.
    ///
    /// # Errors
    ///
    /// As [`Self::hear`].
    pub(crate) fn hear_end(
        &self,
        hub: &Hub,
        session: &CaseSession,
        from: usize,
        turn: &str,
    ) -> Outcome<ReceivedMessage> {
        self.hear(
            hub,
            session,
            from,
            format!("the `turn.complete` of {turn}, with a `seq`"),
            |seen| seen.is_with("turn.complete", "turn_id", turn) && seen.is_entry(),
        )
    }

    /// A turn of a fresh session without the journal, then a quiet window: what has not come by now
    /// does not come.
    ///
    /// # Errors
    ///
    /// A failure when that turn does not end.
    pub(crate) fn rest(&mut self, hub: &Hub) -> Outcome {
        let session = CaseSession::named(self.fresh("fence"));
        let from = hub.tell(&session, "session.start", json!({}));
        hub.tell(&session, "user.input", json!({"content":"fence"}));
        self.hear_kind(hub, &session, from, "turn.complete")?;
        hub.tell(&session, "session.close", json!({}));
        self.pass_time(self.quiet());
        Ok(())
    }
}
