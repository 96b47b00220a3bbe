//! Folds an adapter's message down to the extensions that its peer agreed on ([ext.2], [ext.3]).
//!
//! Nothing that the user needs lives only in an extension: failures become `output` on channel
//! `system`, questions `output` on channel `question`. Everything else is left out.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    AdapterBody, AdapterMessage, Channel, ClosedReason, Context, Envelope, Extensions, Failure,
    FileOutput, InputRequest, Json, Output, PermissionRequest, SessionClosed, SessionInfo, Status,
    ToolCallId, ToolEnd, ToolStart, TurnComplete,
};

/// The author's choice whether tool events go to a peer without `events` as JSON on channel `tool`
/// ([ext.3]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolsAsOutput {
    /// Left out.
    #[default]
    No,
    /// Calls and results are written as JSON on channel `tool`: `tool_use` and `tool_result`.
    Yes,
}

/// The result of folding one message.
#[derive(Debug, Clone, PartialEq)]
pub enum Folded {
    /// The message is left out.
    Nothing,
    /// The message is sent, perhaps with fewer members.
    One(AdapterMessage),
    /// Two are sent, in this order.
    Two(AdapterMessage, AdapterMessage),
}

impl Folded {
    /// Returns the messages that are sent, in order.
    pub fn messages(&self) -> impl Iterator<Item = &AdapterMessage> {
        let both = match self {
            Self::Nothing => [None, None],
            Self::One(message) => [Some(message), None],
            Self::Two(first, second) => [Some(first), Some(second)],
        };
        both.into_iter().flatten()
    }
}

/// Folds a message down to what a peer with these extensions may receive.
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
        let text = match &mut message.body {
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
                    let text = system_output(&message, CONTEXT_LOST.to_owned());
                    return Folded::Two(message, text);
                }
                None
            }
            _ => None,
        };
        return match text {
            Some(text) => Folded::Two(system_output(&message, text), message),
            None => Folded::One(message),
        };
    }
    match &message.body {
        AdapterBody::Error(error) => Folded::One(system_output(&message, error.message.clone())),
        AdapterBody::InputRequest(question) => Folded::One(question_as_output(&message, question)),
        AdapterBody::SessionClosed(closed) => {
            Folded::One(system_output(&message, closed_text(closed)))
        }
        AdapterBody::SessionInfo(info) if info.context == Some(Context::Lost) => {
            Folded::One(system_output(&message, CONTEXT_LOST.to_owned()))
        }
        AdapterBody::SessionReady(ready) if ready.info.context == Some(Context::Lost) => {
            Folded::One(system_output(&message, CONTEXT_LOST.to_owned()))
        }
        AdapterBody::ToolStart(start) if tools == ToolsAsOutput::Yes => {
            Folded::One(as_json(&message, &ToolBlock::from_call(start)))
        }
        AdapterBody::ToolEnd(end) if tools == ToolsAsOutput::Yes => {
            Folded::One(as_json(&message, &ToolBlock::from_result(end)))
        }
        _ => Folded::Nothing,
    }
}

const CONTEXT_LOST: &str = "the agent started afresh: it does not remember the earlier turns";

/// Removes the members of extensions that were not agreed on. A reader ignores them when a peer
/// sends them anyway ([ext.2]).
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

/// [`strip`] for the content of a `session.ready` or a `session.info`.
pub fn strip_info(info: &mut SessionInfo, agreed: Extensions) {
    if !agreed.contains(Extensions::RESUME) {
        info.native_session_id = None;
        info.display_id = None;
        info.context = None;
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

/// The question as text, for a peer without `questions`. It is cancelled at once ([ext.3]).
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
    output_on(message, Channel::Question, text)
}

fn system_output(message: &AdapterMessage, text: String) -> AdapterMessage {
    output_on(message, Channel::System, text)
}

fn output_on(message: &AdapterMessage, channel: Channel, text: String) -> AdapterMessage {
    Envelope::new(message.session_id.clone(), Output::on(channel, text))
        .of_turn(message.turn_id.clone())
}

/// A tool call or its result, in the form that user interfaces without `events` read.
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

/// The input of a tool call; an empty object if it is unknown.
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
    fn from_call(start: &'a ToolStart) -> Self {
        Self::ToolUse {
            id: &start.tool_call_id,
            name: &start.tool,
            input: ToolInput(start.input.as_ref()),
        }
    }

    fn from_result(end: &'a ToolEnd) -> Self {
        Self::ToolResult {
            tool_use_id: &end.tool_call_id,
            content: end.content.as_deref().unwrap_or_default(),
            is_error: end.is_error == Some(true),
        }
    }
}

fn as_json(message: &AdapterMessage, block: &ToolBlock<'_>) -> AdapterMessage {
    // Strings and JSON that was read cannot fail.
    output_on(
        message,
        Channel::Tool,
        serde_json::to_string(block).unwrap_or_default(),
    )
}

/// Strips the end of a turn, and returns the text that replaces its failure.
fn fold_end(end: &mut TurnComplete, agreed: Extensions) -> Option<String> {
    if !agreed.contains(Extensions::USAGE) {
        end.usage = None;
    }
    if !agreed.contains(Extensions::RESUME) {
        end.native_session_id = None;
        end.session_params = None;
        end.clear_session = None;
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

/// The text of a failure for a person: its message, otherwise the fallback.
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
        Some(ClosedReason::Failed) | None => "the session cannot continue",
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

/// Folds a `session.info`: a lost context becomes a text without `resume`, and an empty message is
/// left out.
fn fold_info(mut info: SessionInfo, mut message: AdapterMessage, agreed: Extensions) -> Folded {
    let lost = info.context == Some(Context::Lost) && !agreed.contains(Extensions::RESUME);
    let text = lost.then(|| system_output(&message, CONTEXT_LOST.to_owned()));
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
        file.size = None;
        file.sha256 = None;
    }
}

fn strip_request(request: &mut PermissionRequest) {
    request.input = None;
    request.title = None;
    request.tool_call_id = None;
    request.diffs = None;
    request.expires_at = None;
    request.options = None;
    request.truncated = None;
}

fn strip_event_members(body: &mut AdapterBody) {
    match body {
        AdapterBody::Output(output) => {
            output.message_id = None;
            output.parent_tool_call_id = None;
            output.history = None;
        }
        AdapterBody::PermissionRequest(request) => {
            request.message_id = None;
            request.parent_tool_call_id = None;
            request.history = None;
        }
        _ => {}
    }
}
