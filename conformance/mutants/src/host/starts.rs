//! Starts processes and opens sessions on their wire ([session.1], [ext.1], [process.5]).

use std::time::Instant;

use trunkline_conformance_mutants::{json::quote, sleep};

use crate::agent::StartPermit;
use crate::child::ChildAdapter;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{HubSession, WireSession};
use crate::switches::{Mutant::*, Variant::*, broken, find_fault, varied};

/// The fields of `session.start` that an agent must honour or not be used ([ext.7]).
pub(crate) const RESTRICTIONS: [&str; 9] = [
    "denied_tools",
    "allowed_tools",
    "permission_mode",
    "allowed_domains",
    "cwd",
    "max_cost_usd",
    "max_tokens",
    "turn_timeout_ms",
    "inactivity_timeout_ms",
];

/// State of a session on the wire.
#[derive(Debug)]
pub(crate) enum SessionReadiness {
    Yes,
    Later,
    Never(String),
}

impl Relay {
    /// Gives a session its wire, and its agent a process.
    pub(crate) fn ensure_wire(&mut self, session: &mut HubSession) -> SessionReadiness {
        if session.wire.is_some() {
            return SessionReadiness::Yes;
        }
        let number = match self.ensure_process(session.agent) {
            Ok(number) => number,
            Err(SessionReadiness::Never(why)) if broken(SpawnFailureSilent) => {
                drop(why);
                return SessionReadiness::Later;
            }
            Err(other) => return other,
        };
        self.open_wire(session, number);
        SessionReadiness::Yes
    }

    fn ensure_process(&mut self, agent: usize) -> Result<u64, SessionReadiness> {
        if let Some(number) = self.agents[agent].process
            && !varied(Vh05)
        {
            return Ok(number);
        }
        let now = Instant::now();
        match self.agents[agent].leave(now) {
            StartPermit::Now => {}
            StartPermit::Later => return Err(SessionReadiness::Later),
            StartPermit::Never(why) => return Err(SessionReadiness::Never(why)),
        }
        let number = self.mint();
        let tmp = self.path("tmp");
        let command = self.agents[agent].command.clone();
        match ChildAdapter::start(number, agent, &command, tmp, &self.events) {
            Ok(process) => {
                self.processes.insert(number, process);
                self.agents[agent].process = Some(number);
                Ok(number)
            }
            Err(error) => {
                let why = format!("{} could not be started: {error}", command[0]);
                crate::note(&why);
                self.agents[agent].count_failure(now, &why, false);
                Err(SessionReadiness::Never(why))
            }
        }
    }

    /// Starts a process without a session.
    pub(crate) fn warm(&mut self, agent: usize) {
        if self.agents[agent].process.is_none() {
            drop(self.ensure_process(agent));
        }
    }

    fn open_wire(&mut self, session: &mut HubSession, number: u64) {
        let minted = self.mint();
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        let id = if broken(IdsShared) {
            "session".to_owned()
        } else if process.used.contains(&session.id) && !broken(IdReused) && !broken(ClosedGoesOn) {
            format!("relay-{minted}-{}", std::process::id())
        } else {
            session.id.clone()
        };
        process.used.insert(id.clone());
        process.wire.insert(id.clone(), session.id.clone());
        let mut wire = WireSession::new(number, id.clone());
        let mut start = Message::down("session.start", &id);
        let fields = if varied(Vh18) {
            Vec::new()
        } else {
            session.start.fields().collect()
        };
        for (name, raw) in fields {
            if !matches!(
                name,
                "protocol" | "extensions" | "agent_id" | "exchange_dir" | "resume"
            ) {
                start.set(name, raw.to_owned());
            }
        }
        let mut offer = ExtensionSet::ALL;
        if broken(OfferFollowsHub) {
            offer = session.hub;
        }
        if varied(Vh18) {
            offer = ExtensionSet::CORE;
            wire.agreed = Some(offer);
        }
        if offer != ExtensionSet::CORE {
            if !broken(OfferWithoutProtocol) {
                start.set("protocol", "1".to_owned());
            }
            start.set("extensions", serde_json::json!(offer.names()).to_string());
        }
        let exchanges = session.make_exchange();
        if exchanges && !varied(Vh18) {
            start.set("exchange_dir", quote(&session.exchange.to_string_lossy()));
        }
        let resume = if session.restarted {
            let native = session
                .native
                .as_ref()
                .map(|id| format!("\"native_session_id\":{id}"));
            let params = session
                .params
                .as_ref()
                .map(|params| format!("\"params\":{params}"));
            let known: Vec<String> = native.into_iter().chain(params).collect();
            (!known.is_empty() && !broken(ResumeForgotten))
                .then(|| format!("{{{}}}", known.join(",")))
        } else {
            session.start.raw("resume").map(str::to_owned)
        };
        wire.owes_context = resume.is_some();
        if let Some(resume) = resume.filter(|_| !varied(Vh18)) {
            start.set("resume", resume);
        }
        let told = session.restarted && !wire.owes_context;
        let silent = broken(StartMissing)
            || broken(RestartUnstarted) && session.restarted
            || broken(FileBeforeStart) && session.turn.is_none();
        session.restrictions = RESTRICTIONS
            .into_iter()
            .filter(|name| session.start.raw(name).is_some() && !broken(OptionsUnenforced))
            .map(str::to_owned)
            .collect();
        session.wire = Some(wire);
        session.restarted = true;
        if told {
            self.tell_context(session, false);
        }
        if !silent {
            self.write(session, &start);
        }
        if broken(UnknownTypeWritten)
            && let Some(process) = self.processes.get(&number)
        {
            process
                .stdin
                .push(b"{\"type\":\"hello\",\"session_id\":\"\"}\n".to_vec());
        }
    }

    /// Tells the hub, once, what became of the context ([process.5]).
    pub(crate) fn tell_context(&mut self, session: &mut HubSession, kept: bool) {
        let Some(wire) = &mut session.wire else {
            return;
        };
        wire.owes_context = false;
        let infos = std::mem::take(&mut wire.infos);
        self.say_context(session, kept);
        for info in infos {
            self.say(session, &info);
        }
    }

    fn say_context(&mut self, session: &mut HubSession, kept: bool) {
        if broken(ContextUntold) {
            return;
        }
        for _ in 0..if broken(ContextToldTwice) { 2 } else { 1 } {
            if session.hub.has(ExtensionSet::RESUME) {
                let context = if kept { "kept" } else { "lost" };
                let info = Message::up("session.info", &session.id).with("context", context);
                self.say(session, &info);
            } else if !kept {
                self.say_text(
                    session,
                    "system",
                    "the agent has started anew and remembers nothing of this session",
                );
            }
        }
    }

    /// Writes a message to the adapter of a session, under the id of its wire.
    pub(crate) fn write(&mut self, session: &HubSession, message: &Message) {
        let Some(wire) = &session.wire else { return };
        let allowed = wire.agreed.unwrap_or(ExtensionSet::ALL);
        let mut message = message.clone();
        message.session.clone_from(&wire.id);
        if broken(EmptyContentNull) && message.raw("content") == Some("\"\"") {
            message.set("content", "0".to_owned());
        }
        if varied(Vh01) && message.raw("content") == Some("\"\"") {
            message.remove("content");
        }
        let mut line = message.encode(allowed);
        let unescaped = [
            (NewlineRaw, ("\\n", "\n")),
            (U2028Raw, ("\\u2028", "\u{2028}")),
            (NulLost, ("\\u0000", "")),
        ];
        if let Some((escape, raw)) = find_fault(unescaped) {
            line = String::from_utf8_lossy(&line)
                .replace(escape, raw)
                .into_bytes();
        }
        if broken(CrlfWritten) {
            line.pop();
            line.extend_from_slice(b"\r\n");
        }
        let Some(process) = self.processes.get(&wire.process) else {
            return;
        };
        if broken(WriteUnflushed) && message.kind == "user.input" && session.minted > 1 {
            let stdin = process.stdin.clone();
            std::thread::spawn(move || {
                sleep(1500);
                stdin.push(line);
            });
            return;
        }
        process.stdin.push(line);
    }
}
