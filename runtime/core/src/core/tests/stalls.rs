//! Reports about a turn before a deadline ends it: silence, and repeated tool calls.

use std::time::Duration;

use trunkline_protocol::{Category, Extensions, Status, tool_loop::ToolLoopAction};

use super::{
    super::Key,
    bench::{Bench, Did, rules},
};
use crate::{Cause, TurnNo, TurnScope};

const S: Duration = Duration::from_secs(1);

/// Returns a turn with output, on a host that reports a stall after 30 s and waits for 60 s.
fn heard() -> (Bench, Key, TurnNo) {
    let mut with = rules(Extensions::all());
    (with.stall_after, with.inactivity_timeout) = (Some(30 * S), Some(60 * S));
    let (mut bench, key) = Bench::running(with);
    let turn = bench.send(key, "1");
    bench.take();
    (bench, key, turn)
}

#[test]
fn a_silent_turn_is_told_once_before_its_deadline_and_goes_on() {
    let (mut bench, _, turn) = heard();
    bench.pass(29 * S);
    assert_eq!(bench.take(), []);
    bench.pass(20 * S);
    assert_eq!(bench.take(), [Did::Stalled(turn, 30 * S, Some(30 * S))]);
    bench.pass(11 * S);
    assert!(bench.lines()[0].contains(r#""type":"stop""#));
}

#[test]
fn each_silence_is_told_and_a_sign_of_life_ends_it() {
    let (mut bench, _, turn) = heard();
    for _ in 0..3 {
        bench.pass(29 * S);
        bench.say(&format!(
            r#"{{"type":"working","session_id":"s","turn_id":"{turn}"}}"#
        ));
    }
    bench.take();
    for _ in 0..2 {
        bench.pass(40 * S);
        assert_eq!(bench.take(), [Did::Stalled(turn, 30 * S, Some(30 * S))]);
        bench.say(&format!(
            r#"{{"type":"output","session_id":"s","turn_id":"{turn}","content":"x"}}"#
        ));
        bench.take();
    }
}

#[test]
fn the_deadline_of_a_stall_is_the_first_one_and_may_be_missing() {
    for (turn_timeout, left) in [(Some(50 * S), Some(20 * S)), (None, None)] {
        let mut with = rules(Extensions::all());
        (with.stall_after, with.turn_timeout) = (Some(30 * S), turn_timeout);
        let (mut bench, key) = Bench::running(with);
        let turn = bench.send(key, "1");
        bench.take();
        bench.pass(31 * S);
        assert_eq!(bench.take(), [Did::Stalled(turn, 30 * S, left)]);
    }
}

#[test]
fn a_turn_that_waits_for_its_user_does_not_stall() {
    let (mut bench, key, turn) = heard();
    bench.say(&format!(
        r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"r","tool":"Bash","description":"d","resource":"x"}}"#
    ));
    bench.pass(600 * S);
    assert_eq!(
        bench.take(),
        [Did::Reported(TurnScope::Running(turn), "permission")]
    );
    bench.stop(key, None);
    bench.take();
    // What is stopped is waited for by its own deadline.
    bench.pass(9 * S);
    assert_eq!(bench.take(), []);
}

/// Calls a tool this often in a turn, each time with the same input.
fn circle(bench: &mut Bench, turn: TurnNo, calls: usize) {
    for call in 0..calls {
        bench.say(&format!(
            r#"{{"type":"tool.start","session_id":"s","turn_id":"{turn}","tool_call_id":"{turn}-{call}","tool":"Bash","input":{{"command":"ls"}}}}"#
        ));
    }
}

fn with_loops(action: ToolLoopAction) -> (Bench, Key) {
    let mut with = rules(Extensions::all());
    with.tool_loop = action;
    Bench::running(with)
}

#[test]
fn a_turn_that_goes_in_circles_is_warned_of_then_ends_as_a_tool_loop() {
    let (mut bench, key) = with_loops(ToolLoopAction::End);
    let turn = bench.send(key, "1");
    bench.take();
    circle(&mut bench, turn, 14);
    let running = TurnScope::Running(turn);
    let warned = bench
        .take()
        .into_iter()
        .filter(|did| *did == Did::Reported(running, "error"))
        .count();
    assert_eq!(warned, 7);
    circle(&mut bench, turn, 1);
    assert!(
        bench
            .lines()
            .iter()
            .any(|line| line.contains(r#""type":"stop""#) && line.contains("policy"))
    );
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}","status":"stopped"}}"#
    ));
    let end = &bench.ends[0];
    let error = end.error.as_ref().unwrap();
    assert_eq!((end.cause, end.status), (Cause::ToolLoop, Status::Failed));
    assert_eq!(error.category, Some(Category::ToolLoop));
    assert!(
        bench
            .message(0)
            .contains("tool_loop reached: `Bash` was called 15 times with the same input; "),
        "{}",
        bench.message(0)
    );
}

#[test]
fn circles_are_warned_of_alone_or_left_alone_as_the_rules_say() {
    for (action, warned) in [(ToolLoopAction::Warn, 33), (ToolLoopAction::Off, 0)] {
        let (mut bench, key) = with_loops(action);
        let mut errors = 0;
        // They count over turns.
        for text in ["1", "2"] {
            let turn = bench.send(key, text);
            bench.take();
            circle(&mut bench, turn, 20);
            let running = TurnScope::Running(turn);
            errors += bench
                .take()
                .into_iter()
                .filter(|did| *did == Did::Reported(running, "error"))
                .count();
            bench.say(&format!(
                r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
            ));
        }
        assert_eq!(errors, warned);
        assert!(bench.ends.iter().all(|end| end.cause == Cause::Complete));
    }
}
