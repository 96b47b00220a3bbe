//! Messages of an adapter, checked and passed on to the hub ([relay.7], [turn.9], [ext.2]).

mod kinds;
mod spoil;

use std::time::Instant;

use trunkline_conformance_mutants::{
    json::{quote, session_named_in},
    lines::InputLine,
};

use crate::message::{Message, MessageFault};
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{ForcedEnd, HubSession};
use crate::switches::{Mutant::*, broken};

/// Scope of a message ([turn.6], [turn.9]).
#[derive(Debug, PartialEq, Eq)]
enum TurnScope {
    Running,
    Late(String),
    Outside,
}

impl Relay {
    /// Handles a line of a process.
    pub(crate) fn take_from_adapter(&mut self, number: u64, line: InputLine) {
        let bytes = match line {
            InputLine::Whole(bytes) => bytes,
            InputLine::TooLong(head) => {
                self.counters.oversize += 1;
                self.report_to(
                    number,
                    session_named_in(&head),
                    "oversize",
                    "the adapter wrote a line that is too long",
                );
                return;
            }
            InputLine::Unended(bytes) => {
                if Message::from_adapter(&bytes).is_err() {
                    crate::note("the last line of an adapter was cut");
                    self.report_to(
                        number,
                        session_named_in(&bytes),
                        "protocol",
                        "the adapter's last line was cut",
                    );
                    return;
                }
                bytes
            }
        };
        let message = match Message::from_adapter(&bytes) {
            Ok(message) => message,
            Err(MessageFault::Noise) => {
                self.counters.noise += 1;
                self.spoil_by_noise(number, &bytes);
                return;
            }
            Err(MessageFault::Unknown(session)) => {
                self.counters.unknown += 1;
                if broken(UnknownTypeFatal)
                    && let Some(id) = session.and_then(|id| self.owner(number, &id))
                {
                    let end = ForcedEnd::failed("protocol", "a message of an unknown type");
                    self.with(&id, |relay, session| relay.end_turn(session, &end));
                }
                return;
            }
            Err(MessageFault::Bad { session, why }) => {
                self.counters.bad += 1;
                self.spoil_by_bad(number, &bytes);
                self.report_to(
                    number,
                    session,
                    "protocol",
                    &format!("the adapter sent {why}"),
                );
                return;
            }
        };
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        process.spoke = true;
        if self.end.is_some()
            || matches!(
                message.kind,
                "pong" | "sessions.list.result" | "agents.list.result"
            )
        {
            return;
        }
        let Some(id) = self.owner(number, &message.session) else {
            self.counters.late += 1;
            self.spoil_by_stranger(number, &message);
            return;
        };
        self.with(&id, |relay, session| relay.hear(session, message));
    }

    /// Returns the hub's session of a wire session.
    fn owner(&self, number: u64, id: &str) -> Option<String> {
        if broken(OutputToLast) && !self.last.is_empty() {
            return Some(self.last.clone());
        }
        let process = self.processes.get(&number)?;
        let found = process.wire.get(id).cloned();
        if broken(IdNormalised) && found.is_none() {
            return process
                .wire
                .iter()
                .find(|(known, _)| known.to_lowercase() == id)
                .map(|(_, id)| id.clone());
        }
        let guessed = broken(UnknownIdDelivered) && !process.used.contains(id)
            || broken(MissingIdGuessed) && id.is_empty();
        found.or_else(|| {
            if guessed {
                process.wire.values().next().cloned()
            } else {
                None
            }
        })
    }

    fn report_to(&mut self, number: u64, session: Option<String>, category: &str, text: &str) {
        if let Some(id) = session.and_then(|id| self.processes.get(&number)?.wire.get(&id).cloned())
        {
            self.with(&id, |relay, session| relay.report(session, category, text));
        }
    }

    fn hear(&mut self, session: &mut HubSession, mut message: Message) {
        let Some(wire) = &mut session.wire else {
            return;
        };
        let first = wire.agreed.is_none();
        if first {
            let named = message.strings("extensions").unwrap_or_default();
            let ready = message.kind == "session.ready";
            let agreed = if ready {
                ExtensionSet::named(&named)
            } else {
                ExtensionSet::CORE
            };
            wire.agreed = Some(agreed);
            if broken(ReadyAfterAgent) {
                self.say_ready(session, session.hub != ExtensionSet::CORE);
            }
            if !session.restrictions.is_empty() && !self.enforce(session, &message) {
                return;
            }
        } else if message.kind == "session.ready" {
            self.counters.bad += 1;
            return;
        }
        let Some(wire) = &session.wire else { return };
        let agreed = if broken(UnagreedPassed) {
            ExtensionSet::ALL
        } else {
            wire.agreed()
        };
        if !agreed.has(message.needs) {
            self.counters.unknown += 1;
            self.advance(session);
            return;
        }
        message.fold(agreed);
        message.session.clone_from(&session.id);
        let info = matches!(message.kind, "session.ready" | "session.info");
        if wire.owes_context && !info {
            self.tell_context(session, false);
        }
        let place = Self::place(session, &message);
        if let Some(turn) = session
            .turn
            .as_mut()
            .filter(|_| place == TurnScope::Running)
        {
            turn.answered = true;
            turn.heard = Instant::now();
        }
        message.remove("turn_id");
        match &place {
            TurnScope::Running => {
                session.name_turn(&mut message);
            }
            TurnScope::Late(id) => {
                self.counters.late += 1;
                message.set("turn_id", quote(id));
            }
            TurnScope::Outside => {}
        }
        self.hear_kind(session, message, &place);
        self.advance(session);
    }

    fn place(session: &HubSession, message: &Message) -> TurnScope {
        let Some(wire) = &session.wire else {
            return TurnScope::Outside;
        };
        let running = session.turn.as_ref().filter(|turn| turn.written.is_some());
        if message.is_true("history") {
            return TurnScope::Outside;
        }
        if !wire.agreed().has(ExtensionSet::TURNS) {
            return if running.is_some() {
                TurnScope::Running
            } else {
                TurnScope::Outside
            };
        }
        let Some(id) = message.text("turn_id") else {
            return TurnScope::Outside;
        };
        if running.is_some_and(|turn| {
            turn.wire_id == id
                || broken(LateOutputAdopted) && message.kind != "turn.complete"
                || broken(LateCompleteEnds) && message.kind == "turn.complete"
        }) {
            return TurnScope::Running;
        }
        wire.turns
            .get(&id)
            .map_or(TurnScope::Outside, |id| TurnScope::Late(id.clone()))
    }

    fn hear_kind(&mut self, session: &mut HubSession, mut message: Message, place: &TurnScope) {
        match message.kind {
            "output" => self.hear_output(session, message, place),
            "turn.complete" => self.hear_complete(session, message, place),
            "file.output" => self.hear_file(session, message),
            "permission.request" | "input.request" => {
                if message.is_true("history") {
                    return;
                }
                if let TurnScope::Late(_) = place {
                    let request = crate::session::HubRequest {
                        id: message.text("request_id").unwrap_or_default(),
                        question: message.kind == "input.request",
                        turn: None,
                        options: Vec::new(),
                        at: Instant::now(),
                    };
                    self.write_denial(session, &request, "stopped");
                    return;
                }
                let turn = session
                    .turn
                    .as_ref()
                    .filter(|_| *place == TurnScope::Running)
                    .map(|turn| turn.wire_id.clone());
                let stopped = session
                    .turn
                    .as_ref()
                    .is_some_and(|running| turn.is_some() && running.stop.is_some());
                self.ask(session, message, turn.clone());
                if stopped {
                    self.settle(session, "stopped", |request| request.turn == turn);
                }
            }
            "permission.cancel" => self.withdraw(session, &message),
            "session.closed" => self.hear_closed(session, &message),
            "session.ready" | "session.info" => self.hear_info(session, message),
            "steer.result" => {
                let id = message.text("message_id");
                if let Some(at) = session
                    .steers
                    .iter()
                    .position(|known| Some(known) == id.as_ref())
                {
                    session.steers.remove(at);
                    self.say(session, &message);
                }
            }
            kind => {
                if let Some(call) = message
                    .text("tool_call_id")
                    .filter(|_| *place == TurnScope::Running)
                {
                    session
                        .tools
                        .retain(|known| kind != "tool.end" || *known != call);
                    if kind == "tool.start" {
                        session.tools.push(call);
                    }
                }
                if kind == "error" {
                    message.remove("options");
                }
                if let Some(large) = message.remove("large").filter(|_| !broken(LargeUnread)) {
                    self.fill(session, &mut message, &large);
                }
                self.say(session, &message);
            }
        }
    }

    /// Puts the text of a message from its file into the message ([large.3]).
    fn fill(&mut self, session: &mut HubSession, message: &mut Message, large: &str) {
        let large: serde_json::Value = serde_json::from_str(large).unwrap_or_default();
        let member = &large["content"];
        let Some(path) = member["file_path"].as_str() else {
            return;
        };
        let mut announced = message.clone();
        announced.set("size", member["size"].to_string());
        announced.set("sha256", member["sha256"].to_string());
        let copy = session.exchange.join("large");
        let taken = crate::files::take(path, std::slice::from_ref(&session.exchange), &copy)
            .and_then(|()| crate::files::hold_to(&copy, &announced))
            .and_then(|()| std::fs::read_to_string(&copy).map_err(|error| error.to_string()));
        match taken {
            Ok(text) => message.set("content", text),
            Err(why) => {
                message.set("truncated", "true".to_owned());
                self.report(
                    session,
                    "file_refused",
                    &format!("the content was not taken: {why}"),
                );
            }
        }
    }

    /// Checks that the agent honours the requested options; otherwise the session is refused
    /// ([ext.7]).
    fn enforce(&mut self, session: &mut HubSession, ready: &Message) -> bool {
        let applied = ready.strings("options_applied").unwrap_or_default();
        let missing: Vec<String> = std::mem::take(&mut session.restrictions)
            .into_iter()
            .filter(|name| !applied.contains(name))
            .collect();
        if missing.is_empty() {
            return true;
        }
        self.refuse(
            session,
            &format!("the agent does not honour {}", missing.join(", ")),
        );
        false
    }

    pub(crate) fn refuse(&mut self, session: &mut HubSession, text: &str) {
        let end = ForcedEnd {
            status: "refused",
            ..ForcedEnd::failed("permission_denied", text)
        };
        self.end_all(session, &end);
        self.close_by_itself(session, "refused", "permission_denied", text);
    }
}
