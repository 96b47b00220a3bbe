//! The fold-down: an adapter's message as a peer with fewer extensions may receive it ([ext.2], [ext.3]).
//!
//! Nothing the user needs lives only in an extension: failures become `output` on channel `system`, questions `output`
//! on channel `question`; what only enriches is left out.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    AdapterBody, AdapterMessage, Channel, ClosedReason, Context, Envelope, Extensions, Failure,
    FileOutput, InputRequest, Json, Output, PermissionRequest, SessionClosed, SessionInfo, Status,
    ToolCallId, ToolEnd, ToolStart, TurnComplete,
};

/// The author's choice whether tool events go to a peer without `events` as JSON on channel `tool` ([ext.3]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolsAsOutput {
    /// They are left out.
    #[default]
    No,
    /// Calls and results are written as JSON on channel `tool`: `tool_use` and `tool_result`.
    Yes,
}

/// The result of folding one message.
#[derive(Debug, Clone, PartialEq)]
pub enum Folded {
    /// It is left out.
    Nothing,
    /// It is sent, perhaps with fewer members.
    One(AdapterMessage),
    /// Two are sent, in this order.
    Two(AdapterMessage, AdapterMessage),
}

impl IntoIterator for Folded {
    type Item = AdapterMessage;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<AdapterMessage>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        let both = match self {
            Self::Nothing => [None, None],
            Self::One(message) => [Some(message), None],
            Self::Two(first, second) => [Some(first), Some(second)],
        };
        both.into_iter().flatten()
    }
}

/// Writes a message down to what a peer with these extensions may receive.
#[must_use]
pub fn fold(mut message: AdapterMessage, agreed: Extensions, tools: ToolsAsOutput) -> Folded {
    let has = |extension| agreed.contains(extension);
    if !has(Extensions::TURNS) {
        message.turn_id = None;
    }
    if agreed.is_empty() {
        message.meta = None;
    }
    if !has(Extensions::LARGE) {
        message.large = None;
    }
    if !has(Extensions::EVENTS) {
        strip_event_members(&mut message.body);
    }
    if message.body.kind().is_agreed(agreed) {
        let told = match &mut message.body {
            AdapterBody::TurnComplete(end) => fold_end(end, agreed),
            AdapterBody::PermissionRequest(request) => {
                if !has(Extensions::CONTROL) {
                    strip_request(request);
                }
                None
            }
            AdapterBody::FileOutput(file) => {
                strip_file(file, agreed);
                None
            }
            AdapterBody::SessionInfo(info) => {
                return fold_info(info.as_ref().clone(), message, agreed);
            }
            AdapterBody::SessionReady(ready) => {
                let lost = ready.info.context == Some(Context::Lost) && !has(Extensions::RESUME);
                strip_info(&mut ready.info, agreed);
                if lost {
                    // The first message of a session stays the first ([ext.2]).
                    let text = system(&message, CONTEXT_LOST.to_owned());
                    return Folded::Two(message, text);
                }
                None
            }
            _ => None,
        };
        return match told {
            Some(text) => Folded::Two(system(&message, text), message),
            None => Folded::One(message),
        };
    }
    match &message.body {
        AdapterBody::Error(error) => Folded::One(system(&message, error.message.clone())),
        AdapterBody::InputRequest(question) => Folded::One(question_as_output(&message, question)),
        AdapterBody::SessionClosed(closed) => Folded::One(system(&message, closed_text(closed))),
        AdapterBody::SessionInfo(info) if info.context == Some(Context::Lost) => {
            Folded::One(system(&message, CONTEXT_LOST.to_owned()))
        }
        AdapterBody::SessionReady(ready) if ready.info.context == Some(Context::Lost) => {
            Folded::One(system(&message, CONTEXT_LOST.to_owned()))
        }
        AdapterBody::ToolStart(start) if tools == ToolsAsOutput::Yes => {
            Folded::One(as_json(&message, &ToolBlock::of_call(start)))
        }
        AdapterBody::ToolEnd(end) if tools == ToolsAsOutput::Yes => {
            Folded::One(as_json(&message, &ToolBlock::of_result(end)))
        }
        _ => Folded::Nothing,
    }
}

const CONTEXT_LOST: &str = "the agent was started afresh: what was said before is not remembered";

/// Leaves out the members of extensions that are not agreed on: what a reader makes of a peer that sends them all the
/// same ([ext.2]).
pub fn strip(body: &mut AdapterBody, agreed: Extensions) {
    if !agreed.contains(Extensions::EVENTS) {
        strip_event_members(body);
    }
    match body {
        AdapterBody::TurnComplete(end) => {
            fold_end(end, agreed);
        }
        AdapterBody::PermissionRequest(request) if !agreed.contains(Extensions::CONTROL) => {
            strip_request(request);
        }
        AdapterBody::FileOutput(file) => strip_file(file, agreed),
        AdapterBody::SessionInfo(info) => strip_info(info, agreed),
        AdapterBody::SessionReady(ready) => strip_info(&mut ready.info, agreed),
        _ => {}
    }
}

/// [`strip`] for what a `session.ready` or a `session.info` says of the session.
pub fn strip_info(info: &mut SessionInfo, agreed: Extensions) {
    if !agreed.contains(Extensions::RESUME) {
        (info.native_session_id, info.display_id, info.context) = (None, None, None);
    }
    if !agreed.contains(Extensions::TURNS) {
        info.input_modes = None;
    }
    if !agreed.contains(Extensions::OPTIONS) {
        let SessionInfo {
            adapter,
            capabilities,
            input_modes,
            native_session_id,
            display_id,
            context,
            ..
        } = std::mem::take(info);
        *info = SessionInfo {
            adapter,
            capabilities,
            input_modes,
            native_session_id,
            display_id,
            context,
            ..SessionInfo::default()
        };
    }
}

/// A question as text, for a peer without `questions`; it resolves as cancelled at once ([ext.3]).
#[must_use]
pub fn question_as_output(message: &AdapterMessage, question: &InputRequest) -> AdapterMessage {
    let mut text = question.prompt.clone();
    for field in question.fields.iter().flatten() {
        text.push_str("\n- ");
        text.push_str(field.label.as_deref().unwrap_or(&field.id));
        for choice in field.choices.iter().flatten() {
            text.push_str("\n  - ");
            text.push_str(choice.label.as_deref().unwrap_or(&choice.id));
        }
    }
    said(message, Channel::Question, text)
}

fn system(message: &AdapterMessage, text: String) -> AdapterMessage {
    said(message, Channel::System, text)
}

fn said(message: &AdapterMessage, channel: Channel, text: String) -> AdapterMessage {
    Envelope::new(message.session_id.clone(), Output::on(channel, text))
        .of_turn(message.turn_id.clone())
}

/// A call of a tool, or its result, as user interfaces without `events` read it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolBlock<'a> {
    ToolUse {
        id: &'a ToolCallId,
        name: &'a str,
        input: ToolInput<'a>,
    },
    ToolResult {
        tool_use_id: &'a ToolCallId,
        content: &'a str,
        is_error: bool,
    },
}

/// An input; an empty object where it is not known.
struct ToolInput<'a>(Option<&'a Json>);

impl Serialize for ToolInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(input) => input.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

impl<'a> ToolBlock<'a> {
    fn of_call(start: &'a ToolStart) -> Self {
        Self::ToolUse {
            id: &start.tool_call_id,
            name: &start.tool,
            input: ToolInput(start.input.as_ref()),
        }
    }

    fn of_result(end: &'a ToolEnd) -> Self {
        Self::ToolResult {
            tool_use_id: &end.tool_call_id,
            content: end.content.as_deref().unwrap_or_default(),
            is_error: end.is_error == Some(true),
        }
    }
}

fn as_json(message: &AdapterMessage, block: &ToolBlock<'_>) -> AdapterMessage {
    // Texts and JSON that was read: it cannot fail.
    said(
        message,
        Channel::Tool,
        serde_json::to_string(block).unwrap_or_default(),
    )
}

/// Strips the end of a turn; the text tells what would be lost with it.
fn fold_end(end: &mut TurnComplete, agreed: Extensions) -> Option<String> {
    if !agreed.contains(Extensions::USAGE) {
        end.usage = None;
    }
    if !agreed.contains(Extensions::RESUME) {
        (end.native_session_id, end.session_params, end.clear_session) = (None, None, None);
    }
    if agreed.contains(Extensions::TURNS) {
        return None;
    }
    let fallback = match end.status_or_completed() {
        Status::Completed | Status::Stopped => None,
        Status::Failed => Some("the turn failed"),
        Status::Refused => Some("the agent declined"),
        Status::Limit => Some("a limit is reached"),
    };
    let text = failure_text(&end.error.take().unwrap_or_default(), fallback);
    let TurnComplete {
        usage,
        native_session_id,
        session_params,
        clear_session,
        ..
    } = std::mem::take(end);
    *end = TurnComplete {
        usage,
        native_session_id,
        session_params,
        clear_session,
        ..TurnComplete::default()
    };
    text
}

/// What a person reads of a failure: its message, or else the fallback.
fn failure_text(failure: &Failure, fallback: Option<&str>) -> Option<String> {
    let message = failure
        .message
        .as_deref()
        .filter(|message| !message.is_empty());
    let mut text = message.or(fallback)?.to_owned();
    if let Some(retry_at) = &failure.retry_at {
        text.push_str(" (try again at ");
        text.push_str(retry_at);
        text.push(')');
    }
    Some(text)
}

fn closed_text(closed: &SessionClosed) -> String {
    let reason = match closed.reason {
        Some(ClosedReason::Finished) => "the session has ended",
        Some(ClosedReason::Failed) | None => "the session cannot go on",
        Some(ClosedReason::Refused) => "the session was refused",
        Some(ClosedReason::UnknownAgent) => "there is no such agent",
        Some(ClosedReason::Limit) => "the session has reached a limit",
        Some(ClosedReason::Protocol) => {
            "the session cannot be served in this version of the protocol"
        }
        Some(ClosedReason::Shutdown) => "the session has ended: shutting down",
    };
    match closed
        .error
        .as_ref()
        .and_then(|error| error.message.as_deref())
    {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}

/// A lost context becomes a text where `resume` is not agreed on; nothing is sent that would be empty.
fn fold_info(mut info: SessionInfo, mut message: AdapterMessage, agreed: Extensions) -> Folded {
    let lost = info.context == Some(Context::Lost) && !agreed.contains(Extensions::RESUME);
    let text = lost.then(|| system(&message, CONTEXT_LOST.to_owned()));
    let was_empty = info == SessionInfo::default();
    strip_info(&mut info, agreed);
    let empty = info == SessionInfo::default() && !was_empty;
    message.body = AdapterBody::SessionInfo(Box::new(info));
    match (text, empty) {
        (Some(text), true) => Folded::One(text),
        (Some(text), false) => Folded::Two(text, message),
        (None, true) => Folded::Nothing,
        (None, false) => Folded::One(message),
    }
}

fn strip_file(file: &mut FileOutput, agreed: Extensions) {
    if !agreed.contains(Extensions::LARGE) {
        (file.size, file.sha256) = (None, None);
    }
}

fn strip_request(request: &mut PermissionRequest) {
    (request.input, request.title, request.tool_call_id) = (None, None, None);
    (request.diffs, request.expires_at, request.options) = (None, None, None);
    request.truncated = None;
}

fn strip_event_members(body: &mut AdapterBody) {
    match body {
        AdapterBody::Output(output) => {
            (
                output.message_id,
                output.parent_tool_call_id,
                output.history,
            ) = (None, None, None);
        }
        AdapterBody::PermissionRequest(request) => {
            (
                request.message_id,
                request.parent_tool_call_id,
                request.history,
            ) = (None, None, None);
        }
        _ => {}
    }
}
