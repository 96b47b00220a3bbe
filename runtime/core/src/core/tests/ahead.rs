//! Inputs that are written ahead of the end of the running turn, to an adapter that queues ([turn.3]).

use std::time::Duration;

use trunkline_protocol::{Delivered, Extensions, FileInput, SessionUpdate, Status, UserInput};

use super::{
    super::{Key, Reader, Ticket, WhyClosed},
    bench::{Bench, Did, rules},
};
use crate::{Cause, Ended, ExitStatus, ProcessEnd, Rules, TurnEnd, TurnNo, TurnScope};

const S: Duration = Duration::from_secs(1);

/// A session whose adapter lists `queue`.
fn queues(rules: Rules) -> (Bench, Key) {
    let (mut bench, key) = Bench::running(rules);
    bench.say(r#"{"type":"session.info","session_id":"s","input_modes":["queue","steer"]}"#);
    bench.did.clear();
    (bench, key)
}

fn complete(bench: &mut Bench, turn: u64, more: &str) {
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"t{turn}"{more}}}"#
    ));
}

/// The turns whose inputs were written since the last look.
fn written(bench: &mut Bench) -> Vec<String> {
    let turn = |line: String| {
        let (_, rest) = line.split_once(r#""turn_id":""#)?;
        let is_input = line.contains(r#""type":"user.input""#);
        is_input.then(|| rest.split('"').next().unwrap_or_default().to_owned())
    };
    bench.lines().into_iter().filter_map(turn).collect()
}

#[test]
fn nine_inputs_are_written_in_order_and_the_next_with_each_end() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    for _ in 0..12 {
        bench.send(key, "x");
    }
    let first: Vec<_> = (1..=9).map(|turn| format!("t{turn}")).collect();
    assert_eq!(written(&mut bench), first);
    for (turn, next) in [(1, "t10"), (2, "t11"), (3, "t12")] {
        complete(&mut bench, turn, "");
        assert_eq!(written(&mut bench), [next]);
    }
    for turn in 4..=12 {
        complete(&mut bench, turn, "");
    }
    let ended: Vec<_> = bench.ends.iter().map(|end| end.turn.get()).collect();
    assert_eq!(ended, (1..=12).collect::<Vec<_>>());
    assert!(bench.ends.iter().all(|end| end.cause == Cause::Complete));
}

#[test]
fn one_input_at_a_time_goes_to_an_adapter_without_ids_or_without_a_queue() {
    let without_turns = Extensions::all() - Extensions::TURNS;
    let mut with_tokens = Bench::running(rules(Extensions::all()));
    with_tokens
        .0
        .say(r#"{"type":"session.info","session_id":"s","input_modes":["steer"]}"#);
    for (mut bench, key) in [
        queues(rules(without_turns)),
        Bench::running(rules(Extensions::empty())),
        with_tokens,
    ] {
        bench.did.clear();
        bench.send(key, "1");
        bench.send(key, "2");
        let lines = bench.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}

#[test]
fn a_new_process_is_given_one_input_at_a_time_until_it_says_that_it_queues() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    bench.die(Ended::Exit, Some(1));
    bench.send(key, "1");
    bench.send(key, "2");
    bench.pass(S);
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["turns"]}"#);
    assert_eq!(written(&mut bench), ["t1"]);
}

#[test]
fn so_many_bytes_are_written_ahead_and_no_more() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    for kibibytes in [200, 200, 100, 1] {
        bench.send(key, &"x".repeat(kibibytes << 10));
    }
    // The third would be too much, and the fourth keeps its place behind it.
    assert_eq!(written(&mut bench), ["t1", "t2"]);
    complete(&mut bench, 1, "");
    assert_eq!(written(&mut bench), ["t3", "t4"]);
}

#[test]
fn the_deadlines_of_a_turn_begin_when_it_is_the_oldest() {
    let with = Rules {
        turn_timeout: Some(10 * S),
        inactivity_timeout: Some(8 * S),
        ..rules(Extensions::all())
    };
    let (mut bench, key) = queues(with);
    bench.send(key, "1");
    bench.send(key, "2");
    bench.pass(7 * S);
    complete(&mut bench, 1, "");
    bench.did.clear();
    bench.pass(7 * S);
    assert_eq!(bench.take(), [], "neither counts from its input's write");
    bench.say(r#"{"type":"output","session_id":"s","turn_id":"t2","content":"x"}"#);
    bench.did.clear();
    bench.pass(3 * S);
    assert_eq!(
        bench.lines(),
        [r#"{"type":"stop","session_id":"s","turn_id":"t2","reason":"timeout"}"#]
    );
    complete(&mut bench, 2, "");
    assert_eq!(
        bench.message(1),
        "turn_timeout of 10 s reached; the turn was stopped"
    );
    let took: Vec<_> = bench.ends.iter().map(|end| end.took).collect();
    assert_eq!(took, [7 * S, 10 * S]);
}

#[test]
fn a_stop_of_a_turn_that_was_written_names_it_and_the_others_run() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    for text in ["1", "2", "3"] {
        bench.send(key, text);
    }
    bench.did.clear();
    for _ in 0..2 {
        bench.stop(key, Some(TurnNo(2)));
    }
    assert_eq!(
        bench.lines(),
        [r#"{"type":"stop","session_id":"s","turn_id":"t2","reason":"user"}"#]
    );
    complete(&mut bench, 2, r#","status":"stopped","delivered":"no""#);
    let end = &bench.ends[0];
    assert_eq!(
        (end.turn, end.status, end.delivered, end.took),
        (TurnNo(2), Status::Stopped, Delivered::No, Duration::ZERO)
    );
    // Without a name it is for the running turn.
    bench.did.clear();
    bench.stop(key, None);
    assert_eq!(
        bench.lines(),
        [r#"{"type":"stop","session_id":"s","turn_id":"t1","reason":"user"}"#]
    );
    complete(&mut bench, 1, r#","status":"stopped""#);
    complete(&mut bench, 3, "");
    assert_eq!(bench.ends[2].status, Status::Completed);
}

#[test]
fn a_stop_of_a_turn_that_was_written_has_its_deadline() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    bench.send(key, "1");
    bench.send(key, "2");
    bench.stop(key, Some(TurnNo(2)));
    bench.pass(10 * S);
    assert_eq!(
        (bench.ends.len(), bench.ends[0].turn, bench.ends[0].cause),
        (1, TurnNo(2), Cause::StopUnanswered)
    );
    complete(&mut bench, 2, "");
    complete(&mut bench, 1, "");
    assert_eq!(bench.ends.len(), 2);
}

#[test]
fn a_stop_ends_a_pause_though_its_turn_does_not_run() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    bench.send(key, "1");
    bench.core.handle_pause(key, bench.now);
    bench.send(key, "2");
    bench.did.clear();
    bench.stop(key, Some(TurnNo(2)));
    assert_eq!(
        bench.lines(),
        [
            r#"{"type":"flow.resume","session_id":"s"}"#,
            r#"{"type":"stop","session_id":"s","turn_id":"t2","reason":"user"}"#
        ]
    );
    complete(&mut bench, 2, "");
    assert_eq!(bench.lines(), [r#"{"type":"flow.pause","session_id":"s"}"#]);
}

#[test]
fn a_turn_that_no_one_reads_is_not_held_back_while_another_was_written() {
    for (reader, is_held) in [(Reader::OfTurn, false), (Reader::OfSession, true)] {
        let (mut bench, key) = queues(rules(Extensions::all()));
        bench.send(key, "1");
        bench.send(key, "2");
        bench.did.clear();
        bench.core.handle_unread(key, reader, bench.now);
        bench.drain();
        assert_eq!(bench.lines().len(), usize::from(is_held));
    }
}

#[test]
fn files_and_updates_keep_their_place_between_inputs() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    bench.send(key, "1");
    let file = FileInput {
        file_path: "/x".to_owned(),
        ..FileInput::default()
    };
    bench
        .core
        .handle_file(key, Box::new(file), Ticket(1), bench.now);
    bench.send(key, "2");
    let update = Box::<SessionUpdate>::default();
    bench.core.handle_update(key, update, Ticket(2), bench.now);
    bench.send(key, "3");
    let kind = |line: String| line.split('"').nth(3).map(str::to_owned);
    let kinds: Vec<_> = bench.lines().into_iter().filter_map(kind).collect();
    assert_eq!(
        kinds,
        [
            "user.input",
            "file.input",
            "user.input",
            "session.update",
            "user.input"
        ]
    );
}

#[test]
fn every_turn_that_was_written_has_its_end_whatever_ends_the_session() {
    for (cause, unwritten) in [
        (Cause::Closed, 10),
        (Cause::ProcessExit, 5),
        // Its input was closed before it ended.
        (Cause::EndOfStream, 5),
    ] {
        let (mut bench, key) = queues(rules(Extensions::all()));
        for turn in 1..=11 {
            bench.send(key, "x");
            bench.core.handle_written_at(key, TurnNo(turn), Some(turn));
        }
        bench.say(r#"{"type":"output","session_id":"s","turn_id":"t1","content":"x"}"#);
        let mut end = ProcessEnd {
            why: Ended::Exit,
            exit: ExitStatus::default(),
            memory_kills: 0,
            stderr_tail: None,
            written: 5,
        };
        if cause == Cause::EndOfStream {
            bench.core.handle_input_closed(5);
            (end.why, end.written) = (Ended::EndOfStream, 100);
        }
        if cause == Cause::Closed {
            bench.core.handle_close(key, WhyClosed::User, bench.now);
        } else {
            bench.core.handle_ended(&end, bench.now);
        }
        bench.drain();
        let fate = |end: &TurnEnd| (end.turn.get(), end.cause, end.delivered);
        let fates: Vec<_> = bench.ends.iter().map(fate).collect();
        let expected = (1..=11).map(|turn| {
            let delivered = match turn {
                1 => Delivered::Yes,
                turn if turn >= unwritten => Delivered::No,
                _ => Delivered::Unknown,
            };
            (turn, cause, delivered)
        });
        assert_eq!(fates, expected.collect::<Vec<_>>());
        assert_eq!(bench.core.process_figures(bench.now).running_turns, 0);
    }
}

#[test]
fn an_event_of_a_turn_that_was_written_is_its_own_and_no_late_one() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    bench.send(key, "1");
    bench.send(key, "2");
    bench.did.clear();
    bench.say(r#"{"type":"output","session_id":"s","turn_id":"t2","content":"x"}"#);
    assert_eq!(
        bench.take(),
        [Did::Reported(TurnScope::Running(TurnNo(2)), "output")]
    );
    // The end of a turn that has not become the oldest is its end, too, and the running one stays.
    complete(&mut bench, 2, "");
    complete(&mut bench, 2, "");
    assert_eq!(bench.take(), [Did::Ended(TurnNo(2), Cause::Complete)]);
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!(figures.turn.unwrap().0, TurnNo(1));
}

#[test]
fn inputs_that_wait_in_the_adapter_count_as_waiting() {
    let (mut bench, key) = queues(rules(Extensions::all()));
    for _ in 0..3 {
        bench.send(key, "x");
        bench.pass(S);
    }
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!((figures.queued_inputs, figures.queue_age), (2, Some(2 * S)));
    complete(&mut bench, 1, "");
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!((figures.queued_inputs, figures.queue_time), (1, 2 * S));
}

#[test]
fn a_session_with_a_budget_of_tokens_is_given_one_input_at_a_time() {
    let mut bench = Bench::new(rules(Extensions::all()));
    let start = trunkline_protocol::SessionStart {
        max_tokens: Some(9),
        ..Default::default()
    };
    let new = super::super::NewSession {
        id: trunkline_protocol::SessionId::new("s").unwrap(),
        chosen: true,
        start: Some(Box::new(start)),
        meta: None,
        real_cwd: None,
    };
    let key = bench.core.handle_open(new, bench.now);
    bench.core.handle_started(bench.now);
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["turns","usage"],"input_modes":["queue"]}"#);
    bench.did.clear();
    for turn in 1..=2 {
        let input = UserInput::text("x");
        bench
            .core
            .handle_send(key, TurnNo(turn), input, None, bench.now);
    }
    bench.drain();
    assert_eq!(written(&mut bench), ["t1"]);
    complete(&mut bench, 1, r#","usage":{"total_tokens":9}"#);
    assert_eq!(
        (bench.ends[1].cause, bench.ends[1].delivered),
        (Cause::MaxTokens, Delivered::No)
    );
}
