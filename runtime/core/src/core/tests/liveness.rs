//! A silent process: pinged, suspected, trusted again, and never ended for it.

use std::time::Duration;

use trunkline_protocol::Extensions;

use super::bench::{Bench, Did, rules};
use crate::{Ended, Key};

const S: Duration = Duration::from_secs(1);

fn bench(offered: Extensions) -> (Bench, Key) {
    let mut with = rules(offered);
    (with.ping_after, with.turn_timeout) = (Some(30 * S), None);
    Bench::running(with)
}

fn ping(number: u64) -> Did {
    Did::Wrote(format!(
        r#"{{"type":"ping","session_id":"","nonce":{number}}}"#
    ))
}

fn pong(bench: &mut Bench, number: u64) {
    bench.say(&format!(
        r#"{{"type":"pong","session_id":"","nonce":{number}}}"#
    ));
}

#[test]
fn a_silent_process_is_asked_again_and_again_while_it_answers() {
    let (mut bench, _) = bench(Extensions::all());
    for number in 1..=3 {
        bench.pass(29 * S);
        assert_eq!(bench.take(), []);
        bench.pass(S);
        assert_eq!(bench.take(), [ping(number)]);
        bench.pass(9 * S);
        pong(&mut bench, number);
        assert_eq!(bench.take(), [], "it is not counted as unknown");
    }
    assert_eq!(bench.core.process_figures(bench.now).suspected_for, None);
}

#[test]
fn one_that_does_not_answer_is_suspected_once_its_turn_is_told_and_nothing_ends() {
    let (mut bench, key) = bench(Extensions::all());
    let turn = bench.send(key, "x");
    bench.take();
    bench.pass(30 * S);
    assert_eq!(bench.take(), [ping(1)]);
    bench.pass(10 * S);
    assert_eq!(
        bench.take(),
        [Did::Suspected(40 * S), Did::Stalled(turn, 40 * S, None)]
    );
    bench.pass(3600 * S);
    assert_eq!(bench.take(), []);
    assert_eq!(
        bench.core.process_figures(bench.now).suspected_for,
        Some(3610 * S)
    );
    // Any byte is a sign of life, also one of no message.
    bench.core.handle_bytes(bench.now);
    bench.drain();
    assert_eq!(bench.take(), [Did::Trusted]);
    assert_eq!(bench.core.process_figures(bench.now).suspected_for, None);
    bench.pass(30 * S);
    assert_eq!(bench.take(), [ping(2)]);
}

#[test]
fn a_request_that_waits_for_its_answer_is_no_silence_of_the_adapter() {
    let (mut bench, key) = bench(Extensions::all());
    let turn = bench.send(key, "x");
    let asks = r#""request_id":"r","tool":"T","description":"d","resource":"x""#;
    bench.say(&format!(
        r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}",{asks}}}"#
    ));
    bench.take();
    bench.pass(600 * S);
    assert_eq!(bench.take(), []);
    let (asked, request, serial) = bench.serials.pop().unwrap();
    bench
        .core
        .handle_answer(asked, &request, serial, crate::Answer::Dropped, bench.now);
    bench.drain();
    bench.take();
    bench.pass(60 * S);
    assert!(bench.take().contains(&ping(1)));
}

#[test]
fn one_that_does_not_know_control_is_never_asked() {
    let (mut bench, key) = bench(Extensions::TURNS);
    bench.send(key, "x");
    bench.take();
    bench.pass(3600 * S);
    assert_eq!(bench.take(), []);
    // What was never asked for is counted, as before.
    assert_eq!(bench.core.process_figures(bench.now).suspected_for, None);
}

#[test]
fn the_next_process_begins_anew() {
    let (mut bench, _) = bench(Extensions::all());
    bench.pass(40 * S);
    assert!(bench.take().contains(&Did::Suspected(40 * S)));
    bench.die(Ended::Exit, Some(0));
    bench.take();
    assert_eq!(bench.core.process_figures(bench.now).suspected_for, None);
    bench.pass(3600 * S);
    assert!(!bench.take().contains(&ping(2)));
}
