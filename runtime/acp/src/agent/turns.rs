//! Turns of the editor, and questions to it.

use serde_json::{Value, json};
use trunkline_client::{ClientError, Event, Input};
use trunkline_protocol::{
    AdapterBody, AttachRefusal, Category, ClosedReason, Failure, FileInput, Json, Meta, SessionId,
    Sha256, Status, TurnComplete, Usage,
};

use super::EditorAgent;
use crate::{
    ask::{self, EditorRequest, PendingPermission, PendingQuestion},
    content,
    rpc::{self, Code, Id, Refusal},
    session::{Prompt, PromptFile},
    update,
};

/// Bytes in the files of prompts that have no end. A prompt with more is refused.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

impl EditorAgent {
    /// Sends a prompt as the input of a turn, whose end answers it.
    pub(super) async fn prompt(&mut self, request: &Id, params: &Value) -> Result<(), Refusal> {
        let id = self.open_session(params)?;
        let content::Prompt { text, files } = content::parse_prompt(&params["prompt"])?;
        let written = self.write_files(&id, &files).await?;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(());
        };
        let Some(handle) = session.handle.clone() else {
            return Ok(());
        };
        let mut input = Input::text(session.facts.expand_command(text));
        input.meta = params
            .get("_meta")
            .and_then(|meta| Json::from_serialize(meta).ok())
            .and_then(Meta::new);
        for (file, written) in files.into_iter().zip(&written) {
            input = input.with_file(FileInput {
                file_name: Some(file.name),
                file_mime_type: Some(file.mime),
                file_path: written.path.to_string_lossy().into_owned(),
                size: Some(written.size),
                sha256: Some(written.sha256),
            });
        }
        let turn = handle.send(input).await?;
        session.prompts.push(Prompt {
            request: request.clone(),
            turn: turn.clone(),
            files: written,
        });
        let mut turn = turn;
        let request = request.clone();
        self.host.call(
            async move { turn.end().await },
            move |agent, end| match end {
                // Its event answers it. A session that is attached again has that, too.
                Ok(_) | Err(ClientError::Detached) => {}
                Err(cause) => agent.fail_prompt(&id, &request, cause),
            },
        );
        Ok(())
    }

    /// Writes the files of a prompt, and stores them with the session for its history.
    async fn write_files(
        &mut self,
        session: &SessionId,
        files: &[content::Attached],
    ) -> Result<Vec<PromptFile>, Refusal> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.options.files.clone();
        let folder = folder
            .ok_or_else(|| Refusal::params("files are not taken here: give them by a link"))?;
        let prompts = self.sessions.values().flat_map(|it| &it.prompts);
        let open: u64 = prompts.flat_map(|it| &it.files).map(|it| it.size).sum();
        let new: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
        if open + new > MAX_FILE_BYTES {
            return Err(Refusal::params(format!(
                "files of prompts may have {MAX_FILE_BYTES} bytes together until the turns end; \
                 send fewer, or wait for the end of a turn"
            )));
        }
        let mut written = Vec::new();
        for file in files {
            self.last_file += 1;
            let new = PromptFile {
                path: folder.join(self.last_file.to_string()),
                size: file.bytes.len() as u64,
                sha256: Sha256::digest(&file.bytes),
            };
            let stored = match tokio::fs::write(&new.path, &file.bytes).await {
                Err(error) => Err(error.to_string()),
                Ok(()) => {
                    let path = new.path.clone();
                    self.store
                        .keep_file(session.clone(), path, new.sha256)
                        .await
                }
            };
            written.push(new);
            stored.map_err(|why| {
                let message = format!("failed to store the file {}: {why}", file.name);
                Refusal::new(Code::Internal, message)
            })?;
        }
        Ok(written)
    }

    /// Answers a prompt whose turn has no end.
    fn fail_prompt(&mut self, id: &SessionId, request: &Id, cause: ClientError) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.prompts.retain(|prompt| prompt.request != *request);
        }
        self.answer(request, Err(cause.into()));
    }

    /// Answers the prompt whose turn has ended.
    pub(super) fn end_turn(&mut self, id: &SessionId, event: &Event, end: &TurnComplete) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if event.is_provisional() {
            return;
        }
        let usage = end.usage.as_ref();
        let is_news = usage.is_some_and(|usage| session.facts.add_cost(usage));
        let mut prompts = session.prompts.iter();
        let ended = prompts.position(|prompt| event.ends(&prompt.turn));
        let ended = ended.map(|place| session.prompts.remove(place));
        let usage = session.facts.usage_update();
        if let Some(usage) = usage.filter(|_| is_news && session.is_shown()) {
            self.update(id, &usage);
        }
        if let Some(prompt) = ended {
            let result = stop_reason(end).map(|reason| {
                let mut result = json!({ "stopReason": reason });
                let usage = end.usage.as_ref().filter(|_| self.options.offers_unstable);
                if let Some(usage) = usage.and_then(turn_usage) {
                    result["usage"] = usage;
                }
                result
            });
            self.answer(&prompt.request, result);
        }
    }

    /// Asks the editor for the answer to a request of the agent.
    pub(super) fn ask(&mut self, id: &SessionId, body: AdapterBody) {
        let forms = self.editor.is_some_and(|editor| editor.forms);
        let (method, asked, params) = match body {
            AdapterBody::PermissionRequest(_) if !self.options.may_approve => return,
            AdapterBody::PermissionRequest(request) => {
                let (asked, params) = PendingPermission::from_request(id, &request);
                (
                    "session/request_permission",
                    EditorRequest::Permission(asked),
                    params,
                )
            }
            AdapterBody::InputRequest(request) => {
                match PendingQuestion::from_request(id, &request).filter(|_| forms) {
                    Some((asked, params)) => {
                        ("elicitation/create", EditorRequest::Question(asked), params)
                    }
                    None => {
                        // The next prompt can answer it.
                        let text = update::chunk("agent_message_chunk", &request.prompt, None);
                        self.update(id, &text);
                        let answer = ask::cancel_question(request.request_id);
                        return self
                            .call_session(id, async |handle| handle.answer_question(answer).await);
                    }
                }
            }
            _ => return,
        };
        self.last_question += 1;
        let number = self.last_question;
        if let Some(session) = self.sessions.get_mut(id) {
            session.questions.insert(asked.request().clone(), number);
        }
        self.questions.insert(number, (id.clone(), asked));
        self.output.push(&rpc::request(number, method, &params));
    }

    /// Sends the editor's answer to a question; an error denies.
    pub(super) fn answer_question(&mut self, number: u64, result: Result<Value, String>) {
        let Some((id, asked)) = self.questions.remove(&number) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.questions.remove(asked.request());
        }
        self.call_session(&id, async |handle| match asked {
            EditorRequest::Permission(asked) => {
                handle.answer_permission(asked.into_response(result)).await
            }
            EditorRequest::Question(asked) => {
                handle.answer_question(asked.into_response(result)).await
            }
        });
    }
}

impl From<ClientError> for Refusal {
    fn from(cause: ClientError) -> Self {
        let code = match &cause {
            ClientError::SessionClosed { reason, failure } => {
                let mut refusal = failure_refusal(failure.as_deref(), "the session has ended");
                if *reason == Some(ClosedReason::UnknownAgent) {
                    refusal.code = Code::InvalidParams;
                }
                return refusal;
            }
            ClientError::SessionRefused {
                reason:
                    Some(AttachRefusal::Unknown | AttachRefusal::Gone | AttachRefusal::Forbidden),
                ..
            } => Code::NotFound,
            ClientError::RequestFailed(reason) => return Self::params(reason),
            ClientError::LineTooLong { .. } | ClientError::File { .. } => Code::InvalidParams,
            _ => Code::Internal,
        };
        Self::new(code, cause.to_string())
    }
}

/// The tokens of a turn, which ACP may still change. `None` if they are not known.
fn turn_usage(usage: &Usage) -> Option<Value> {
    let (input, output) = usage.input_tokens.zip(usage.output_tokens)?;
    let total = usage.total_tokens.unwrap_or(input.saturating_add(output));
    let mut tokens = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": total });
    for (name, count) in [
        ("cachedReadTokens", usage.cache_read_tokens),
        ("cachedWriteTokens", usage.cache_write_tokens),
        ("thoughtTokens", usage.reasoning_tokens),
    ] {
        if let Some(count) = count {
            tokens[name] = json!(count);
        }
    }
    Some(tokens)
}

/// The stop reason of an ended turn.
///
/// # Errors
/// The failure of the turn.
fn stop_reason(end: &TurnComplete) -> Result<&'static str, Refusal> {
    let category = end.error.as_ref().and_then(|error| error.category);
    Ok(match (end.status_or_completed(), category) {
        (Status::Completed, _) => "end_turn",
        (Status::Stopped, _) | (Status::Failed, Some(Category::Cancelled)) => "cancelled",
        (Status::Refused, None) => "refusal",
        (Status::Limit, Some(Category::ContextExhausted)) => "max_tokens",
        (Status::Limit, None | Some(Category::MaxTurns)) => "max_turn_requests",
        (Status::Failed | Status::Refused | Status::Limit, _) => {
            return Err(failure_refusal(end.error.as_ref(), "the turn failed"));
        }
    })
}

/// A failure as an error of ACP; without a text of its own, with this one.
fn failure_refusal(error: Option<&Failure>, default: &str) -> Refusal {
    let message = error.and_then(|error| error.message.clone());
    let message = message
        .filter(|message| !message.is_empty())
        .unwrap_or_else(|| default.to_owned());
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
            let found = stop_reason(&end).map_err(|refusal| refusal.code);
            assert_eq!(found, reason, "{status:?} {category:?}");
        }
    }
}
