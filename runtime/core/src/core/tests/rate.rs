//! Limits of a session's output rate and requests.

use std::time::Duration;

use trunkline_protocol::{Category, Extensions, Status, UserInput};

use super::{
    super::{Key, Reader, Ticket},
    bench::{Bench, Did, rules},
};
use crate::{Cause, OutputRate, TurnNo, TurnScope};

const S: Duration = Duration::from_secs(1);
const NONE: [&str; 0] = [];

/// A session that may put out 1 KiB a second, and 8 KiB at once; its first turn runs.
fn limited(offered: Extensions) -> (Bench, Key, TurnNo) {
    let mut with = rules(offered);
    with.output_rate = Some(OutputRate {
        bytes_per_second: 1024,
        burst: 8 * 1024,
    });
    let (mut bench, key) = Bench::running(with);
    // Its reports about itself came before its turns.
    let turn = bench.send(key, "1");
    bench.take();
    (bench, key, turn)
}

/// Sends an output line of this many KiB.
fn output(bench: &mut Bench, kib: usize) {
    let frame = r#"{"type":"output","session_id":"s","content":""}"#.len() + 1;
    let content = "x".repeat(kib * 1024 - frame);
    bench.say(&format!(
        r#"{{"type":"output","session_id":"s","content":"{content}"}}"#
    ));
}

fn complete(bench: &mut Bench, turn: TurnNo) {
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
    ));
}

/// The types of the lines that were written since the last look.
fn wrote(bench: &mut Bench) -> Vec<String> {
    let kind = |line: String| {
        line["{\"type\":\"".len()..]
            .split('"')
            .next()
            .map(str::to_owned)
    };
    bench.lines().into_iter().filter_map(kind).collect()
}

#[test]
fn a_session_over_its_rate_waits_until_half_of_its_burst_is_free() {
    let (mut bench, ..) = limited(Extensions::all());
    output(&mut bench, 8);
    assert_eq!(wrote(&mut bench), NONE);
    output(&mut bench, 4);
    // What was on its way: with it, the session is 76 seconds ahead.
    output(&mut bench, 64);
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
    bench.pass(72 * S - Duration::from_millis(1));
    assert_eq!(wrote(&mut bench), NONE);
    bench.pass(Duration::from_millis(2));
    assert_eq!(wrote(&mut bench), ["flow.resume"]);
    output(&mut bench, 4);
    assert_eq!(wrote(&mut bench), NONE);
    output(&mut bench, 1);
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
}

#[test]
fn a_rate_that_is_kept_is_never_limited_however_long_it_lasts() {
    let (mut bench, ..) = limited(Extensions::empty());
    for _ in 0..300 {
        output(&mut bench, 4);
        bench.pass(4 * S);
    }
    assert_eq!(wrote(&mut bench), NONE);
}

#[test]
fn a_session_begins_no_new_burst_with_a_turn() {
    let (mut bench, key, turn) = limited(Extensions::all());
    output(&mut bench, 8);
    complete(&mut bench, turn);
    bench.send(key, "2");
    assert_eq!(wrote(&mut bench), ["user.input"]);
    output(&mut bench, 1);
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
}

#[test]
fn the_end_of_a_turn_is_no_reason_to_end_it() {
    for offered in [Extensions::all(), Extensions::empty()] {
        let (mut bench, _, turn) = limited(offered);
        let text = "x".repeat(16 * 1024);
        bench.say(&format!(
            r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}","result":"{text}"}}"#
        ));
        assert_eq!(
            (wrote(&mut bench).len(), bench.ends[0].cause),
            (0, Cause::Complete)
        );
    }
}

#[test]
fn a_turn_that_cannot_be_held_back_ends_by_its_rate_and_says_so() {
    let (mut bench, _, turn) = limited(Extensions::all() - Extensions::FLOW);
    output(&mut bench, 8);
    output(&mut bench, 1);
    assert_eq!(wrote(&mut bench), ["stop"]);
    complete(&mut bench, turn);
    let end = &bench.ends[0];
    assert_eq!(
        (end.turn, end.cause, end.status),
        (turn, Cause::Limit, Status::Limit)
    );
    assert_eq!(
        end.error.as_ref().unwrap().category,
        Some(Category::Oversize)
    );
    let message = bench.message(0);
    assert!(
        message.starts_with(
            "max_output_rate of 1 KiB a second, after output_burst of 8 KiB, reached; "
        ),
        "{message}"
    );
}

#[test]
fn an_adapter_that_goes_on_when_it_is_held_back_ends_its_turn() {
    let (mut bench, _, turn) = limited(Extensions::all());
    for _ in 0..6 {
        assert!(bench.ends.is_empty());
        output(&mut bench, 1024);
    }
    assert_eq!(wrote(&mut bench), ["flow.pause", "flow.resume", "stop"]);
    complete(&mut bench, turn);
    assert_eq!(bench.ends[0].cause, Cause::Limit);
}

#[test]
fn nothing_that_its_user_waits_for_is_held_back_by_a_rate() {
    let (mut bench, key, _) = limited(Extensions::all());
    output(&mut bench, 10);
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
    let steer = UserInput {
        message_id: trunkline_protocol::MessageId::new("m").ok(),
        ..UserInput::text("more")
    };
    bench
        .core
        .handle_steer(key, steer, None, Ticket(1), bench.now);
    bench.drain();
    assert_eq!(wrote(&mut bench), ["flow.resume", "user.input"]);
    // It was not asked to wait meanwhile, so this is not held against it.
    output(&mut bench, 5 * 1024);
    assert_eq!(wrote(&mut bench), NONE);
    bench.say(r#"{"type":"steer.result","session_id":"s","message_id":"m","delivered":true}"#);
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
    bench.stop(key, None);
    assert_eq!(wrote(&mut bench), ["flow.resume", "stop"]);
}

#[test]
fn a_session_that_is_read_down_still_waits_for_its_rate() {
    let (mut bench, key, _) = limited(Extensions::all());
    output(&mut bench, 10);
    bench.core.handle_unread(key, Reader::OfTurn, bench.now);
    bench.core.handle_read_down(key, bench.now);
    bench.drain();
    assert_eq!(wrote(&mut bench), ["flow.pause"]);
    bench.core.handle_unread(key, Reader::OfTurn, bench.now);
    bench.pass(60 * S);
    assert_eq!(wrote(&mut bench), NONE, "it is unread");
    bench.core.handle_read_down(key, bench.now);
    bench.drain();
    assert_eq!(wrote(&mut bench), ["flow.resume"]);
}

#[test]
fn requests_beyond_the_limit_of_a_session_are_denied_at_once() {
    let mut with = rules(Extensions::all());
    with.max_open_requests = 2;
    let (mut bench, key) = Bench::running(with);
    let turn = bench.send(key, "1");
    bench.take();
    for id in 1..=3 {
        bench.say(&format!(
            r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"r{id}","tool":"Bash","description":"d","resource":"x"}}"#
        ));
    }
    let asked = |did: &Did| *did == Did::Reported(TurnScope::Running(turn), "permission");
    let did = bench.take();
    assert!(
        asked(&did[0]) && asked(&did[1]) && did.len() == 3,
        "{did:?}"
    );
    let Did::Wrote(line) = &did[2] else {
        panic!("{did:?}")
    };
    assert!(
        line.contains(r#""request_id":"r3""#) && line.contains(r#""approved":false"#),
        "{line}"
    );
    assert_eq!(bench.core.figures(key, bench.now).unwrap().open_requests, 2);
}
