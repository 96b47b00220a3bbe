//! Time in which the host did not run: which deadlines it moves, and which it does not.

use std::time::Duration;

use trunkline_protocol::{Extensions, SessionId, SessionStart, SessionUpdate};

use super::{
    super::{Key, NewSession, OutputRate, Rules, Ticket},
    bench::{Bench, Did, rules},
};
use crate::{Ended, TurnNo};

const S: Duration = Duration::from_secs(1);
const NIGHT: Duration = Duration::from_secs(8 * 3600);

/// A deadline: a bench in which nothing else is due, its length, and what its end does.
struct Deadline {
    name: &'static str,
    moves: bool,
    length: Duration,
    bench: Bench,
    is_end: fn(&Did) -> bool,
}

fn wrote(did: &Did, part: &str) -> bool {
    matches!(did, Did::Wrote(line) if line.contains(part))
}

fn running(change: impl FnOnce(&mut Rules)) -> (Bench, Key) {
    let mut with = rules(Extensions::all());
    with.turn_timeout = None;
    change(&mut with);
    Bench::running(with)
}

fn in_turn(change: impl FnOnce(&mut Rules)) -> (Bench, Key, TurnNo) {
    let (mut bench, key) = running(change);
    let turn = bench.send(key, "1");
    (bench, key, turn)
}

fn unready(change: impl FnOnce(&mut Rules)) -> Bench {
    let mut with = rules(Extensions::all());
    change(&mut with);
    Bench::new(with)
}

/// Every deadline of the core, in the order of `Timer`.
fn deadlines() -> Vec<Deadline> {
    let mut all = Vec::new();
    let mut add = |name, moves, length, bench, is_end| {
        all.push(Deadline {
            name,
            moves,
            length,
            bench,
            is_end,
        });
    };
    let is_stop = |did: &Did| wrote(did, r#""type":"stop""#);

    let mut bench = unready(|_| {});
    bench.open("s");
    add("Start", true, 120 * S, bench, |did| {
        *did == Did::Kill(Ended::StartTimeout)
    });

    let mut bench = unready(|with| {
        with.standby = true;
        // The jitter is at most this.
        with.backoff.base = 30 * S;
    });
    bench.core.handle_standby(bench.now);
    bench.core.handle_started(bench.now);
    bench.die(Ended::Exit, Some(1));
    let length = bench.core.poll_timeout().unwrap() - bench.now;
    add("Restart", false, length, bench, |did| *did == Did::Start);

    let mut bench = unready(|with| with.turn_timeout = None);
    let key = bench.open("s");
    bench.core.handle_started(bench.now);
    bench.send(key, "1");
    add("FirstMessage", true, 120 * S, bench, |did| {
        *did == Did::Kill(Ended::StartTimeout)
    });

    let (bench, _) = running(|with| with.ping_after = Some(30 * S));
    add("Liveness", true, 30 * S, bench, |did| {
        wrote(did, r#""type":"ping""#)
    });

    let (mut bench, _) = running(|with| with.ping_after = Some(30 * S));
    bench.pass(30 * S);
    add("Liveness, pinged", true, 10 * S, bench, |did| {
        matches!(did, Did::Suspected(_))
    });

    let mut bench = unready(|_| {});
    let start = SessionStart {
        denied_tools: Some(vec!["Bash".to_owned()]),
        ..SessionStart::default()
    };
    let new = NewSession {
        id: SessionId::new("s").unwrap(),
        chosen: true,
        start: Some(Box::new(start)),
        meta: None,
        real_cwd: None,
    };
    bench.core.handle_open(new, bench.now);
    bench.core.handle_started(bench.now);
    bench.drain();
    add("Options", true, 120 * S, bench, |did| *did == Did::Closed);

    let (mut bench, _, turn) = in_turn(|with| with.permission_timeout = Some(20 * S));
    bench.say(&format!(r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}","request_id":"r","tool":"Bash","description":"d","resource":"x"}}"#));
    add("Request", true, 20 * S, bench, |did| {
        wrote(did, r#""approved":false"#)
    });

    let (mut bench, key, _) = in_turn(|_| {});
    bench.stop(key, None);
    add("Stop", true, 10 * S, bench, |did| {
        matches!(did, Did::Ended(..))
    });

    let (bench, ..) = in_turn(|with| with.turn_timeout = Some(60 * S));
    add("Turn", true, 60 * S, bench, is_stop);

    let (bench, ..) = in_turn(|with| with.inactivity_timeout = Some(60 * S));
    add("Inactivity", true, 60 * S, bench, is_stop);

    let (bench, ..) = in_turn(|with| with.stall_after = Some(30 * S));
    add("Stall", true, 30 * S, bench, |did| {
        matches!(did, Did::Stalled(..))
    });

    let (mut bench, _, turn) = in_turn(|with| {
        with.output_rate = Some(OutputRate {
            bytes_per_second: 100,
            burst: 1000,
        });
    });
    let text = "x".repeat(4000);
    bench.say(&format!(
        r#"{{"type":"output","session_id":"s","turn_id":"{turn}","content":"{text}"}}"#
    ));
    let length = bench.core.poll_timeout().unwrap() - bench.now;
    add("Rate", false, length, bench, |did| {
        wrote(did, r#""type":"flow.resume""#)
    });

    let mut bench = unready(|with| with.turn_timeout = None);
    let key = bench.open("s");
    bench.core.handle_started(bench.now);
    bench.drain();
    let update = Box::new(SessionUpdate::default());
    bench.core.handle_update(key, update, Ticket(1), bench.now);
    bench.drain();
    // Before the first message, the adapter does not know `options`.
    add("Update", true, 5 * S, bench, |did| {
        *did == Did::Updated(false)
    });
    all
}

#[test]
fn each_deadline_moves_by_a_standstill_or_measures_the_time_of_the_world() {
    for Deadline {
        name,
        moves,
        length,
        mut bench,
        is_end,
    } in deadlines()
    {
        bench.take();
        bench.pass(length / 2);
        assert!(!bench.take().iter().any(is_end), "{name}: it is early");
        // The clock jumps, and the host learns by how much before it looks at its deadlines.
        bench.now += NIGHT;
        bench.core.handle_standstill(NIGHT);
        bench.core.handle_timeout(bench.now);
        bench.drain();
        assert_eq!(bench.take().iter().any(is_end), !moves, "{name}");
        if moves {
            bench.pass(length / 2 - S / 100);
            assert!(
                !bench.take().iter().any(is_end),
                "{name}: the rest is short"
            );
            bench.pass(S / 50);
            assert!(bench.take().iter().any(is_end), "{name}: it never ends");
        }
    }
}

#[test]
fn an_end_without_a_report_of_the_standstill_is_the_one_of_the_clock() {
    for Deadline {
        name,
        mut bench,
        is_end,
        ..
    } in deadlines()
    {
        bench.take();
        bench.now += NIGHT;
        bench.core.handle_timeout(bench.now);
        bench.drain();
        assert!(bench.take().iter().any(is_end), "{name}");
    }
}

#[test]
fn a_silence_is_as_long_as_the_host_ran_and_a_turn_as_long_as_the_world_went_on() {
    let (mut bench, key, turn) = in_turn(|with| {
        with.stall_after = Some(30 * S);
        with.turn_timeout = Some(100 * S);
    });
    bench.take();
    bench.pass(20 * S);
    bench.now += NIGHT;
    bench.core.handle_standstill(NIGHT);
    bench.pass(10 * S);
    assert_eq!(bench.take(), [Did::Stalled(turn, 30 * S, Some(70 * S))]);
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!(
        (figures.silent_for, figures.turn),
        (Some(30 * S), Some((turn, NIGHT + 30 * S)))
    );
}

#[test]
fn a_second_input_that_waits_for_the_first_message_has_its_whole_start_timeout() {
    let mut bench = unready(|with| with.turn_timeout = None);
    let keys = [bench.open("s"), bench.open("t")];
    bench.core.handle_started(bench.now);
    bench.send(keys[0], "1");
    bench.pass(60 * S);
    bench.send(keys[1], "1");
    bench.pass(40 * S);
    // Without the first, the wait counts from the second.
    bench
        .core
        .handle_close(keys[0], crate::WhyClosed::User, bench.now);
    bench.now += NIGHT;
    bench.core.handle_standstill(NIGHT);
    bench.drain();
    bench.take();
    bench.pass(79 * S);
    assert_eq!(bench.take(), []);
    bench.pass(S);
    assert_eq!(bench.take(), [Did::Kill(Ended::StartTimeout)]);
}
