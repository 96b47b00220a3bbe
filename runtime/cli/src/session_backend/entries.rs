//! Entries of a journal as events, and as text if no event reports them.

use std::time::Duration;

use trunkline_host::{
    Cause, Event, EventKind, ExitStatus, File, TurnEnd, TurnNo, TurnScope,
    protocol::{
        AdapterBody, Category, Context, Delivered, ErrorEvent, Fact, FileOutput, HostFact,
        RelayBody, RequestDecided, SessionInfo, Status, TurnComplete,
    },
};
use trunkline_sessions::decision_text;

use super::DisplayEvent;
use crate::{paint, terminal::one_line};

/// Converts a message of the adapter that is neither an end nor a request to this user.
pub(super) fn adapter_message(scope: TurnScope, body: AdapterBody) -> DisplayEvent {
    match body {
        AdapterBody::PermissionRequest(request) => {
            let about = request
                .title
                .or(request.description)
                .or(request.resource)
                .unwrap_or_default();
            let tool = one_line(&request.tool);
            let about = one_line(&about);
            let text = format!("{tool} asks for permission: {about}");
            DisplayEvent::note("?", paint::CARE, text)
        }
        AdapterBody::InputRequest(request) => {
            DisplayEvent::note("?", paint::CARE, one_line(&request.prompt))
        }
        AdapterBody::SteerResult(result) if !result.delivered => {
            let reason = result.reason.as_deref().unwrap_or("no reason given");
            let text = format!("not added: {}", one_line(reason));
            DisplayEvent::note("✗", paint::CARE, text)
        }
        AdapterBody::FileOutput(file) => file_output(scope, file),
        body => EventKind::from_body(body).map_or(DisplayEvent::Nothing, |kind| {
            DisplayEvent::Event(Event::new(scope, kind))
        }),
    }
}

/// Converts an entry of the relay that does not start a turn. Own entries are shown by the command
/// that caused them.
pub(super) fn relay_message(scope: TurnScope, body: RelayBody, is_own: bool) -> DisplayEvent {
    match body {
        RelayBody::InputSteered(steered) => DisplayEvent::Input(steered.content),
        RelayBody::RequestDecided(decided) if !is_own => request_decided(decided),
        RelayBody::FileDelivered(file) if !is_own => {
            let name = one_line(file.file_name.as_deref().unwrap_or("a file"));
            DisplayEvent::note("↑", paint::ACT, name)
        }
        RelayBody::HostFact(fact) => host_fact(scope, fact),
        RelayBody::Lag(lag) => {
            let text = format!(
                "entries {} to {} were removed from the journal",
                lag.from, lag.to
            );
            DisplayEvent::warning(text)
        }
        // The end of the turn shows the stop.
        _ => DisplayEvent::Nothing,
    }
}

/// Creates an event for an entry of the relay.
fn event(kind: EventKind) -> DisplayEvent {
    DisplayEvent::Event(Event::new(TurnScope::Outside, kind))
}

/// Returns the end of a turn as a host in this process would report it.
pub(super) fn turn_end(
    turn: TurnNo,
    mut complete: TurnComplete,
    took: Option<Duration>,
) -> TurnEnd {
    let status = complete.status_or_completed();
    let code = complete.exit_code.take();
    let signal = complete.signal.take();
    let exit = (code.is_some() || signal.is_some()).then_some(ExitStatus { code, signal });
    let unsaid = if exit.is_some() {
        Cause::ProcessExit
    } else {
        Cause::Complete
    };
    let named = complete.cause.take();
    let named = CAUSES
        .into_iter()
        .find(|cause| named.as_deref() == Some(cause.as_str()));
    let cause = named.unwrap_or(unsaid);
    let stderr = complete
        .error
        .as_mut()
        .and_then(|error| error.stderr.take());
    let whole_line = |line: String| line + "\n";
    let stderr_tail = exit.map(|_| stderr.into_iter().flatten().map(whole_line).collect());
    let unsaid = if status == Status::Completed {
        Delivered::Yes
    } else {
        Delivered::Unknown
    };
    TurnEnd {
        turn,
        cause,
        status,
        error: complete.error.clone(),
        delivered: complete.delivered.unwrap_or(unsaid),
        exit,
        stderr_tail,
        took: took
            .or(complete.duration_ms.map(Duration::from_millis))
            .unwrap_or_default(),
        complete: Some(Box::new(complete)),
    }
}

/// Causes of ends that a host makes.
const CAUSES: [Cause; 16] = [
    Cause::StoppedUnsent,
    Cause::ProcessExit,
    Cause::EndOfStream,
    Cause::StartTimeout,
    Cause::StartFailed,
    Cause::TurnTimeout,
    Cause::Inactivity,
    Cause::StopUnanswered,
    Cause::SessionClosed,
    Cause::Closed,
    Cause::Shutdown,
    Cause::Oversize,
    Cause::Limit,
    Cause::MaxTokens,
    Cause::ToolLoop,
    Cause::Refused,
];

/// Converts a file of the agent.
fn file_output(scope: TurnScope, file: FileOutput) -> DisplayEvent {
    let (Some(size), Some(sha256)) = (file.size, file.sha256) else {
        let name = file.file_name.unwrap_or(file.file_path);
        return DisplayEvent::note("↓", paint::ACT, one_line(&name));
    };
    let file = File {
        name: file.file_name.unwrap_or_default(),
        mime_type: file.file_mime_type.unwrap_or_default(),
        path: file.file_path.into(),
        size,
        sha256,
    };
    DisplayEvent::Event(Event::new(scope, EventKind::File(Box::new(file))))
}

fn host_fact(scope: TurnScope, fact: HostFact) -> DisplayEvent {
    let message = fact.message.unwrap_or_default();
    match fact.fact {
        Some(Fact::ProcessEnded) => event(EventKind::Error(ErrorEvent {
            category: Some(Category::ProcessExit),
            message: if message.is_empty() {
                "the agent's process ended".to_owned()
            } else {
                message
            },
            ..ErrorEvent::default()
        })),
        Some(Fact::Resumed) => event(EventKind::Info(Box::new(SessionInfo {
            context: fact.context,
            ..SessionInfo::default()
        }))),
        Some(Fact::HostRestarted) => {
            let text = "the host was restarted".to_owned();
            DisplayEvent::warning(text)
        }
        Some(Fact::Moved) => {
            let lost = if fact.context == Some(Context::Lost) {
                ", but its agent lost its state"
            } else {
                ""
            };
            let text = format!("the session moved to the host {message}{lost}");
            DisplayEvent::warning(text)
        }
        Some(Fact::Stalled) => {
            let kind = EventKind::Stalled {
                silent_for: Duration::from_millis(fact.silent_ms.unwrap_or_default()),
                deadline_in: fact.deadline_ms.map(Duration::from_millis),
            };
            DisplayEvent::Event(Event::new(scope, kind))
        }
        Some(Fact::Opened | Fact::ForkedFrom) | None => DisplayEvent::Nothing,
    }
}

fn request_decided(decided: RequestDecided) -> DisplayEvent {
    let reason = decided.reason.map(|reason| reason.to_string());
    let is_answered = decided.values.is_some();
    let text = decision_text(decided.approved, reason.as_deref(), is_answered);
    DisplayEvent::Decided {
        request_id: decided.request_id,
        text,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_host::protocol::{Failure, RequestId, StopReason};

    use super::*;

    #[test]
    fn a_decision_has_the_words_of_the_history() {
        let no = None::<StopReason>;
        for (approved, reason, expected) in [
            (Some(true), Some(StopReason::Policy), "allowed"),
            (Some(false), no, "denied"),
            (
                Some(false),
                Some(StopReason::Shutdown),
                "not answered: shutdown",
            ),
            (None, Some(StopReason::Timeout), "not answered: timeout"),
            (None, no, "not answered"),
        ] {
            let decided = RequestDecided {
                request_id: RequestId::new("r").unwrap(),
                approved,
                reason,
                option_id: None,
                updated_input: None,
                values: None,
                cancelled: None,
                always: None,
                by: None,
                name: None,
            };
            let DisplayEvent::Decided { text, .. } = request_decided(decided) else {
                panic!("{expected}");
            };
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn an_end_is_the_one_that_a_host_of_this_process_reports() {
        let exit = Some(ExitStatus {
            code: Some(7),
            signal: None,
        });
        for (cause, exit, tail, message) in CAUSES
            .map(|cause| (cause, None, None, "why"))
            .into_iter()
            .chain([
                (Cause::Complete, None, None, "why"),
                (
                    Cause::ProcessExit,
                    exit,
                    Some("last\n"),
                    "it ended; its last words on stderr:\nlast\n",
                ),
                (Cause::EndOfStream, exit, Some(""), "it closed its output"),
            ])
        {
            let end = TurnEnd {
                turn: TurnNo::new(1),
                cause,
                status: Status::Failed,
                complete: None,
                error: Some(Failure::new(Category::Other, message)),
                delivered: Delivered::No,
                exit,
                stderr_tail: tail.map(str::to_owned),
                took: Duration::from_secs(2),
            };
            let told = turn_end(end.turn, end.clone().into(), Some(end.took));
            assert_eq!(told.cause, end.cause);
            assert_eq!(
                (told.status, told.delivered, told.took),
                (end.status, end.delivered, end.took)
            );
            assert_eq!(
                (told.exit, &told.stderr_tail),
                (end.exit, &end.stderr_tail),
                "{cause}"
            );
            assert_eq!(told.error, end.error);
        }
    }

    #[test]
    fn a_cause_that_is_not_known_is_left_alone() {
        let cause = |cause: Option<&str>| {
            let complete = TurnComplete {
                cause: cause.map(str::to_owned),
                ..TurnComplete::default()
            };
            turn_end(TurnNo::new(1), complete, None).cause
        };
        assert_eq!(cause(None), Cause::Complete);
        assert_eq!(cause(Some("none such")), Cause::Complete);
        assert_eq!(cause(Some("limit")), Cause::Limit);
    }
}
