//! Requests of the agent: the first answer decides, and a later one learns of it ([journal.6]).
//!
//! An answer is stored before the agent has it. If the request is settled in between, by a stop say, the agent does not
//! get the answer, and a further decision in the journal says so.

use trunkline_host::Permission;
use trunkline_protocol::{
    InputResponse, Json, Meta, PermissionResponse, RelayBody, RequestDecided, RequestId,
    StopReason, TurnId, rules::approves,
};

use super::{Live, Pending, Then};
use crate::tail::ListenerNo;

impl Live {
    pub(super) fn permission(&mut self, by: ListenerNo, response: PermissionResponse) {
        match self.pending.remove(&response.request_id) {
            Some(Pending::Permission(permission)) => {
                // As the host judges it: an option that contradicts the approval denies ([ext.5]).
                let offered = permission.request().options.as_deref().unwrap_or_default();
                let approved = approves(response.approved, response.option_id.as_deref(), offered);
                let decided = RequestDecided {
                    approved: Some(approved),
                    option_id: response.option_id.clone(),
                    reason: response.reason,
                    ..decided(&response.request_id, self.name(by))
                };
                self.decide(decided, permission, response);
            }
            // Not what was asked: no one has decided, and that denies.
            Some(Pending::Question(question)) => {
                let decided = RequestDecided {
                    cancelled: Some(true),
                    ..decided(&response.request_id, self.name(by))
                };
                self.note(self.running.clone(), decided, None);
                question.cancel();
            }
            None => self.tell_decided(by, &response.request_id),
        }
    }

    fn decide(
        &mut self,
        decided: RequestDecided,
        permission: Permission,
        response: PermissionResponse,
    ) {
        let turn = self.asked_in(&decided.request_id);
        let is_approved = decided.approved == Some(true);
        self.note(self.running.clone(), decided, None);
        if is_approved {
            self.recorder.then(Then::Decide(turn, permission, response));
        } else {
            // A denial waits for no store.
            permission.respond(response);
        }
    }

    pub(super) fn question(&mut self, by: ListenerNo, response: InputResponse) {
        match self.pending.remove(&response.request_id) {
            Some(Pending::Question(question)) => {
                let secrets = secret_fields(question.request());
                let hidden = Json::of(&serde_json::json!({"redacted": true})).ok();
                let values = response.values.clone().map(|values| {
                    let shown = values.into_iter().filter_map(|(field, value)| {
                        match secrets.contains(&field) {
                            true => Some((field, hidden.clone()?)),
                            false => Some((field, value)),
                        }
                    });
                    shown.collect()
                });
                let decided = RequestDecided {
                    values,
                    cancelled: response.cancelled,
                    ..decided(&response.request_id, self.name(by))
                };
                let turn = self.asked_in(&decided.request_id);
                self.note(self.running.clone(), decided, None);
                self.recorder.then(Then::Reply(turn, question, response));
            }
            Some(Pending::Permission(permission)) => {
                let decided = RequestDecided {
                    approved: Some(false),
                    ..decided(&response.request_id, self.name(by))
                };
                self.note(self.running.clone(), decided, None);
                permission.deny();
            }
            None => self.tell_decided(by, &response.request_id),
        }
    }

    /// Tells one who answers too late what was decided before, and by whom.
    fn tell_decided(&mut self, by: ListenerNo, request_id: &RequestId) {
        if let Some(decided) = self.last_decision(request_id).cloned() {
            let told = self.line(None, RelayBody::from(decided));
            // The decision may not be stored yet.
            self.tell_stored(by, told);
        }
    }

    fn last_decision(&self, request_id: &RequestId) -> Option<&RequestDecided> {
        self.decided
            .iter()
            .rev()
            .find(|decided| decided.request_id == *request_id)
    }

    /// The turn that an open request was asked in.
    fn asked_in(&self, request_id: &RequestId) -> Option<TurnId> {
        let open = self
            .facts
            .open
            .requests
            .iter()
            .find(|open| open.id.0 == *request_id)?;
        open.turn.as_ref().map(|turn| turn.0.clone())
    }

    /// The host settled a request without an answer of ours, which comes too late if it is under way.
    pub(super) fn withdrawn(
        &mut self,
        request_id: &RequestId,
        reason: StopReason,
        turn: Option<TurnId>,
        meta: Option<Meta>,
    ) {
        self.pending.remove(request_id);
        let is_it = |then: &Then| match then {
            Then::Decide(_, permission, _) => permission.request().request_id == *request_id,
            Then::Reply(_, question, _) => question.request().request_id == *request_id,
            Then::Send(..) | Then::Steer(_) | Then::Tell(..) => false,
        };
        // Dropped, it answers a request that is settled, which is ignored.
        self.recorder.take_back(is_it);
        let is_open = self
            .facts
            .open
            .requests
            .iter()
            .any(|open| open.id.0 == *request_id);
        let approved = match self.last_decision(request_id).filter(|_| !is_open) {
            None => None,
            Some(decided) if decided.approved == Some(true) => Some(false),
            Some(decided) if decided.values.is_some() => None,
            // What is stored is what the agent got.
            Some(_) => return,
        };
        let decided = RequestDecided {
            approved,
            cancelled: Some(true),
            reason: Some(reason),
            ..bare(request_id)
        };
        self.note(turn, decided, meta);
    }

    /// Takes back the answers of a turn, or of all, that are not stored yet. What stops the turn denies their requests and
    /// does not wait for the journal ([journal.11]), so that a further decision takes the place of each.
    pub(super) fn revoke(&mut self, turn: Option<&TurnId>, reason: StopReason) {
        let is_meant = |of: &Option<TurnId>| turn.is_none() || of.as_ref() == turn;
        let revoked = self.recorder.take_back(
            |then| matches!(then, Then::Decide(of, ..) | Then::Reply(of, ..) if is_meant(of)),
        );
        for then in revoked {
            let (turn, request_id, approved) = match then {
                Then::Decide(turn, permission, _) => {
                    (turn, permission.request().request_id.clone(), Some(false))
                }
                Then::Reply(turn, question, _) => {
                    (turn, question.request().request_id.clone(), None)
                }
                Then::Send(..) | Then::Steer(_) | Then::Tell(..) => continue,
            };
            let decided = RequestDecided {
                approved,
                cancelled: Some(true),
                reason: Some(reason),
                ..bare(&request_id)
            };
            self.note(turn, decided, None);
        }
    }

    /// Writes that open requests are settled.
    pub(super) fn settle_all(&mut self, reason: StopReason) {
        self.pending.clear();
        self.revoke(None, reason);
        for request in std::mem::take(&mut self.facts.open.requests) {
            let decided = RequestDecided {
                cancelled: Some(true),
                reason: Some(reason),
                ..bare(&request.id.0)
            };
            self.note(request.turn.map(|turn| turn.0), decided, None);
        }
    }
}

fn bare(request: &RequestId) -> RequestDecided {
    RequestDecided {
        request_id: request.clone(),
        approved: None,
        option_id: None,
        values: None,
        cancelled: None,
        reason: None,
        by: None,
    }
}

fn decided(request: &RequestId, by: String) -> RequestDecided {
    RequestDecided {
        by: Some(by),
        ..bare(request)
    }
}

/// The fields of a question whose answers are not kept.
fn secret_fields(request: &trunkline_protocol::InputRequest) -> Vec<String> {
    let fields = request.fields.iter().flatten();
    fields
        .filter(|field| field.kind == Some(trunkline_protocol::FieldKind::Secret))
        .map(|field| field.id.clone())
        .collect()
}
