//! What an adapter says, judged and passed on to the hub ([relay.7], [turn.9], [ext.2]).

use std::time::Instant;

use trunkline_conformance_mutants::json::{quote, session_named_in};

use crate::files;
use crate::lines::Line;
use crate::message::{Fault, Message};
use crate::relay::Relay;
use crate::schema::Exts;
use crate::session::{End, Session};
use crate::switches::{Mutant as M, broken};

/// What an adapter may tell of itself before it says what became of the context.
const MAX_INFOS: usize = 16;

/// Where a message belongs ([turn.6], [turn.9]).
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Running,
    Late(String),
    Outside,
}

impl Relay {
    /// Handles a line of a process.
    pub(crate) fn take_from_adapter(&mut self, number: u64, line: Line) {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong(head) => {
                self.counters.oversize += 1;
                self.report_to(
                    number,
                    session_named_in(&head),
                    "oversize",
                    "the adapter wrote a line that is too long",
                );
                return;
            }
            Line::Unended(bytes) => {
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
            Err(Fault::Noise) => {
                self.counters.noise += 1;
                self.spoil_by_noise(number, &bytes);
                return;
            }
            Err(Fault::Unknown(session)) => {
                self.counters.unknown += 1;
                if broken(M::UnknownTypeFatal)
                    && let Some(id) = session.and_then(|id| self.owner(number, &id))
                {
                    let end = End::failed("protocol", "a message of an unknown type");
                    self.with(&id, |relay, session| relay.end_turn(session, &end));
                }
                return;
            }
            Err(Fault::Bad { session, why }) => {
                self.counters.bad += 1;
                self.spoil_by_bad(number, &bytes);
                self.report_to(number, session, "protocol", &format!("the adapter sent {why}"));
                return;
            }
        };
        let Some(process) = self.processes.get_mut(&number) else { return };
        process.spoke = true;
        if self.end.is_some()
            || matches!(message.kind, "pong" | "sessions.list.result" | "agents.list.result")
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

    /// The session of the hub that a session of the wire stands for.
    fn owner(&self, number: u64, id: &str) -> Option<String> {
        if broken(M::OutputToLast) && !self.last.is_empty() {
            return Some(self.last.clone());
        }
        let process = self.processes.get(&number)?;
        let found = process.wire.get(id).cloned();
        if broken(M::IdNormalised) && found.is_none() {
            return process
                .wire
                .iter()
                .find(|(known, _)| known.to_lowercase() == id)
                .map(|(_, id)| id.clone());
        }
        let guessed = broken(M::UnknownIdDelivered) && !process.used.contains(id)
            || broken(M::MissingIdGuessed) && id.is_empty();
        found.or_else(|| if guessed { process.wire.values().next().cloned() } else { None })
    }

    fn report_to(&mut self, number: u64, session: Option<String>, category: &str, text: &str) {
        if let Some(id) = session.and_then(|id| self.processes.get(&number)?.wire.get(&id).cloned()) {
            self.with(&id, |relay, session| relay.report(session, category, text));
        }
    }

    fn hear(&mut self, session: &mut Session, mut message: Message) {
        let Some(wire) = &mut session.wire else { return };
        let first = wire.agreed.is_none();
        if first {
            let named = message.strings("extensions").unwrap_or_default();
            let ready = message.kind == "session.ready";
            let agreed = if ready { Exts::named(named.iter().map(String::as_str)) } else { Exts::NONE };
            wire.agreed = Some(agreed);
            if broken(M::ReadyAfterAgent) {
                self.say_ready(session, session.hub != Exts::NONE);
            }
            if !session.restrictions.is_empty() && !self.enforce(session, &message) {
                return;
            }
        } else if message.kind == "session.ready" {
            self.counters.bad += 1;
            return;
        }
        let Some(wire) = &session.wire else { return };
        let agreed = if broken(M::UnagreedPassed) { Exts::ALL } else { wire.agreed() };
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
        if let Some(turn) = session.turn.as_mut().filter(|_| place == Place::Running) {
            turn.answered = true;
            turn.heard = Instant::now();
        }
        message.remove("turn_id");
        match &place {
            Place::Running => {
                if let Some(turn) = &session.turn {
                    message.set("turn_id", quote(&turn.id));
                }
            }
            Place::Late(id) => {
                self.counters.late += 1;
                message.set("turn_id", quote(id));
            }
            Place::Outside => {}
        }
        self.hear_kind(session, message, &place);
        self.advance(session);
    }

    fn place(session: &Session, message: &Message) -> Place {
        let Some(wire) = &session.wire else { return Place::Outside };
        let running = session.turn.as_ref().filter(|turn| turn.written.is_some());
        if message.is_true("history") {
            return Place::Outside;
        }
        if !wire.agreed().has(Exts::TURNS) {
            return if running.is_some() { Place::Running } else { Place::Outside };
        }
        let Some(id) = message.text("turn_id") else { return Place::Outside };
        if running.is_some_and(|turn| {
            turn.wire_id == id
                || broken(M::LateOutputAdopted) && message.kind != "turn.complete"
                || broken(M::LateCompleteEnds) && message.kind == "turn.complete"
        }) {
            return Place::Running;
        }
        wire.turns.get(&id).map_or(Place::Outside, |id| Place::Late(id.clone()))
    }

    fn hear_kind(&mut self, session: &mut Session, mut message: Message, place: &Place) {
        match message.kind {
            "output" => self.hear_output(session, message, place),
            "turn.complete" => self.hear_complete(session, message, place),
            "file.output" => self.hear_file(session, message),
            "permission.request" | "input.request" => {
                if message.is_true("history") {
                    return;
                }
                if let Place::Late(_) = place {
                    let request = crate::session::Request {
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
                    .filter(|_| *place == Place::Running)
                    .map(|turn| turn.wire_id.clone());
                let stopped =
                    session.turn.as_ref().is_some_and(|running| turn.is_some() && running.stop.is_some());
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
                if let Some(at) = session.steers.iter().position(|known| Some(known) == id.as_ref()) {
                    session.steers.remove(at);
                    self.say(session, &message);
                }
            }
            kind => {
                if let Some(call) = message.text("tool_call_id").filter(|_| *place == Place::Running) {
                    session.tools.retain(|known| kind != "tool.end" || *known != call);
                    if kind == "tool.start" {
                        session.tools.push(call);
                    }
                }
                if kind == "error" {
                    message.remove("options");
                }
                self.say(session, &message);
            }
        }
    }

    fn hear_output(&mut self, session: &mut Session, mut message: Message, place: &Place) {
        let channel = message.text("channel");
        let known = matches!(channel.as_deref(), None | Some("" | "stdout" | "stderr" | "system"));
        if broken(M::ChannelRequired) && channel.is_none()
            || broken(M::ChannelUnknownLost) && !known
            || broken(M::OutsideLost) && *place == Place::Outside
        {
            return;
        }
        if channel.as_deref() == Some("") {
            message.remove("channel");
        }
        if broken(M::NulLost)
            && let Some(raw) = message.remove("content")
        {
            message.set("content", raw.replace("\\u0000", ""));
        }
        let empty = message.raw("content") == Some("\"\"");
        if broken(M::EmptyOutputEnds) && empty {
            self.end_turn(session, &End::stopped("user"));
        }
        if broken(M::CompleteOvertakes) {
            session.strays += 1;
            if let Some(before) = session.overtaken.replace(message) {
                self.say(session, &before);
            }
            return;
        }
        if broken(M::OrderSwapped) {
            session.strays += 1;
            if session.strays.is_multiple_of(3) {
                session.overtaken = Some(message);
                return;
            }
        }
        self.say(session, &message);
        if let Some(late) = session.overtaken.take() {
            self.say(session, &late);
        }
    }

    fn hear_complete(&mut self, session: &mut Session, mut message: Message, place: &Place) {
        if broken(M::CompleteUnread) {
            return;
        }
        if broken(M::CompleteAnySession) {
            let others: Vec<String> = self.sessions.keys().cloned().collect();
            for id in others {
                self.with(&id, |relay, session| relay.end_turn(session, &End::stopped("user")));
            }
        }
        let native = message.remove("native_session_id");
        let params = message.remove("session_params");
        let clear = message.remove("clear_session");
        for (name, raw) in
            [("native_session_id", &native), ("session_params", &params), ("clear_session", &clear)]
        {
            if let Some(raw) = raw {
                message.set(name, raw.clone());
            }
        }
        if clear.as_deref() == Some("true") {
            (session.native, session.params) = (None, None);
        } else {
            session.native = native.or(session.native.take());
            session.params = params.or(session.params.take());
        }
        if *place == Place::Running {
            let few = session.strays < 20;
            let late = session.overtaken.take();
            if let Some(late) = late.as_ref().filter(|_| few || broken(M::OrderSwapped)) {
                self.say(session, late);
            }
            self.complete(session, message);
            if let Some(late) = late.filter(|_| !few && broken(M::CompleteOvertakes)) {
                self.say(session, &late);
            }
            return;
        }
        self.counters.late += 1;
        if broken(M::StrayEndsNext) {
            session.strays = 1;
        }
        if broken(M::StrayDelivered) {
            self.say(session, &message);
        }
    }

    /// Takes a file, or says why not ([file.4], [file.7]).
    fn hear_file(&mut self, session: &mut Session, mut message: Message) {
        let path = message.text("file_path").unwrap_or_default();
        let base = path.rsplit('/').next().unwrap_or_default().to_owned();
        if broken(M::FileDefaultsMissing)
            && (message.raw("file_name").is_none() || message.raw("file_mime_type").is_none())
        {
            return;
        }
        let name = message.text("file_name").unwrap_or_else(|| base.clone());
        let mut roots = vec![session.exchange.clone()];
        roots.extend(std::env::current_dir());
        roots.extend(session.start.text("cwd").map(Into::into));
        let number = session.wire.as_ref().map_or(0, |wire| wire.process);
        roots.extend(self.processes.get(&number).map(|process| process.tmp.clone()));
        let store = self.folder.path().join(format!("store-{}", session.key));
        drop(files::private_folder(&store));
        session.files += 1;
        let copy =
            if broken(M::FileNameIsPath) { store.join(&name) } else { store.join(session.files.to_string()) };
        if broken(M::FileBlocks) {
            std::thread::sleep(std::time::Duration::from_secs(4));
        }
        if let Err(why) = files::take(&path, &roots, &copy) {
            if broken(M::FileMissingFatal) {
                std::process::exit(1);
            }
            self.report(session, "file_refused", &format!("the file {name} was not taken: {why}"));
            return;
        }
        if !broken(M::OriginalAnnounced) {
            message.set("file_path", quote(&copy.to_string_lossy()));
        }
        message.set("file_name", quote(&name));
        if message.raw("file_mime_type").is_none() {
            message.set("file_mime_type", quote("application/octet-stream"));
        }
        if broken(M::FileMimeLost) {
            message.set("file_mime_type", quote("text/plain"));
        }
        self.say(session, &message);
    }

    /// What an agent tells of itself, with the context where that is owed ([process.5]).
    fn hear_info(&mut self, session: &mut Session, mut message: Message) {
        let ready = message.kind == "session.ready";
        Self::learn(session, &message);
        session.native = message.raw("native_session_id").map(str::to_owned).or(session.native.take());
        if let Some(modes) = message.strings("input_modes") {
            let steers = modes.iter().any(|mode| mode == "steer");
            if let Some(wire) = &mut session.wire {
                wire.steers = steers;
            }
            // The relay queues by itself, whatever the agent does.
            message
                .set("input_modes", if steers { "[\"queue\",\"steer\"]" } else { "[\"queue\"]" }.to_owned());
        }
        let context = message.text("context");
        message.remove("context");
        message.remove("protocol");
        message.remove("extensions");
        if let Some(context) = context
            && session.wire.as_ref().is_some_and(|wire| wire.owes_context)
        {
            self.tell_context(session, context == "kept");
        }
        session.updates = session.updates.saturating_sub(usize::from(!ready));
        message.kind = "session.info";
        let mut seen = message.clone();
        seen.fold(session.hub);
        if broken(M::FactsUntold) || ready && seen.fields().all(|(name, _)| name == "turn_id") {
            return;
        }
        // The context precedes everything else of the session ([process.5]).
        match &mut session.wire {
            Some(wire) if wire.owes_context && wire.infos.len() < MAX_INFOS => wire.infos.push(message),
            Some(wire) if wire.owes_context => {
                wire.infos.push(message);
                self.tell_context(session, false);
            }
            _ => self.say(session, &message),
        }
    }

    /// The adapter ends a session: nothing more is written for it ([session.8]).
    fn hear_closed(&mut self, session: &mut Session, message: &Message) {
        if let Some(wire) = session.wire.take() {
            if broken(M::ClosedIsClosedAgain)
                && let Some(process) = self.processes.get(&wire.process)
            {
                process.stdin.push(Message::down("session.close", &wire.id).encode(Exts::NONE));
            }
            if let Some(process) = self.processes.get_mut(&wire.process) {
                process.wire.remove(&wire.id);
            }
        }
        let text = message
            .raw("error")
            .and_then(|raw| serde_json::from_str::<serde_json::Value>(raw).ok())
            .and_then(|error| error.get("message")?.as_str().map(str::to_owned))
            .unwrap_or_else(|| "the agent ended the session".to_owned());
        self.settle(session, "policy", |_| true);
        self.end_all(session, &End::failed("other", text.clone()));
        if !broken(M::ClosedUntold) {
            self.say(session, message);
        }
        if session.hub.has(Exts::CONTROL) {
            session.gone = true;
            self.hub.finish(session.key);
        } else if !broken(M::ClosedGoesOn) {
            session.ended = Some(text);
        }
    }

    /// Whether the agent honours what was asked; else the session is refused ([ext.7]).
    fn enforce(&mut self, session: &mut Session, ready: &Message) -> bool {
        let applied = ready.strings("options_applied").unwrap_or_default();
        let missing: Vec<String> = std::mem::take(&mut session.restrictions)
            .into_iter()
            .filter(|name| !applied.contains(name))
            .collect();
        if missing.is_empty() {
            return true;
        }
        self.refuse(session, &format!("the agent does not honour {}", missing.join(", ")));
        false
    }

    pub(crate) fn refuse(&mut self, session: &mut Session, text: &str) {
        let end = End { status: "refused", ..End::failed("permission_denied", text) };
        self.end_all(session, &end);
        self.close_by_itself(session, "refused", "permission_denied", text);
    }

    fn spoil_by_noise(&mut self, number: u64, bytes: &[u8]) {
        let Some(process) = self.processes.get(&number) else { return };
        if broken(M::NoiseFatal) || broken(M::BannerFatal) && !process.spoke {
            process.signal(nix::sys::signal::Signal::SIGKILL);
        }
        let ids: Vec<String> = process.wire.values().cloned().collect();
        let told = broken(M::NoiseTold) || broken(M::BlankReported) && bytes.is_empty();
        for id in ids {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.with(&id, |relay, session| {
                if told {
                    relay.report(session, "protocol", &text);
                } else if broken(M::NoiseToldCore) && session.hub == Exts::NONE {
                    relay.say_text(session, "stdout", &text);
                }
            });
        }
    }

    fn spoil_by_bad(&self, number: u64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if let Some(process) = self.processes.get(&number)
            && (broken(M::BadRequestApproved) || broken(M::BadRequestDenied))
            && text.contains("permission.request")
            && let Some(session) = session_named_in(bytes)
        {
            let id = text
                .split_once("\"request_id\"")
                .and_then(|(_, rest)| rest.split('"').nth(1).map(str::to_owned))
                .unwrap_or_default();
            let answer = Message::down("permission.response", &session)
                .with("request_id", &id)
                .with_raw("approved", if broken(M::BadRequestApproved) { "true" } else { "false" });
            process.stdin.push(answer.encode(Exts::NONE));
        }
    }

    fn spoil_by_stranger(&mut self, number: u64, message: &Message) {
        if let Some(process) = self.processes.get(&number)
            && broken(M::UnknownRequestApproved)
            && let Some(id) = message.raw("request_id")
        {
            let answer = Message::down("permission.response", &message.session)
                .with_raw("request_id", id)
                .with_raw("approved", "true");
            process.stdin.push(answer.encode(Exts::NONE));
        }
        if broken(M::ClosedIdDelivered)
            && let Some((key, hub)) = self.forgotten.get(&message.session)
        {
            self.hub.push(*key, message.encode(*hub));
        }
    }
}
