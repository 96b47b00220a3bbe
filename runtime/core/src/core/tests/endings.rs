//! Every ending of a turn, each with its cause, and what is written for it.

use std::time::Duration;

use trunkline_protocol::{Category, Delivered, Extensions, Status};

use super::bench::{Bench, Did, rules};
use crate::{
    Cause, Ended, ReliedOn, Rules, TurnScope,
    core::Answer,
    core::WhyClosed,
    policy::{Policy, Unmatched},
};

const S: Duration = Duration::from_secs(1);

fn core_only() -> (Bench, super::super::Key) {
    Bench::running(rules(Extensions::empty()))
}

fn extended() -> (Bench, super::super::Key) {
    Bench::running(rules(Extensions::all()))
}

#[test]
fn a_core_only_host_writes_the_published_exchange_and_nothing_more() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("abc-123");
    assert_eq!(bench.take(), [Did::Start]);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert_eq!(
        bench.lines(),
        [r#"{"type":"session.start","session_id":"abc-123"}"#]
    );
    bench.send(key, "Hello, agent!");
    assert_eq!(
        bench.lines(),
        [r#"{"type":"user.input","session_id":"abc-123","content":"Hello, agent!"}"#]
    );
    bench.say(
        r#"{"type":"output","session_id":"abc-123","content":"Hello! How can I help?","channel":"stdout"}"#,
    );
    bench.say(r#"{"type":"turn.complete","session_id":"abc-123"}"#);
    assert_eq!(
        (bench.ends[0].cause, bench.ends[0].status),
        (Cause::Complete, Status::Completed)
    );
    assert!(bench.lines().is_empty());
    bench.core.handle_close(key, WhyClosed::User, bench.now);
    bench.drain();
    assert_eq!(
        bench.lines(),
        [r#"{"type":"session.close","session_id":"abc-123"}"#]
    );
}

#[test]
fn one_input_at_a_time_is_written_and_the_others_follow_in_order() {
    let (mut bench, key) = core_only();
    let turns = [
        bench.send(key, "1"),
        bench.send(key, "2"),
        bench.send(key, "3"),
    ];
    assert_eq!(bench.lines().len(), 1);
    for expected in 1..=3 {
        bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
        let next = bench.lines();
        assert_eq!(next.len(), usize::from(expected < 3), "{next:?}");
    }
    assert_eq!(
        bench.ends.iter().map(|end| end.turn).collect::<Vec<_>>(),
        turns
    );
}

#[test]
fn a_process_that_dies_ends_running_and_queued_turns_with_what_is_known() {
    let (mut bench, key) = core_only();
    let answered = bench.send(key, "1");
    let queued = bench.send(key, "2");
    bench.say(r#"{"type":"output","session_id":"s","content":"so"}"#);
    bench.die(Ended::Exit, Some(3));
    let ends: Vec<_> = bench
        .ends
        .iter()
        .map(|end| (end.turn, end.cause, end.delivered))
        .collect();
    assert_eq!(
        ends,
        [
            (answered, Cause::ProcessExit, Delivered::Yes),
            (queued, Cause::ProcessExit, Delivered::No)
        ]
    );
    assert_eq!(bench.ends[0].exit.unwrap().code, Some(3));
    assert_eq!(bench.ends[0].stderr_tail.as_deref(), Some("last words"));
    assert_eq!(
        bench.ends[0].error.as_ref().unwrap().category,
        Some(Category::ProcessExit)
    );
}

/// Returns a session whose adapter has been offered everything and has sent nothing.
fn offered() -> (Bench, super::super::Key) {
    let mut bench = Bench::new(rules(Extensions::all()));
    let key = bench.open("s");
    bench.take();
    bench.core.handle_started(bench.now);
    bench.drain();
    (bench, key)
}

#[test]
fn news_of_a_session_answers_no_turn() {
    let (mut bench, key) = offered();
    bench.send(key, "1");
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["turns"]}"#);
    bench.die(Ended::Exit, Some(3));
    assert_ne!(bench.ends[0].delivered, Delivered::Yes);
}

#[test]
fn fields_that_were_not_agreed_on_are_not_there() {
    let (mut bench, key) = offered();
    bench.send(key, "1");
    // Its first message is not a `session.ready`: it is core-only.
    bench.say(
        r#"{"type":"turn.complete","session_id":"s","status":"failed","error":{"message":"no"}}"#,
    );
    assert_eq!(
        (bench.ends[0].cause, bench.ends[0].status),
        (Cause::Complete, Status::Completed)
    );
    assert!(bench.ends[0].error.is_none());
}

#[test]
fn an_input_in_the_pipe_is_unknown_and_one_before_it_was_not_delivered() {
    for (written, expected) in [(100, Delivered::Unknown), (10, Delivered::No)] {
        let (mut bench, key) = core_only();
        let turn = bench.send(key, "1");
        bench.core.handle_written_at(key, turn, Some(50));
        let exit = crate::ExitStatus {
            code: Some(0),
            signal: None,
        };
        let end = crate::ProcessEnd {
            why: Ended::Exit,
            exit,
            memory_kills: 0,
            stderr_tail: None,
            written,
        };
        bench.core.handle_ended(&end, bench.now);
        bench.drain();
        assert_eq!(bench.ends[0].delivered, expected);
    }
}

#[test]
fn the_next_input_after_a_crash_starts_afresh_and_says_once_that_the_context_is_lost() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    bench.die(Ended::Exit, Some(1));
    bench.take();
    bench.send(key, "2");
    assert_eq!(bench.take(), [Did::Start]);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert_eq!(
        bench.lines(),
        [
            r#"{"type":"session.start","session_id":"s"}"#,
            r#"{"type":"user.input","session_id":"s","content":"2"}"#
        ]
    );
    bench.say(r#"{"type":"output","session_id":"s","content":"x"}"#);
    let turn = bench.ends[0].turn.get() + 1;
    assert_eq!(
        bench.take(),
        [
            Did::Reported(TurnScope::Outside, "info"),
            Did::Reported(TurnScope::Running(crate::TurnNo(turn)), "output")
        ]
    );
    bench.say(r#"{"type":"output","session_id":"s","content":"y"}"#);
    assert_eq!(bench.take().len(), 1);
}

#[test]
fn a_sign_of_life_while_an_agent_resumes_does_not_say_that_the_context_is_lost() {
    let (mut bench, key) = extended();
    bench.send(key, "1");
    bench
        .say(r#"{"type":"turn.complete","session_id":"s","turn_id":"t1","native_session_id":"n"}"#);
    bench.die(Ended::Exit, Some(1));
    bench.send(key, "2");
    bench.core.handle_started(bench.now);
    bench.drain();
    let extensions = r#"["turns","control","resume"]"#;
    bench.say(&format!(
        r#"{{"type":"session.ready","session_id":"s","protocol":1,"extensions":{extensions}}}"#
    ));
    bench.take();
    bench.say(r#"{"type":"working","session_id":"s"}"#);
    assert!(bench.take().is_empty());
    bench.say(r#"{"type":"session.info","session_id":"s","context":"kept"}"#);
    assert_eq!(bench.take(), [Did::Reported(TurnScope::Outside, "info")]);
    bench.say(r#"{"type":"working","session_id":"s"}"#);
    assert_eq!(bench.take().len(), 1);
}

#[test]
fn a_stop_denies_what_is_pending_and_the_turn_ends_by_its_own_complete() {
    let (mut bench, key) = core_only();
    let turn = bench.send(key, "1");
    bench.say(r#"{"type":"permission.request","session_id":"s","request_id":"r","tool":"Bash","description":"d","resource":"ls"}"#);
    bench.take();
    bench.stop(key, None);
    bench.stop(key, None);
    assert_eq!(
        bench.lines(),
        [
            r#"{"type":"stop","session_id":"s"}"#,
            r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":false}"#
        ]
    );
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    assert_eq!(
        (
            bench.ends[0].turn,
            bench.ends[0].cause,
            bench.ends[0].status
        ),
        (turn, Cause::Complete, Status::Stopped)
    );
}

#[test]
fn an_unanswered_stop_without_turn_ids_replaces_the_wire_session() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.stop(key, None);
    bench.take();
    bench.pass(10 * S);
    assert_eq!(bench.ends[0].cause, Cause::StopUnanswered);
    assert_eq!(
        bench.lines(),
        [r#"{"type":"session.close","session_id":"s"}"#]
    );
    bench.send(key, "2");
    let lines = bench.lines();
    assert!(
        lines[0].contains("session.start") && !lines[0].contains("\"s\""),
        "{lines:?}"
    );
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    assert_eq!(
        bench.ends.len(),
        1,
        "what the old turn still says ends nothing"
    );
}

#[test]
fn an_unanswered_stop_with_turn_ids_keeps_the_wire_session_and_marks_the_rest_late() {
    let (mut bench, key) = extended();
    let first = bench.send(key, "1");
    bench.stop(key, None);
    bench.pass(10 * S);
    let second = bench.send(key, "2");
    bench.take();
    bench.say(&format!(
        r#"{{"type":"output","session_id":"s","turn_id":"{first}","content":"late"}}"#
    ));
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{first}"}}"#
    ));
    assert_eq!(
        bench.take(),
        [Did::Reported(TurnScope::Ended(first), "output")]
    );
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{second}"}}"#
    ));
    assert_eq!(
        bench.ends.iter().map(|end| end.cause).collect::<Vec<_>>(),
        [Cause::StopUnanswered, Cause::Complete]
    );
}

#[test]
fn a_complete_without_its_id_ends_nothing() {
    let (mut bench, key) = extended();
    let turn = bench.send(key, "1");
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    bench.say(r#"{"type":"turn.complete","session_id":"s","turn_id":"other"}"#);
    assert!(bench.ends.is_empty());
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
    ));
    assert_eq!(bench.ends.len(), 1);
}

#[test]
fn the_turn_deadline_stops_and_names_itself() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.say(r#"{"type":"output","session_id":"s","content":"x"}"#);
    bench.take();
    bench.pass(1799 * S);
    assert!(bench.lines().is_empty());
    bench.pass(S);
    assert_eq!(bench.lines(), [r#"{"type":"stop","session_id":"s"}"#]);
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    assert_eq!(
        (bench.ends[0].cause, bench.ends[0].status),
        (Cause::TurnTimeout, Status::Failed)
    );
}

#[test]
fn inactivity_rests_while_a_permission_waits_even_for_a_day() {
    let mut with = rules(Extensions::all());
    with.inactivity_timeout = Some(60 * S);
    with.turn_timeout = None;
    let (mut bench, key) = Bench::running(with);
    let turn = bench.send(key, "1");
    bench.say(&format!(r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"r","tool":"Bash","description":"d","resource":"ls"}}"#));
    bench.pass(24 * 3600 * S);
    assert!(bench.ends.is_empty());
    let (key_of_request, id, serial) = bench.serials[0].clone();
    bench
        .core
        .handle_answer(key_of_request, &id, serial, Answer::Dropped, bench.now);
    bench.drain();
    bench.take();
    bench.pass(59 * S);
    assert!(bench.lines().is_empty());
    bench.say(r#"{"type":"working","session_id":"s"}"#);
    bench.pass(59 * S);
    assert!(bench.lines().is_empty());
    bench.pass(S);
    assert!(bench.lines()[0].contains("\"stop\""));
    bench.pass(10 * S);
    assert_eq!(bench.ends[0].cause, Cause::StopUnanswered);
}

#[test]
fn what_an_agent_prints_is_neither_a_sign_of_life_nor_an_answer() {
    for (stream, counts) in [
        (r#""stream":"raw","#, false),
        (r#""stream":"stderr","#, false),
        (r#""stream":"meta","#, false),
        (r#""stream":"host","#, true),
        ("", true),
    ] {
        let mut with = rules(Extensions::all());
        with.inactivity_timeout = Some(60 * S);
        with.turn_timeout = None;
        let (mut bench, key) = Bench::running(with);
        let turn = bench.send(key, "1");
        bench.pass(59 * S);
        bench.say(&format!(
            r#"{{"type":"log","session_id":"s","turn_id":"{turn}",{stream}"content":"noise"}}"#
        ));
        bench.take();
        bench.pass(S);
        let is_stopped = bench.lines().iter().any(|line| line.contains("\"stop\""));
        assert_eq!(is_stopped, !counts, "{stream}");
        bench.die(Ended::Exit, Some(1));
        let expected = if counts {
            Delivered::Yes
        } else {
            Delivered::Unknown
        };
        assert_eq!(bench.ends[0].delivered, expected, "{stream}");
    }
}

#[test]
fn a_queued_turn_that_is_stopped_is_never_written() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    let second = bench.send(key, "2");
    bench.take();
    bench.stop(key, Some(second));
    assert_eq!(bench.take(), [Did::Ended(second, Cause::StoppedUnsent)]);
    assert_eq!(
        (bench.ends[0].status, bench.ends[0].delivered),
        (Status::Stopped, Delivered::No)
    );
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    assert_eq!(bench.lines(), Vec::<String>::new());
}

#[test]
fn a_close_ends_everything_and_a_late_answer_is_not_written() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.send(key, "2");
    bench.say(r#"{"type":"permission.request","session_id":"s","request_id":"r","tool":"Bash","description":"d","resource":"ls"}"#);
    bench.take();
    bench.core.handle_close(key, WhyClosed::User, bench.now);
    bench.drain();
    let (key, id, serial) = bench.serials[0].clone();
    bench
        .core
        .handle_answer(key, &id, serial, Answer::Dropped, bench.now);
    bench.drain();
    assert_eq!(
        bench.lines(),
        [r#"{"type":"session.close","session_id":"s"}"#]
    );
    assert_eq!(
        bench.ends.iter().map(|end| end.cause).collect::<Vec<_>>(),
        [Cause::Closed, Cause::Closed]
    );
}

#[test]
fn the_adapter_may_end_a_session_and_nothing_is_written_for_it_then() {
    let (mut bench, key) = extended();
    bench.send(key, "1");
    bench.send(key, "2");
    bench.take();
    bench.say(r#"{"type":"session.closed","session_id":"s","reason":"limit","error":{"message":"enough"}}"#);
    assert!(bench.lines().is_empty());
    let ends: Vec<_> = bench
        .ends
        .iter()
        .map(|end| (end.cause, end.delivered))
        .collect();
    assert_eq!(
        ends,
        [
            (Cause::SessionClosed, Delivered::Unknown),
            (Cause::SessionClosed, Delivered::No)
        ]
    );
}

#[test]
fn policies_decide_deny_first_and_a_withdrawn_request_is_told() {
    let (mut bench, key) = extended();
    let turn = bench.send(key, "1");
    bench.take();
    for (tool, answer) in [("Read", Some(true)), ("Nuke", Some(false)), ("Bash", None)] {
        bench.say(&format!(r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"{tool}","tool":"{tool}","description":"d","resource":"x"}}"#));
        let lines = bench.lines();
        match answer {
            Some(approved) => assert!(
                lines[0].contains(&format!("\"approved\":{approved}")),
                "{lines:?}"
            ),
            None => assert!(lines.is_empty()),
        }
    }
    bench.say(r#"{"type":"permission.cancel","session_id":"s","request_id":"Bash"}"#);
    assert_eq!(
        bench.take(),
        [Did::Reported(TurnScope::Running(turn), "withdrawn")]
    );
}

#[test]
fn relative_patterns_are_judged_where_the_session_works_and_denials_also_where_the_agent_does() {
    let mut with = rules(Extensions::all());
    with.policy = Policy::new(
        Unmatched::Ask,
        ["Write(specs/**)"],
        ["Write(specs/.git/**)"],
    )
    .unwrap();
    with.work_dirs = vec!["/w".into(), "/mnt/w".into()];
    let mut bench = Bench::new(with);
    let start = trunkline_protocol::SessionStart {
        cwd: Some("/w/app".to_owned()),
        ..Default::default()
    };
    bench.core.handle_open(
        super::super::NewSession {
            id: trunkline_protocol::SessionId::new("s").unwrap(),
            chosen: true,
            start: Some(Box::new(start)),
            meta: None,
            real_cwd: Some(std::path::Path::new("/mnt/app").into()),
        },
        bench.now,
    );
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["control","options"],"options_applied":["cwd"]}"#);
    for (number, (path, approved)) in [
        ("/w/app/specs/a", Some(true)),
        ("specs/a", Some(true)),
        ("/w/specs/a", None),
        ("/mnt/app/specs/a", None),
        ("/w/app/specs/.git/config", Some(false)),
        ("specs/.git/config", Some(false)),
        ("/mnt/app/specs/x/../.git/config", Some(false)),
        ("/w/specs/.git/config", Some(false)),
        ("/mnt/w/specs/.git/config", Some(false)),
        ("../specs/.git/config", Some(false)),
    ]
    .into_iter()
    .enumerate()
    {
        bench.lines();
        bench.say(&format!(r#"{{"type":"permission.request","session_id":"s","request_id":"{number}","tool":"Write","description":"d","resource":"{path}"}}"#));
        let expected = approved.map(|approved| format!("\"approved\":{approved}"));
        let lines = bench.lines();
        match expected {
            Some(expected) => assert!(lines[0].contains(&expected), "{path}: {lines:?}"),
            None => assert!(lines.is_empty(), "{path}: {lines:?}"),
        }
    }
}

#[test]
fn an_input_or_a_diff_that_does_not_match_is_not_allowed_past_it() {
    let mut with = rules(Extensions::all());
    with.policy = Policy::new(Unmatched::Ask, ["Bash(git log*)"], [""; 0]).unwrap();
    let (mut bench, _) = Bench::running(with);
    let ask = |request: &str, input: &str| {
        format!(
            r#"{{"type":"permission.request","session_id":"s","request_id":"{request}","tool":"Bash","description":"d","resource":"git log","input":{input}}}"#
        )
    };
    bench.say(&ask("plain", r#"{"command":"git log"}"#));
    assert!(bench.lines()[0].contains("\"approved\":true"));
    for (number, odd) in ["1e999", r#""\ud800""#].into_iter().enumerate() {
        bench.say(&ask(
            &number.to_string(),
            &format!(r#"{{"command":"rm x","x":{odd}}}"#),
        ));
        assert!(bench.lines().is_empty(), "{odd}");
    }
    bench.say(r#"{"type":"permission.request","session_id":"s","request_id":"more","tool":"Bash","description":"d","resource":"git log","diffs":[{"path":"/etc/passwd"}]}"#);
    assert!(bench.lines().is_empty());
}

#[test]
fn a_request_that_does_not_say_on_what_is_approved_by_no_rule() {
    let ask = |id: &str, tool: &str, more: &str| {
        format!(
            r#"{{"type":"permission.request","session_id":"s","request_id":"{id}","tool":"{tool}"{more}}}"#
        )
    };
    let input = r#","description":"d","input":{"command":"ls"}"#;
    for unmatched in [Unmatched::Ask, Unmatched::Deny] {
        let mut with = rules(Extensions::all());
        with.policy = Policy::new(unmatched, ["*"], ["Nuke", "Bash(rm*)"]).unwrap();
        let (mut bench, _) = Bench::running(with);
        bench.say(&ask(
            "whole",
            "Read",
            r#","description":"d","resource":"x""#,
        ));
        assert!(bench.lines()[0].contains("\"approved\":true"));
        bench.say(&ask("denied", "Nuke", ""));
        assert!(bench.lines()[0].contains("\"approved\":false"));
        for (id, more) in [
            ("none", ""),
            ("input", input),
            ("null", r#","resource":null"#),
            ("odd", r#","resource":7"#),
            ("empty", r#","description":"d","resource":"""#),
        ] {
            bench.say(&ask(id, "Read", more));
            let lines = bench.lines();
            match unmatched {
                Unmatched::Ask => assert!(lines.is_empty(), "{id}: {lines:?}"),
                Unmatched::Deny => {
                    assert!(lines[0].contains("\"approved\":false"), "{id}: {lines:?}")
                }
            }
        }
        assert_eq!(
            bench.serials.len(),
            if unmatched == Unmatched::Ask { 5 } else { 0 }
        );
    }
}

#[test]
fn a_reused_id_is_a_new_request_that_an_old_answer_does_not_settle() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    let ask = r#"{"type":"permission.request","session_id":"s","request_id":"0","tool":"Bash","description":"d","resource":"ls"}"#;
    bench.say(ask);
    bench.say(ask);
    assert_eq!(
        bench.serials.len(),
        1,
        "a pending id is a bad message; the first stands"
    );
    bench.stop(key, None);
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    bench.send(key, "2");
    bench.say(ask);
    let (key, id, old) = bench.serials[0].clone();
    bench.take();
    bench
        .core
        .handle_answer(key, &id, old, Answer::Dropped, bench.now);
    bench.drain();
    assert!(bench.lines().is_empty());
    assert_eq!(bench.serials.len(), 2);
}

#[test]
fn a_permission_deadline_denies_as_timeout() {
    let mut with = rules(Extensions::all());
    with.permission_timeout = Some(5 * S);
    let (mut bench, key) = Bench::running(with);
    let turn = bench.send(key, "1");
    bench.say(&format!(r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"r","tool":"Bash","description":"d","resource":"x"}}"#));
    bench.take();
    bench.pass(5 * S);
    let lines = bench.lines();
    assert_eq!(
        lines,
        [
            r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":false,"reason":"timeout"}"#
        ]
    );
}

#[test]
fn tools_that_a_turn_leaves_open_are_closed_with_an_error() {
    let (mut bench, key) = extended();
    let turn = bench.send(key, "1");
    bench.say(&format!(
        r#"{{"type":"tool.start","session_id":"s","turn_id":"{turn}","tool_call_id":"c","tool":"Bash"}}"#
    ));
    bench.take();
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
    ));
    assert_eq!(
        bench.take(),
        [
            Did::Reported(TurnScope::Running(turn), "tool.end"),
            Did::Ended(turn, Cause::Complete)
        ]
    );
}

#[test]
fn five_failed_starts_make_the_agent_failed_with_its_reason() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    for _ in 0..5 {
        bench.core.handle_started(bench.now);
        bench.drain();
        bench.send(key, "x");
        bench.die(Ended::Exit, Some(1));
        bench.pass(4 * S);
    }
    let before = bench.ends.len();
    bench.take();
    bench.send(key, "y");
    assert_eq!(bench.ends.len(), before + 1);
    let end = bench.ends.last().unwrap();
    assert_eq!(end.cause, Cause::StartFailed);
    assert!(
        end.error
            .as_ref()
            .unwrap()
            .message
            .as_ref()
            .unwrap()
            .contains("last words")
    );
    assert!(!bench.take().contains(&Did::Start));
    bench.pass(60 * S);
    bench.send(key, "z");
    assert!(
        bench.take().contains(&Did::Start),
        "it is tried again after a while"
    );
}

#[test]
fn a_silent_start_ends_the_inputs_that_wait_for_it() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.take();
    bench.pass(120 * S);
    assert_eq!(bench.take(), [Did::Kill(Ended::StartTimeout)]);
    bench.die(Ended::StartTimeout, None);
    assert_eq!(bench.ends[0].cause, Cause::StartTimeout);
}

#[test]
fn options_that_must_be_enforced_hold_inputs_back_until_they_are_applied() {
    let open = || {
        let mut bench = Bench::new(rules(Extensions::all()));
        let start = trunkline_protocol::SessionStart {
            denied_tools: Some(vec!["Bash".to_owned()]),
            ..Default::default()
        };
        let id = trunkline_protocol::SessionId::new("s").unwrap();
        let new = super::super::NewSession {
            id,
            chosen: true,
            start: Some(Box::new(start)),
            meta: None,
            real_cwd: None,
        };
        let key = bench.core.handle_open(new, bench.now);
        bench.core.handle_started(bench.now);
        bench.send(key, "1");
        bench
    };
    let ready = |applied: &str| {
        format!(
            r#"{{"type":"session.ready","session_id":"s","protocol":1,"extensions":["options"],"options_applied":[{applied}]}}"#
        )
    };
    let mut bench = open();
    assert!(!bench.lines().iter().any(|line| line.contains("user.input")));
    bench.say(&ready("\"denied_tools\""));
    assert!(bench.lines().iter().any(|line| line.contains("user.input")));

    for first in [
        ready("\"model\""),
        r#"{"type":"output","session_id":"s","content":"hi"}"#.to_owned(),
    ] {
        let mut bench = open();
        bench.say(&first);
        assert_eq!(bench.ends[0].cause, Cause::Refused, "{first}");
        assert!(
            bench
                .lines()
                .iter()
                .all(|line| !line.contains("user.input"))
        );
    }
}

#[test]
fn a_session_that_relies_on_every_option_is_refused_without_one() {
    for (relied_on, applied, is_open) in [
        (ReliedOn::Restrictions, "", true),
        (ReliedOn::Everything, "", false),
        (ReliedOn::Everything, "\"mode\"", false),
        (ReliedOn::Everything, "\"max_turns\",\"model\"", true),
        (ReliedOn::Nothing, "", true),
    ] {
        let mut bench = Bench::new(Rules {
            relied_on,
            ..rules(Extensions::all())
        });
        let start = trunkline_protocol::SessionStart {
            model: Some("m".to_owned()),
            max_turns: Some(3),
            ..Default::default()
        };
        let id = trunkline_protocol::SessionId::new("s").unwrap();
        let start = Some(Box::new(start));
        let new = super::super::NewSession {
            id,
            chosen: true,
            start,
            meta: None,
            real_cwd: None,
        };
        let key = bench.core.handle_open(new, bench.now);
        bench.core.handle_started(bench.now);
        bench.send(key, "1");
        bench.say(&format!(
            r#"{{"type":"session.ready","session_id":"s","protocol":1,"extensions":["options"],"options_applied":[{applied}]}}"#
        ));
        let is_written = bench.lines().iter().any(|line| line.contains("user.input"));
        assert_eq!(is_written, is_open, "{relied_on:?} {applied}");
        assert_eq!(
            bench.ends.iter().any(|end| end.cause == Cause::Refused),
            !is_open
        );
    }
}

#[test]
fn no_one_speaks_for_a_session_that_is_not_theirs() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.take();
    for id in ["S", "s ", "other"] {
        bench.say(&format!(
            r#"{{"type":"output","session_id":"{id}","content":"x"}}"#
        ));
        bench.say(&format!(
            r#"{{"type":"turn.complete","session_id":"{id}"}}"#
        ));
    }
    assert_eq!(bench.take(), []);
}

#[test]
fn a_shutdown_ends_turns_as_stopped_and_closes_every_session() {
    let (mut bench, key) = core_only();
    bench.send(key, "1");
    bench.take();
    bench.core.handle_shutdown(bench.now);
    bench.drain();
    assert_eq!(
        (bench.ends[0].cause, bench.ends[0].status),
        (Cause::Shutdown, Status::Stopped)
    );
    assert_eq!(
        bench.lines(),
        [r#"{"type":"session.close","session_id":"s"}"#]
    );
}
