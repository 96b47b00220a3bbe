//! Turns: one at a time in each session, each with exactly one end for the hub ([turn.7], [turn.11]).

use std::time::{Duration, Instant};

use trunkline_conformance_mutants::json::quote;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{ForcedEnd, HeldMessage, HubSession, HubTurn};
use crate::starts::SessionReadiness;
use crate::switches::{Mutant::*, broken};

/// Time that an update waits for an adapter that has not reported its abilities yet.
const UPDATE_WAIT: Duration = Duration::from_secs(2);
/// Time that a broken host waits for `session.ready` before it writes an input.
const HOPE: Duration = Duration::from_millis(1500);

impl Relay {
    /// Writes what may be written now, in order.
    pub(crate) fn advance(&mut self, session: &mut HubSession) {
        while !session.gone && session.ended.is_none() {
            if session.turn.is_some() && !session.is_running() {
                if !self.write_turn(session) {
                    return;
                }
                continue;
            }
            match session.held.front() {
                None => return,
                Some(HeldMessage::Input(_)) if session.turn.is_some() => return,
                Some(HeldMessage::Input(_)) => {
                    if let Some(HeldMessage::Input(turn)) = session.held.pop_front() {
                        session.turn = Some(turn);
                    }
                }
                Some(HeldMessage::File(_)) => match self.ensure_wire(session) {
                    SessionReadiness::Later => return,
                    SessionReadiness::Never(why) => {
                        session.held.pop_front();
                        self.report(session, "file_refused", &why);
                    }
                    SessionReadiness::Yes => {
                        if let Some(HeldMessage::File(file)) = session.held.pop_front() {
                            self.write(session, &file);
                        }
                    }
                },
                Some(HeldMessage::Update(_, since)) => {
                    let waited = since.elapsed() > UPDATE_WAIT;
                    let known = session
                        .wire
                        .as_ref()
                        .is_none_or(|wire| wire.agreed.is_some());
                    if !known && !waited && !broken(TypesBeforeReady) {
                        return;
                    }
                    if let Some(HeldMessage::Update(update, _)) = session.held.pop_front() {
                        self.update(session, &update);
                    }
                }
            }
        }
    }

    /// Writes the turn's input; whether anything has come of it.
    fn write_turn(&mut self, session: &mut HubSession) -> bool {
        match self.ensure_wire(session) {
            SessionReadiness::Yes => {}
            SessionReadiness::Later => return false,
            SessionReadiness::Never(why) => {
                self.end_turn(session, &ForcedEnd::failed("process_exit", why));
                return true;
            }
        }
        let Some(wire) = &mut session.wire else {
            return false;
        };
        // A broken host that waited forever would serve no core-only adapter, which proves nothing.
        let hopes = broken(WaitsForReady) && wire.since.elapsed() < HOPE;
        if wire.agreed.is_none() && (!session.restrictions.is_empty() || hopes) {
            return false;
        }
        let Some(turn) = &mut session.turn else {
            return false;
        };
        if wire.turns.contains_key(&turn.wire_id) {
            session.minted += 1;
            turn.wire_id = format!("turn-{}-{}", session.minted, std::process::id());
        }
        if broken(TurnIdRepeated) {
            turn.wire_id = "turn".to_owned();
        }
        let mut input = turn.input.clone();
        // The ids and the rest of the line are short.
        let longest = wire
            .max_line
            .map_or(usize::MAX, |most| most.max(1 << 20) - 1024);
        if input
            .raw("content")
            .is_some_and(|content| content.len() > longest)
            && !broken(LongInputWritten)
        {
            let end = ForcedEnd::failed(
                "oversize",
                "the adapter does not read an input of this length",
            );
            self.end_turn(session, &end);
            return true;
        }
        turn.written = Some(Instant::now());
        turn.heard = Instant::now();
        input.remove("mode");
        input.set("turn_id", quote(&turn.wire_id));
        if broken(TurnIdMissing) {
            input.remove("turn_id");
        }
        if broken(StartRepeated) || broken(FileBeforeStart) {
            let start = Message::down("session.start", "");
            self.write(session, &start);
        }
        self.write(session, &input);
        if broken(StrayEndsNext) && session.strays > 0 {
            session.strays -= 1;
            self.end_turn(session, &ForcedEnd::stopped("user"));
        }
        true
    }

    /// Ends the running turn in the place of its adapter.
    pub(crate) fn end_turn(&mut self, session: &mut HubSession, end: &ForcedEnd) {
        self.settle_turn(
            session,
            if end.status == "stopped" {
                "stopped"
            } else {
                "policy"
            },
        );
        let Some(turn) = session.turn.take() else {
            return;
        };
        if let Some(wire) = &mut session.wire {
            wire.end(&turn);
        }
        self.say_end(session, &turn, end);
    }

    /// Ends everything that waits, too.
    pub(crate) fn end_all(&mut self, session: &mut HubSession, end: &ForcedEnd) {
        self.end_turn(session, end);
        for held in std::mem::take(&mut session.held) {
            match held {
                HeldMessage::Input(turn) => self.say_end(session, &turn, end),
                HeldMessage::Update(..) => self.say_facts(session),
                HeldMessage::File(_) => {}
            }
        }
    }

    /// Says the end that the host makes, with its cause ([relay.7]).
    pub(crate) fn say_end(&mut self, session: &mut HubSession, turn: &HubTurn, end: &ForcedEnd) {
        let mut complete = Message::up("turn.complete", &session.id)
            .with_raw("turn_id", quote(&turn.id))
            .with("status", end.status);
        let explained = !(broken(EndUnexplained) && end.category.is_some());
        if let Some(reason) = end.reason {
            complete.set("stop_reason", quote(reason));
        }
        if let Some(category) = end.category {
            complete.set_error(category, &end.text);
        }
        complete.set("delivered", quote(turn.delivered()));
        if let Some(code) = end.exit.code {
            complete.set("exit_code", code.to_string());
        }
        if let Some(signal) = end.exit.signal {
            complete.set("signal", signal.to_string());
        }
        if !explained {
            complete =
                Message::up("turn.complete", &session.id).with_raw("turn_id", quote(&turn.id));
        }
        let core = !session.hub.has(ExtensionSet::TURNS);
        if core && end.category.is_some() && !broken(EndUnexplainedCore) {
            self.say_text(session, "system", &end.text);
        }
        self.say(session, &complete);
    }

    /// Passes on the end that the adapter made.
    pub(crate) fn complete(&mut self, session: &mut HubSession, mut message: Message) {
        self.settle_turn(session, "policy");
        let Some(turn) = session.turn.take() else {
            return;
        };
        if let Some(wire) = &mut session.wire {
            wire.end(&turn);
            let process = wire.process;
            if let Some(process) = self.processes.get_mut(&process) {
                process.served = true;
                self.agents[process.agent].count_success();
            }
        }
        if let Some(stop) = &turn.stop
            && message.raw("status").is_none()
        {
            message.set("status", quote("stopped"));
            message.set(
                "stop_reason",
                quote(stop.reason.as_deref().unwrap_or("user")),
            );
        }
        let failed = matches!(
            message.text("status").as_deref(),
            Some("failed" | "refused" | "limit")
        );
        if failed && !session.hub.has(ExtensionSet::TURNS) {
            let text = message
                .error_message()
                .unwrap_or_else(|| "the turn failed".to_owned());
            self.say_text(session, "system", &text);
        }
        message.set("turn_id", quote(&turn.id));
        self.say(session, &message);
    }

    /// Closes what the turn leaves open: its tool calls and its requests.
    fn settle_turn(&mut self, session: &mut HubSession, reason: &'static str) {
        let Some(turn) = &session.turn else { return };
        let id = turn.id.clone();
        let wire_id = turn.wire_id.clone();
        for tool in std::mem::take(&mut session.tools) {
            if broken(ToolsLeftOpen) {
                continue;
            }
            let end = Message::up("tool.end", &session.id)
                .with("turn_id", &id)
                .with("tool_call_id", &tool)
                .with_raw("is_error", "true");
            self.say(session, &end);
        }
        self.settle(session, reason, |request| {
            request.turn.as_deref() == Some(wire_id.as_str()) || broken(OutsideRequestDenied)
        });
    }
}
