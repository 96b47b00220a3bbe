//! Requests of the agent. The first answer decides; the sender of a later one receives that
//! decision ([journal.6]).
//!
//! An answer with another input for the tool is judged by the agent's deny rules first, and a
//! lasting rule that comes with an answer by the request. If they reject it, the sender learns why,
//! and the request stays open.
//!
//! An answer is stored before the agent gets it. If the request is settled in between, for example
//! by a stop, the agent does not get the answer, and a further decision in the journal records
//! that.

use trunkline_host::{EditRejected, Permission, policy::Pattern};
use trunkline_protocol::{
    AdapterBody, Category, FieldKind, InputRequest, InputResponse, Json, Meta, PermissionOption,
    PermissionResponse, RelayBody, RequestDecided, RequestId, StopReason, TurnId, rules::approves,
};

use super::{HostReply, OnStored, PendingRequest, SessionActor, inputs::error_event};
use crate::{entry::Reply, log::SessionLog, tail::ListenerNo};

/// Maximum number of requests whose ids are remembered for later events of the agent.
const MAX_REQUEST_IDS: usize = 1024;

/// Maximum number of edited calls that the host checks for a session at once, with its other calls.
const MAX_EDIT_CHECKS: usize = 64;

/// Additions of a client to an answer, for the record.
#[derive(Debug, Clone, Default)]
pub struct AnswerNote {
    /// A name of the person who answers. No rights follow from it.
    pub name: Option<String>,
    /// The lasting rule that the approval comes with. It has to allow the request, otherwise the
    /// request stays open. The sender of the answer keeps it.
    pub always: Option<Pattern>,
}

/// Contents of an open request that an answer has to fit.
#[derive(Debug)]
pub enum OpenRequest {
    /// A permission.
    Permission {
        /// The options that were offered.
        options: Vec<PermissionOption>,
        /// The pattern that allows exactly this request, if one does.
        exact_rule: Option<Pattern>,
    },
    /// A question, with the ids of its fields.
    Question(Vec<String>),
}

impl AnswerNote {
    fn decided(self, request: &RequestId, by: String) -> RequestDecided {
        RequestDecided {
            by: Some(by),
            name: self.name,
            ..bare(request)
        }
    }
}

impl SessionActor {
    /// Returns `true` if an answer of this listener to a request counts. Otherwise the listener
    /// receives an error, and the request stays open. An answer of either type decides a
    /// permission, so both need the right to approve.
    fn may_answer(&mut self, by: ListenerNo, request_id: &RequestId) -> bool {
        let may_approve = match self.log.memory() {
            Some(log) => log.may_approve,
            None => {
                let subscriber = self.listeners.get(&by);
                subscriber.is_some_and(|subscriber| subscriber.may_approve)
            }
        };
        if may_approve
            || !matches!(
                self.pending.get(request_id),
                Some(PendingRequest::Permission(_))
            )
        {
            return true;
        }
        let why = format!("this client may not answer the permission {request_id}; it stays open");
        let turn = self.asked_in(request_id);
        let error = error_event(Category::PermissionDenied, &why);
        self.send_body(by, turn, AdapterBody::from(error));
        false
    }

    pub(super) fn answer_permission(
        &mut self,
        by: ListenerNo,
        response: PermissionResponse,
        note: AnswerNote,
    ) {
        if !self.may_answer(by, &response.request_id) {
            return;
        }
        let Some(PendingRequest::Permission(permission)) = self.pending.get(&response.request_id)
        else {
            return self.settle_permission(by, response, note);
        };
        let edit = permission.check_edit(&response);
        let rule = note.always.clone();
        let rule = rule.map(|rule| permission.check_rule(rule));
        if edit.is_none() && rule.is_none() {
            return self.settle_permission(by, response, note);
        }
        if self.replies.len() >= MAX_EDIT_CHECKS {
            let why = "too many edited calls and rules are checked; answer later";
            return self.reject_edit(by, &response.request_id, Category::Busy, why);
        }
        self.await_host(Box::pin(async move {
            let mut checked = match edit {
                Some(edit) => edit.await,
                None => Ok(()),
            };
            if let (Ok(()), Some(rule)) = (&checked, rule) {
                checked = rule.await;
            }
            HostReply::EditChecked(by, Box::new((response, note)), checked)
        }));
    }

    /// Settles a permission by an answer whose edit and rule were checked: unless the request was
    /// settled meanwhile.
    pub(super) fn edit_checked(
        &mut self,
        by: ListenerNo,
        (response, note): (PermissionResponse, AnswerNote),
        checked: Result<(), EditRejected>,
    ) {
        match checked {
            Ok(()) if self.may_answer(by, &response.request_id) => {
                self.settle_permission(by, response, note);
            }
            Ok(()) => {}
            Err(why) => {
                let category = match why {
                    EditRejected::ByRule(_) => Category::Protocol,
                    _ => Category::PermissionDenied,
                };
                self.reject_edit(by, &response.request_id, category, &why.to_string());
            }
        }
    }

    /// Reports to a listener that its answer does not count because of its edit or rule.
    fn reject_edit(&mut self, by: ListenerNo, id: &RequestId, category: Category, why: &str) {
        let error = error_event(category, &format!("{why}; the permission {id} stays open"));
        let turn = self.asked_in(id);
        self.send_body(by, turn, AdapterBody::from(error));
    }

    fn settle_permission(
        &mut self,
        by: ListenerNo,
        response: PermissionResponse,
        mut note: AnswerNote,
    ) {
        match self.pending.remove(&response.request_id) {
            Some(PendingRequest::Permission(permission)) => {
                // Same rule as in the host: an option that contradicts the approval denies
                // ([ext.5]).
                let offered = permission.request().options.as_deref().unwrap_or_default();
                let approved = approves(response.approved, response.option_id.as_deref(), offered);
                let decided = RequestDecided {
                    approved: Some(approved),
                    option_id: response.option_id.clone(),
                    updated_input: response.updated_input.clone().filter(|_| approved),
                    reason: response.reason,
                    always: note
                        .always
                        .take()
                        .filter(|_| approved)
                        .map(|rule| rule.as_str().to_owned()),
                    ..note.decided(&response.request_id, self.listener_name(by))
                };
                self.decide(decided, permission, response);
            }
            // The answer has the wrong type, so it decides nothing, and that denies.
            Some(PendingRequest::Question(question)) => {
                let decided = RequestDecided {
                    cancelled: Some(true),
                    ..note.decided(&response.request_id, self.listener_name(by))
                };
                self.write_note(self.running_turn().cloned(), decided, None);
                question.cancel();
            }
            None => self.send_decision(by, &response.request_id),
        }
    }

    fn decide(
        &mut self,
        decided: RequestDecided,
        permission: Permission,
        response: PermissionResponse,
    ) {
        let id = decided.request_id.clone();
        let turn = self.asked_in(&id);
        let is_approved = decided.approved == Some(true);
        self.write_note(self.running_turn().cloned(), decided, None);
        if is_approved {
            self.log
                .then(OnStored::Decide(turn, id, permission, response));
        } else {
            // A denial does not wait until it is stored.
            permission.respond(response);
        }
    }

    pub(super) fn answer_question(
        &mut self,
        by: ListenerNo,
        response: InputResponse,
        note: AnswerNote,
    ) {
        if !self.may_answer(by, &response.request_id) {
            return;
        }
        match self.pending.remove(&response.request_id) {
            Some(PendingRequest::Question(question)) => {
                let request = question.request();
                let hidden = Json::from_serialize(&serde_json::json!({"redacted": true})).ok();
                let values = response.values.clone().map(|values| {
                    let shown = values.into_iter().filter_map(|(field, value)| {
                        if is_shown(request, &field) {
                            Some((field, value))
                        } else {
                            Some((field, hidden.clone()?))
                        }
                    });
                    shown.collect()
                });
                let decided = RequestDecided {
                    values,
                    cancelled: response.cancelled,
                    ..note.decided(&response.request_id, self.listener_name(by))
                };
                let id = decided.request_id.clone();
                let turn = self.asked_in(&id);
                self.write_note(self.running_turn().cloned(), decided, None);
                self.log
                    .then(OnStored::Answer(turn, id, question, response));
            }
            Some(PendingRequest::Permission(permission)) => {
                let decided = RequestDecided {
                    approved: Some(false),
                    ..note.decided(&response.request_id, self.listener_name(by))
                };
                self.write_note(self.running_turn().cloned(), decided, None);
                permission.deny();
            }
            None => self.send_decision(by, &response.request_id),
        }
    }

    /// Sends the earlier decision, and its author, to a listener that answers too late.
    fn send_decision(&mut self, by: ListenerNo, request_id: &RequestId) {
        if let Some(log) = self.log.memory() {
            return log.sink.count_late_answer();
        }
        if let Some(decided) = self.last_decision(request_id).cloned() {
            // The decision may not be stored yet.
            self.reply_when_stored(by, Reply::new(None, RelayBody::from(decided)));
        }
    }

    fn last_decision(&self, request_id: &RequestId) -> Option<&RequestDecided> {
        self.decided
            .iter()
            .rev()
            .find(|decided| decided.request_id == *request_id)
    }

    /// Returns the open requests.
    pub(super) fn open_requests(&self) -> Vec<(RequestId, OpenRequest)> {
        let open = |pending: &PendingRequest| match pending {
            PendingRequest::Permission(permission) => OpenRequest::Permission {
                options: permission.request().options.clone().unwrap_or_default(),
                exact_rule: permission.exact_rule(),
            },
            PendingRequest::Question(question) => {
                let fields = question.request().fields.iter().flatten();
                let mut ids: Vec<_> = fields.map(|field| field.id.clone()).collect();
                if ids.is_empty() {
                    ids.push("answer".to_owned());
                }
                OpenRequest::Question(ids)
            }
        };
        let requests = self.pending.iter();
        requests.map(|(id, it)| (id.clone(), open(it))).collect()
    }

    /// Returns the turn to which an open request belongs.
    fn asked_in(&self, request_id: &RequestId) -> Option<TurnId> {
        let open = self
            .facts
            .open
            .requests
            .iter()
            .find(|open| open.id.0 == *request_id)?;
        open.turn.as_ref().map(|turn| turn.0.clone())
    }

    /// Returns an id for a request of the agent that is unique in the session: the agent's own id
    /// if it is new there.
    pub(super) fn new_request_id(&mut self, own: &RequestId) -> RequestId {
        let is_used = |id: &RequestId| match &self.log {
            SessionLog::Journal(log) => match &log.index {
                Some(index) => index.has_request(id),
                // Ids of earlier entries were not read.
                None => true,
            },
            SessionLog::Memory(_) => {
                self.has_forgotten_ids || self.request_ids.iter().any(|(_, used)| used == id)
            }
        };
        let id = if is_numbered(own) || is_used(own) {
            numbered(own, self.log.last() + 1)
        } else {
            own.clone()
        };
        if let Some(index) = self.log.journal_mut().and_then(|log| log.index.as_mut()) {
            index.add_request(id.clone());
        }
        if self.request_ids.len() == MAX_REQUEST_IDS {
            self.request_ids.pop_front();
            self.has_forgotten_ids = true;
        }
        self.request_ids.push_back((own.clone(), id.clone()));
        id
    }

    /// Returns the id that listeners know of the agent's latest request with this id.
    fn request_id_of(&self, own: &RequestId) -> Option<RequestId> {
        let latest = self.request_ids.iter().rev();
        latest
            .into_iter()
            .find(|(of, _)| of == own)
            .map(|(_, id)| id.clone())
    }

    /// Handles a request that the host settled without our answer. An answer that is under way
    /// comes too late.
    pub(super) fn withdraw_request(
        &mut self,
        own: &RequestId,
        reason: StopReason,
        turn: Option<TurnId>,
        meta: Option<Meta>,
    ) {
        let Some(request_id) = self.request_id_of(own) else {
            return tracing::debug!(session = %self.id, request = %own, "a request that is not known was withdrawn");
        };
        self.pending.remove(&request_id);
        let is_it = |then: &OnStored| match then {
            OnStored::Decide(_, id, ..) | OnStored::Answer(_, id, ..) => *id == request_id,
            OnStored::Send(..)
            | OnStored::Steer(..)
            | OnStored::Reply(..)
            | OnStored::Edited(_)
            | OnStored::Announce(_) => false,
        };
        // Dropping the answer answers a settled request, which is ignored.
        self.log.take_back(is_it);
        let is_open = self
            .facts
            .open
            .requests
            .iter()
            .any(|open| open.id.0 == request_id);
        let approved = match self.last_decision(&request_id).filter(|_| !is_open) {
            None => None,
            Some(decided) if decided.approved == Some(true) => Some(false),
            Some(decided) if decided.values.is_some() => None,
            // The agent got the decision that is stored.
            Some(_) => return,
        };
        let decided = RequestDecided {
            approved,
            cancelled: Some(true),
            reason: Some(reason),
            ..bare(&request_id)
        };
        self.write_note(turn, decided, meta);
    }

    /// Takes back the answers of a turn, or of all turns, that are not stored yet. The stop of the
    /// turn denies its requests and does not wait for the journal ([journal.11]), so a further
    /// decision replaces each answer.
    pub(super) fn revoke_answers(&mut self, turn: Option<&TurnId>, reason: StopReason) {
        let is_meant = |of: &Option<TurnId>| turn.is_none() || of.as_ref() == turn;
        let revoked = self.log.take_back(
            |then| matches!(then, OnStored::Decide(of, ..) | OnStored::Answer(of, ..) if is_meant(of)),
        );
        for then in revoked {
            let (turn, request_id, approved) = match then {
                OnStored::Decide(turn, id, ..) => (turn, id, Some(false)),
                OnStored::Answer(turn, id, ..) => (turn, id, None),
                OnStored::Send(..)
                | OnStored::Steer(..)
                | OnStored::Reply(..)
                | OnStored::Edited(_)
                | OnStored::Announce(_) => continue,
            };
            let decided = RequestDecided {
                approved,
                cancelled: Some(true),
                reason: Some(reason),
                ..bare(&request_id)
            };
            self.write_note(turn, decided, None);
        }
    }

    /// Writes that open requests are settled.
    pub(super) fn settle_all(&mut self, reason: StopReason) {
        self.pending.clear();
        self.revoke_answers(None, reason);
        for request in std::mem::take(&mut self.facts.open.requests) {
            let decided = RequestDecided {
                cancelled: Some(true),
                reason: Some(reason),
                ..bare(&request.id.0)
            };
            self.write_note(request.turn.map(|turn| turn.0), decided, None);
        }
    }
}

/// Returns `true` if an id ends like a numbered one: in `~` and digits.
fn is_numbered(id: &RequestId) -> bool {
    let number = id.as_str().rsplit_once('~').map(|(_, number)| number);
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Appends the number of the entry to an id. No other request of the session has this number.
fn numbered(id: &RequestId, seq: u64) -> RequestId {
    let text = id.as_str();
    // An id has at most 256 bytes; the number needs 21 of them.
    let kept = &text[..text.floor_char_boundary(text.len().min(230))];
    RequestId::new(format!("{kept}~{seq}")).unwrap_or_else(|_| id.clone())
}

fn bare(request: &RequestId) -> RequestDecided {
    RequestDecided {
        request_id: request.clone(),
        approved: None,
        option_id: None,
        updated_input: None,
        values: None,
        cancelled: None,
        reason: None,
        always: None,
        by: None,
        name: None,
    }
}

/// Returns `true` if the answer to this field of a question is stored. One to a secret field is not,
/// and one to no field of the question may be meant for a secret one.
fn is_shown(request: &InputRequest, id: &str) -> bool {
    let mut fields = request.fields.iter().flatten().peekable();
    fields.peek().is_none()
        || fields.any(|field| field.id == id && field.kind != Some(FieldKind::Secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_to_fields_that_are_no_secret_are_stored() {
        let request = |fields| {
            let line = format!(
                r#"{{"type":"input.request","session_id":"s","request_id":"r","prompt":"p","fields":{fields}}}"#
            );
            let message = trunkline_protocol::AdapterMessage::parse(&line).unwrap();
            let AdapterBody::InputRequest(request) = message.body else {
                panic!("{line}");
            };
            request
        };
        let named = request(r#"[{"id":"name"},{"id":"key","kind":"secret"}]"#);
        let shown = ["name", "key", "answer", ""].map(|id| is_shown(&named, id));
        assert_eq!(shown, [true, false, false, false]);
        assert!(is_shown(&request("[]"), "answer"));
    }
}
