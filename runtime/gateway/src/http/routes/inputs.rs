//! Inputs: accepted when the journal has them, answered with the entry to read from or with the end
//! of the turn.

use std::path::PathBuf;

use axum::{Json as Body, http::HeaderMap};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use trunkline_protocol::{
    AdapterBody, Channel, FileInput, InputLimits, InputMode, MessageId, RelayBody, SessionId,
    Sha256, TurnId, UserInput,
};
use trunkline_sessions::{EntryBody, Sessions, Submission, without_path};

#[cfg(test)]
use super::requests::ChangedOptions;
use super::{
    Json, Query, SessionPath, blocking, files::require_shown_name, requests::settings_update,
    turn_id,
};
use crate::{
    gateway::Shared,
    http::{
        idempotency::{self, ReplayMark, mark_replayed},
        operation::{EitherAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
        session_client::{ReceivedMessage, SessionClient},
        uploads::UploadError,
    },
};

/// Maximum text of a turn in an answer, in bytes. The rest is in the events.
const TEXT: usize = 1024 * 1024;

/// Maximum number of files of an input.
const FILES: usize = 16;

parameters! {
    pub(super) struct NewInput {
        content: String,
        /// Uploaded files.
        #[serde(default)]
        #[cfg_attr(test, schemars(length(max = FILES)))]
        files: Vec<NamedFile>,
        /// Running turn that the input steers.
        steer: Option<String>,
        /// Id of the input, as `Idempotency-Key`.
        message_id: Option<String>,
        /// Limits of the turn; the stricter one of these and the session's counts.
        #[cfg_attr(test, schemars(
            with = "Option<InputLimits>",
            extend("unevaluatedProperties" = false)
        ))]
        limits: Option<Map<String, Value>>,
        /// Settings that change with the input, from its turn on.
        #[cfg_attr(test, schemars(with = "Option<ChangedOptions>"))]
        options: Option<Map<String, Value>>,
    }
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum NamedFile {
    Digest(#[cfg_attr(test, schemars(with = "crate::http::operation::tests::Sha256"))] String),
    Labelled {
        #[cfg_attr(test, schemars(with = "crate::http::operation::tests::Sha256"))]
        sha256: String,
        name: Option<String>,
        mime_type: Option<String>,
    },
}

parameters! {
    pub(super) struct InputQuery {
        /// `end`: the answer waits for the end of the turn.
        #[cfg_attr(test, schemars(extend("enum" = ["end"])))]
        wait: Option<String>,
    }
}

answers! {
    /// An input that the journal has.
    pub(super) struct TakenInput {
        turn_id: Option<TurnId>,
        message_id: MessageId,
        /// Entry of the input.
        seq: u64,
        /// State of the turn. Only the turn of a repeated input can have ended.
        state: InputState,
        /// True if the journal had the input before.
        duplicate: bool,
        /// End of the turn, if it has ended and the journal has the entry.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<crate::http::operation::tests::Entry>"))]
        end: Option<Box<RawValue>>,
    }

    /// An input whose turn has ended.
    pub(super) struct EndedTurn {
        turn_id: TurnId,
        message_id: MessageId,
        /// Entry of the input.
        seq: u64,
        /// True if the journal had the input before.
        duplicate: bool,
        /// End of the turn.
        #[cfg_attr(test, schemars(with = "crate::http::operation::tests::Entry"))]
        end: Box<RawValue>,
        /// Output of the agent, up to 1 MiB.
        text: String,
    }
}

/// Accepted input, stored in the journal.
struct AcceptedInput {
    turn: Option<TurnId>,
    seq: u64,
    is_duplicate: bool,
}

/// The state of the turn that an input began or steered.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum InputState {
    Queued,
    Running,
    Ended,
}

pub(super) async fn take(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Query(query): Query<InputQuery>,
    headers: HeaderMap,
    Json(new): Json<NewInput>,
) -> Answer<(
    ReplayMark,
    EitherAnswer<Body<EndedTurn>, WithStatus<202, Body<TakenInput>>>,
)> {
    let RequestContext { shared, principal } = &context;
    let waits = match query.wait.as_deref() {
        None => false,
        Some("end") => true,
        Some(other) => {
            return Err(Problem::unprocessable(format!(
                "wait={other:?} is not known; wait=end is"
            )));
        }
    };
    let message_id = message_id(&headers, new.message_id)?;
    let steer = turn_id(new.steer)?;
    let mode = steer.as_ref().map(|_| InputMode::Steer);
    if steer.is_some() && (new.limits.is_some() || new.options.is_some()) {
        return Err(Problem::unprocessable(
            "`limits` and `options` are for a new turn; leave them out beside `steer`",
        ));
    }
    let input = UserInput {
        content: new.content,
        message_id: Some(message_id.clone()),
        mode,
        limits: new.limits.map(input_limits).transpose()?,
    };
    shared.takes_work()?;
    let sessions = context.sessions();
    let mut client = SessionClient::join(&sessions, &id).await?;
    if steer.is_some() && steer != client.attached.turn_id {
        return Err(Problem::conflict("the turn that steer names does not run"));
    }
    let settings = new.options.map(|options| {
        let agent = &client.attached.agent_id;
        settings_update(&context, &id, agent, &options).map(Box::new)
    });
    let settings = settings.transpose()?;
    let files = named_files(shared, &sessions, &id, new.files).await?;
    let submission = Submission {
        input,
        files,
        settings,
        ..Submission::default()
    };
    client.submit(submission).await?;
    let accepted = client
        .wait_for_reply(|received| accepted(&received, &message_id))
        .await?;
    // An input that the session took before it was closed has its answer.
    let accepted = accepted.or_else(|refused| client.check_open().and(Err(refused)))?;
    let AcceptedInput {
        turn,
        seq,
        is_duplicate,
    } = accepted;
    if !waits {
        let (state, end) = match &turn {
            Some(turn) if is_duplicate => state_of(&sessions, &id, turn, seq).await?,
            _ if steer.is_none() && client.attached.turn_id.is_some() => (InputState::Queued, None),
            _ => (InputState::Running, None),
        };
        let taken = TakenInput {
            turn_id: turn,
            message_id,
            seq,
            state,
            duplicate: is_duplicate,
            end,
        };
        let answer = EitherAnswer::Second(WithStatus(Body(taken)));
        return Ok((mark_replayed(is_duplicate), answer));
    }
    let Some(turn_id) = turn else {
        return Err(Problem::conflict("the input began no turn"));
    };
    let (end, text) = tokio::select! {
        end = end_of(client, &sessions, &id, &turn_id, is_duplicate.then_some(seq)) => end?,
        () = shared.known_tokens.ended(principal) => return Err(Problem::unauthorized("the token was revoked, or has expired")),
        () = shared.ending() => return Err(Problem::unavailable("the daemon ends; the turn's end is in the events")),
    };
    let ended = EndedTurn {
        turn_id,
        message_id,
        seq,
        duplicate: is_duplicate,
        end,
        text,
    };
    let answer = EitherAnswer::First(Body(ended));
    Ok((mark_replayed(is_duplicate), answer))
}

/// Returns the id of an input, by which the session recognizes a repeated one.
fn message_id(headers: &HeaderMap, given: Option<String>) -> Answer<MessageId> {
    let key = idempotency::key_of(headers)?;
    let given = given.map(MessageId::new).transpose();
    let given = given.map_err(|error| Problem::unprocessable(format!("message_id: {error}")))?;
    match (key, given) {
        (Some(key), Some(given)) if given != key => Err(Problem::unprocessable(
            "Idempotency-Key and message_id differ; send one of them",
        )),
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => {
            MessageId::new(uuid::Uuid::new_v4().simple().to_string()).map_err(Problem::failed)
        }
    }
}

/// Reads the limits of an input's turn.
fn input_limits(limits: Map<String, Value>) -> Answer<InputLimits> {
    let mut read = InputLimits::default();
    for (name, value) in limits {
        let limit = match &*name {
            "max_tokens" => &mut read.max_tokens,
            "turn_timeout_ms" => &mut read.turn_timeout_ms,
            "inactivity_timeout_ms" => &mut read.inactivity_timeout_ms,
            _ => {
                return Err(Problem::unprocessable(format!(
                    "limits.{name} is no limit; use max_tokens, turn_timeout_ms or inactivity_timeout_ms"
                )));
            }
        };
        *limit = value.as_u64();
        if limit.is_none() {
            return Err(Problem::unprocessable(format!(
                "limits.{name} must be a whole number"
            )));
        }
    }
    Ok(read)
}

/// Moves the uploads that an input names into the journal, and returns the files there.
async fn named_files(
    shared: &Shared,
    sessions: &Sessions,
    id: &SessionId,
    named: Vec<NamedFile>,
) -> Answer<Vec<FileInput>> {
    if named.len() > FILES {
        return Err(Problem::unprocessable(format!(
            "an input may name {FILES} files at most"
        )));
    }
    let mut files = Vec::new();
    for file in named {
        let (sha256, name, mime_type) = match file {
            NamedFile::Digest(sha256) => (sha256, None, None),
            NamedFile::Labelled {
                sha256,
                name,
                mime_type,
            } => (sha256, name, mime_type),
        };
        require_shown_name(name.as_deref())?;
        let (path, label) = move_to_journal(shared, sessions, id, &sha256).await?;
        files.push(FileInput {
            file_name: name.or(label),
            file_mime_type: mime_type,
            size: tokio::fs::metadata(&path)
                .await
                .ok()
                .map(|found| found.len()),
            sha256: Sha256::parse(&sha256),
            file_path: path.to_string_lossy().into_owned(),
        });
    }
    Ok(files)
}

/// Moves an upload into the journal, if it is not there yet. Returns its path there and its label.
pub(super) async fn move_to_journal(
    shared: &Shared,
    sessions: &Sessions,
    id: &SessionId,
    sha256: &str,
) -> Answer<(PathBuf, Option<String>)> {
    let find = {
        let uploads = shared.uploads.clone();
        let id = id.clone();
        let sha256 = sha256.to_owned();
        move || Ok::<_, UploadError>(uploads.find(&id, &sha256))
    };
    let (uploaded, label) = match blocking(find).await? {
        Some(upload) => (upload.path, upload.label),
        None => (None, None),
    };
    let is_uploaded = uploaded.is_some();
    let kept = match uploaded {
        Some(path) => sessions.keep_file(id, path, sha256.to_owned()).await,
        None => Ok(()),
    };
    // Another input that names the same upload may have moved it first.
    let Some(path) = sessions.file(id, sha256).await? else {
        kept?;
        return Err(Problem::unprocessable(format!(
            "there is no file {sha256}; give it by PUT /v1/sessions/{id}/files"
        )));
    };
    if is_uploaded {
        let uploads = shared.uploads.clone();
        let id = id.clone();
        let sha256 = sha256.to_owned();
        blocking(move || uploads.release_bytes(&id, &sha256)).await?;
    }
    Ok((path, label))
}

/// Returns the outcome of the input of this id, if this reply has it.
fn accepted(
    received: &ReceivedMessage<'_>,
    message_id: &MessageId,
) -> Option<Answer<AcceptedInput>> {
    match received.body {
        EntryBody::Relay(RelayBody::InputResult(result))
            if result.message_id.as_ref() == Some(message_id) =>
        {
            Some(Ok(AcceptedInput {
                turn: received.turn_id.cloned(),
                seq: result.seq,
                is_duplicate: result.duplicate == Some(true),
            }))
        }
        // A reply to this client, and no entry: the input was refused.
        EntryBody::Adapter(AdapterBody::TurnComplete(end))
            if received.turn_id.is_none() && received.entry.is_none() =>
        {
            Some(Err(Problem::of_failure(end.error.as_ref())))
        }
        EntryBody::Adapter(AdapterBody::SteerResult(result))
            if result.message_id.as_ref() == Some(message_id) && !result.delivered =>
        {
            let reason = result.reason.clone().unwrap_or_default();
            Some(Err(Problem::conflict(reason)))
        }
        _ => None,
    }
}

/// Returns the state of a turn that the journal has since the entry `seq`, and its end if it has
/// ended and the journal still has that.
async fn state_of(
    sessions: &Sessions,
    id: &SessionId,
    turn: &TurnId,
    seq: u64,
) -> Answer<(InputState, Option<Box<RawValue>>)> {
    let mut client = SessionClient::join_after(sessions, id, seq).await?;
    if client.attached.turn_id.as_ref() == Some(turn) {
        return Ok((InputState::Running, None));
    }
    if client.attached.queued.iter().flatten().any(|it| it == turn) {
        return Ok((InputState::Queued, None));
    }
    let last = client.attached.last_seq;
    if seq >= last {
        return Ok((InputState::Ended, None));
    }
    let end_or_last = |received: ReceivedMessage<'_>| {
        let entry = received.entry?;
        let is_end = received.turn_id == Some(turn)
            && matches!(
                received.body,
                EntryBody::Adapter(AdapterBody::TurnComplete(_))
            );
        if is_end {
            return Some(RawValue::from_string(without_path(entry.line()).into_owned()).ok());
        }
        (entry.seq() >= last).then_some(None)
    };
    let end = client.wait_for_reply(end_or_last).await?;
    Ok((InputState::Ended, end))
}

/// Waits for the end of a turn, and returns its entry and what the agent wrote in it.
async fn end_of(
    mut client: SessionClient,
    sessions: &Sessions,
    id: &SessionId,
    turn: &TurnId,
    from: Option<u64>,
) -> Answer<(Box<RawValue>, String)> {
    if let Some(seq) = from {
        // The input is a repeated one: its end may be there.
        client = SessionClient::join_after(sessions, id, seq).await?;
    }
    let mut text = String::new();
    client
        .wait_for(|received| {
            let entry = received.entry?;
            if received.turn_id != Some(turn) {
                return None;
            }
            match received.body {
                EntryBody::Adapter(AdapterBody::Output(output))
                    if output.channel.clone().unwrap_or_default() == Channel::Stdout =>
                {
                    let room = TEXT.saturating_sub(text.len());
                    text.push_str(&output.content[..output.content.floor_char_boundary(room)]);
                    None
                }
                EntryBody::Adapter(AdapterBody::TurnComplete(_)) => {
                    RawValue::from_string(without_path(entry.line()).into_owned()).ok()
                }
                _ => None,
            }
        })
        .await
        .map(|end| (end, text))
}
