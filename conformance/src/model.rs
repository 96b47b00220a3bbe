//! The suite's own model of the rules, written from SPEC.md only: no bytes, no time, no processes.
//!
//! A [`Model`] follows one pair of pipes, message by message, and returns the clauses that each
//! message breaks. It is given the order of a recording: a reaction to a message follows that
//! message, because a recorder records its writes *before* it writes and its reads *after* it has
//! read. Beyond that messages cross freely, and the model reports nothing that a crossing could
//! explain. Only a [fence](Model::fence) proves what a side has read.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::clauses::{Level, Side};

pub(crate) use debt::{Debt, OpenObligation};
use extension::Extensions;
use pipe::PipeModel;
use reading::Reading;
use requests::RequestType;
use session::ModelSession;
use shape::{MessageClass, ShapeFault};
use table::{Gate, Scope, Table};

mod debt;
mod extension;
mod pipe;
mod reading;
mod requests;
mod session;
mod shape;
mod table;
mod tools;
mod turns;

#[cfg(test)]
mod tests;

/// The most ids that are remembered of those that the host wrote to without starting them.
const MAX_STRANGERS: usize = 65_536;

/// A parsed line.
pub(crate) type Message = serde_json::Map<String, Value>;

/// Program at the adapter's end of the pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ModelKind {
    /// An adapter.
    #[default]
    Adapter,
    /// A relay: its hub may list agents, and write to the pipe before any session is ready ([ext.9]).
    Relay,
}

/// A rule that a message broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The clause, as SPEC.md names it.
    pub clause: &'static str,
    /// Side that broke it.
    pub by: Side,
    /// Weight; less than the clause's own level if only a weaker word of it was broken.
    pub level: Level,
    /// The session concerned; empty for the pipe.
    pub session: String,
    /// Description.
    pub text: String,
}

/// A point in a recording, up to which a fence vouches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

/// Returns true for a category of errors ([ext.6]).
pub(crate) fn is_category(name: &str) -> bool {
    matches!(table::CATEGORY, table::ValueType::OneOf(names) if names.contains(&name))
}

/// Follows one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    kind: ModelKind,
    reading: Reading,
    sessions: BTreeMap<String, ModelSession>,
    strangers: HashSet<String>,
    /// Extensions that any `session.ready` of this pipe has named ([ext.9]).
    named: Extensions,
    pipe: PipeModel,
}

impl Model {
    /// Creates the model of a connection without any message.
    pub(crate) fn new(kind: ModelKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Takes a message that the host wrote.
    pub(crate) fn host_says(&mut self, message: &Message) -> Vec<Breach> {
        self.reading.now += 1;
        let mut report = ModelReport::new(Side::Host, message);
        let Some(table) = report.shape(message) else {
            return report.breaches;
        };
        let id = report.session.clone();
        if table.scope == Scope::Pipe {
            let owed = self.kind == ModelKind::Relay || self.is_named(table.gate);
            if !owed {
                report.must(
                    "ext.9",
                    format!(
                        "{} before a session.ready that names its extension",
                        table.name
                    ),
                );
            }
            self.pipe.ask(table.name, message, owed);
        } else if table.name == "session.start" {
            self.start(id, message, table, &mut report);
        } else {
            match self.sessions.get_mut(&id) {
                None => {
                    report.must("session.1", format!("{} before session.start", table.name));
                    if self.strangers.len() < MAX_STRANGERS {
                        self.strangers.insert(id);
                    }
                }
                Some(session) if session.host_closed.is_some() => {
                    report.must("session.4", format!("{} after session.close", table.name));
                }
                Some(session) if session.adapter_closed.is_some() => {
                    // Until the host has read of the end it cannot know.
                    if session
                        .adapter_closed
                        .is_some_and(|then| self.reading.host_knows(then))
                    {
                        report.must("session.8", format!("{} after session.closed", table.name));
                    }
                    if table.name == "session.close" {
                        session.host_closed = Some(self.reading.now);
                    }
                }
                Some(session) => report.take(session.host_says(message, table, &self.reading)),
            }
        }
        report.breaches
    }

    fn start(
        &mut self,
        id: String,
        message: &Message,
        table: &'static Table,
        report: &mut ModelReport,
    ) {
        let mut session = ModelSession::start(message, self.kind);
        let mut faults = session::Faults::new();
        session.host_fields(message, table, &mut faults);
        report.take(faults);
        if let Some(old) = self.sessions.get(&id) {
            if !old.is_over() {
                return report.must(
                    "session.1",
                    "session.start for an id that is open".to_owned(),
                );
            }
            report.must(
                "session.2",
                "session.start for an id that was used before".to_owned(),
            );
            // The next messages of the adapter may still be meant for the old session.
            let fresh = old.adapter_closed.is_some()
                || old
                    .host_closed
                    .is_some_and(|then| self.reading.adapter_knows(then));
            session.muddled = !fresh || old.muddled;
        }
        self.strangers.remove(&id);
        self.sessions.insert(id, session);
    }

    /// Takes a message that the adapter wrote.
    pub(crate) fn adapter_says(&mut self, message: &Message) -> Vec<Breach> {
        self.reading.now += 1;
        let mut report = ModelReport::new(Side::Adapter, message);
        let Some(table) = report.shape(message) else {
            self.bad_request(message, &report.session);
            return report.breaches;
        };
        if table.scope == Scope::Pipe {
            report.take(self.pipe.answer(table.name, message).err());
            return report.breaches;
        }
        let Some(session) = self.sessions.get_mut(&report.session) else {
            if self.strangers.contains(&report.session) {
                report.must(
                    "session.5",
                    format!("{} for an id that was never started", table.name),
                );
            } else {
                report.must(
                    "msg.1",
                    format!("{} for an id that the host never wrote", table.name),
                );
            }
            return report.breaches;
        };
        if session.muddled {
            return report.breaches;
        }
        if session.adapter_closed.is_some() {
            report.must("session.8", format!("{} after session.closed", table.name));
            return report.breaches;
        }
        if session
            .host_closed
            .is_some_and(|then| self.reading.adapter_knows(then))
        {
            report.must(
                "session.4",
                format!("{} after session.close was read", table.name),
            );
            return report.breaches;
        }
        if session.is_held(&self.reading) {
            report.must(
                "flow.1",
                format!("{} while the session is paused", table.name),
            );
        }
        let (faults, of_host) = session.adapter_says(message, table, &self.reading);
        self.named = self.named.union(session.agreed());
        report.take(faults);
        report.by = Side::Host;
        report.take(of_host);
        report.breaches
    }

    /// A request that is not a message must not be answered ([msg.4]).
    fn bad_request(&mut self, message: &Message, session: &str) {
        let asks = matches!(
            shape::text(message, "type"),
            Some("permission.request" | "input.request")
        );
        if let Some(id) = shape::id(message, "request_id").filter(|_| asks)
            && let Some(session) = self.sessions.get_mut(session)
        {
            session.requests.bad(id);
        }
    }

    fn is_named(&self, gate: Gate) -> bool {
        matches!(gate, Gate::One(extension) if self.named.has(extension))
    }

    /// This point of the recording, for a later [`fence_at`](Self::fence_at).
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.reading.now)
    }

    /// Records that `reader` has read everything that its peer has sent so far.
    #[cfg(test)]
    pub(crate) fn fence(&mut self, reader: Side) {
        self.fence_at(reader, self.mark());
    }

    /// Records that `reader` has read everything that its peer had sent at `mark`: its writes from
    /// now on reflect it.
    pub(crate) fn fence_at(&mut self, reader: Side, mark: Mark) {
        self.reading.advance(reader, mark.0);
    }

    /// Returns all pending obligations of both sides, without sessions that have ended.
    pub(crate) fn open(&self) -> Vec<OpenObligation> {
        let mut open = Vec::new();
        for (id, session) in self
            .sessions
            .iter()
            .filter(|(_, session)| !session.is_over() && !session.muddled)
        {
            let mut add = |by, what| {
                open.push(OpenObligation {
                    by,
                    session: id.clone(),
                    what,
                })
            };
            for turn in session.turns.open() {
                let turn_id = turn.id.clone();
                let stopped = turn.stopped;
                add(Side::Adapter, Debt::Turn { turn_id, stopped });
            }
            for message_id in session.turns.unanswered() {
                add(
                    Side::Adapter,
                    Debt::Steer {
                        message_id: message_id.to_owned(),
                    },
                );
            }
            for (request_id, ask, due) in session
                .requests
                .waiting(&session.turns)
                .filter(|_| !session.unsure)
            {
                let request_id = request_id.to_owned();
                add(
                    Side::Host,
                    match ask {
                        RequestType::Permission => Debt::Permission { request_id, due },
                        RequestType::Question => Debt::Question { request_id, due },
                    },
                );
            }
            for tool_call_id in session.tools.open() {
                add(
                    Side::Adapter,
                    Debt::Tool {
                        tool_call_id: tool_call_id.to_owned(),
                    },
                );
            }
            for _ in 0..session.infos_owed() {
                add(Side::Adapter, Debt::Info);
            }
        }
        let mut add = |what| {
            open.push(OpenObligation {
                by: Side::Adapter,
                session: String::new(),
                what,
            })
        };
        for nonce in self.pipe.pings() {
            add(Debt::Pong {
                nonce: nonce.clone(),
            });
        }
        for (kind, request_id) in self.pipe.lists() {
            add(Debt::List {
                kind,
                request_id: request_id.to_owned(),
            });
        }
        open
    }

    /// The turns that have not ended, of sessions that have not ended.
    #[cfg(test)]
    pub(crate) fn open_turns(&self) -> Vec<OpenObligation> {
        let mut open = self.open();
        open.retain(|open| matches!(open.what, Debt::Turn { .. }));
        open
    }

    /// The answers that the host owes.
    #[cfg(test)]
    pub(crate) fn owed(&self) -> Vec<OpenObligation> {
        let mut open = self.open();
        open.retain(|open| open.by == Side::Host);
        open
    }

    /// Returns the breaches if nothing more is sent: call it at rest, after both sides have read
    /// everything.
    ///
    /// Sessions that have ended owe nothing, and a paused session is held back rather than silent.
    pub(crate) fn finish(&self) -> Vec<Breach> {
        let mut broken = Vec::new();
        for OpenObligation { by, session, what } in self.open() {
            let held = self
                .sessions
                .get(&session)
                .is_some_and(|session| session.is_paused());
            let Some((clause, text)) = what.broken() else {
                continue;
            };
            if !(held && by == Side::Adapter) {
                broken.push(Breach {
                    clause,
                    by,
                    level: Level::Must,
                    session,
                    text,
                });
            }
        }
        broken
    }
}

/// The breaches of one message.
struct ModelReport {
    by: Side,
    session: String,
    breaches: Vec<Breach>,
}

impl ModelReport {
    fn new(by: Side, message: &Message) -> Self {
        let session = shape::text(message, "session_id")
            .unwrap_or_default()
            .to_owned();
        Self {
            by,
            session,
            breaches: Vec::new(),
        }
    }

    /// Judges the message by itself; `None` if its reader drops it.
    fn shape(&mut self, message: &Message) -> Option<&'static Table> {
        let shape = shape::judge(message, self.by);
        self.take(shape.faults);
        match shape.kindred {
            MessageClass::Known(table) => Some(table),
            MessageClass::Bad => None,
            MessageClass::Reversed(table) => {
                // An adapter writes the four types and those that were agreed on, and nothing else.
                let (clause, level) = match self.by {
                    Side::Adapter => ("ext.2", Level::Must),
                    Side::Host => ("msg.2", Level::Should),
                };
                let text = format!("{} is for the {} to write", table.name, table.from);
                self.take([ShapeFault {
                    clause,
                    level,
                    text,
                }]);
                None
            }
            MessageClass::Unknown(name) => {
                let text = format!("{name:?} is not a type of this protocol");
                self.take([ShapeFault {
                    clause: "msg.2",
                    level: Level::May,
                    text,
                }]);
                None
            }
        }
    }

    fn must(&mut self, clause: &'static str, text: String) {
        self.take([ShapeFault {
            clause,
            level: Level::Must,
            text,
        }]);
    }

    fn take(&mut self, faults: impl IntoIterator<Item = ShapeFault>) {
        let by = self.by;
        let session = &self.session;
        self.breaches.extend(faults.into_iter().map(
            |ShapeFault {
                 clause,
                 level,
                 text,
             }| Breach {
                clause,
                by,
                level,
                session: session.clone(),
                text,
            },
        ));
    }
}
