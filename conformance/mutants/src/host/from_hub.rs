//! Messages of the hub: the relay is its adapter ([relay.1], [relay.8]).

mod close;

use std::time::Instant;

use trunkline_conformance_mutants::{json::quote, lines::InputLine};

use crate::files::{harmless, hold_to, place};
use crate::message::{Message, MessageFault};
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{ForcedEnd, HeldMessage, HubSession, HubTurn, WrittenStop};
use crate::starts::{RESTRICTIONS, SessionReadiness};
use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// Inputs that wait in one session; further ones are refused as `busy`.
const MAX_INPUTS: usize = 64;
/// Bytes that wait for one adapter; further inputs are refused as `busy`.
const MAX_OUTBOX: usize = 64 * 1024 * 1024;

impl Relay {
    /// Handles a line of the hub.
    pub(crate) fn take_from_hub(&mut self, line: InputLine) {
        if self.end.is_some() {
            return;
        }
        let bytes = match line {
            InputLine::Whole(bytes) | InputLine::Unended(bytes) => bytes,
            InputLine::TooLong(_) => {
                self.counters.oversize += 1;
                return;
            }
        };
        let mut message = match Message::from_hub(&bytes) {
            Ok(message) => message,
            Err(MessageFault::Noise) => {
                self.counters.noise += 1;
                return;
            }
            Err(MessageFault::Unknown(_)) => {
                self.counters.unknown += 1;
                return;
            }
            Err(MessageFault::Bad { why, .. }) => {
                self.counters.bad += 1;
                crate::note(&format!("the hub sent {why}"));
                return;
            }
        };
        match message.kind {
            "ping" => self.pong(&message),
            "agents.list" => self.list_agents(&message),
            "sessions.list" => self.list_sessions(&message),
            "session.start" => self.open(message),
            _ => {
                let id = message.session.clone();
                if broken(SendsAfterClose) && !self.sessions.contains_key(&id) {
                    self.write_anyway(&message);
                }
                let known = self.with(&id, |relay, session| {
                    if !session.hub.has(message.needs) {
                        relay.counters.unknown += 1;
                        return;
                    }
                    message.fold(session.hub);
                    relay.serve(session, &message);
                });
                if known.is_none() {
                    self.counters.late += 1;
                }
            }
        }
    }

    fn write_anyway(&self, message: &Message) {
        for process in self
            .processes
            .values()
            .filter(|process| process.used.contains(&message.session))
        {
            process.stdin.push(message.encode(ExtensionSet::CORE));
        }
    }

    fn open(&mut self, mut start: Message) {
        if self.sessions.contains_key(&start.session) {
            return;
        }
        let offered = start.strings("extensions").unwrap_or_default();
        let hub = ExtensionSet::named(&offered);
        let wanted = start.text("agent_id");
        let agent = match &wanted {
            None => Some(0),
            Some(name) => self.agents.iter().position(|agent| agent.name == *name),
        };
        let agent = if broken(UnknownAgentDefault) {
            agent.or(Some(0))
        } else {
            agent
        };
        let version = start
            .raw("protocol")
            .map_or(1.0, |raw| raw.parse().unwrap_or(1.0));
        start.fold(hub);
        let mut session = HubSession {
            id: start.session.clone(),
            key: self.mint(),
            agent: agent.unwrap_or_default(),
            hub,
            exchange: self.path("exchange"),
            start,
            ..HubSession::default()
        };
        if !broken(ReadyAfterAgent) {
            self.say_ready(&mut session, !offered.is_empty());
        }
        if version < 1.0 {
            let text = format!("the host speaks protocol {version}, this relay speaks 1");
            self.close_by_itself(&mut session, "protocol", "protocol", &text);
        } else if agent.is_none() {
            let text = format!("no agent is called {}", wanted.unwrap_or_default());
            self.close_by_itself(&mut session, "unknown_agent", "other", &text);
        } else if let Some(text) = widened(&session.start) {
            self.close_by_itself(&mut session, "refused", "permission_denied", &text);
        } else if !varied(Vh08)
            && !broken(FileBeforeStart)
            && let SessionReadiness::Never(why) = self.ensure_wire(&mut session)
        {
            self.report(&mut session, "process_exit", &why);
        }
        if !session.gone {
            self.sessions.insert(session.id.clone(), session);
        }
    }

    pub(crate) fn say_ready(&mut self, session: &mut HubSession, offered: bool) {
        if !offered {
            return;
        }
        let mut names = session.hub.names();
        let offer = session.start.strings("extensions").unwrap_or_default();
        if broken(JournalAgreed) && offer.iter().any(|name| name == "journal") {
            names.push("journal");
        }
        let mut ready = Message::up("session.ready", &session.id)
            .with_raw("protocol", "1")
            .with_raw("extensions", serde_json::json!(names).to_string())
            .with_raw("adapter", "{\"name\":\"broken-host\"}")
            .with_raw("input_modes", "[\"queue\"]");
        // The relay sees to these itself: a session whose agent does not honour one is refused ([ext.7]).
        let kept: Vec<&str> = RESTRICTIONS
            .into_iter()
            .filter(|name| session.start.raw(name).is_some())
            .collect();
        if !kept.is_empty() {
            ready.set("options_applied", serde_json::json!(kept).to_string());
        }
        let line = ready.encode(session.hub);
        self.hub.push(session.key, line);
    }

    fn serve(&mut self, session: &mut HubSession, message: &Message) {
        let frozen = broken(StopFreezes) && session.stop().is_some()
            || broken(PausedUnstoppable)
                && message.kind == "stop"
                && self.hub.is_paused(session.key)
            || broken(TurnUnstoppable)
                && session.turn.is_some()
                && matches!(message.kind, "stop" | "session.close");
        let jammed = broken(CommandsWait)
            && session.wire.as_ref().is_some_and(|wire| {
                self.processes
                    .get(&wire.process)
                    .is_some_and(|process| process.stdin.bytes() > 64 * 1024)
            });
        if frozen || jammed {
            return;
        }
        match message.kind {
            "user.input" if message.text("mode").as_deref() == Some("steer") => {
                self.steer(session, message)
            }
            "user.input" => self.input(session, message),
            "file.input" => self.file(session, message),
            "stop" => self.stop(session, message),
            "session.close" => self.close(session),
            "permission.response" | "input.response" => {
                if broken(RequestsGlobal) {
                    self.answer_anywhere(message);
                }
                self.answer(session, message);
            }
            "session.update" if session.ended.is_none() => {
                session
                    .held
                    .push_back(HeldMessage::Update(message.clone(), Instant::now()));
                self.advance(session);
            }
            "flow.pause" => self.hub.pause(session.key, true),
            "flow.resume" => self.hub.pause(session.key, false),
            _ => {}
        }
    }

    fn answer_anywhere(&mut self, message: &Message) {
        let id = message.text("request_id");
        let owner = self.sessions.values().find(|session| {
            session
                .requests
                .iter()
                .any(|request| Some(&request.id) == id.as_ref())
        });
        if let Some(owner) = owner.map(|session| session.id.clone()) {
            self.with(&owner, |relay, session| relay.answer(session, message));
        }
    }

    fn input(&mut self, session: &mut HubSession, message: &Message) {
        let empty = message.raw("content") == Some("\"\"");
        let waiting = session
            .held
            .iter()
            .filter(|held| matches!(held, HeldMessage::Input(_)))
            .count();
        if broken(SecondInputLost) && session.turn.is_some()
            || broken(LongQueueLost) && waiting >= 3
            || broken(EmptyInputLost) && empty
        {
            return;
        }
        session.minted += 1;
        let id = message
            .text("turn_id")
            .unwrap_or_else(|| format!("turn-{}", session.minted));
        let turn = HubTurn::new(id, message.clone());
        if broken(OutputToLast) {
            self.last.clone_from(&session.id);
        }
        if let Some(why) = session.ended.clone() {
            if !broken(EndedSessionSilent) {
                self.say_end(session, &turn, &ForcedEnd::failed("other", why));
            }
            return;
        }
        if varied(Vh12) && empty {
            self.say_end(
                session,
                &turn,
                &ForcedEnd::failed("other", "an input must not be empty"),
            );
            return;
        }
        let outbox = session
            .wire
            .as_ref()
            .and_then(|wire| self.processes.get(&wire.process))
            .map_or(0, |process| process.stdin.bytes());
        if waiting >= MAX_INPUTS || outbox > MAX_OUTBOX {
            self.say_end(
                session,
                &turn,
                &ForcedEnd::failed("busy", "too many inputs wait"),
            );
            return;
        }
        session.held.push_back(HeldMessage::Input(turn));
        if varied(Vh20) {
            let progress =
                Message::up("progress", &session.id).with("message", "the input is accepted");
            self.say(session, &progress);
            let info = Message::up("session.info", &session.id).with_raw("commands", "[]");
            self.say(session, &info);
        }
        self.advance(session);
    }

    /// Places a hub's file in the exchange folder, then announces it in its order ([file.7]).
    fn file(&mut self, session: &mut HubSession, message: &Message) {
        if session.ended.is_some() {
            return;
        }
        let path = message.text("file_path").unwrap_or_default();
        let base = path.rsplit('/').next().unwrap_or_default().to_owned();
        let name = message.text("file_name").unwrap_or_else(|| base.clone());
        session.files += 1;
        let copy = session
            .exchange
            .join(format!("{}-{}", session.files, harmless(&name)));
        let placed = if session.make_exchange() {
            place(&path, &copy).and_then(|()| hold_to(&copy, message))
        } else {
            Err("there is no folder for it".to_owned())
        };
        if let Err(why) = placed {
            self.report(
                session,
                "file_refused",
                &format!("the file {name} was not taken: {why}"),
            );
            return;
        }
        if broken(FileCut)
            && let Ok(file) = std::fs::File::options().write(true).open(&copy)
        {
            // Without a length there is nothing to cut, and nothing to report.
            let _ = file
                .metadata()
                .and_then(|known| file.set_len(known.len() / 2));
        }
        let announced = if broken(FileRelative) {
            base
        } else {
            copy.to_string_lossy().into_owned()
        };
        let mut file = message.clone();
        file.set("file_name", quote(&name));
        file.set("file_path", quote(&announced));
        if file.raw("file_mime_type").is_none() {
            file.set("file_mime_type", quote("application/octet-stream"));
        }
        session.held.push_back(HeldMessage::File(file));
        self.advance(session);
    }

    /// Stops the running turn, or takes a queued one back ([turn.9], [turn.11]).
    fn stop(&mut self, session: &mut HubSession, message: &Message) {
        let named = message.text("turn_id");
        if let Some(id) = &named {
            let queued = session
                .held
                .iter()
                .position(|held| matches!(held, HeldMessage::Input(turn) if turn.id == *id));
            if let Some(HeldMessage::Input(turn)) = queued.and_then(|at| session.held.remove(at)) {
                self.say_end(session, &turn, &ForcedEnd::stopped("user"));
                return;
            }
        }
        let Some(turn) = &mut session.turn else {
            return;
        };
        if named.is_some_and(|id| id != turn.id) {
            return;
        }
        if turn.written.is_none() {
            self.end_turn(session, &ForcedEnd::stopped("user"));
            self.advance(session);
            return;
        }
        if turn.stop.is_some() {
            return;
        }
        let reason = message.text("reason");
        self.write_stop(session, reason.as_deref());
    }

    /// Writes a stop, then the denials of what is pending in the turn ([permission.3]).
    pub(crate) fn write_stop(&mut self, session: &mut HubSession, reason: Option<&str>) {
        let Some(turn) = &mut session.turn else {
            return;
        };
        let wire_id = turn.wire_id.clone();
        let due = broken(StopAfterOutput) || broken(StopBehindInput) && !turn.answered;
        let stop = WrittenStop {
            at: Instant::now(),
            reason: reason.map(str::to_owned),
            due,
        };
        turn.stop = Some(stop);
        if !due && !broken(StopUnwritten) {
            self.say_stop(session, &wire_id, reason);
        }
        self.settle(session, "stopped", |request| {
            request.turn.as_deref() == Some(wire_id.as_str())
        });
        if broken(StopEndsAtOnce) {
            self.end_turn(session, &ForcedEnd::stopped("user"));
        }
    }

    pub(crate) fn say_stop(&mut self, session: &HubSession, wire_id: &str, reason: Option<&str>) {
        let mut stop = Message::down("stop", &session.id).with("turn_id", wire_id);
        if let Some(reason) = reason {
            stop.set("reason", quote(reason));
        }
        if broken(StopCloses) {
            stop = Message::down("session.close", &session.id);
        }
        let times = match () {
            () if broken(StopRepeated) => 3,
            () if varied(Vh17) => 2,
            () => 1,
        };
        for _ in 0..times {
            self.write(session, &stop);
        }
    }
}

/// Returns the option of a session that widens the host's own ([ext.7]).
fn widened(start: &Message) -> Option<String> {
    if broken(OptionsUnenforced) {
        return None;
    }
    let mode = start.text("permission_mode").unwrap_or_default();
    if mode.to_ascii_lowercase().contains("bypass") {
        return Some(format!("the permission mode {mode} is not allowed"));
    }
    let cwd = start.text("cwd")?;
    let inside = std::path::Path::new(&cwd).canonicalize().is_ok_and(|cwd| {
        std::env::current_dir()
            .and_then(|dir| dir.canonicalize())
            .is_ok_and(|dir| cwd.starts_with(dir))
    });
    (!inside).then(|| format!("the directory {cwd} is not allowed"))
}
