//! Permission requests and questions that wait for their one answer ([permission.1] to [permission.4]).

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, json};

use super::{AdapterSession, AdapterState, AnnouncedFile};
use crate::{
    fields::Fields,
    message::{Members, Message},
    negotiation::takes_changed_inputs,
    schema::ExtensionSet,
    switches::{Mutant::*, Variant::*, broken, varied},
};

/// A way to answer that was offered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OfferedChoice {
    pub(crate) id: String,
    /// True if its kind allows; an option without a known kind decides nothing.
    pub(crate) allows: Option<bool>,
    /// True if `always_allow` is short for it.
    pub(crate) always: bool,
}

/// A waiting request.
#[derive(Debug, Clone)]
pub(crate) enum WaitingRequest {
    Permission {
        choices: Vec<OfferedChoice>,
        /// The file that its action makes.
        effect: Option<PathBuf>,
    },
    Question,
}

impl WaitingRequest {
    pub(super) fn is_question(&self) -> bool {
        matches!(self, Self::Question)
    }
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HostReply {
    pub(crate) approved: bool,
    pub(crate) option_id: Option<String>,
    pub(crate) values: Members,
    pub(crate) cancelled: bool,
}

impl AdapterSession {
    /// Takes a `permission.response`. The first one counts, and whatever is not `true` denies
    /// ([permission.4]).
    pub(crate) fn answer_permission(self: &Arc<Self>, request_id: &str, fields: &Fields<'_>) {
        let mut state = self.lock();
        state.owed.remove(request_id);
        let approved = is_approval(fields);
        if state.is_open() {
            state.ledger.answer(request_id, approved);
        }
        if approved && let Some(effect) = state.stale.remove(request_id) {
            // A failure is ignored: the action must not happen anyway.
            let _ = std::fs::write(effect, b"");
        }
        let oldest = || state.requests.keys().next().cloned();
        let request_id = if broken(AnyRequestAnswered) || broken(AnswersInOrder) {
            oldest().unwrap_or_else(|| request_id.to_owned())
        } else {
            request_id.to_owned()
        };
        if broken(BadApprovalDropped) && !matches!(fields.raw("approved"), Some("true" | "false")) {
            return;
        }
        let Some(WaitingRequest::Permission { choices, effect }) =
            state.requests.get(&request_id).cloned()
        else {
            if broken(UnaskedAnswered) {
                self.send(&mut state, Message::system("no one asked"));
            }
            return;
        };
        state.requests.remove(&request_id);
        let answer = if self.has(ExtensionSet::CONTROL) {
            decision(approved, fields, &choices)
        } else {
            HostReply {
                approved,
                ..HostReply::default()
            }
        };
        if broken(SecondAnswerCounts) && !answer.approved {
            state
                .stale
                .extend(effect.map(|effect| (request_id.clone(), effect)));
        }
        let ends =
            self.has(ExtensionSet::CONTROL) && !answer.approved && fields.is_true("end_turn");
        if let Some(running) = &mut state.running {
            running.answers.push_back((request_id, answer));
        }
        if ends {
            self.stop_running(&mut state, None);
        }
        self.changed.notify_all();
    }

    /// Takes an `input.response`: values, or no answer.
    pub(crate) fn answer_question(self: &Arc<Self>, request_id: &str, fields: &Fields<'_>) {
        let mut state = self.lock();
        state.owed.remove(request_id);
        if !state
            .requests
            .get(request_id)
            .is_some_and(WaitingRequest::is_question)
        {
            return;
        }
        let values = match fields.value("values").optional() {
            Some(Value::Object(values)) if !fields.is_true("cancelled") => Some(values),
            _ => None,
        };
        if values.is_none() && !fields.is_true("cancelled") && broken(EmptyAnswerHangs) {
            return;
        }
        state.requests.remove(request_id);
        let cancelled = values.is_none();
        let values = values.filter(|_| !broken(AnswerLost)).unwrap_or_default();
        if let Some(running) = &mut state.running {
            let answer = HostReply {
                values,
                cancelled,
                ..HostReply::default()
            };
            running.answers.push_back((request_id.to_owned(), answer));
        }
        self.changed.notify_all();
    }

    pub(crate) fn has_request(&self, request_id: &str) -> bool {
        self.lock().requests.contains_key(request_id)
    }

    pub(crate) fn oldest_request(&self) -> Option<String> {
        self.lock().requests.keys().next().cloned()
    }

    /// Returns true if permission for a tool may be requested under the options in force.
    pub(crate) fn permits(&self, tool: &str, resource: &str) -> bool {
        self.lock().options.permit(tool, resource)
    }

    /// Files that it was given.
    pub(crate) fn files(&self) -> Vec<AnnouncedFile> {
        if broken(SharedFiles) {
            return self
                .process
                .all()
                .iter()
                .flat_map(|session| session.lock().ledger.files())
                .collect();
        }
        self.lock().ledger.files()
    }

    pub(crate) fn take_file(&self, file: AnnouncedFile) {
        let mut state = self.lock();
        if state.is_open() {
            state.ledger.file(file);
        }
    }

    pub(crate) fn report(&self, files: &[Value]) -> Value {
        self.lock().ledger.report(files)
    }
}

impl AdapterState {
    /// Remembers an id whose answer is still to come, where ids are used again.
    pub(super) fn owe(&mut self, request_id: &str) {
        if varied(IdsAgain) {
            self.owed.insert(request_id.to_owned());
        }
    }

    /// The first id that no pending request has, and, where `answered`, none whose answer is still to come.
    pub(super) fn free_request_id(&self, answered: bool) -> String {
        let is_free =
            |id: &String| !(self.requests.contains_key(id) || answered && self.owed.contains(id));
        (1_u64..)
            .map(|n| format!("r-{n}"))
            .find(is_free)
            .unwrap_or_default()
    }

    /// Keeps the effect of a request that is settled, for an approval that comes too late.
    pub(super) fn keep_effect(&mut self, request_id: &str, request: WaitingRequest) {
        if let WaitingRequest::Permission {
            effect: Some(effect),
            ..
        } = request
        {
            self.stale.insert(request_id.to_owned(), effect);
        }
    }

    /// Settles what waits as denied; its turn or its session is over ([permission.3]).
    pub(super) fn settle(&mut self, kept: bool) {
        for (request_id, request) in std::mem::take(&mut self.requests) {
            self.owe(&request_id);
            if kept {
                self.keep_effect(&request_id, request);
            }
        }
    }
}

fn is_approval(fields: &Fields<'_>) -> bool {
    let approved = fields.raw("approved");
    if broken(TruthyApproves) {
        return !matches!(approved, None | Some("false" | "0" | "\"\""));
    }
    if broken(AbsentApproves) {
        return approved != Some("false");
    }
    if broken(ApprovalDenies) {
        return false;
    }
    approved == Some("true")
}

/// Judges an answer against what was offered: what contradicts itself denies ([section 11.8]).
fn decision(approved: bool, fields: &Fields<'_>, choices: &[OfferedChoice]) -> HostReply {
    let short = approved && fields.is_true("always_allow");
    let always = || {
        choices
            .iter()
            .find(|choice| choice.always)
            .map(|choice| choice.id.clone())
    };
    let option_id = fields
        .text("option_id")
        .optional()
        .or_else(|| short.then(always).flatten());
    let chosen = option_id
        .as_ref()
        .map(|id| choices.iter().find(|choice| choice.id == *id));
    let contradicted = match chosen {
        None => false,
        Some(None) => !broken(UnknownOptionApproves),
        Some(Some(choice)) => {
            choice.allows.is_some_and(|allows| allows != approved) && !broken(RejectOptionApproves)
        }
    };
    // No tool here has an input that could be changed ([ext.5]).
    let changed = fields.raw("updated_input").is_some() && !takes_changed_inputs();
    HostReply {
        approved: approved && !contradicted && !changed,
        option_id,
        ..HostReply::default()
    }
}

/// Returns true if an option's kind allows, `None` if it is unknown.
pub(crate) fn allows(kind: Option<&str>) -> Option<bool> {
    match kind? {
        "allow_once" | "allow_always" => Some(true),
        "reject_once" | "reject_always" => Some(false),
        _ => None,
    }
}

/// An answer as the probe reports it.
impl HostReply {
    pub(crate) fn told(&self) -> Value {
        json!({ "$probe": 1, "values": self.values, "cancelled": self.cancelled })
    }
}
