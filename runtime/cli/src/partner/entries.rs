//! Entries of a journal as events, and in words where no event says it.

use std::time::Duration;

use trunkline_host::{
    Cause, Event, EventKind, ExitStatus, File, TurnEnd, TurnNo, TurnScope,
    protocol::{
        AdapterBody, Category, Context, Delivered, ErrorEvent, Fact, FileOutput, HostFact, Lag,
        Meta, RequestDecided, SessionInfo, Status, StopReason, TurnComplete,
    },
};

use super::Heard;
use crate::{paint, terminal::one_line};

/// What an adapter's message is, but for requests and ends.
pub(super) fn event(scope: TurnScope, body: AdapterBody, meta: Option<Meta>) -> Heard {
    match EventKind::from_body(body) {
        Some(kind) => Heard::Event(Event {
            meta: meta.map(Box::new),
            ..Event::new(scope, kind)
        }),
        None => Heard::Nothing,
    }
}

/// An event that the relay's own message stands for.
fn said(kind: EventKind) -> Heard {
    Heard::Event(Event::new(TurnScope::Outside, kind))
}

/// Returns the end of a turn as a host in this process would report it.
pub(super) fn turn_end(
    turn: TurnNo,
    mut complete: TurnComplete,
    took: Option<Duration>,
) -> TurnEnd {
    let status = complete.status_or_completed();
    let (code, signal) = (complete.exit_code.take(), complete.signal.take());
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

/// The causes of ends that a host makes.
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

/// A file that the agent gave.
pub(super) fn file(scope: TurnScope, file: FileOutput) -> Heard {
    let (Some(size), Some(sha256)) = (file.size, file.sha256) else {
        let name = file.file_name.unwrap_or(file.file_path);
        return Heard::Note {
            mark: "↓",
            style: paint::ACT,
            text: one_line(&name),
        };
    };
    let file = File {
        name: file.file_name.unwrap_or_default(),
        mime_type: file.file_mime_type.unwrap_or_default(),
        path: file.file_path.into(),
        size,
        sha256,
    };
    Heard::Event(Event::new(scope, EventKind::File(Box::new(file))))
}

/// What happened to the session.
pub(super) fn fact(fact: HostFact) -> Heard {
    let message = fact.message.unwrap_or_default();
    match fact.fact {
        Some(Fact::ProcessEnded) => said(EventKind::Error(ErrorEvent {
            category: Some(Category::ProcessExit),
            message: if message.is_empty() {
                "the agent's process ended".to_owned()
            } else {
                message
            },
            ..ErrorEvent::default()
        })),
        Some(Fact::Resumed) => said(EventKind::Info(Box::new(SessionInfo {
            context: fact.context,
            ..SessionInfo::default()
        }))),
        Some(Fact::HostRestarted) => Heard::Note {
            mark: "!",
            style: paint::CARE,
            text: "the host was started again".to_owned(),
        },
        Some(Fact::Moved) => {
            let lost = if fact.context == Some(Context::Lost) {
                ", without what its agent had"
            } else {
                ""
            };
            let text = format!("the session moved to the host {message}{lost}");
            Heard::Note {
                mark: "!",
                style: paint::CARE,
                text,
            }
        }
        Some(Fact::Opened | Fact::ForkedFrom) | None => Heard::Nothing,
    }
}

/// How a request was settled.
pub(super) fn decided(decided: RequestDecided) -> Heard {
    let text = match (decided.reason, decided.approved) {
        (Some(StopReason::User) | None, Some(true)) => "allowed".to_owned(),
        (Some(StopReason::User) | None, Some(false)) => "denied".to_owned(),
        (Some(StopReason::User) | None, None) if decided.values.is_some() => "answered".to_owned(),
        (Some(StopReason::User) | None, None) => "not answered".to_owned(),
        (Some(reason), _) => format!("the request was settled: {reason}"),
    };
    Heard::Decided {
        request_id: decided.request_id,
        text,
    }
}

/// That entries are missing.
pub(super) fn lag(lag: &Lag) -> Heard {
    let text = format!(
        "entries {} to {} are not in the journal any more",
        lag.from, lag.to
    );
    Heard::Note {
        mark: "!",
        style: paint::CARE,
        text,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_host::protocol::Failure;

    use super::*;

    #[test]
    fn an_end_is_told_as_a_host_of_this_process_tells_it() {
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
