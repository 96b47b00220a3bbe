//! Permission requests and questions that wait for their answer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::oneshot;
use trunkline_protocol::{
    AdapterBody, Category, ErrorEvent, Extensions, InputResponse, Json, PermissionCancel,
    PermissionOption, PermissionResponse, RequestId, StopReason,
    rules::{self, RequestPhase, RequestRule, RequestStep, TurnPhase},
};

use super::core::{Core, Inner};
use crate::permission::{UNCHANGEABLE, changes};
use crate::{Answer, Decision, Permission, Question};

/// Numbers the requests of the whole process, so that no two ids are ever the same.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A request without an answer yet.
#[derive(Debug)]
pub(super) struct Pending {
    id: RequestId,
    /// The turn that settles it by its end.
    turn: Option<u64>,
    waiter: Waiter,
}

#[derive(Debug)]
enum Waiter {
    Permission(oneshot::Sender<Decision>, AnswerCriteria),
    Question(oneshot::Sender<Answer>),
}

/// Criteria for an answer.
#[derive(Debug)]
struct AnswerCriteria {
    options: Vec<PermissionOption>,
    input: Option<Json>,
}

impl Waiter {
    /// Settles it without an answer. The waiting side may have gone.
    fn deny(self, reason: Option<StopReason>) {
        match self {
            Self::Permission(waiter, _) => drop(waiter.send(Decision::denied(reason))),
            Self::Question(waiter) => drop(waiter.send(Answer::cancelled())),
        }
    }
}

impl Core {
    /// Asks, and waits for the answer or for what settles it ([permission.3]). Dropping it withdraws.
    pub(crate) async fn ask_permission(
        self: &Arc<Self>,
        turn: Option<u64>,
        permission: Permission,
    ) -> Decision {
        let id = next_id("p");
        let request = permission.into_request(id.clone());
        let asked = AnswerCriteria {
            options: request.options.clone().unwrap_or_default(),
            input: request.input.clone(),
        };
        let (waiter, answer) = oneshot::channel();
        let waiter = Waiter::Permission(waiter, asked);
        let Some(_withdraw) = self.open(id, turn, waiter, request.into()) else {
            return Decision::denied(Some(StopReason::Stopped));
        };
        answer.await.unwrap_or_default()
    }

    /// Asks for values, and waits likewise. Cancelled at once where the host cannot ask ([ext.3]).
    pub(crate) async fn ask(self: &Arc<Self>, turn: Option<u64>, question: Question) -> Answer {
        let id = next_id("q");
        let request = question.into_request(id.clone());
        if !self.agreed.contains(Extensions::QUESTIONS) {
            let mut inner = self.lock();
            if let Some(turn_id) = inner.speaks_for(turn) {
                self.send(turn_id, request.into());
            }
            return Answer::cancelled();
        }
        let (waiter, answer) = oneshot::channel();
        let Some(_withdraw) = self.open(id, turn, Waiter::Question(waiter), request.into()) else {
            return Answer::cancelled();
        };
        answer.await.unwrap_or_else(|_| Answer::cancelled())
    }

    fn open(
        self: &Arc<Self>,
        id: RequestId,
        turn: Option<u64>,
        waiter: Waiter,
        request: AdapterBody,
    ) -> Option<Withdraw> {
        let mut inner = self.lock();
        if inner
            .running
            .as_ref()
            .is_some_and(|r| turn == Some(r.serial) && r.phase == TurnPhase::Stopping)
        {
            return None;
        }
        let turn_id = inner.speaks_for(turn)?;
        // What cannot be shown to anyone is not asked: it is denied, or cancelled.
        if !self.try_send(self.message(turn_id, request)) {
            return None;
        }
        inner.requests.push(Pending {
            id: id.clone(),
            turn,
            waiter,
        });
        Some(Withdraw {
            core: self.clone(),
            id,
            turn,
        })
    }

    /// Settles a permission request with the host's answer. Only the first one counts
    /// ([permission.4]).
    pub(crate) fn answer_permission(&self, mut response: PermissionResponse) {
        if !self.agreed.contains(Extensions::CONTROL) {
            let PermissionResponse {
                request_id,
                approved,
                reason,
                ..
            } = response;
            let reason = reason.filter(|_| self.agreed.contains(Extensions::TURNS));
            response = PermissionResponse {
                approved,
                reason,
                ..denial(request_id)
            };
        }
        let mut inner = self.lock();
        inner.note_answer(&response);
        let is_it = |pending: &Pending| {
            pending.id == response.request_id && matches!(pending.waiter, Waiter::Permission(..))
        };
        let Some(Pending {
            waiter: Waiter::Permission(waiter, asked),
            turn,
            ..
        }) = inner.settle(RequestStep::Answer, is_it)
        else {
            return tracing::debug!(session = %self.id, "an answer without a waiting request is ignored");
        };
        let changed = changes(response.updated_input.as_ref(), asked.input.as_ref());
        let decision = if response.approved && changed && !self.ground.takes_updated_input {
            if let Some(turn_id) = inner.speaks_for(turn) {
                let category = Some(Category::PermissionDenied);
                let message = UNCHANGEABLE.to_owned();
                let fatal = Some(false);
                self.send(
                    turn_id,
                    ErrorEvent {
                        category,
                        message,
                        fatal,
                        ..ErrorEvent::default()
                    }
                    .into(),
                );
            }
            Decision::unchangeable(response.reason)
        } else {
            Decision::from_response(response, &asked.options)
        };
        drop(waiter.send(decision));
    }

    /// The host's answer to a question.
    pub(crate) fn answer_question(&self, response: InputResponse) {
        let is_it = |pending: &Pending| {
            pending.id == response.request_id && matches!(pending.waiter, Waiter::Question(_))
        };
        let settled = self.lock().settle(RequestStep::Answer, is_it);
        if let Some(Pending {
            waiter: Waiter::Question(waiter),
            ..
        }) = settled
        {
            drop(waiter.send(Answer::from_response(response)));
        }
    }
}

impl Inner {
    /// Takes a request out, if the rules let this step settle it.
    fn settle(&mut self, step: RequestStep, is_it: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let at = self.requests.iter().position(is_it);
        let phase = if at.is_some() {
            RequestPhase::Pending
        } else {
            RequestPhase::Settled
        };
        match rules::request(phase, step) {
            RequestRule::Settle => at.map(|at| self.requests.remove(at)),
            RequestRule::Open | RequestRule::Reject | RequestRule::Ignore => None,
        }
    }

    /// Settles as denied everything that a turn asked for, or with no turn named, everything.
    pub(super) fn deny_requests(&mut self, turn: Option<u64>, reason: Option<StopReason>) {
        while let Some(pending) = self.settle(RequestStep::Deny, |pending| {
            turn.is_none() || pending.turn == turn
        }) {
            pending.waiter.deny(reason);
        }
    }
}

/// Withdraws a request that is dropped before it is answered.
struct Withdraw {
    core: Arc<Core>,
    id: RequestId,
    turn: Option<u64>,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let mut inner = self.core.lock();
        if inner
            .settle(RequestStep::Withdraw, |pending| pending.id == self.id)
            .is_some()
            && let Some(turn_id) = inner.speaks_for(self.turn)
        {
            let cancel = PermissionCancel {
                request_id: self.id.clone(),
                reason: None,
            };
            self.core.send(turn_id, cancel.into());
        }
    }
}

fn denial(request_id: RequestId) -> PermissionResponse {
    PermissionResponse::new(request_id, false)
}

fn next_id(prefix: &str) -> RequestId {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    RequestId::new(format!("{prefix}{number}")).expect("a letter and a number are an id")
}
