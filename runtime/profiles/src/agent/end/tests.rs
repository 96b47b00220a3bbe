use trunkline_sdk::ToolCallId;
use trunkline_sdk::protocol::{Output, ToolEnd, ToolStart};

use super::*;

/// A sign, as an agent gives it.
#[derive(Debug, Clone, Copy)]
enum Sign {
    Text,
    Call,
    CallEnds,
    CallFails,
    StepBegins,
    StepEnds(&'static str),
    Error,
    Doubt,
    Noise(&'static str),
    Retries,
    Reports,
    Fails,
    ReportsByExit,
    Exits(i32),
    /// After a signal of this side.
    IsEnded(i32),
    Stop,
    Deadline,
}

use Sign::*;

fn event(event: impl Into<AdapterBody>) -> AdapterBody {
    event.into()
}

fn judged(given: &[Sign]) -> (&'static str, String) {
    let call = || ToolCallId::new("c").unwrap();
    let mut signs = EndSigns::default();
    for sign in given {
        match sign {
            Text => signs.note_event(&event(Output::text("An answer."))),
            Call => signs.note_event(&event(ToolStart::new(call(), "bash"))),
            CallEnds => signs.note_event(&event(ToolEnd::new(call()))),
            CallFails => signs.note_event(&event(ToolEnd {
                is_error: Some(true),
                content: Some("not allowed".to_owned()),
                ..ToolEnd::new(call())
            })),
            StepBegins => signs.begin_step(),
            StepEnds(reason) => signs.end_step(reason),
            Error => signs.note_error(failure::failed("401 no key", Some(401))),
            Doubt => signs.doubt(failure::failed("Loop detected, stopping execution", None)),
            Noise(line) => signs.note_noise(line.as_bytes()),
            Retries => signs.set_pending(PendingWork::Retry, true),
            Reports => signs.report(Ok(())),
            Fails => signs.report(Err(trunkline_sdk::Error::other("odd_reason"))),
            ReportsByExit => signs.report_by_exit(),
            Exits(code) => signs.exit(&ProcessEnd::with_stderr(*code, "")),
            IsEnded(code) => {
                let mut ended = ProcessEnd::with_stderr(*code, "");
                ended.is_forced = true;
                signs.exit(&ended);
            }
            Stop => signs.cut(Some(trunkline_sdk::Error::stopped())),
            Deadline => signs.cut(Some(trunkline_sdk::Error::new(Category::Timeout, "late"))),
        }
    }
    match signs.judge() {
        TurnEnd::NotOver => ("not over", String::new()),
        TurnEnd::Completed(reason) => ("completed", reason.unwrap_or_default()),
        TurnEnd::Ended(error) => (error.status().as_str(), error.to_string()),
    }
}

#[test]
fn a_turn_is_completed_only_if_every_sign_agrees() {
    for (signs, status, text) in [
        // Nothing contradicts.
        (&[Text, Reports][..], "completed", ""),
        (
            &[Text, StepEnds("stop"), Reports, Exits(0)],
            "completed",
            "stop",
        ),
        (
            &[Call, CallFails, Text, StepEnds("end_turn"), Reports],
            "completed",
            "end_turn",
        ),
        (
            &[StepBegins, Text, ReportsByExit, Exits(0)],
            "completed",
            "",
        ),
        // Silence is no failure.
        (&[Reports], "completed", ""),
        (&[Call, CallEnds, Reports], "completed", ""),
        (
            &[StepBegins, StepEnds("stop"), ReportsByExit, Exits(0)],
            "completed",
            "stop",
        ),
        // Beside another bad sign it is.
        (
            &[StepBegins, Call, CallFails, StepEnds("stop"), Reports],
            "failed",
            "not allowed",
        ),
        (&[Text, Call, CallFails, Reports], "failed", "not allowed"),
        (&[Doubt, Reports], "failed", "Loop detected"),
        (&[Doubt, Text, Reports], "completed", ""),
        (&[Call, Reports], "failed", "a tool call did not end"),
        (
            &[StepBegins, ReportsByExit, Exits(0)],
            "failed",
            "its last step did not end",
        ),
        (
            &[StepEnds("tool-calls"), StepBegins, ReportsByExit, Exits(0)],
            "failed",
            "did not end",
        ),
        (&[Noise(r#"{"type":"te"#), Reports], "failed", "broken JSON"),
        (&[Noise(r#"{"type":"te"#), Text, Reports], "completed", ""),
        (&[Noise("updating the index"), Reports], "completed", ""),
        // An error counts if no success of the same work follows.
        (&[Text, Error, Reports], "failed", "401 no key"),
        (&[Error, Text, Reports], "completed", ""),
        (&[Error, StepEnds("stop"), Reports], "completed", "stop"),
        (&[Error, Call, Error, Reports], "failed", "401 no key"),
        (&[Error, Exits(0)], "failed", "401 no key"),
        // The reason of the last step.
        (&[Text, StepEnds("tool_use"), Reports], "failed", "tool_use"),
        (
            &[Text, StepEnds("tool-calls"), ReportsByExit, Exits(0)],
            "failed",
            "tool-calls",
        ),
        (
            &[
                StepEnds("tool-calls"),
                StepBegins,
                Text,
                ReportsByExit,
                Exits(0),
            ],
            "completed",
            "",
        ),
        (&[Text, StepEnds("other"), Reports], "failed", "broke off"),
        (
            &[Text, StepEnds("length"), Reports],
            "limit",
            "output limit",
        ),
        (
            &[Text, StepEnds("max_turn_requests"), Reports],
            "limit",
            "as often",
        ),
        (&[Text, StepEnds("refusal"), Reports], "refused", "declined"),
        (&[Text, StepEnds("aborted"), Reports], "stopped", ""),
        (
            &[Text, StepEnds("new_reason"), Reports],
            "completed",
            "new_reason",
        ),
        (&[StepEnds("new_reason"), Reports], "failed", "new_reason"),
        // The agent's own report, and its exit.
        (&[Text, StepEnds("stop"), Fails], "failed", "odd_reason"),
        (&[Text, Reports, Exits(1)], "failed", "exit status 1"),
        (
            &[Text, StepEnds("stop"), ReportsByExit, Exits(1)],
            "failed",
            "exit status 1",
        ),
        (&[Text, StepEnds("stop"), Exits(0)], "failed", "ended"),
        (&[ReportsByExit, Exits(0)], "failed", "ended"),
        (&[Text, Reports, IsEnded(143)], "completed", ""),
        (&[Text, ReportsByExit, IsEnded(143)], "failed", "143"),
        (&[Text, IsEnded(143)], "failed", "143"),
        // An end that is none.
        (&[Text], "not over", ""),
        (&[Text, Retries, Reports], "not over", ""),
        (&[Retries, Text, Reports], "completed", ""),
        (&[Text, Retries, Reports, Exits(0)], "failed", "pending"),
        // An early end.
        (&[Text, Reports, Stop], "completed", ""),
        (&[Text, StepEnds("tool_use"), Reports, Stop], "stopped", ""),
        (&[Text, Stop], "stopped", ""),
        (&[Text, ReportsByExit, Exits(0), Stop], "stopped", ""),
        (&[Error, Reports, Stop], "stopped", ""),
        (&[Text, Reports, Deadline], "failed", "late"),
    ] {
        let (was, why) = judged(signs);
        assert_eq!(was, status, "{signs:?}: {why}");
        assert!(why.contains(text), "{signs:?}: {why}");
    }
}

/// Every bad sign spoils every good end, and none of the harmless ones does.
#[test]
fn one_bad_sign_is_enough() {
    let good = [
        &[Text, Reports][..],
        &[StepBegins, Text, StepEnds("stop"), Reports, Exits(0)],
        &[Call, CallEnds, Text, StepEnds("end_turn"), Reports],
        &[Call, CallFails, Error, Text, Reports],
    ];
    let bad = [
        Error,
        StepEnds("tool_use"),
        StepEnds("error"),
        Fails,
        Exits(3),
        Deadline,
        CallFails,
        Call,
    ];
    let harmless = [Doubt, CallEnds, StepEnds("stop"), Text, Exits(0)];
    for signs in good {
        assert_eq!(judged(signs).0, "completed", "{signs:?}");
        for sign in harmless {
            // A doubt beside silence is one of the bad signs.
            let spoilt: Vec<_> = signs.iter().copied().chain([sign, Text]).collect();
            assert_eq!(judged(&spoilt).0, "completed", "{spoilt:?}");
        }
        for sign in bad {
            let needs_silence = matches!(sign, CallFails);
            let silent = signs
                .iter()
                .copied()
                .filter(|sign| !(needs_silence && matches!(sign, Text)));
            let spoilt: Vec<_> = silent.chain([sign]).collect();
            assert_ne!(judged(&spoilt).0, "completed", "{spoilt:?}");
        }
    }
}

#[test]
fn a_deadline_has_the_category_that_the_agent_names() {
    let late = || trunkline_sdk::Error::new(Category::Timeout, "silence_timeout of 3 s reached");
    let auth = failure::failed("401 no key", Some(401));
    let expired = "starting\nError: SSO token has expired, run sso login\n";
    for (last, stderr, category, text) in [
        (
            None,
            "",
            Category::Timeout,
            "silence_timeout of 3 s reached",
        ),
        (None, expired, Category::Auth, "run sso login"),
        (None, "it hums", Category::Timeout, "its stderr: it hums"),
        (
            Some(&auth),
            "it hums",
            Category::Auth,
            "its last error: 401 no key",
        ),
        (
            None,
            "12:00 INFO unauthorized\n",
            Category::Timeout,
            "reached",
        ),
    ] {
        let error = explain_timeout(late(), last, stderr);
        assert_eq!(error.failure().category, Some(category), "{stderr}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let stopped = explain_timeout(trunkline_sdk::Error::stopped(), Some(&auth), expired);
    assert_eq!(stopped.status(), Status::Stopped);
}
