//! Messages that wait for a start, the first message or an answer: stopped, timed, and kept apart
//! from their neighbours.

use std::time::Duration;

use trunkline_protocol::{
    Delivered, Extensions, LargeMember, SessionId, SessionStart, SessionUpdate, Sha256,
};

use super::{
    super::{Key, NewSession, Ticket},
    bench::{Bench, Did, rules},
};
use crate::{Cause, Ended, TurnNo, TurnScope, core::WhyClosed};

const S: Duration = Duration::from_secs(1);

fn with_denied_tools(id: &str) -> NewSession {
    let start = SessionStart {
        denied_tools: Some(vec!["Bash".to_owned()]),
        ..SessionStart::default()
    };
    NewSession {
        id: SessionId::new(id).unwrap(),
        chosen: true,
        start: Some(Box::new(start)),
        meta: None,
        real_cwd: None,
    }
}

fn update(bench: &mut Bench, key: Key) {
    bench.core.handle_update(
        key,
        Box::new(SessionUpdate::default()),
        Ticket(1),
        bench.now,
    );
    bench.drain();
}

#[test]
fn a_stop_during_the_start_ends_the_first_input_and_leaves_those_behind_it() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    let first = bench.send(key, "1");
    let second = bench.send(key, "2");
    bench.take();
    bench.stop(key, None);
    assert_eq!(bench.take(), [Did::Ended(first, Cause::StoppedUnsent)]);
    assert_eq!(bench.ends[0].delivered, Delivered::No);
    bench.core.handle_started(bench.now);
    bench.drain();
    let lines = bench.lines();
    assert!(
        lines[1].contains("user.input") && lines[1].contains("\"2\""),
        "{lines:?}"
    );
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    assert_eq!(bench.ends[1].turn, second);
}

#[test]
fn a_stop_of_a_turn_that_has_ended_starts_no_process() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    let turn = bench.send(key, "1");
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    bench.die(Ended::Exit, Some(0));
    bench.take();
    bench.stop(key, Some(turn));
    bench.stop(key, None);
    assert_eq!(bench.take(), []);
}

#[test]
fn the_first_input_has_the_whole_start_timeout_however_late_it_comes() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.pass(119 * S);
    let turn = bench.send(key, "1");
    bench.take();
    bench.pass(119 * S);
    assert_eq!(bench.take(), []);
    bench.pass(S);
    assert_eq!(bench.take(), [Did::Kill(Ended::StartTimeout)]);
    bench.die(Ended::StartTimeout, None);
    assert_eq!(
        (bench.ends[0].turn, bench.ends[0].cause),
        (turn, Cause::StartTimeout)
    );
    assert!(
        bench.message(0).contains("is each line flushed?"),
        "{}",
        bench.message(0)
    );
}

#[test]
fn an_end_of_time_asks_for_the_flush_only_of_a_process_that_was_never_heard() {
    for (said, asked) in [
        (None, true),
        (
            Some(r#"{"type":"output","session_id":"s","content":"x"}"#),
            false,
        ),
    ] {
        let mut with = rules(Extensions::empty());
        with.turn_timeout = Some(60 * S);
        let (mut bench, key) = Bench::running(with);
        bench.send(key, "1");
        said.inspect(|line| bench.say(line));
        bench.pass(60 * S);
        bench.pass(10 * S);
        assert_eq!(bench.ends[0].cause, Cause::StopUnanswered);
        assert_eq!(
            bench.message(0).contains("is each line flushed?"),
            asked,
            "{}",
            bench.message(0)
        );
    }
}

#[test]
fn an_input_that_was_stopped_does_not_shorten_the_start_timeout_of_the_next() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "1");
    bench.pass(50 * S);
    bench.stop(key, None);
    bench.pass(10 * S);
    assert_eq!(bench.ends[0].cause, Cause::StopUnanswered);
    bench.pass(30 * S);
    bench.send(key, "2");
    bench.take();
    bench.pass(119 * S);
    assert_eq!(bench.take(), []);
    bench.pass(S);
    assert_eq!(bench.take(), [Did::Kill(Ended::StartTimeout)]);
}

#[test]
fn an_update_that_waits_for_a_start_does_not_spin_an_old_timer() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    // Leaves a timer that is due in half an hour.
    let turn = bench.send(key, "1");
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
    ));
    bench.die(Ended::Exit, Some(0));
    bench.pass(1790 * S);
    update(&mut bench, key);
    assert!(bench.take().contains(&Did::Start));
    bench.pass(20 * S);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert!(bench.lines()[0].contains("session.start"));
}

#[test]
fn an_update_behind_options_that_are_due_does_not_spin() {
    let mut with = rules(Extensions::all());
    with.start_timeout = 20 * S;
    let mut bench = Bench::new(with);
    let key = bench.core.handle_open(with_denied_tools("s"), bench.now);
    bench.core.handle_started(bench.now);
    bench.drain();
    update(&mut bench, key);
    bench.pass(19 * S);
    assert!(!bench.take().contains(&Did::Closed));
    bench.pass(S);
    assert!(bench.take().contains(&Did::Closed));
}

#[test]
fn a_session_that_is_refused_at_once_shares_no_key_with_the_next() {
    let (mut bench, _) = Bench::running(rules(Extensions::empty()));
    let refused = bench.core.handle_open(with_denied_tools("r"), bench.now);
    bench.drain();
    assert!(bench.take().contains(&Did::Closed));
    let next = bench.open("n");
    assert_ne!(refused, next);
    bench.send(next, "1");
    bench.take();
    bench.stop(refused, None);
    assert_eq!(bench.take(), []);
}

#[test]
fn tools_that_a_dead_process_leaves_open_are_closed_with_an_error() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let turn = bench.send(key, "1");
    bench.say(&format!(
        r#"{{"type":"tool.start","session_id":"s","turn_id":"{turn}","tool_call_id":"c","tool":"Bash"}}"#
    ));
    bench.take();
    bench.die(Ended::Exit, Some(1));
    assert_eq!(
        bench.take(),
        [
            Did::Reported(TurnScope::Running(turn), "tool.end"),
            Did::Ended(turn, Cause::ProcessExit),
            Did::Reported(TurnScope::Outside, "error")
        ]
    );
}

#[test]
fn a_turn_that_ends_itself_after_its_deadline_was_delivered() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.say(r#"{"type":"output","session_id":"s","content":"hello"}"#);
    let second = bench.send(key, "2");
    bench.pass(1800 * S);
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    let end = bench.ends.last().unwrap();
    assert_eq!(
        (end.turn, end.cause, end.delivered),
        (second, Cause::TurnTimeout, Delivered::Yes)
    );
}

#[test]
fn a_turn_id_is_compared_byte_for_byte() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    assert_eq!(bench.send(key, "1"), TurnNo(1));
    for id in ["t+1", "t01", "T1", "1", "t1 "] {
        bench.say(&format!(
            r#"{{"type":"turn.complete","session_id":"s","turn_id":"{id}"}}"#
        ));
    }
    assert!(bench.ends.is_empty());
}

#[test]
fn a_session_that_was_cleared_is_not_resumed_where_it_was_first() {
    let mut bench = Bench::new(rules(Extensions::all()));
    let resume = trunkline_protocol::Resume {
        native_session_id: Some("old".to_owned()),
        ..trunkline_protocol::Resume::default()
    };
    let start = SessionStart {
        resume: Some(resume),
        ..SessionStart::default()
    };
    let id = SessionId::new("s").unwrap();
    let new = NewSession {
        id,
        chosen: true,
        start: Some(Box::new(start)),
        meta: None,
        real_cwd: None,
    };
    let key = bench.core.handle_open(new, bench.now);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert!(bench.lines()[0].contains("\"old\""));
    bench.say(r#"{"type":"session.ready","session_id":"s","extensions":["turns","resume"]}"#);
    let turn = bench.send(key, "/clear");
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}","clear_session":true}}"#
    ));
    bench.die(Ended::Exit, Some(0));
    bench.send(key, "2");
    bench.core.handle_started(bench.now);
    bench.drain();
    let start = bench
        .lines()
        .into_iter()
        .find(|line| line.contains("session.start"))
        .unwrap();
    assert!(!start.contains("\"old\""), "{start}");
}

#[test]
fn a_ready_that_does_not_come_first_agrees_on_nothing_and_tells_nothing() {
    let mut bench = Bench::new(rules(Extensions::all()));
    bench.open("s");
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.say(r#"{"type":"output","session_id":"s","content":"hello"}"#);
    bench.take();
    bench.say(r#"{"type":"session.ready","session_id":"s","extensions":["resume"],"native_session_id":"n"}"#);
    assert_eq!(bench.take(), []);
}

#[test]
fn requests_that_wait_are_bounded_in_bytes() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "1");
    bench.take();
    let big = "x".repeat(1024 * 1024);
    for at in 0..100 {
        bench.say(&format!(
            r#"{{"type":"permission.request","session_id":"s","request_id":"{at}","tool":"Bash","description":"{big}","resource":"x"}}"#
        ));
    }
    assert_eq!(bench.serials.len(), 16);
    assert_eq!(bench.lines().len(), 84, "the others are denied at once");
}

#[test]
fn timers_of_sessions_that_have_ended_do_not_pile_up() {
    let (mut bench, _) = Bench::running(rules(Extensions::empty()));
    for at in 0..20_000 {
        let id = format!("n{at}");
        let key = bench.open(&id);
        bench.send(key, "1");
        bench.say(&format!(
            r#"{{"type":"turn.complete","session_id":"{id}"}}"#
        ));
        bench.core.handle_close(key, WhyClosed::User, bench.now);
        bench.drain();
        bench.take();
    }
    assert!(
        bench.core.timers.len() <= 1100,
        "{} timers",
        bench.core.timers.len()
    );
}

#[test]
fn an_update_waits_for_the_first_message_from_the_start_of_its_session_on() {
    let mut bench = Bench::new(rules(Extensions::all()));
    let key = bench.open("s");
    update(&mut bench, key);
    bench.pass(60 * S);
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.pass(S);
    bench.take();
    bench.say(r#"{"type":"session.ready","session_id":"s","extensions":["options"]}"#);
    assert!(
        bench
            .lines()
            .iter()
            .any(|line| line.contains("session.update"))
    );
}

#[test]
fn an_input_that_the_adapter_cannot_read_ends_unwritten_and_the_next_runs() {
    let (mut bench, key) = Bench::running(rules(Extensions::TURNS));
    bench.say(r#"{"type":"session.ready","session_id":"s","extensions":["turns"],"max_line":7}"#);
    bench.take();
    let long = bench.send(key, &"\u{1}".repeat(1 << 18));
    assert_eq!(bench.take(), [Did::Ended(long, Cause::Oversize)]);
    assert_eq!(bench.ends[0].delivered, Delivered::No);
    assert!(
        bench
            .message(0)
            .contains("the adapter reads 1048576 (`max_line`)"),
        "{}",
        bench.message(0)
    );
    bench.send(key, "short");
    assert!(bench.lines()[0].contains("short"));
}

#[test]
fn an_input_goes_by_file_in_its_order_and_a_stop_takes_it_back() {
    let long = "y".repeat(2 << 20);
    let member = || LargeMember {
        file_path: "/x/1".into(),
        size: 1,
        sha256: Sha256::digest(b""),
    };
    for (placed, stopped) in [
        (Ok(member()), false),
        (Err("no room".to_owned()), false),
        (Ok(member()), true),
    ] {
        let (mut bench, key) = Bench::running(rules(Extensions::all()));
        bench.say(r#"{"type":"session.ready","session_id":"s","max_line":1048576}"#);
        let first = bench.send(key, &long);
        let second = bench.send(key, "behind it");
        assert_eq!(bench.lines().len(), 0, "both wait for the file");
        if stopped {
            bench.stop(key, Some(first));
        }
        let is_kept = placed.is_ok();
        bench.core.handle_placed(key, first, placed, bench.now);
        bench.drain();
        let lines = bench.lines();
        if stopped || !is_kept {
            let cause = if stopped {
                Cause::StoppedUnsent
            } else {
                Cause::Oversize
            };
            assert_eq!((bench.ends[0].turn, bench.ends[0].cause), (first, cause));
            assert!(lines.last().unwrap().contains("behind it"), "{lines:?}");
            continue;
        }
        assert!(
            lines[0].contains(r#""large":{"content":{"file_path":"/x/1","size":1,"#),
            "the reference"
        );
        bench.say(r#"{"type":"turn.complete","session_id":"s","turn_id":"t1"}"#);
        assert_eq!(bench.ends[0].turn, first);
        assert!(bench.lines()[0].contains("behind it"));
        assert_ne!(first, second);
    }
}

#[test]
fn a_large_input_waits_until_it_is_known_what_the_adapter_reads() {
    let long = "y".repeat(2 << 20);
    for (line, ends) in [
        (
            r#"{"type":"session.ready","session_id":"s","extensions":["turns"],"max_line":2000000}"#,
            true,
        ),
        (
            r#"{"type":"session.ready","session_id":"s","extensions":["turns"],"max_line":3000000}"#,
            false,
        ),
        (
            r#"{"type":"session.ready","session_id":"s","extensions":["turns"]}"#,
            false,
        ),
        (
            r#"{"type":"output","session_id":"s","content":"a core-only adapter"}"#,
            false,
        ),
        ("", false),
    ] {
        let mut bench = Bench::new(rules(Extensions::all()));
        let key = bench.open("s");
        bench.core.handle_started(bench.now);
        bench.drain();
        bench.take();
        bench.send(key, &long);
        assert_eq!(bench.take(), [], "it waits");
        if line.is_empty() {
            bench.pass(5 * S);
        } else {
            bench.say(line);
        }
        assert_eq!(
            (bench.ends.len(), bench.lines().len()),
            if ends { (1, 0) } else { (0, 1) },
            "{line}"
        );
    }
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, &long);
    assert_eq!(bench.lines().len(), 1, "no session.ready is to come");
}
