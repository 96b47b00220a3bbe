//! Messages of an adapter, one type after the other.

use trunkline_conformance_mutants::{json::quote, sleep};

use super::TurnScope;
use crate::files;
use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{ForcedEnd, HubSession};
use crate::switches::{Mutant::*, broken};

/// Limit of an adapter's information about itself before it reports the context.
const MAX_INFOS: usize = 16;

impl Relay {
    pub(super) fn hear_output(
        &mut self,
        session: &mut HubSession,
        mut message: Message,
        place: &TurnScope,
    ) {
        let channel = message.text("channel");
        let known = matches!(
            channel.as_deref(),
            None | Some("" | "stdout" | "stderr" | "system")
        );
        if broken(ChannelRequired) && channel.is_none()
            || broken(ChannelUnknownLost) && !known
            || broken(OutsideLost) && *place == TurnScope::Outside
        {
            return;
        }
        if channel.as_deref() == Some("") {
            message.remove("channel");
        }
        if broken(NulLost)
            && let Some(raw) = message.remove("content")
        {
            message.set("content", raw.replace("\\u0000", ""));
        }
        let empty = message.raw("content") == Some("\"\"");
        if broken(EmptyOutputEnds) && empty {
            self.end_turn(session, &ForcedEnd::stopped("user"));
        }
        if broken(CompleteOvertakes) {
            session.strays += 1;
            if let Some(before) = session.overtaken.replace(message) {
                self.say(session, &before);
            }
            return;
        }
        if broken(OrderSwapped) {
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

    pub(super) fn hear_complete(
        &mut self,
        session: &mut HubSession,
        message: Message,
        place: &TurnScope,
    ) {
        if broken(CompleteUnread) {
            return;
        }
        if broken(CompleteAnySession) {
            let others: Vec<String> = self.sessions.keys().cloned().collect();
            for id in others {
                self.with(&id, |relay, session| {
                    relay.end_turn(session, &ForcedEnd::stopped("user"))
                });
            }
        }
        let [native, params] = ["native_session_id", "session_params"]
            .map(|name| message.raw(name).map(str::to_owned));
        if message.is_true("clear_session") {
            (session.native, session.params) = (None, None);
        } else {
            session.native = native.or(session.native.take());
            session.params = params.or(session.params.take());
        }
        if *place == TurnScope::Running {
            let few = session.strays < 20;
            let late = session.overtaken.take();
            if let Some(late) = late.as_ref().filter(|_| few || broken(OrderSwapped)) {
                self.say(session, late);
            }
            self.complete(session, message);
            if let Some(late) = late.filter(|_| !few && broken(CompleteOvertakes)) {
                self.say(session, &late);
            }
            return;
        }
        self.counters.late += 1;
        if broken(StrayEndsNext) {
            session.strays = 1;
        }
        if broken(StrayDelivered) {
            self.say(session, &message);
        }
    }

    /// Takes a file, or reports why not ([file.4], [file.7]).
    pub(super) fn hear_file(&mut self, session: &mut HubSession, mut message: Message) {
        let path = message.text("file_path").unwrap_or_default();
        let base = path.rsplit('/').next().unwrap_or_default().to_owned();
        if broken(FileDefaultsMissing)
            && (message.raw("file_name").is_none() || message.raw("file_mime_type").is_none())
        {
            return;
        }
        let name = message.text("file_name").unwrap_or_else(|| base.clone());
        let mut roots = vec![session.exchange.clone()];
        roots.extend(std::env::current_dir());
        roots.extend(session.start.text("cwd").map(Into::into));
        let number = session.wire.as_ref().map_or(0, |wire| wire.process);
        roots.extend(
            self.processes
                .get(&number)
                .map(|process| process.tmp.clone()),
        );
        let store = self.folder.path().join(format!("store-{}", session.key));
        drop(files::private_folder(&store));
        session.files += 1;
        let copy = if broken(FileNameIsPath) {
            store.join(&name)
        } else {
            store.join(session.files.to_string())
        };
        if broken(FileBlocks) {
            sleep(4_000);
        }
        let taken =
            files::take(&path, &roots, &copy).and_then(|()| files::hold_to(&copy, &message));
        if let Err(why) = taken {
            if broken(FileMissingFatal) {
                std::process::exit(1);
            }
            self.report(
                session,
                "file_refused",
                &format!("the file {name} was not taken: {why}"),
            );
            return;
        }
        if !broken(OriginalAnnounced) {
            message.set("file_path", quote(&copy.to_string_lossy()));
        }
        message.set("file_name", quote(&name));
        if message.raw("file_mime_type").is_none() {
            message.set("file_mime_type", quote("application/octet-stream"));
        }
        if broken(FileMimeLost) {
            message.set("file_mime_type", quote("text/plain"));
        }
        self.say(session, &message);
    }

    /// Takes an agent's information about itself, with the context if that is due ([process.5]).
    pub(super) fn hear_info(&mut self, session: &mut HubSession, mut message: Message) {
        let ready = message.kind == "session.ready";
        Self::learn(session, &message);
        session.native = message
            .raw("native_session_id")
            .map(str::to_owned)
            .or(session.native.take());
        if let Some(modes) = message.strings("input_modes") {
            let steers = modes.iter().any(|mode| mode == "steer");
            if let Some(wire) = &mut session.wire {
                wire.steers = steers;
            }
            // The relay queues by itself, whatever the agent does.
            message.set(
                "input_modes",
                if steers {
                    "[\"queue\",\"steer\"]"
                } else {
                    "[\"queue\"]"
                }
                .to_owned(),
            );
        }
        let context = message.text("context");
        message.remove("context");
        message.remove("protocol");
        message.remove("extensions");
        let max_line = message
            .remove("max_line")
            .and_then(|bytes| bytes.parse().ok());
        if let Some(wire) = session.wire.as_mut().filter(|_| ready) {
            wire.max_line = max_line;
        }
        if let Some(context) = context
            && session.wire.as_ref().is_some_and(|wire| wire.owes_context)
        {
            self.tell_context(session, context == "kept");
        }
        session.updates = session.updates.saturating_sub(usize::from(!ready));
        message.kind = "session.info";
        let mut seen = message.clone();
        seen.fold(session.hub);
        if broken(FactsUntold) || ready && seen.fields().all(|(name, _)| name == "turn_id") {
            return;
        }
        // The context precedes everything else of the session ([process.5]).
        match &mut session.wire {
            Some(wire) if wire.owes_context && wire.infos.len() < MAX_INFOS => {
                wire.infos.push(message)
            }
            Some(wire) if wire.owes_context => {
                wire.infos.push(message);
                self.tell_context(session, false);
            }
            _ => self.say(session, &message),
        }
    }

    /// The adapter ends a session: nothing more is written for it ([session.8]).
    pub(super) fn hear_closed(&mut self, session: &mut HubSession, message: &Message) {
        if let Some(wire) = session.wire.take() {
            if broken(ClosedIsClosedAgain)
                && let Some(process) = self.processes.get(&wire.process)
            {
                process
                    .stdin
                    .push(Message::down("session.close", &wire.id).encode(ExtensionSet::CORE));
            }
            if let Some(process) = self.processes.get_mut(&wire.process) {
                process.wire.remove(&wire.id);
            }
        }
        let text = message
            .error_message()
            .unwrap_or_else(|| "the agent ended the session".to_owned());
        self.settle(session, "policy", |_| true);
        self.end_all(session, &ForcedEnd::failed("other", text.clone()));
        if !broken(ClosedUntold) {
            self.say(session, message);
        }
        if session.hub.has(ExtensionSet::CONTROL) {
            session.gone = true;
            self.hub.finish(session.key);
        } else if !broken(ClosedGoesOn) {
            session.ended = Some(text);
        }
    }
}
