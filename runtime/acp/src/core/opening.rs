//! How sessions open and end, and what their agents declare of themselves.

use std::{mem, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_protocol::{
    AttachRefusal, ClosedReason, SessionAttached, SessionId, SessionInfo, SessionRefused,
    SessionState,
};

use super::{Core, turns::failure};
use crate::{
    rpc::{Code, Refusal},
    session::{Change, Phase},
};

/// How long after a refusal a session is attached again, which moves to another host.
const AGAIN: Duration = Duration::from_millis(200);

/// For how long, where no host serves it: the lease of a host that is gone has ended then.
const UNSERVED: Duration = Duration::from_secs(60);

impl Core {
    /// What the agent declares of itself.
    pub(super) fn declared(&mut self, id: &SessionId, info: &SessionInfo) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        let before = known.facts.clone();
        known.facts.take(info);
        // One answer is for one change. The host's own is empty, where it refuses one: the values stay.
        let is_told = |change: &Change| {
            change.setting.told(info).is_some() || *info == SessionInfo::default()
        };
        let is_told = known.changes.front().is_some_and(is_told);
        let change = is_told.then(|| known.changes.pop_front()).flatten();
        let answer = change.map(|change| {
            let error = known.error.take();
            let told = known.facts.value(change.setting).unwrap_or_default();
            let result = match change.value == told {
                true if change.lists => Ok(json!({ "configOptions": known.facts.options() })),
                true => Ok(json!({})),
                false => {
                    Err(Refusal::params(error.unwrap_or_else(|| {
                        format!("the agent stays with {told:?}")
                    })))
                }
            };
            (change.id, result)
        });
        let facts = &known.facts;
        let is_open = known.is_open();
        let mut news = Vec::new();
        if is_open {
            let changed = |new: Option<Value>, old: Option<Value>| {
                new.filter(|new| old.as_ref() != Some(new))
            };
            if known.shows_modes {
                news.extend(changed(facts.mode_update(), before.mode_update()));
            }
            let options = facts.options_update();
            news.extend((options != before.options_update()).then_some(options));
            news.extend(changed(facts.commands_update(), before.commands_update()));
            news.extend(changed(facts.title_update(), before.title_update()));
        }
        for update in news {
            self.update(id, &update);
        }
        if let Some((waiting, result)) = answer {
            self.answer(&waiting, result);
        }
        let says_all =
            info.options_applied.is_some() || info.models.is_some() || info.modes.is_some();
        let starts = self.sessions.get(id).map(|known| &known.phase);
        if says_all && matches!(starts, Some(Phase::Starting { opened: true, .. })) {
            self.has_opened(id);
        }
    }

    /// A new session is open for the client.
    pub(super) fn has_opened(&mut self, id: &SessionId) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        let Phase::Starting { id: waiting, .. } = mem::replace(&mut known.phase, Phase::Open)
        else {
            return;
        };
        let mut told = known.opened();
        told.insert("sessionId".to_owned(), id.as_str().into());
        self.answer(&waiting, Ok(told.into()));
        self.tell_rest(id);
    }

    /// Tells what the answer to the opening has no room for.
    fn tell_rest(&mut self, id: &SessionId) {
        let Some(known) = self.sessions.get(id) else {
            return;
        };
        let facts = &known.facts;
        let rest = [
            facts.commands_update(),
            facts.title_update(),
            facts.usage_update(),
        ];
        for update in rest.into_iter().flatten() {
            self.update(id, &update);
        }
    }

    pub(super) fn attached(&mut self, id: &SessionId, attached: &SessionAttached) {
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        known.epoch = known.epoch.or(Some(attached.epoch));
        known.unserved = None;
        let Phase::Joining(joining) = &mut known.phase else {
            return;
        };
        joining.last = Some(attached.last_seq);
        joining
            .open
            .extend(attached.requests.iter().flatten().cloned());
        if attached.state == Some(SessionState::Closed) {
            // It can be read, and says so when it is asked for more.
            tracing::debug!("the session {id} is closed");
        }
    }

    /// Opens a session whose history has come.
    pub(super) fn caught_up(&mut self, id: &SessionId, now: Instant) {
        let _ = now;
        let Some(known) = self.sessions.get_mut(id) else {
            return;
        };
        let is_there = match &known.phase {
            Phase::Joining(joining) => joining.last.is_some_and(|last| known.seq >= last),
            Phase::Starting { .. } | Phase::Open => false,
        };
        if !is_there {
            return;
        }
        let Phase::Joining(joining) = mem::replace(&mut known.phase, Phase::Open) else {
            return;
        };
        let told = known.opened();
        self.answer(&joining.id, Ok(told.into()));
        self.tell_rest(id);
        for body in joining.to_ask {
            self.requested(id, body);
        }
    }

    pub(super) fn closed(
        &mut self,
        id: &SessionId,
        reason: Option<ClosedReason>,
        error: Option<&trunkline_protocol::Failure>,
    ) {
        let Some(known) = self.sessions.get(id) else {
            return;
        };
        if matches!(known.phase, Phase::Joining(_)) {
            // Its history can be read.
            return;
        }
        let mut why = failure(error);
        if error.and_then(|error| error.message.as_ref()).is_none() {
            why.message = "the session has ended".to_owned();
        }
        if reason == Some(ClosedReason::UnknownAgent) {
            why.code = Code::InvalidParams;
        }
        if let Phase::Starting { id: waiting, .. } = &known.phase {
            let waiting = waiting.clone();
            self.answer(&waiting, Err(why.clone()));
        }
        self.forget(id, &why);
    }

    pub(super) fn refused(&mut self, id: &SessionId, refused: &SessionRefused, now: Instant) {
        if refused.reason == Some(AttachRefusal::Unavailable)
            && let Some(known) = self.sessions.get_mut(id).filter(|known| known.was_there())
        {
            // It moves to another host.
            let since = known.unserved.map_or(now, |(since, _)| since);
            if now - since < UNSERVED {
                known.unserved = Some((since, Some(now + AGAIN)));
                return;
            }
        }
        let code = match refused.reason {
            Some(AttachRefusal::Unknown | AttachRefusal::Gone | AttachRefusal::Forbidden) => {
                Code::NotFound
            }
            _ => Code::Internal,
        };
        let why = refused
            .message
            .clone()
            .unwrap_or_else(|| "the host refuses the session".to_owned());
        let why = Refusal::new(code, why);
        let waiting = match self.sessions.get(id).map(|known| &known.phase) {
            Some(Phase::Starting { id, .. }) => Some(id.clone()),
            Some(Phase::Joining(joining)) => Some(joining.id.clone()),
            Some(Phase::Open) | None => None,
        };
        self.forget(id, &why);
        if let Some(waiting) = waiting {
            self.answer(&waiting, Err(why));
        }
    }
}
