//! Turns and what is asked in them.

use serde_json::{Value, json};
use trunkline_protocol::{
    AdapterBody, Category, Failure, FileInput, HostBody, HostMessage, MessageId, Meta, SessionId,
    Status, TurnComplete, TurnId, UserInput,
};
use uuid::Uuid;

use super::Core;
use crate::{
    ask::{self, Asked, Permission, Question},
    content,
    rpc::{self, Code, Id, Refusal},
    session::Prompt,
    update,
};

impl Core {
    pub(super) fn prompt(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = self.opened(params)?;
        let content::Prompt { text, files } = content::prompt(&params["prompt"])?;
        let folder = self.options.files.clone();
        if !files.is_empty() && folder.is_none() {
            return Err(Refusal::params(
                "files are not taken here: give them by a link",
            ));
        }
        let mut paths = Vec::new();
        for (file, folder) in files.into_iter().zip(folder.iter().cycle()) {
            self.files += 1;
            let path = folder.join(self.files.to_string());
            let input = FileInput {
                file_name: Some(file.name),
                file_mime_type: Some(file.mime),
                file_path: path.to_string_lossy().into_owned(),
                ..FileInput::default()
            };
            self.out.files.push((path.clone(), file.bytes));
            paths.push(path);
            self.say_host(&session, input);
        }
        let fresh = || Uuid::new_v4().simple().to_string();
        let internal =
            |error: trunkline_protocol::BadId| Refusal::new(Code::Internal, error.to_string());
        let turn = TurnId::new(fresh()).map_err(internal)?;
        let message_id = Some(MessageId::new(fresh()).map_err(internal)?);
        let meta = params
            .get("_meta")
            .and_then(|meta| trunkline_protocol::Json::of(meta).ok())
            .and_then(Meta::new);
        let Some(known) = self.sessions.get_mut(&session) else {
            return Ok(());
        };
        let input = UserInput {
            content: known.facts.meant(text),
            message_id,
            ..UserInput::default()
        };
        known.prompts.push_back(Prompt {
            id: id.clone(),
            turn,
            input,
            meta,
            files: paths,
            stored: false,
        });
        let at = known.prompts.len() - 1;
        self.say_prompt(&session, at);
        Ok(())
    }

    /// Says the inputs again of which it is not known whether the journal has them: one that it has counts once.
    pub(super) fn say_again(&mut self, session: &SessionId) {
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        let waiting = known
            .prompts
            .iter()
            .enumerate()
            .filter(|(_, prompt)| !prompt.stored);
        let waiting: Vec<_> = waiting.map(|(at, _)| at).collect();
        for at in waiting {
            self.say_prompt(session, at);
        }
    }

    fn say_prompt(&mut self, session: &SessionId, at: usize) {
        let Some(prompt) = self
            .sessions
            .get(session)
            .and_then(|known| known.prompts.get(at))
        else {
            return;
        };
        let message = HostMessage {
            meta: prompt.meta.clone(),
            ..HostMessage::new(session.clone(), prompt.input.clone())
                .of_turn(Some(prompt.turn.clone()))
        };
        self.say(&message);
    }

    /// Answers the input whose turn has ended.
    pub(super) fn turn_ended(
        &mut self,
        session: &SessionId,
        turn: Option<&TurnId>,
        end: &TurnComplete,
    ) {
        let Some(known) = self.sessions.get_mut(session) else {
            return;
        };
        let is_news = end
            .usage
            .as_ref()
            .is_some_and(|usage| known.facts.cost(usage));
        let usage = known
            .facts
            .usage_update()
            .filter(|_| is_news && known.is_shown());
        let prompt = turn.and_then(|turn| known.ended(turn));
        if let Some(usage) = usage {
            self.update(session, &usage);
        }
        if let Some(prompt) = prompt {
            self.out.stale.extend(prompt.files);
            self.answer(
                &prompt.id,
                stop_reason(end).map(|reason| json!({ "stopReason": reason })),
            );
        }
    }

    /// Asks the client what the agent asks.
    pub(super) fn ask(&mut self, session: &SessionId, body: AdapterBody) {
        let forms = self.client.is_some_and(|client| client.forms);
        let (method, asked, params) = match body {
            AdapterBody::PermissionRequest(request) => {
                let (asked, params) = Permission::of(session, &request);
                (
                    "session/request_permission",
                    Asked::Permission(asked),
                    params,
                )
            }
            AdapterBody::InputRequest(request) => {
                match Question::of(session, &request).filter(|_| forms) {
                    Some((asked, params)) => ("elicitation/create", Asked::Question(asked), params),
                    None => {
                        // The next prompt can answer it.
                        self.update(
                            session,
                            &update::chunk("agent_message_chunk", &request.prompt, None),
                        );
                        return self.say_host(session, ask::cancelled(request.request_id));
                    }
                }
            }
            _ => return,
        };
        self.asks += 1;
        let number = self.asks;
        if let Some(known) = self.sessions.get_mut(session) {
            known.asked.insert(asked.request().clone(), number);
        }
        self.asked.insert(number, (session.clone(), asked));
        self.put(rpc::request(number, method, &params));
    }

    /// The client has answered, or never will.
    pub(super) fn answered(&mut self, number: u64, result: Result<Value, String>) {
        let Some((session, asked)) = self.asked.remove(&number) else {
            return;
        };
        if let Some(known) = self.sessions.get_mut(&session) {
            known.asked.remove(asked.request());
        }
        let body: HostBody = match asked {
            Asked::Permission(asked) => asked.decided(result).into(),
            Asked::Question(asked) => asked.decided(result).into(),
        };
        self.say_host(&session, body);
    }
}

/// Why a turn has ended.
///
/// # Errors
/// How it has failed.
fn stop_reason(end: &TurnComplete) -> Result<&'static str, Refusal> {
    let category = end.error.as_ref().and_then(|error| error.category);
    Ok(match (end.status_or_completed(), category) {
        (Status::Completed, _) => "end_turn",
        (Status::Stopped, _) | (Status::Failed, Some(Category::Cancelled)) => "cancelled",
        (Status::Refused, None) => "refusal",
        (Status::Limit, Some(Category::ContextExhausted)) => "max_tokens",
        (Status::Limit, None | Some(Category::MaxTurns)) => "max_turn_requests",
        (Status::Failed | Status::Refused | Status::Limit, _) => {
            return Err(failure(end.error.as_ref()));
        }
    })
}

/// A failure as a client reads it.
pub(super) fn failure(error: Option<&Failure>) -> Refusal {
    let message = error.and_then(|error| error.message.clone());
    let message = message
        .filter(|message| !message.is_empty())
        .unwrap_or_else(|| "the turn failed".to_owned());
    let category = error.and_then(|error| error.category);
    let code = match category {
        Some(Category::Auth) => Code::AuthRequired,
        Some(Category::SessionNotFound) => Code::NotFound,
        _ => Code::Internal,
    };
    let mut data = json!({});
    if let Some(category) = category {
        data["category"] = json!(category);
    }
    if let Some(at) = error.and_then(|error| error.retry_at.as_ref()) {
        data["retryAt"] = json!(at);
    }
    Refusal {
        code,
        message,
        data: Some(Box::new(data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_turn_has_its_stop_reason() {
        use Category as C;
        for (status, category, reason) in [
            (None, None, Ok("end_turn")),
            (Some(Status::Stopped), None, Ok("cancelled")),
            (Some(Status::Failed), Some(C::Cancelled), Ok("cancelled")),
            (Some(Status::Refused), None, Ok("refusal")),
            (
                Some(Status::Refused),
                Some(C::PermissionDenied),
                Err(Code::Internal),
            ),
            (Some(Status::Limit), None, Ok("max_turn_requests")),
            (
                Some(Status::Limit),
                Some(C::ContextExhausted),
                Ok("max_tokens"),
            ),
            (
                Some(Status::Limit),
                Some(C::UsageLimit),
                Err(Code::Internal),
            ),
            (Some(Status::Failed), None, Err(Code::Internal)),
            (Some(Status::Failed), Some(C::Auth), Err(Code::AuthRequired)),
        ] {
            let error = category.map(|category| Failure::new(category, "why"));
            let end = TurnComplete {
                status,
                error,
                ..TurnComplete::default()
            };
            let said = stop_reason(&end).map_err(|refusal| refusal.code);
            assert_eq!(said, reason, "{status:?} {category:?}");
        }
    }
}
