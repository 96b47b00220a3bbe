//! Ends of turns and of sessions, folded down to what was agreed on ([ext.3], [session.4], [session.8]).

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, json};

use super::{AdapterPhase, AdapterSession, AdapterState};
use crate::{
    message::{Members, Message},
    negotiation::tells_native_ids,
    schema::ExtensionSet,
    switches::{Mutant::*, Variant::*, broken, varied},
    world::Memory,
};

/// The members of `turn.complete`, by their extension.
const OF_TURNS: [&str; 13] = [
    "status",
    "stop_reason",
    "error",
    "delivered",
    "exit_code",
    "signal",
    "summary",
    "artifacts",
    "result",
    "duration_ms",
    "num_turns",
    "model",
    "provider",
];
const OF_RESUME: [&str; 3] = ["native_session_id", "session_params", "clear_session"];

/// End of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnEnd {
    members: Members,
}

impl TurnEnd {
    /// An end with the members of a `turn.complete`.
    pub(crate) fn with(mut members: Members) -> Self {
        members
            .entry("status")
            .or_insert_with(|| json!("completed"));
        Self { members }
    }

    pub(crate) fn completed() -> Self {
        Self::with(Members::new())
    }

    pub(crate) fn stopped() -> Self {
        Self::from_value(json!({ "status": "stopped" }))
    }

    /// The end of a turn that was taken out of the queue.
    pub(crate) fn undelivered(reason: Option<String>) -> Self {
        Self::from_value(json!({ "status": "stopped", "delivered": "no" })).with_reason(reason)
    }

    pub(crate) fn failed(category: &str, message: &str) -> Self {
        let category = if broken(CategoryInvented) {
            "something_else"
        } else {
            category
        };
        Self::from_value(
            json!({ "status": "failed", "error": { "category": category, "message": message } }),
        )
    }

    /// Returns the end if the turn was stopped before it.
    pub(super) fn after_stop(self, reason: Option<String>) -> Self {
        if self.status() == "completed" {
            Self::stopped()
        } else {
            self
        }
        .with_reason(reason)
    }

    fn with_reason(mut self, reason: Option<String>) -> Self {
        let reason = reason.map(|reason| ("stop_reason".to_owned(), reason.into()));
        self.members.extend(reason);
        self
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.status() == "stopped"
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.status() == "failed"
    }

    fn from_value(members: Value) -> Self {
        match members {
            Value::Object(members) => Self::with(members),
            _ => Self::completed(),
        }
    }

    fn status(&self) -> &str {
        self.members
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or("completed")
    }

    fn failure(&self) -> Option<&str> {
        let said = self.members.get("error")?.get("message")?.as_str();
        Some(said.unwrap_or("the turn failed"))
    }
}

impl AdapterSession {
    /// Ends the session from this side ([session.8]).
    pub(crate) fn end(self: &Arc<Self>, reason: &str, error: Option<(&str, String)>) {
        let mut state = self.lock();
        if !state.is_open() {
            return;
        }
        let text = error.as_ref().map_or_else(
            || format!("the session has ended: {reason}"),
            |(_, text)| text.clone(),
        );
        let end = match (reason, &error) {
            ("finished", _) => TurnEnd::completed(),
            (_, Some((category, text))) => TurnEnd::failed(category, text),
            (_, None) => TurnEnd::failed("other", &text),
        };
        let error = error.map(|(category, text)| json!({ "category": category, "message": text }));
        let closed = Message::new("session.closed")
            .with("reason", reason)
            .with_some("error", error);
        let with_control = self.has(ExtensionSet::CONTROL);
        if with_control && broken(ClosedBeforeEnds) {
            self.send(&mut state, closed.clone());
        }
        let running = state.running.take();
        if let Some(running) = &running {
            self.end_tools(&mut state, &running.tools, &running.turn_id);
        }
        let idle = running.is_none();
        let queued: Vec<_> = state.queue.drain(..).collect();
        let queued = queued
            .into_iter()
            .map(|input| (input.turn_id, TurnEnd::failed("cancelled", &text)));
        for (turn_id, end) in running
            .map(|running| (running.turn_id, end))
            .into_iter()
            .chain(queued)
        {
            if with_control {
                self.send_end(&mut state, turn_id, end)
            } else {
                self.send_last(&mut state, turn_id, end, &text)
            }
        }
        state.queued_bytes = 0;
        state.settle(false);
        if with_control {
            if !broken(ClosedBeforeEnds) {
                self.send(&mut state, closed);
            }
            state.phase = AdapterPhase::Closed;
        } else {
            if idle && !broken(FailureSilent) {
                self.send(&mut state, Message::system(&text));
            }
            state.phase = AdapterPhase::Told(text);
        }
        // What a pause holds back is still owed, and its resume must find the session.
        let forget = with_control && state.pauses == 0;
        self.changed.notify_all();
        drop(state);
        if forget {
            self.process.forget(self);
        }
    }

    /// The host's last word ([session.4]).
    pub(crate) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        if broken(CloseCompletesRunning)
            && let Some(running) = &state.running
        {
            let turn_id = running.turn_id.clone();
            self.send_end(&mut state, turn_id, TurnEnd::stopped());
        }
        if broken(CloseCompletesIdle) && !state.ledger.has_inputs() {
            self.send_end(&mut state, None, TurnEnd::completed());
        }
        if broken(ReusedIdRemembers) {
            let values = state.values.clone();
            self.process
                .world
                .remember(self.id.clone(), Memory { values, cwd: None });
        }
        if self.has(ExtensionSet::RESUME) {
            self.process
                .world
                .remember(self.native_id.clone(), Self::memory(&mut state));
        }
        let said = broken(CloseCompletesRunning) || broken(CloseCompletesIdle);
        if said || broken(CloseReleasesPaused) {
            state.phase = AdapterPhase::Closed;
            state.pauses = 0;
            self.schedule(&mut state);
        } else {
            self.fall_silent(&mut state)
        }
        state.settle(broken(CloseKeepsRequests));
        drop(state);
        self.remove_folder();
    }

    /// Says nothing more, not even what waits.
    pub(super) fn fall_silent(&self, state: &mut AdapterState) {
        state.phase = AdapterPhase::Closed;
        if !broken(SpeaksAfterClose) {
            state.running = None;
            state.queue.clear();
            state.out.clear();
            state.out_bytes = 0;
            state.queued_bytes = 0;
        }
        state.pauses = 0;
        self.changed.notify_all();
    }

    /// The process ends: every turn is stopped ([process.1]).
    pub(crate) fn shut(self: &Arc<Self>) {
        let mut state = self.lock();
        let queued: Vec<_> = state.queue.drain(..).collect();
        self.stop_running(&mut state, Some("shutdown".to_owned()));
        for input in queued {
            self.send_end(
                &mut state,
                input.turn_id,
                TurnEnd::undelivered(Some("shutdown".to_owned())),
            );
        }
    }

    /// Returns the folder for files of this session: its exchange folder, or one of its own.
    pub(crate) fn folder(&self) -> std::io::Result<PathBuf> {
        let mut state = self.lock();
        if let Some(folder) = state
            .options
            .exchange_dir
            .clone()
            .or_else(|| text_of(state.folder.clone()?))
        {
            return Ok(PathBuf::from(folder));
        }
        let name = format!(
            "reference-adapter-{}-{}",
            std::process::id(),
            self.process.world.serial()
        );
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        state.folder = Some(folder.clone());
        Ok(folder)
    }

    /// Removes what it made, at the close and no sooner ([file.3]).
    pub(crate) fn remove_folder(&self) {
        let folder = self.lock().folder.take();
        if let Some(folder) = folder {
            // An earlier removal did the same.
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// Ends a turn of an ended session, in the only way that the host understands ([session.8]).
    pub(super) fn send_last(
        self: &Arc<Self>,
        state: &mut AdapterState,
        turn_id: Option<String>,
        end: TurnEnd,
        text: &str,
    ) {
        let told_by_the_end = end.failure().is_some() && !self.has(ExtensionSet::TURNS);
        if !told_by_the_end && !broken(FailureSilent) {
            self.send(state, Message::system(text).in_turn(turn_id.clone()));
        }
        self.send_end(state, turn_id, end);
    }

    /// Ends an input whose text could not be had ([large.3]).
    pub(crate) fn refuse_input(self: &Arc<Self>, turn_id: Option<String>, why: &str) {
        let mut state = self.lock();
        self.send_last(
            &mut state,
            turn_id,
            TurnEnd::failed("file_refused", why),
            why,
        );
    }

    /// Writes the end of a turn, with what was agreed on; the failure goes ahead of it otherwise ([ext.3]).
    pub(super) fn send_end(
        self: &Arc<Self>,
        state: &mut AdapterState,
        turn_id: Option<String>,
        mut end: TurnEnd,
    ) {
        if broken(StatusAlwaysCompleted) {
            end.members.insert("status".to_owned(), json!("completed"));
        }
        let with_turns = self.has(ExtensionSet::TURNS);
        if !with_turns
            && !broken(FailureSilent)
            && let Some(text) = end.failure()
        {
            self.send(state, Message::system(text).in_turn(turn_id.clone()));
        }
        let usage = self.has(ExtensionSet::USAGE);
        let resume = self.has(ExtensionSet::RESUME);
        let any = !self.agreed.names().is_empty();
        let status_to_all = broken(StatusToCore) || (broken(StatusToAny) && any);
        end.members.retain(|name, _| {
            (with_turns && OF_TURNS.contains(&name.as_str()))
                || (usage && name == "usage")
                || (resume && OF_RESUME.contains(&name.as_str()))
                || (status_to_all && name == "status")
        });
        if resume && tells_native_ids() {
            end.members
                .entry("native_session_id")
                .or_insert_with(|| self.native_id.clone().into());
        }
        if resume && varied(ResumesByParams) {
            let params = json!({ "from": self.native_id });
            end.members.entry("session_params").or_insert(params);
        }
        let complete = Message::with_members("turn.complete", end.members)
            .in_turn(turn_id.filter(|_| with_turns));
        if broken(DoubleEnd) {
            self.send(state, complete.clone());
        }
        self.send(state, complete);
    }
}

fn text_of(folder: PathBuf) -> Option<String> {
    folder.into_os_string().into_string().ok()
}
