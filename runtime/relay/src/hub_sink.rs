//! The entries of a session as a hub without the journal gets them ([relay.7]).

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use trunkline_host::Cause;
use trunkline_pipe::{Class, Flow, place_large_aside, take_json};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Category, ErrorEvent, Extensions, Fact, Failure, FileDelivered,
    HostBody, HostMessage, LargeMember, Meta, PermissionCancel, Recipient, RelayBody, RelayMessage,
    SessionClosed, SessionId, SessionInfo, ToolsAsOutput, TurnComplete, TurnId, filled, wants_file,
};
use trunkline_sessions::{EntryBody, EntrySink};

use crate::{
    counters::LiveCounters,
    turn_order::TurnOrder,
    upstream::{Outlet, write_for},
};

/// Maximum number of remembered turns whose inputs had no id.
const MAX_UNNAMED_TURNS: usize = 4096 + 64;

/// Causes of an end that report the end of the process, too.
const EXIT_CAUSES: [Cause; 3] = [Cause::ProcessExit, Cause::EndOfStream, Cause::StartTimeout];

/// Maximum length of a failure that a hub without the extensions gets as text, in bytes.
const MAX_FAILURE_TEXT: usize = 1024;

/// State that all sessions of a relay share.
#[derive(Debug)]
pub(crate) struct RelayShared {
    pub(crate) tools: ToolsAsOutput,
    pub(crate) counters: LiveCounters,
}

/// Encoder of the entries of one session for its hub, into its queue on the hub's pipe.
pub(crate) struct HubSink {
    id: SessionId,
    hub: Recipient,
    /// True if the hub gets notes on files and stalls ([relay.7]).
    has_notes: bool,
    /// The hub's exchange folder, for members in files.
    folder: Option<PathBuf>,
    outlet: Outlet,
    common: Arc<RelayShared>,
    /// The turns of a hub that does not know `turns`.
    order: TurnOrder,
    /// The turns whose inputs had no id, for a hub that knows `turns`.
    unnamed: VecDeque<TurnId>,
    /// The values in force, as far as the agent reported them. They answer an update that the agent
    /// does not know ([relay.8]).
    in_force: SessionInfo,
    /// A message whose long members are being written to files, and the messages behind it.
    placing: Option<BoxFuture<'static, Option<AdapterMessage>>>,
    behind: VecDeque<(AdapterMessage, Class)>,
    /// Set if the end of a turn has reported the end of the process, to a hub that would read it
    /// twice.
    has_reported_exit: bool,
    /// The end of the session, for a hub that cannot know from it that the session has ended.
    end: Option<SessionClosed>,
    /// Set when the last message was put.
    is_over: bool,
}

impl HubSink {
    pub(crate) fn new(
        id: SessionId,
        hub: Recipient,
        has_notes: bool,
        folder: Option<PathBuf>,
        outlet: Outlet,
        common: Arc<RelayShared>,
    ) -> Self {
        Self {
            id,
            hub,
            has_notes,
            folder,
            outlet,
            common,
            order: TurnOrder::default(),
            unnamed: VecDeque::new(),
            in_force: SessionInfo::default(),
            placing: None,
            behind: VecDeque::new(),
            has_reported_exit: false,
            end: None,
            is_over: false,
        }
    }

    /// Returns true if the hub and the relay agreed on an extension.
    fn has_extension(&self, extension: Extensions) -> bool {
        self.hub.agreed.contains(extension)
    }

    /// Returns a message of a turn, with the turn's id if the hub knows it.
    fn message(
        &self,
        turn: Option<TurnId>,
        body: AdapterBody,
        meta: Option<Meta>,
    ) -> AdapterMessage {
        let is_shown =
            |turn: &TurnId| self.has_extension(Extensions::TURNS) && !self.unnamed.contains(turn);
        AdapterMessage {
            session_id: self.id.clone(),
            turn_id: turn.filter(is_shown),
            meta,
            large: None,
            body,
        }
    }

    /// Puts a message in the form that the hub knows ([ext.3]). Members of events that are too long
    /// for a line are passed in files if that was agreed on ([large.2]).
    fn put(&mut self, message: AdapterMessage, class: Class) {
        if self.is_over {
            return;
        }
        if self.placing.is_some() {
            return self.behind.push_back((message, class));
        }
        let Recipient {
            agreed, max_line, ..
        } = self.hub;
        let folder = self.folder.as_ref().filter(|_| class == Class::Event);
        match folder.filter(|_| wants_file(&message, agreed, max_line)) {
            Some(folder) => {
                let folder = folder.clone();
                self.placing = Some(Box::pin(async move {
                    place_large_aside(message, agreed, max_line, Some(&folder)).await
                }));
            }
            None => self.write(message, |line| self.outlet.put(line, class)),
        }
    }

    fn write(&self, message: AdapterMessage, put: impl FnMut(Vec<u8>)) {
        write_for(&self.id, &self.hub, message, &self.common.counters, put);
    }

    fn event(&mut self, turn: Option<TurnId>, body: AdapterBody, meta: Option<Meta>) {
        let message = self.message(turn, body, meta);
        self.put(message, Class::Event);
    }

    /// Puts the end of a turn.
    fn turn_end(&mut self, turn: Option<TurnId>, mut end: Box<TurnComplete>, meta: Option<Meta>) {
        if self.has_extension(Extensions::TURNS) {
            return self.event(turn, end.into(), meta);
        }
        // What the adapter itself reports stays whole.
        if let Some(cause) = &end.cause {
            self.has_reported_exit = EXIT_CAUSES.iter().any(|exit| exit.as_str() == cause);
            end.error.iter_mut().for_each(shorten);
        } else {
            self.has_reported_exit = false;
        }
        if let Some(end) = turn.and_then(|turn| self.order.end(&turn, end)) {
            self.event(None, end.into(), meta);
        }
    }

    /// Puts the end of the session ([session.8]).
    fn session_end(&mut self, mut closed: Box<SessionClosed>) {
        if self.has_extension(Extensions::CONTROL) {
            let message = self.message(None, closed.into(), None);
            self.write(message, |line| self.outlet.put_last(line));
            self.is_over = true;
        } else {
            closed.error.iter_mut().for_each(shorten);
            self.end = Some((*closed).clone());
            self.event(None, closed.into(), None);
        }
    }

    fn relay_entry(&mut self, turn: Option<TurnId>, body: RelayBody, meta: Option<Meta>) {
        match body {
            RelayBody::HostFact(fact) if fact.fact == Some(Fact::ProcessEnded) => {
                if !self.has_extension(Extensions::EVENTS)
                    && std::mem::take(&mut self.has_reported_exit)
                {
                    return;
                }
                let error = ErrorEvent {
                    category: Some(Category::ProcessExit),
                    message: fact.message.unwrap_or_default(),
                    fatal: Some(false),
                    ..ErrorEvent::default()
                };
                self.event(None, error.into(), meta);
            }
            RelayBody::RequestDecided(decided) if decided.by.is_none() => {
                let cancel = PermissionCancel {
                    request_id: decided.request_id,
                    reason: decided.reason,
                };
                self.event(turn, cancel.into(), meta);
            }
            RelayBody::FileDelivered(file) if self.has_notes => {
                self.note(turn, FileDelivered { by: None, ..file }.into());
            }
            RelayBody::HostFact(fact) if self.has_notes && fact.fact == Some(Fact::Stalled) => {
                self.note(turn, fact.into());
            }
            // Part of a journal only.
            _ => {}
        }
    }

    /// Puts a message that only a hub with `notes` knows ([relay.7]).
    fn note(&mut self, turn: Option<TurnId>, body: RelayBody) {
        if !self.is_over {
            let message = RelayMessage::new(self.id.clone(), body).of_turn(turn);
            self.outlet.put(message.to_line(), Class::Event);
        }
    }

    /// Passes on ends that were held, as far as there is room.
    fn release_ends(&mut self) {
        while self.placing.is_none()
            && self.outlet.has_room()
            && let Some(end) = self.order.next()
        {
            self.event(None, end.into(), None);
        }
    }
}

impl EntrySink for HubSink {
    fn begin_turn(&mut self, turn: &TurnId, is_named: bool) {
        if !self.has_extension(Extensions::TURNS) {
            self.order.begin(turn.clone());
        } else if !is_named {
            if self.unnamed.len() == MAX_UNNAMED_TURNS {
                self.unnamed.pop_front();
            }
            self.unnamed.push_back(turn.clone());
        }
    }

    fn entry(&mut self, turn: Option<TurnId>, body: EntryBody, meta: Option<Meta>) {
        let body = match body {
            EntryBody::Adapter(body) => body,
            EntryBody::Relay(body) => return self.relay_entry(turn, body, meta),
        };
        match body {
            AdapterBody::TurnComplete(end) => self.turn_end(turn, end, meta),
            AdapterBody::SessionClosed(closed) => self.session_end(closed),
            AdapterBody::SessionInfo(mut info) => {
                update_values(&mut self.in_force, &info);
                // The relay queues for every agent ([relay.8]).
                if let Some(modes) = &mut info.input_modes
                    && !modes.iter().any(|mode| mode == "queue")
                {
                    modes.insert(0, "queue".to_owned());
                }
                self.event(turn, info.into(), meta);
            }
            body => {
                // Unmarked, it would become part of the turn that runs now ([turn.9]).
                if !self.has_extension(Extensions::TURNS)
                    && turn.as_ref().is_some_and(|turn| !self.order.contains(turn))
                    && !self.order.is_empty()
                    && !matches!(body, AdapterBody::FileOutput(_))
                {
                    self.common.counters.late_output.add_one();
                    return tracing::debug!(session = %self.id, "late output is dropped");
                }
                self.event(turn, body, meta);
            }
        }
    }

    fn reply(&mut self, turn: Option<TurnId>, body: AdapterBody) -> bool {
        let body = match body {
            AdapterBody::TurnComplete(end) => match &self.end {
                // The hub has no other way to know that the session has ended ([session.8]).
                Some(closed) => {
                    let closed = Box::new(closed.clone());
                    let message = self.message(turn.clone(), closed.into(), None);
                    self.put(message, Class::Answer);
                    if self.has_extension(Extensions::TURNS) {
                        end.into()
                    } else {
                        Box::new(TurnComplete::default()).into()
                    }
                }
                None if !self.has_extension(Extensions::TURNS) => {
                    self.order.refuse(end);
                    self.release_ends();
                    return false;
                }
                None => end.into(),
            },
            AdapterBody::SessionInfo(info) if *info == SessionInfo::default() => {
                Box::new(self.in_force.clone()).into()
            }
            body => body,
        };
        let message = self.message(turn, body, None);
        self.put(message, Class::Answer);
        let holds_too_much = self.outlet.holds_too_much();
        if holds_too_much {
            self.outlet.flow(Flow::Resume);
        }
        holds_too_much
    }

    fn count_late_answer(&self) {
        self.common.counters.late.add_one();
    }

    fn read_members(
        &self,
        message: HostMessage,
    ) -> BoxFuture<'static, (HostMessage, Option<String>)> {
        let folder = self.folder.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || with_text(message, folder.as_deref()));
            match read.await {
                Ok(read) => read,
                // The runtime ends, and the relay with it.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn fits(&self, turn: Option<&TurnId>, body: &AdapterBody) -> bool {
        let message = self.message(turn.cloned(), body.clone(), None);
        self.hub.check(message).is_ok()
    }

    fn answers_questions(&self) -> bool {
        self.has_extension(Extensions::QUESTIONS)
    }

    fn has_room(&self) -> bool {
        !self.has_held() && self.outlet.has_room()
    }

    fn room(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                if let Some(placing) = &mut self.placing {
                    let placed = placing.await;
                    self.placing = None;
                    if let Some(message) = placed.filter(|_| !self.is_over) {
                        self.write(message, |line| self.outlet.put(line, Class::Event));
                    }
                    while self.placing.is_none()
                        && let Some((message, class)) = self.behind.pop_front()
                    {
                        self.put(message, class);
                    }
                }
                self.release_ends();
                if self.has_room() {
                    return;
                }
                if self.placing.is_none() {
                    self.outlet.room().await;
                }
            }
        })
    }

    fn has_held(&self) -> bool {
        self.placing.is_some() || self.order.has_next()
    }

    fn is_full(&self) -> bool {
        self.outlet.is_full()
    }

    fn pause(&mut self) {
        self.outlet.flow(Flow::Pause);
    }

    fn resume(&mut self) {
        self.outlet.flow(Flow::Resume);
    }

    fn knows_end(&self) -> bool {
        self.has_extension(Extensions::CONTROL)
    }

    fn drained(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.outlet.drained())
    }

    fn drop_held(&mut self) {
        if self.placing.take().is_some() {
            // What follows does not wait for a file that takes too long.
            self.common.counters.shortened.add_one();
            for (message, class) in std::mem::take(&mut self.behind) {
                self.write(message, |line| self.outlet.put(line, class));
            }
        }
        while !self.outlet.is_full()
            && let Some(end) = self.order.next()
        {
            self.event(None, end.into(), None);
        }
        while let Some(count) = self.order.drop_next() {
            self.common.counters.unanswered.add(count);
        }
    }

    fn close(&mut self) {
        self.is_over = true;
        self.outlet.purge();
    }
}

/// Removes from a hub's message what it did not agree on.
pub(crate) fn drop_unagreed(message: &mut HostMessage, agreed: Extensions) {
    let has_turns = agreed.contains(Extensions::TURNS);
    if !has_turns {
        message.turn_id = None;
    }
    let is_input = matches!(message.body, HostBody::UserInput(_));
    message.large = message.large.take().filter(|large| {
        is_input && agreed.contains(Extensions::LARGE) && large.contains_key("content")
    });
    match &mut message.body {
        HostBody::UserInput(input) => {
            if !has_turns {
                input.mode = None;
            }
            if !agreed.contains(Extensions::OPTIONS) {
                input.limits = None;
            }
        }
        HostBody::FileInput(file) if !agreed.contains(Extensions::LARGE) => {
            file.size = None;
            file.sha256 = None;
        }
        _ => {}
    }
}

/// Returns the message with its text, which is stored right in the hub's exchange folder; or the
/// message without it and the reason. Blocks on the file system.
fn with_text(mut message: HostMessage, folder: Option<&Path>) -> (HostMessage, Option<String>) {
    let large = message.large.take();
    let Some(member) = large.and_then(|mut large| large.remove("content")) else {
        return (message, None);
    };
    let read = |member: &LargeMember| {
        let folder = folder.ok_or_else(|| "the session has no exchange folder".to_owned())?;
        let json = take_json(folder, member).map_err(|error| error.to_string())?;
        filled(&message.body, &[("content".to_owned(), json)]).map_err(|why| why.to_string())
    };
    match read(&member) {
        Ok(body) => (HostMessage { body, ..message }, None),
        Err(why) => (message, Some(why)),
    }
}

/// Stores the reported values of the options that `session.update` can change.
fn update_values(in_force: &mut SessionInfo, info: &SessionInfo) {
    fn update<T: Clone>(value: &mut Option<T>, reported: &Option<T>) {
        if reported.is_some() {
            value.clone_from(reported);
        }
    }
    update(&mut in_force.model, &info.model);
    update(&mut in_force.reasoning_effort, &info.reasoning_effort);
    update(&mut in_force.mode, &info.mode);
    update(&mut in_force.permission_mode, &info.permission_mode);
    update(&mut in_force.allowed_tools, &info.allowed_tools);
    update(&mut in_force.denied_tools, &info.denied_tools);
    update(&mut in_force.options, &info.options);
}

/// Shortens a failure that the host made, for a hub that shows it as text in a conversation: of the
/// lines of stderr, which follow its first line, only the last one stays.
fn shorten(failure: &mut Failure) {
    let Some(message) = &mut failure.message else {
        return;
    };
    let last_line = failure
        .stderr
        .take()
        .and_then(|lines| lines.into_iter().rev().find(|line| !line.trim().is_empty()));
    let cut = |text: &str| text[..text.floor_char_boundary(MAX_FAILURE_TEXT / 2 - 1)].to_owned();
    *message = match (message.lines().next(), last_line) {
        (Some(first), Some(last)) => format!("{} {}", cut(first), cut(last.trim())),
        _ => message[..message.floor_char_boundary(MAX_FAILURE_TEXT)].to_owned(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(message: &str, stderr: Option<&[&str]>) -> String {
        let mut failure = Failure::new(Category::ProcessExit, message);
        failure.stderr = stderr.map(|lines| lines.iter().map(ToString::to_string).collect());
        shorten(&mut failure);
        assert_eq!(failure.stderr, None);
        failure.message.unwrap_or_default()
    }

    #[test]
    fn the_last_line_of_stderr_stays_and_the_text_is_bounded() {
        assert_eq!(shortened("it ended", None), "it ended");
        let told = format!(
            "it ended; its last words on stderr:\n{}the last\n\n",
            "noise\n".repeat(9)
        );
        assert_eq!(
            shortened(&told, Some(&["noise", "the last", " "])),
            "it ended; its last words on stderr: the last"
        );
        let wide = "\u{1F600}".repeat(9_000);
        for stderr in [None, Some(&[wide.as_str()][..])] {
            let text = shortened(&wide, stderr);
            assert!(
                (1000..=MAX_FAILURE_TEXT).contains(&text.len()),
                "{}",
                text.len()
            );
        }
    }
}
