//! Answers of the relay itself ([relay.4], [relay.8], [ext.5]).

use trunkline_conformance_mutants::json::quote;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::HubSession;
use crate::switches::{Mutant::*, broken};

/// The facts that an update may change.
const UPDATED: [&str; 6] = [
    "model",
    "reasoning_effort",
    "mode",
    "permission_mode",
    "allowed_tools",
    "denied_tools",
];

impl Relay {
    pub(crate) fn pong(&mut self, ping: &Message) {
        if broken(PipePassedOn) {
            for process in self.processes.values() {
                process.stdin.push(ping.encode(ExtensionSet::ALL));
            }
        }
        let mut pong = Message::up("pong", "");
        if let Some(nonce) = ping.raw("nonce") {
            pong.set("nonce", nonce.to_owned());
        }
        self.hub.push_of_the_pipe(pong.encode(ExtensionSet::ALL));
    }

    pub(crate) fn list_agents(&mut self, message: &Message) {
        if broken(AgentsUnlisted) {
            return;
        }
        let agents: Vec<_> = self
            .agents
            .iter()
            .map(|agent| serde_json::json!({"id": agent.name, "profile": "external", "state": agent.state()}))
            .collect();
        let result = Message::up("agents.list.result", "")
            .with_raw("request_id", message.raw("request_id").unwrap_or("\"\""))
            .with_raw("agents", serde_json::Value::from(agents).to_string());
        self.hub.push_of_the_pipe(result.encode(ExtensionSet::ALL));
    }

    /// Answers `sessions.list` for any agent by an error ([relay.10]).
    pub(crate) fn list_sessions(&mut self, message: &Message) {
        if broken(OwnListUnanswered) {
            return;
        }
        let mut result = Message::up("sessions.list.result", "")
            .with_raw("request_id", message.raw("request_id").unwrap_or("\"\""))
            .with_raw("entries", "[]");
        if !broken(OwnListEmpty) {
            result = result.with("error", "this relay keeps no list of sessions");
        }
        self.hub.push_of_the_pipe(result.encode(ExtensionSet::ALL));
    }

    /// Passes a steer on where the agent takes it; else nothing was delivered ([turn.10]).
    pub(crate) fn steer(&mut self, session: &mut HubSession, message: &Message) {
        let message_id = message.text("message_id");
        let able = session.wire.as_ref().is_some_and(|wire| wire.steers)
            && session.agreed().has(ExtensionSet::TURNS);
        let running = session.is_running();
        if let Some(id) = message_id.clone()
            && running
            && (able || broken(SteerAnyway))
        {
            session.steers.push(id);
            session.minted += 1;
            let mut steer = message.clone();
            steer.set(
                "turn_id",
                quote(&format!("steer-{}-{}", session.minted, std::process::id())),
            );
            self.write(session, &steer);
            return;
        }
        let reason = if running {
            "the agent cannot take it"
        } else {
            "no turn is running"
        };
        self.say_undelivered(session, message_id.as_deref(), reason);
    }

    pub(crate) fn say_undelivered(
        &mut self,
        session: &mut HubSession,
        message_id: Option<&str>,
        reason: &str,
    ) {
        let mut result = Message::up("steer.result", &session.id)
            .with_raw("delivered", "false")
            .with("reason", reason);
        if let Some(id) = message_id {
            result.set("message_id", quote(id));
        }
        self.say(session, &result);
    }

    /// Passes an update on where the agent takes it; else nothing has changed.
    pub(crate) fn update(&mut self, session: &mut HubSession, update: &Message) {
        let able = session.agreed().has(ExtensionSet::OPTIONS);
        if able || broken(TypesBeforeReady) {
            session.updates += 1;
            if broken(TypesBeforeReady)
                && let Some(wire) = &session.wire
                && let Some(process) = self.processes.get(&wire.process)
            {
                process.stdin.push(update.encode(ExtensionSet::ALL));
                return;
            }
            self.write(session, update);
        } else {
            self.say_facts(session);
        }
    }

    /// The values in force, unchanged.
    pub(crate) fn say_facts(&mut self, session: &mut HubSession) {
        if broken(UpdateUnanswered) {
            return;
        }
        let mut info = Message::up("session.info", &session.id);
        for name in UPDATED {
            let fact = session
                .facts
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, raw)| raw.clone());
            if let Some(raw) = fact {
                info.set(name, raw);
            }
        }
        self.say(session, &info);
    }

    /// Remembers the values that an agent reports as in force.
    pub(crate) fn learn(session: &mut HubSession, info: &Message) {
        for name in UPDATED {
            if let Some(raw) = info.raw(name) {
                session.facts.retain(|(known, _)| known != name);
                session.facts.push((name.to_owned(), raw.to_owned()));
            }
        }
    }
}
