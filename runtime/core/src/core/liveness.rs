//! Liveness of the process: a `ping` after a silence, and a suspicion if it is not answered.
//! Nothing is ended for it: a deadline does that.

use std::time::{Duration, Instant};

use trunkline_protocol::{
    Extensions, HostMessage, Json, Ping, RequestId, SessionId, SessionsList, SessionsListResult,
};

use super::{Core, Counter, Effect, Key};

/// Timeout of the answer to a `ping`. The protocol gives an adapter 1 s; machines are busy.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Liveness of the running process.
///
/// ```text
///          `ping_after` without a byte         `ANSWER_WAIT` without a byte
/// Heard ──────────────────────────────▶ Asked ──────────────────────────────▶ Suspected
///   ▲                                     │ any byte                              │ any byte
///   └─────────────────────────────────────┴───────────────────────────────────────┘
/// ```
///
/// While a request waits for an answer it stays in Heard: the adapter may wait, too.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// True if a session agreed on `control`, so that a `ping` is understood ([ext.9]).
    knows_ping: bool,
    /// When a byte came last, or the rest ended.
    heard: Option<Instant>,
    /// Since when a `ping` waits for its answer.
    asked: Option<Instant>,
    is_suspected: bool,
    /// Number of pings sent.
    pings: u64,
    /// Requests for a list of the agent's sessions without an answer. The host limits their number.
    lists: Vec<RequestId>,
}

impl Liveness {
    /// When something is due of it.
    pub(super) fn ends_at(&self, ping_after: Option<Duration>) -> Option<Instant> {
        let ping_after = ping_after.filter(|_| self.knows_ping)?;
        match self.asked {
            None => self.heard.map(|heard| heard + ping_after),
            Some(asked) => (!self.is_suspected).then_some(asked + ANSWER_WAIT),
        }
    }

    /// Returns the time for which an answer has been overdue, if the process is suspected.
    pub(super) fn suspected_for(&self, now: Instant) -> Option<Duration> {
        self.asked
            .filter(|_| self.is_suspected)
            .map(|asked| now.saturating_duration_since(asked))
    }

    /// Moves its deadlines by a standstill of the host.
    pub(super) fn postpone(&mut self, by: Duration) {
        for since in [&mut self.heard, &mut self.asked].into_iter().flatten() {
            *since += by;
        }
    }

    /// Returns true if a `pong` may come.
    pub(super) fn was_pinged(&self) -> bool {
        self.pings > 0
    }
}

impl Core {
    /// Asks the process for the sessions that its agent keeps ([ext.9]). Returns false if the
    /// session of this key has not agreed on `resume`, and nothing is written.
    pub fn handle_list(&mut self, key: Key, list: SessionsList) -> bool {
        let index = self.index_of(key);
        let session = index.and_then(|index| self.get(index));
        let agreed = session
            .and_then(|session| session.agreed)
            .unwrap_or_default();
        if !agreed.contains(Extensions::RESUME) {
            return false;
        }
        self.process.liveness.lists.push(list.request_id.clone());
        let message = HostMessage::new(SessionId::none(), list);
        self.effect(Effect::WritePipe(message));
        true
    }

    /// Returns true if answers to [`Core::handle_list`] may come.
    pub(super) fn is_list_open(&self) -> bool {
        !self.process.liveness.lists.is_empty()
    }

    /// Takes an answer to [`Core::handle_list`].
    pub(super) fn listed(&mut self, result: SessionsListResult) {
        let lists = &mut self.process.liveness.lists;
        match lists.iter().position(|id| *id == result.request_id) {
            Some(at) => {
                lists.swap_remove(at);
                self.effect(Effect::Listed(Box::new(result)));
            }
            None => self.count(Counter::UnknownType),
        }
    }

    /// Bytes of the process have come, whatever they are: a sign of life.
    #[inline]
    pub fn handle_bytes(&mut self, now: Instant) {
        let liveness = &mut self.process.liveness;
        liveness.heard = Some(now);
        liveness.asked = None;
        if std::mem::take(&mut liveness.is_suspected) {
            self.effect(Effect::Trusted);
        }
    }

    /// A session has agreed on these.
    pub(super) fn agreed_on(&mut self, agreed: Extensions) {
        self.process.liveness.knows_ping |= agreed.contains(Extensions::CONTROL);
    }

    /// Asks a silent process for a sign of life, or suspects one that gave none.
    pub(super) fn liveness_timeout(&mut self, now: Instant) {
        let rests = self.pending.requests > 0;
        let liveness = &mut self.process.liveness;
        if rests {
            // Silence counts from the end of the rest.
            liveness.heard = Some(now);
        } else if liveness.asked.is_none() {
            liveness.asked = Some(now);
            liveness.pings += 1;
            let nonce = Json::from_serialize(&liveness.pings).ok();
            let message = HostMessage::new(SessionId::none(), Ping { nonce });
            self.effect(Effect::WritePipe(message));
        } else {
            liveness.is_suspected = true;
            let silent_for = liveness
                .heard
                .map_or(ANSWER_WAIT, |heard| now.saturating_duration_since(heard));
            self.effect(Effect::Suspected { silent_for });
            for index in self.indices() {
                self.tell_stall(index, now);
            }
        }
    }
}
