//! The reasons of ends: the limit that was reached, the failure that closed a session, the fate of the input.

use std::time::Duration;

use trunkline_protocol::{Category, ClosedReason, Delivered, Extensions, Failure, Item, Status};

use super::{
    super::{Key, OutputRate, Rules, WhyClosed},
    bench::{Bench, rules},
};
use crate::{Cause, Ended, ExitStatus, MAX_STDERR_LINE_BYTES, ProcessEnd, TurnEnd, TurnNo};

const S: Duration = Duration::from_secs(1);

fn in_turn(change: impl FnOnce(&mut Rules)) -> (Bench, Key, TurnNo) {
    let mut with = rules(Extensions::all());
    with.turn_timeout = Some(3 * S);
    change(&mut with);
    let (mut bench, key) = Bench::running(with);
    let turn = bench.send(key, "1");
    (bench, key, turn)
}

fn say(bench: &mut Bench, turn: TurnNo, kind: &str, more: &str) {
    bench.say(&format!(
        r#"{{"type":"{kind}","session_id":"s","turn_id":"{turn}"{more}}}"#
    ));
}

fn complete(bench: &mut Bench, turn: TurnNo, more: &str) {
    say(bench, turn, "turn.complete", more);
}

#[test]
fn the_reason_names_each_limit_its_value_and_what_followed() {
    let (mut bench, _, turn) = in_turn(|_| {});
    bench.pass(3 * S);
    complete(&mut bench, turn, "");
    assert_eq!(
        bench.message(0),
        "turn_timeout of 3 s reached; the turn was stopped"
    );

    let (mut bench, ..) = in_turn(|_| {});
    bench.pass(13 * S);
    assert_eq!(bench.ends[0].cause, Cause::StopUnanswered);
    assert_eq!(
        bench.message(0),
        "turn_timeout of 3 s reached; the agent did not stop within stop_timeout of 10 s"
    );

    let (mut bench, _, turn) =
        in_turn(|with| with.inactivity_timeout = Some(Duration::from_millis(2500)));
    bench.pass(2600 * S / 1000);
    complete(
        &mut bench,
        turn,
        r#","status":"failed","error":{"category":"other","message":"cut off","code":"7"}"#,
    );
    let error = bench.ends[0].error.as_ref().unwrap();
    assert_eq!(
        (bench.message(0), error.category, error.code.as_deref()),
        (
            "inactivity_timeout of 2.5 s reached; the agent ended the turn: cut off",
            Some(Category::Timeout),
            Some("7")
        )
    );

    let (mut bench, key, _) = in_turn(|_| {});
    bench.stop(key, None);
    bench.pass(10 * S);
    assert_eq!(
        bench.message(0),
        "the agent did not stop within stop_timeout of 10 s"
    );

    let (mut bench, ..) = in_turn(|_| {});
    bench.pass(3 * S);
    bench.die(Ended::Exit, Some(1));
    assert_eq!(
        bench.message(0),
        "turn_timeout of 3 s reached; the adapter's process ended with exit status 1; its last words on stderr:\nlast words"
    );

    let (mut bench, _, turn) = in_turn(|with| with.max_turn_output = Some(1 << 20));
    let text = "x".repeat((1 << 20) + 1);
    say(
        &mut bench,
        turn,
        "output",
        &format!(r#","content":"{text}""#),
    );
    bench.pass(10 * S);
    assert_eq!(
        bench.message(0),
        "max_turn_output of 1 MiB reached; the agent did not stop within stop_timeout of 10 s"
    );

    let (mut bench, _, turn) = in_turn(|with| {
        with.offered = Extensions::TURNS;
        with.output_rate = Some(OutputRate {
            bytes_per_second: 1000,
            burst: 2048,
        });
    });
    say(
        &mut bench,
        turn,
        "output",
        &format!(r#","content":"{}""#, &text[..4096]),
    );
    complete(&mut bench, turn, "");
    assert!(
        bench.message(0).starts_with(
            "max_output_rate of 1000 bytes a second, after output_burst of 2 KiB, reached; "
        ),
        "{}",
        bench.message(0)
    );

    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    bench.send(key, "1");
    bench.pass(120 * S);
    assert_eq!(
        bench.message(0),
        "start_timeout of 2 min reached; the adapter did not start"
    );

    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "1");
    bench.pass(120 * S);
    bench.die(Ended::StartTimeout, None);
    assert!(
        bench.message(0).starts_with(
            "start_timeout of 2 min reached; the adapter was ended; no message was read"
        ),
        "{}",
        bench.message(0)
    );
}

#[test]
fn the_reason_quotes_lines_that_are_not_messages() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "1");
    for line in ["Loading...", "[1]", "{"] {
        let item = if line.starts_with('{') {
            Item::Line(line)
        } else {
            Item::NotObject(line)
        };
        let _ = bench.core.handle_line(item, bench.now);
    }
    bench.die(Ended::StartTimeout, None);
    assert!(
        bench
            .message(0)
            .contains(r#"; 3 lines on its stdout are not messages, the first: "Loading...""#),
        "{}",
        bench.message(0)
    );
}

#[test]
fn the_reason_names_a_process_that_was_suspended_when_the_limit_was_reached() {
    let (mut bench, ..) = in_turn(|_| {});
    bench.core.handle_suspended(Some(4242));
    bench.pass(3 * S);
    bench.core.handle_suspended(None);
    bench.pass(10 * S);
    assert!(
        bench.message(0).starts_with(
            "turn_timeout of 3 s reached while process 4242 of the adapter was suspended"
        ) && bench.message(0).contains("`kill -CONT 4242`"),
        "{}",
        bench.message(0)
    );
    let (mut bench, key, _) = in_turn(|_| {});
    bench.stop(key, None);
    bench.core.handle_suspended(Some(4242));
    bench.pass(10 * S);
    assert!(
        bench
            .message(0)
            .contains("stop_timeout of 10 s while process 4242"),
        "{}",
        bench.message(0)
    );
}

/// The failure by which an adapter closes its session.
const CLOSED: &str = r#"{"type":"session.closed","session_id":"s","reason":"limit","error":{"category":"rate_limit","message":"enough for today"}}"#;

#[test]
fn a_turn_that_its_sessions_end_ends_has_the_error_of_that() {
    type Close = fn(&mut Bench, Key);
    let by_adapter: Close = |bench, _| bench.say(CLOSED);
    let by_limit: Close = |bench, key| {
        bench
            .core
            .handle_close(key, WhyClosed::Limit("no room".to_owned()), bench.now);
        bench.drain();
    };
    for (close, cause, category, message) in [
        (
            by_adapter,
            Cause::SessionClosed,
            Category::RateLimit,
            "enough for today",
        ),
        (by_limit, Cause::Limit, Category::Oversize, "no room"),
    ] {
        let (mut bench, key, _) = in_turn(|_| {});
        bench.send(key, "queued");
        close(&mut bench, key);
        assert_eq!(bench.ends.len(), 2);
        for end in &bench.ends {
            let error = end.error.as_ref().unwrap();
            assert_eq!(
                (end.cause, error.category, error.message.as_deref()),
                (cause, Some(category), Some(message))
            );
        }
    }
    // A failure that has no message gets the one of the cause.
    let (mut bench, ..) = in_turn(|_| {});
    bench.say(r#"{"type":"session.closed","session_id":"s","error":{"category":"auth"}}"#);
    assert_eq!(
        (
            bench.message(0),
            bench.ends[0].error.as_ref().unwrap().category
        ),
        ("the adapter closed the session", Some(Category::Auth))
    );
    // A user who closes a session gets no error.
    let (mut bench, key, _) = in_turn(|_| {});
    bench.core.handle_close(key, WhyClosed::User, bench.now);
    bench.drain();
    assert!(bench.ends[0].error.is_none() && bench.ends[0].status == Status::Stopped);
}

/// The end of a process that has read this many bytes.
fn end_of_process(written: u64) -> ProcessEnd {
    ProcessEnd {
        why: Ended::Exit,
        exit: ExitStatus {
            code: Some(1),
            signal: None,
        },
        memory_kills: 0,
        stderr_tail: None,
        written,
    }
}

#[test]
fn an_input_that_was_not_written_is_not_delivered_whatever_ends_its_turn() {
    type Ending = (&'static str, fn(&mut Bench, Key));
    let endings: [Ending; 9] = [
        ("crash", |bench, _| {
            bench.core.handle_ended(&end_of_process(100), bench.now);
        }),
        ("closed by its user", |bench, key| {
            bench.core.handle_close(key, WhyClosed::User, bench.now);
        }),
        ("closed by its adapter", |bench, _| bench.say(CLOSED)),
        ("closed for a limit", |bench, key| {
            let why = WhyClosed::Limit("no room".to_owned());
            bench.core.handle_close(key, why, bench.now);
        }),
        ("refused", |bench, key| {
            let why = WhyClosed::Refused("no".to_owned());
            bench.core.handle_close(key, why, bench.now);
        }),
        ("closed with its process", |bench, key| {
            bench
                .core
                .handle_close(key, WhyClosed::ProcessEnded, bench.now);
        }),
        ("shutdown", |bench, _| bench.core.handle_shutdown(bench.now)),
        ("stopped", |bench, key| {
            for turn in [2, 1] {
                bench.stop(key, Some(TurnNo(turn)));
            }
            bench.pass(20 * S);
        }),
        ("timed out", |bench, key| {
            bench.stop(key, Some(TurnNo(2)));
            bench.pass(20 * S);
        }),
    ];
    for (name, end) in endings {
        // A message without a turn reveals nothing about the input.
        for chatter in [false, true] {
            // It knows `session.closed` and no turn ids.
            let mut with = rules(Extensions::CONTROL);
            with.turn_timeout = Some(3 * S);
            let (mut bench, key) = Bench::running(with);
            bench.say(r#"{"type":"output","session_id":"s","content":"hello"}"#);
            let turn = bench.send(key, "has no writer");
            bench.core.handle_written_at(key, turn, None);
            bench.send(key, "queued");
            if chatter {
                bench.say(r#"{"type":"output","session_id":"s","content":"still here"}"#);
            }
            end(&mut bench, key);
            bench.drain();
            let delivered: Vec<_> = bench.ends.iter().map(|end| end.delivered).collect();
            assert_eq!(delivered, [Delivered::No; 2], "{name}, chatter: {chatter}");
        }
    }
}

#[test]
fn an_input_behind_the_last_byte_that_was_written_is_not_delivered() {
    let ended: fn(&mut Bench, Key) = |bench, _| {
        bench.core.handle_ended(&end_of_process(50), bench.now);
    };
    // The input breaks, and the turn ends by something else.
    let broken: fn(&mut Bench, Key) = |bench, key| {
        bench.core.handle_input_closed(50);
        bench.core.handle_close(key, WhyClosed::User, bench.now);
    };
    for end in [ended, broken] {
        for (at, expected) in [
            (49, Delivered::Unknown),
            (50, Delivered::No),
            (60, Delivered::No),
        ] {
            let (mut bench, key) = Bench::running(rules(Extensions::empty()));
            let turn = bench.send(key, "1");
            bench.core.handle_written_at(key, turn, Some(at));
            end(&mut bench, key);
            bench.drain();
            assert_eq!(bench.ends[0].delivered, expected, "at {at}");
        }
    }
    // Nor does the adapter know better.
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let turn = bench.send(key, "1");
    bench.core.handle_written_at(key, turn, None);
    complete(&mut bench, turn, r#","delivered":"yes""#);
    assert_eq!(bench.ends[0].delivered, Delivered::No);
}

#[test]
fn an_input_that_the_core_never_saw_has_the_error_that_kept_it_away() {
    let failure = Failure::new(Category::Auth, "the key is missing");
    let end = TurnEnd::unsent(TurnNo(1), Cause::Refused, Some(&failure));
    assert_eq!(
        (end.delivered, end.error.unwrap().message.as_deref()),
        (Delivered::No, Some("the key is missing"))
    );
    assert_eq!(TurnEnd::lost(TurnNo(1)).delivered, Delivered::Unknown);
}

#[test]
fn a_host_that_is_dropped_knows_which_inputs_were_handed_to_the_writer() {
    let (mut bench, key, first) = in_turn(|_| {});
    let second = bench.send(key, "queued");
    assert!(bench.core.was_written(key, first) && !bench.core.was_written(key, second));
}

#[test]
fn stderr_is_data_beside_the_sentence() {
    let lines: String = (0..40).map(|line| format!("line {line}\n\n")).collect();
    let long = "\u{1F600}".repeat(1000);
    let (mut bench, ..) = in_turn(|_| {});
    let end = ProcessEnd {
        stderr_tail: Some(format!("{lines}{long}\r\n")),
        ..end_of_process(0)
    };
    bench.core.handle_ended(&end, bench.now);
    bench.drain();
    let kept = bench.ends[0].stderr_lines();
    assert_eq!((kept.len(), kept[0].as_str()), (32, "line 9"));
    assert_eq!(kept[31], "\u{1F600}".repeat(MAX_STDERR_LINE_BYTES / 4));
    assert!(
        bench
            .message(0)
            .contains("; its last words on stderr:\nline 0\n")
    );
}

#[test]
fn an_input_for_an_agent_that_failed_before_has_its_stderr_as_data() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.die(Ended::Exit, Some(2));
    bench.send(key, "1");
    assert_eq!(bench.ends[0].cause, Cause::StartFailed);
    assert_eq!(bench.ends[0].stderr_lines(), ["last words"]);
}

#[test]
fn the_reason_of_a_session_is_that_of_its_close() {
    let (mut bench, key, _) = in_turn(|_| {});
    let why = WhyClosed::Adapter(ClosedReason::Failed, None);
    bench.core.handle_close(key, why, bench.now);
    bench.drain();
    assert_eq!(bench.message(0), "the adapter closed the session");
}
