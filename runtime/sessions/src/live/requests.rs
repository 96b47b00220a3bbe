//! Requests of the agent: the first answer decides, and a later one learns of it ([journal.6]).

use trunkline_host::Permission;
use trunkline_protocol::{
    InputResponse, Json, PermissionResponse, RelayBody, RequestDecided, RequestId, StopReason,
};

use super::{Live, Pending, Then, name};
use crate::tail::ListenerNo;

impl Live {
    pub(super) fn permission(&mut self, by: ListenerNo, response: PermissionResponse) {
        match self.pending.remove(&response.request_id) {
            Some(Pending::Permission(permission)) => {
                let decided = RequestDecided {
                    approved: Some(response.approved),
                    option_id: response.option_id.clone(),
                    reason: response.reason,
                    ..decided(&response.request_id, by)
                };
                self.decide(decided, permission, response);
            }
            // Not what was asked: no one has decided, and that denies.
            Some(Pending::Question(question)) => {
                let decided = RequestDecided { cancelled: Some(true), ..decided(&response.request_id, by) };
                self.note(self.running.clone(), decided, None);
                question.cancel();
            }
            None => self.tell_decided(by, &response.request_id),
        }
    }

    fn decide(&mut self, decided: RequestDecided, permission: Permission, response: PermissionResponse) {
        self.note(self.running.clone(), decided, None);
        if response.approved {
            self.recorder.then(Then::Decide(permission, response));
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
                    let shown =
                        values.into_iter().filter_map(|(field, value)| match secrets.contains(&field) {
                            true => Some((field, hidden.clone()?)),
                            false => Some((field, value)),
                        });
                    shown.collect()
                });
                let decided = RequestDecided {
                    values,
                    cancelled: response.cancelled,
                    ..decided(&response.request_id, by)
                };
                self.note(self.running.clone(), decided, None);
                self.recorder.then(Then::Reply(question, response));
            }
            Some(Pending::Permission(permission)) => {
                let decided = RequestDecided { approved: Some(false), ..decided(&response.request_id, by) };
                self.note(self.running.clone(), decided, None);
                permission.deny();
            }
            None => self.tell_decided(by, &response.request_id),
        }
    }

    /// Tells one who answers too late what was decided before, and by whom.
    fn tell_decided(&mut self, by: ListenerNo, request_id: &RequestId) {
        if let Some(decided) = self.decided.iter().find(|decided| decided.request_id == *request_id).cloned()
        {
            let told = self.line(None, RelayBody::from(decided));
            // The decision may not be stored yet.
            self.recorder.then(Then::Tell(by, told));
        }
    }

    /// Writes that open requests are settled.
    pub(super) fn settle_all(&mut self, reason: StopReason) {
        self.pending.clear();
        for request in std::mem::take(&mut self.facts.open.requests) {
            let decided =
                RequestDecided { cancelled: Some(true), reason: Some(reason), ..bare(&request.id.0) };
            self.note(request.turn.map(|turn| turn.0), decided, None);
        }
    }
}

pub(super) fn bare(request: &RequestId) -> RequestDecided {
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

fn decided(request: &RequestId, by: ListenerNo) -> RequestDecided {
    RequestDecided { by: Some(name(by)), ..bare(request) }
}

/// The fields of a question whose answers are not kept.
fn secret_fields(request: &trunkline_protocol::InputRequest) -> Vec<String> {
    let fields = request.fields.iter().flatten();
    fields
        .filter(|field| field.kind == Some(trunkline_protocol::FieldKind::Secret))
        .map(|field| field.id.clone())
        .collect()
}
