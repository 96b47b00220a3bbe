//! A turn, as the thread that serves it uses it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{AdapterSession, HostReply, ROOM, TurnAbort, WaitingRequest};
use crate::{
    message::Message,
    schema::ExtensionSet,
    switches::{Mutant::*, Variant::*, broken, varied},
    world::Values,
};

/// A turn that runs.
#[derive(Debug)]
pub(crate) struct AdapterTurn {
    pub(crate) session: Arc<AdapterSession>,
    pub(crate) turn_id: Option<String>,
    pub(super) serial: u64,
}

impl AdapterTurn {
    /// Checks that it may continue.
    pub(crate) fn over(&self) -> Result<(), TurnAbort> {
        self.session.lock().going(self.serial)
    }

    /// Sends a message of this turn, once there is room ([flow.3]).
    pub(crate) fn emit(&self, message: Message) -> Result<(), TurnAbort> {
        let mut state = self.session.lock();
        loop {
            match state.going(self.serial) {
                Err(TurnAbort::Stopped) if broken(BurstIsDeaf) => {}
                going => going?,
            }
            if state.out_bytes <= ROOM || broken(PauseUnbounded) || broken(DropsWhenFull) {
                break;
            }
            state = self.session.wait(state, None);
        }
        if let Some(running) = &mut state.running {
            running.outputs += usize::from(message.kind == "output");
        }
        let left_out = broken(OutputWithoutTurnId) && message.kind == "output";
        let message = if left_out {
            message
        } else {
            message.in_turn(self.turn_id.clone())
        };
        self.session.send(&mut state, message);
        Ok(())
    }

    /// Sends what is marked as history and belongs to no turn.
    pub(crate) fn emit_outside(&self, message: Message) -> Result<(), TurnAbort> {
        let mut state = self.session.lock();
        state.going(self.serial)?;
        self.session.send(&mut state, message);
        Ok(())
    }

    /// Does nothing for a time.
    pub(crate) fn rest(&self, time: Duration) -> Result<(), TurnAbort> {
        let until = Instant::now() + time;
        let mut state = self.session.lock();
        loop {
            state.going(self.serial)?;
            if Instant::now() >= until {
                return Ok(());
            }
            state = self.session.wait(state, Some(until));
        }
    }

    /// Sends a request under an id of its own, and lets it wait.
    pub(crate) fn request(
        &self,
        request: WaitingRequest,
        message: Message,
    ) -> Result<String, TurnAbort> {
        let serial = self.session.process.world.serial();
        let mut state = self.session.lock();
        loop {
            state.going(self.serial)?;
            if state.out_bytes <= ROOM {
                break;
            }
            state = self.session.wait(state, None);
        }
        let request_id = match () {
            () if broken(RequestIdsRepeat) => "r-1".to_owned(),
            () if broken(RequestIdsRestart) => state.free_request_id(false),
            () if varied(IdsAgain) => state.free_request_id(true),
            () => format!("r-{serial}"),
        };
        let message = message
            .with("request_id", request_id.as_str())
            .in_turn(self.turn_id.clone());
        state.requests.insert(request_id.clone(), request);
        self.session.send(&mut state, message);
        Ok(request_id)
    }

    /// Takes a request back ([permission.2]). False where it is settled already.
    pub(crate) fn withdraw(&self, request_id: &str, reason: &str) -> bool {
        let mut state = self.session.lock();
        let Some(request) = state.requests.remove(request_id) else {
            return false;
        };
        if broken(CancelledApprovalActs) {
            state.keep_effect(request_id, request);
        }
        if !self.has(ExtensionSet::CONTROL) {
            state.owe(request_id);
        } else {
            let cancel = Message::new("permission.cancel")
                .with("request_id", request_id)
                .with("reason", reason);
            self.session
                .send(&mut state, cancel.in_turn(self.turn_id.clone()));
        }
        true
    }

    /// Takes an answer to one of its requests. Without a time, waits as long as it takes.
    pub(crate) fn next_answer(
        &self,
        until: Option<Instant>,
    ) -> Result<Option<(String, HostReply)>, TurnAbort> {
        let guess = broken(EndsBySilence).then(|| Instant::now() + Duration::from_secs(1));
        let until = guess.or(until);
        let mut state = self.session.lock();
        loop {
            let going = state.going(self.serial);
            if !(going == Err(TurnAbort::Stopped)
                && broken(QuestionOutlivesStop)
                && !state.requests.is_empty())
            {
                going?;
            }
            if let Some(answer) = state
                .running
                .as_mut()
                .and_then(|running| running.answers.pop_front())
            {
                return Ok(Some(answer));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return if guess.is_some() {
                    Err(TurnAbort::Stopped)
                } else {
                    Ok(None)
                };
            }
            state = self.session.wait(state, until);
        }
    }

    /// Keeps the ledger of its tool calls; false where a message of theirs is out of place ([ext.5]).
    pub(crate) fn note_tool(&self, kind: &str, tool_call_id: &str) -> bool {
        let mut state = self.session.lock();
        let Some(running) = &mut state.running else {
            return false;
        };
        match kind {
            "tool.start" => running.tools.insert(tool_call_id.to_owned()),
            "tool.end" => running.tools.remove(tool_call_id),
            _ => true,
        }
    }

    /// Works on what the session keeps.
    pub(crate) fn with_values<T>(&self, work: impl FnOnce(&mut Values) -> T) -> T {
        if broken(SharedValues) {
            return work(&mut self.session.process.world.shared_values());
        }
        work(&mut self.session.lock().values)
    }

    pub(crate) fn has(&self, extension: ExtensionSet) -> bool {
        self.session.has(extension)
    }
}
