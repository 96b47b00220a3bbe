//! Permission requests and questions: each asked once, each settled once ([permission.2] to [permission.4]).

use std::time::Instant;

use trunkline_conformance_mutants::json::quote;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{HubRequest, HubSession};
use crate::switches::{Mutant::*, broken};

/// The requests of one session that may wait at a time; further ones are denied at once.
const MAX_REQUESTS: usize = 4096;

impl Relay {
    /// Asks the hub, unless it cannot be asked.
    pub(crate) fn ask(
        &mut self,
        session: &mut HubSession,
        mut message: Message,
        turn: Option<String>,
    ) {
        let Some(id) = message.text("request_id") else {
            return;
        };
        let question = message.kind == "input.request";
        if session.requests.iter().any(|request| request.id == id) && !broken(DuplicateReplaces) {
            self.counters.bad += 1;
            self.report(
                session,
                "protocol",
                &format!("the request {id} is pending already"),
            );
            return;
        }
        let request = HubRequest {
            id,
            question,
            turn,
            options: options(&message),
            at: Instant::now(),
        };
        if question && !session.hub.has(ExtensionSet::QUESTIONS) {
            self.say(session, &message);
            self.write_denial(session, &request, "policy");
            return;
        }
        if broken(RequestsLimited) && session.requests.len() >= 16 {
            return;
        }
        if session.requests.len() >= MAX_REQUESTS {
            self.write_denial(session, &request, "policy");
            return;
        }
        if broken(ApprovalRemembered) && session.approved.contains(&request.id) {
            self.write_answer(session, &request, true, Vec::new());
            return;
        }
        if broken(RequestShortened) {
            message.set("resource", quote(""));
        }
        session.requests.push(request);
        self.say(session, &message);
    }

    /// Passes the hub's answer on, if a request waits for it; only `true` approves.
    pub(crate) fn answer(&mut self, session: &mut HubSession, message: &Message) {
        let Some(id) = message.text("request_id") else {
            return;
        };
        let question = message.kind == "input.response";
        let found = session
            .requests
            .iter()
            .position(|request| request.id == id && request.question == question);
        let at = match found {
            Some(_) if broken(AnswersOldest) => 0,
            Some(at) => at,
            None => {
                self.counters.late += 1;
                return;
            }
        };
        let request = session.requests.remove(at);
        if question {
            let mut answer =
                Message::down("input.response", &session.id).with("request_id", &request.id);
            for name in ["values", "cancelled", "_meta"] {
                if let Some(raw) = message.raw(name) {
                    answer.set(name, raw.to_owned());
                }
            }
            if answer.raw("values").is_none() {
                answer.set("cancelled", "true".to_owned());
            }
            for _ in 0..if broken(QuestionAnsweredTwice) { 2 } else { 1 } {
                self.write(session, &answer);
            }
            return;
        }
        let mut approved = message.is_true("approved");
        let chosen = message.text("option_id");
        let allows = chosen
            .as_ref()
            .map(|id| request.options.iter().find(|option| option.0 == *id));
        let mismatch = match allows {
            None => false,
            Some(None) => true,
            Some(Some((_, allows))) => allows.is_some_and(|allows| allows != approved),
        };
        if mismatch && !broken(OptionMismatchApproves) {
            approved = false;
        }
        if approved {
            session.approved.insert(request.id.clone());
            if broken(ApprovalLost) {
                return;
            }
        }
        let names = [
            "option_id",
            "always_allow",
            "updated_input",
            "message",
            "end_turn",
            "reason",
            "_meta",
        ];
        let dropped: &[&str] = if mismatch || !approved && chosen.is_none() {
            &["option_id", "always_allow", "updated_input"]
        } else {
            &[]
        };
        let fields = names
            .into_iter()
            .filter(|name| !dropped.contains(name))
            .filter_map(|name| Some((name, message.raw(name)?.to_owned())))
            .collect();
        self.write_answer(session, &request, approved, fields);
    }

    /// The adapter withdraws a request; nothing is written for it.
    pub(crate) fn withdraw(&mut self, session: &mut HubSession, message: &Message) {
        let Some(id) = message.text("request_id") else {
            return;
        };
        let Some(at) = session.requests.iter().position(|request| request.id == id) else {
            return;
        };
        let request = session.requests.remove(at);
        self.say(session, message);
        if broken(CancelAnswered) {
            self.write_denial(session, &request, "timeout");
        }
    }

    /// Settles as denied whatever `concerns` names, on both sides.
    pub(crate) fn settle(
        &mut self,
        session: &mut HubSession,
        reason: &'static str,
        concerns: impl Fn(&HubRequest) -> bool,
    ) {
        let (settled, pending) = std::mem::take(&mut session.requests)
            .into_iter()
            .partition(concerns);
        session.requests = pending;
        let settled: Vec<HubRequest> = settled;
        for request in settled {
            let left = broken(StopLeavesPending) && reason == "stopped"
                || broken(QuestionLeft) && request.question;
            if !left {
                self.write_denial(session, &request, reason);
            }
            if !broken(WithdrawalUntold) {
                let mut cancel = Message::up("permission.cancel", &session.id)
                    .with("request_id", &request.id)
                    .with("reason", reason);
                if let Some(turn) = &session.turn
                    && request.turn.is_some()
                {
                    cancel.set("turn_id", quote(&turn.id));
                }
                self.say(session, &cancel);
            }
        }
    }

    pub(crate) fn write_denial(
        &mut self,
        session: &HubSession,
        request: &HubRequest,
        reason: &str,
    ) {
        if request.question {
            let answer = Message::down("input.response", &session.id)
                .with("request_id", &request.id)
                .with_raw("cancelled", "true");
            self.write(session, &answer);
        } else {
            self.write_answer(session, request, false, vec![("reason", quote(reason))]);
        }
    }

    fn write_answer(
        &mut self,
        session: &HubSession,
        request: &HubRequest,
        approved: bool,
        fields: Vec<(&'static str, String)>,
    ) {
        let mut answer =
            Message::down("permission.response", &session.id).with("request_id", &request.id);
        if approved || !broken(DenialEmpty) {
            answer.set("approved", approved.to_string());
        }
        for (name, raw) in fields {
            answer.set(name, raw);
        }
        self.write(session, &answer);
    }
}

fn options(message: &Message) -> Vec<(String, Option<bool>)> {
    let offered: Vec<serde_json::Value> = message
        .raw("options")
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default();
    offered
        .iter()
        .filter_map(|option| {
            let id = option.get("id")?.as_str()?.to_owned();
            let allows = option
                .get("kind")
                .and_then(|kind| kind.as_str())
                .map(|kind| kind.starts_with("allow"));
            Some((id, allows))
        })
        .collect()
}
