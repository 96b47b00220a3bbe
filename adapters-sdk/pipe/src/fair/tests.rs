use std::collections::HashMap;

use proptest::prelude::*;

use super::{Class, Fair, Flow, Key, Rounds, Turns};

const QUANTUM: usize = 64 * 1024;
const AHEAD: usize = 256 * 1024;
const TURNS: Turns = Turns {
    quantum: QUANTUM,
    batch: AHEAD,
    rounds: Rounds::One,
};

const A: Key = Key(1);
const B: Key = Key(2);

/// A message of a session: its name and serial in the first bytes, so that order can be read back.
fn message(key: Key, serial: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes.max(8)];
    message[0] = u8::try_from(key.0).unwrap();
    message[1..5].copy_from_slice(&serial.to_le_bytes());
    message
}

fn batch(fair: &mut Fair) -> (Vec<u8>, Vec<Key>) {
    let mut out = Vec::new();
    let mut gave = Vec::new();
    fair.take(TURNS, &mut out, &mut gave);
    (out, gave)
}

/// Returns the bytes that each of two sessions gets of `total` if both always have something to
/// write, each in messages of its own size and kept topped up to `room`.
fn shares(small: usize, large: usize, room: usize, total: usize) -> (usize, usize) {
    let mut fair = Fair::default();
    let mut got = HashMap::new();
    let mut sum = 0;
    while sum < total {
        for (key, size) in [(A, small), (B, large)] {
            while fair.bytes(key) < room {
                fair.push(key, message(key, 0, size), Class::Event);
            }
        }
        let before: HashMap<_, _> = [A, B].map(|key| (key, fair.bytes(key))).into();
        let (out, mut gave) = batch(&mut fair);
        assert!(!out.is_empty(), "something waits");
        gave.sort_by_key(|key| key.0);
        gave.dedup();
        for key in gave {
            *got.entry(key).or_insert(0) += before[&key] - fair.bytes(key);
        }
        sum += out.len();
    }
    (got[&A], got[&B])
}

#[test]
fn two_sessions_share_the_pipe_by_bytes_whatever_the_size_of_their_messages() {
    for (small, large) in [
        (100, 100),
        (100, 60_000),
        (100, 1 << 20),
        (5_000, 300_000),
        (70_000, 3_000_000),
    ] {
        let total = 64 << 20;
        let (one, other) = shares(small, large, 64 * 1024, total);
        let bound = large + small + 2 * QUANTUM;
        assert!(
            one.abs_diff(other) <= bound,
            "messages of {small} and {large} bytes: {one} and {other} bytes, more than {bound} apart"
        );
    }
}

#[test]
fn a_batch_is_never_larger_than_what_may_be_written_ahead_unless_one_message_is() {
    let mut fair = Fair::default();
    for serial in 0..1000 {
        fair.push(A, message(A, serial, 1000), Class::Event);
        fair.push(B, message(B, serial, 7000), Class::Event);
    }
    fair.push(A, message(A, 1000, 2 * AHEAD), Class::Event);
    let mut sizes = Vec::new();
    loop {
        let (out, _) = batch(&mut fair);
        if out.is_empty() {
            break;
        }
        sizes.push(out.len());
    }
    assert_eq!(sizes.iter().filter(|size| **size > AHEAD).count(), 1);
    assert_eq!(sizes.iter().sum::<usize>(), 1000 * 8000 + 2 * AHEAD);
}

#[test]
fn an_overdraft_is_paid_back_while_the_queue_is_empty() {
    let mut fair = Fair::default();
    fair.push(B, message(B, 0, 1 << 20), Class::Event);
    assert_eq!(batch(&mut fair).1, [B]);
    let mut turns_of_a = 0;
    for _ in 0..10 {
        fair.push(B, message(B, 1, 1 << 20), Class::Event);
        fair.push(A, message(A, 0, 64 * 1024), Class::Event);
        let (_, gave) = batch(&mut fair);
        assert_eq!(gave, [A], "B owes still");
        fair.purge_last(B);
        turns_of_a += 1;
    }
    assert_eq!(turns_of_a, 10);
}

impl Fair {
    /// Takes the last message back, so that the queue is empty again.
    fn purge_last(&mut self, key: Key) {
        let queue = self.queues.get_mut(&key).unwrap();
        let last = queue.messages.pop_back().unwrap();
        queue.bytes -= last.line.len();
    }
}

#[test]
fn a_debtor_writes_at_once_when_no_one_else_waits() {
    let mut fair = Fair::default();
    for serial in 0..5 {
        fair.push(B, message(B, serial, 4 << 20), Class::Event);
        assert_eq!(batch(&mut fair).0.len(), 4 << 20);
    }
}

#[test]
fn a_debt_is_forgiven_when_the_hub_has_read_everything() {
    let mut fair = Fair::default();
    fair.push(B, message(B, 0, 1 << 20), Class::Event);
    batch(&mut fair);
    assert!(batch(&mut fair).0.is_empty());
    fair.forgive();
    fair.push(A, message(A, 0, 1000), Class::Event);
    fair.push(B, message(B, 1, 1000), Class::Event);
    assert_eq!(batch(&mut fair).1, [A, B]);
}

#[test]
fn a_paused_session_keeps_its_messages_and_no_other_from_the_pipe() {
    let mut fair = Fair::default();
    fair.push(A, message(A, 0, 10), Class::Event);
    fair.flow(A, Flow::Pause);
    fair.push(A, message(A, 1, 10), Class::Event);
    fair.push(B, message(B, 0, 10), Class::Event);
    assert_eq!(batch(&mut fair).1, [B]);
    assert!(batch(&mut fair).0.is_empty());
    assert_eq!(fair.bytes(A), 20);
    fair.flow(A, Flow::Resume);
    assert_eq!(
        batch(&mut fair).0,
        [message(A, 0, 10), message(A, 1, 10)].concat()
    );
}

#[test]
fn a_purged_session_writes_nothing_more() {
    let mut fair = Fair::default();
    fair.push(A, message(A, 0, 10), Class::Event);
    fair.push(B, message(B, 0, 10), Class::Event);
    fair.purge(A);
    assert_eq!(batch(&mut fair).1, [B]);
    assert_eq!(fair.bytes(A), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u64, usize),
    Flow(u64, bool),
    Take,
    Forgive,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![8..200_usize, 1000..80_000_usize, 100_000..600_000_usize];
    let step = prop_oneof![
        6 => (1..5_u64, size).prop_map(|(key, size)| Step::Push(key, size)),
        1 => (1..5_u64, any::<bool>()).prop_map(|(key, paused)| Step::Flow(key, paused)),
        4 => Just(Step::Take),
        1 => Just(Step::Forgive),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn whatever_happens_order_is_kept_and_nothing_is_lost_or_stuck(steps in steps()) {
        let mut fair = Fair::default();
        let mut pushed: HashMap<u8, u32> = HashMap::new();
        let mut seen: HashMap<u8, u32> = HashMap::new();
        let mut sizes: HashMap<(u8, u32), usize> = HashMap::new();
        let mut read = |out: &[u8], sizes: &HashMap<(u8, u32), usize>| {
            let mut rest = out;
            while !rest.is_empty() {
                let key = rest[0];
                let serial = u32::from_le_bytes(rest[1..5].try_into().unwrap());
                let next = seen.entry(key).or_insert(0);
                assert_eq!(serial, *next);
                *next += 1;
                rest = &rest[sizes[&(key, serial)]..];
            }
        };
        for step in steps {
            match step {
                Step::Push(key, size) => {
                    let name = u8::try_from(key).unwrap();
                    let serial = pushed.entry(name).or_insert(0);
                    sizes.insert((name, *serial), size);
                    fair.push(Key(key), message(Key(key), *serial, size), Class::Event);
                    *serial += 1;
                }
                Step::Flow(key, true) => fair.flow(Key(key), Flow::Pause),
                Step::Flow(key, false) => fair.flow(Key(key), Flow::Resume),
                Step::Take => read(&batch(&mut fair).0, &sizes),
                Step::Forgive => fair.forgive(),
            }
        }
        fair.resume_all();
        loop {
            let (out, _) = batch(&mut fair);
            if out.is_empty() {
                break;
            }
            read(&out, &sizes);
        }
        prop_assert_eq!(seen, pushed);
    }
}

#[test]
fn answers_are_counted_while_they_wait_and_are_not_paused() {
    let mut fair = Fair::default();
    fair.push(A, message(A, 0, 10), Class::Event);
    fair.push(A, message(A, 1, 100), Class::Answer);
    fair.push(B, message(B, 0, 1000), Class::Answer);
    assert_eq!((fair.answers(), fair.held_answers(A)), (1100, 0));
    fair.flow(A, Flow::Pause);
    fair.flow(A, Flow::Pause);
    fair.push(A, message(A, 2, 100), Class::Answer);
    assert_eq!((fair.answers(), fair.held_answers(A)), (1000, 200));
    batch(&mut fair);
    assert_eq!((fair.answers(), fair.held_answers(A)), (0, 200));
    fair.flow(A, Flow::Resume);
    fair.flow(A, Flow::Resume);
    assert_eq!((fair.answers(), fair.held_answers(A)), (200, 0));
    fair.push(B, message(B, 1, 1000), Class::Answer);
    fair.purge(B);
    batch(&mut fair);
    assert_eq!(fair.answers(), 0);
    fair.flow(A, Flow::Pause);
    fair.push(A, message(A, 3, 100), Class::Answer);
    fair.purge(A);
    assert_eq!((fair.answers(), fair.held_answers(A)), (0, 0));
}
