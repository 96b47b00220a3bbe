//! Resources that many sessions of one adapter share, exhausted.

use trunkline_protocol::Extensions;

use super::{
    super::{
        Key, WhyClosed,
        known::OF_ALL,
        request::{PENDING_BYTES_OF_ALL, PENDING_OF_ALL},
    },
    bench::{Bench, Did, rules},
};
use crate::Ended;

const KIB: usize = 1024;

/// A running adapter with as many sessions, which know all extensions.
fn running(sessions: usize) -> (Bench, Vec<Key>) {
    let (mut bench, _) = Bench::running(rules(Extensions::all()));
    let names = serde_json::to_string(&Extensions::all().to_names()).unwrap();
    let keys = (0..sessions).map(|at| {
        let key = bench.open(&format!("n{at}"));
        bench.say(&format!(
            r#"{{"type":"session.ready","session_id":"n{at}","protocol":1,"extensions":{names}}}"#
        ));
        key
    });
    let keys = keys.collect();
    bench.take();
    (bench, keys)
}

/// Runs a turn that ends with this many bytes of resume state.
fn turn(bench: &mut Bench, id: usize, key: Key, bytes: usize) -> Vec<Did> {
    let turn = bench.send(key, "x");
    let pad = "p".repeat(bytes);
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"n{id}","turn_id":"{turn}","native_session_id":"native","session_params":{{"p":"{pad}"}}}}"#
    ));
    bench.take()
}

fn errors(did: &[Did]) -> usize {
    did.iter()
        .filter(|did| matches!(did, Did::Reported(_, "error")))
        .count()
}

/// Returns the start of the session after the process has ended.
fn restart(bench: &mut Bench, id: usize, key: Key) -> String {
    bench.die(Ended::Exit, Some(0));
    bench.send(key, "again");
    bench.core.handle_started(bench.now);
    bench.drain();
    let name = format!("\"n{id}\"");
    let is_start = |line: &String| line.contains("session.start") && line.contains(&name);
    bench.lines().into_iter().find(is_start).expect("a start")
}

#[test]
fn parameters_beyond_a_sessions_bound_are_told_and_not_gone_on_from() {
    let (mut bench, keys) = running(1);
    assert_eq!(errors(&turn(&mut bench, 0, keys[0], 100 * KIB)), 0);
    assert_eq!(errors(&turn(&mut bench, 0, keys[0], 1024 * KIB)), 1);
    assert_eq!(bench.core.known_bytes, 0);
    assert!(
        !restart(&mut bench, 0, keys[0]).contains("native"),
        "neither the old nor the new"
    );
}

#[test]
fn parameters_of_all_sessions_are_bounded_and_leave_room_for_the_next() {
    const GREEDY: usize = 6;
    let (mut bench, keys) = running(GREEDY + 1);
    // As if others had filled it but for four mebibytes.
    let others = OF_ALL - (4 << 20);
    bench.core.known_bytes = others;
    let told = (0..GREEDY).map(|at| errors(&turn(&mut bench, at, keys[at], 1000 * KIB)));
    assert_eq!(told.collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
    assert_eq!(errors(&turn(&mut bench, GREEDY, keys[GREEDY], KIB)), 0);
    assert!(restart(&mut bench, GREEDY, keys[GREEDY]).contains("native"));
    for key in keys {
        bench.core.handle_close(key, WhyClosed::User, bench.now);
    }
    assert_eq!(bench.core.known_bytes, others);
}

#[test]
fn requests_of_all_sessions_are_bounded_and_leave_room_for_the_next() {
    let (mut bench, keys) = running(4);
    // As if others had filled it but for a hundred.
    let others = PENDING_OF_ALL - 100;
    bench.core.pending.requests = others;
    let mut waiting = Vec::new();
    for id in 0..4 {
        let before = bench.serials.len();
        for at in 0..100 {
            bench.say(&format!(
                r#"{{"type":"permission.request","session_id":"n{id}","request_id":"{at}","tool":"t","description":"d","resource":"x"}}"#
            ));
        }
        waiting.push(bench.serials.len() - before);
    }
    assert_eq!(waiting, [50, 25, 12, 6]);
    assert_eq!(
        bench.lines().len(),
        400 - 93,
        "the others are denied at once"
    );
    for key in keys {
        bench.core.handle_close(key, WhyClosed::User, bench.now);
        bench.drain();
    }
    assert_eq!(
        (bench.core.pending.requests, bench.core.pending.bytes),
        (others, 0)
    );
}

#[test]
fn bytes_of_the_requests_of_all_sessions_are_bounded() {
    let (mut bench, _) = running(2);
    // As if others had filled it but for a mebibyte.
    bench.core.pending.bytes = PENDING_BYTES_OF_ALL - (1 << 20);
    let ask = |bench: &mut Bench, id: usize, kib: usize| {
        let prompt = "x".repeat(kib * KIB);
        bench.say(&format!(
            r#"{{"type":"input.request","session_id":"n{id}","request_id":"{kib}","prompt":"{prompt}","fields":[]}}"#
        ));
        bench.serials.len()
    };
    assert_eq!([ask(&mut bench, 0, 520), ask(&mut bench, 0, 400)], [0, 1]);
    assert_eq!(
        [ask(&mut bench, 0, 401), ask(&mut bench, 1, 200)],
        [1, 2],
        "the next is asked"
    );
}

#[test]
fn chosen_ids_are_remembered_up_to_a_bound_and_are_never_used_twice() {
    let (mut bench, _) = Bench::running(rules(Extensions::empty()));
    bench.core.used.extend(0..super::super::USED as u64);
    let before = bench.core.used.len();
    for _ in 0..3 {
        let key = bench.open("again");
        assert_ne!(bench.wire[&key].as_str(), "again");
        bench.core.handle_close(key, WhyClosed::User, bench.now);
        bench.drain();
    }
    assert_eq!(bench.core.used.len(), before);
}
