//! Counts of a session.

use std::time::Duration;

use trunkline_protocol::Extensions;

use super::bench::{Bench, rules};
use crate::{Ended, ProcessPhase, SessionState};

const S: Duration = Duration::from_secs(1);

#[test]
fn a_session_has_its_own_figures() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let other = bench.open("other");
    let before = bench.core.figures(key, bench.now).unwrap();
    assert_eq!((before.state, before.turn), (SessionState::Idle, None));
    let turn = bench.send(key, "1");
    bench.send(key, "2");
    bench.send(key, "3");
    let line = format!(r#"{{"type":"output","session_id":"s","turn_id":"{turn}","content":"x"}}"#);
    bench.say(&line);
    bench.pass(5 * S);
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!(
        (figures.state, figures.turn),
        (SessionState::Running, Some((turn, 5 * S)))
    );
    assert_eq!((figures.queued_inputs, figures.queue_age), (2, Some(5 * S)));
    assert_eq!(figures.queue_time, Duration::ZERO);
    assert_eq!(figures.bytes_in - before.bytes_in, line.len() as u64 + 1);
    bench.say(&format!(
        r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
    ));
    bench.pass(S);
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!(
        (figures.queued_inputs, figures.queue_age, figures.queue_time),
        (1, Some(6 * S), 5 * S)
    );
    bench.stop(key, None);
    assert_eq!(
        bench.core.figures(key, bench.now).unwrap().state,
        SessionState::Stopping
    );
    let neighbour = bench.core.figures(other, bench.now).unwrap();
    assert_eq!(
        (neighbour.state, neighbour.bytes_in),
        (SessionState::Idle, 0)
    );
    assert_eq!(
        (neighbour.queued_inputs, neighbour.queue_time),
        (0, Duration::ZERO)
    );
    bench.die(Ended::Exit, Some(1));
    let figures = bench.core.figures(key, bench.now).unwrap();
    assert_eq!(
        (figures.state, figures.queued_inputs),
        (SessionState::Unstarted, 0)
    );
    bench
        .core
        .handle_close(key, crate::WhyClosed::User, bench.now);
    assert_eq!(bench.core.figures(key, bench.now), None);
}

#[test]
fn the_process_has_figures_of_all_its_sessions() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let other = bench.open("other");
    let turn = bench.send(key, "1");
    bench.pass(5 * S);
    bench.say(&format!(
        r#"{{"type":"output","session_id":"s","turn_id":"{turn}","content":"x"}}"#
    ));
    bench.send(other, "2");
    bench.pass(3 * S);
    let figures = bench.core.process_figures(bench.now);
    assert_eq!(
        (figures.phase, figures.running_turns),
        (ProcessPhase::Running, 2)
    );
    assert_eq!(
        (figures.open_requests, figures.longest_silence),
        (0, Some(3 * S))
    );
    // A request waits for its user: that silence is not the adapter's.
    let asks = r#""request_id":"r","tool":"T","description":"d","resource":"x""#;
    bench.say(&format!(
        r#"{{"type":"permission.request","session_id":"s","turn_id":"{turn}",{asks}}}"#
    ));
    bench.pass(5 * S);
    assert_eq!(bench.core.figures(key, bench.now).unwrap().silent_for, None);
    assert_eq!(
        bench.core.figures(other, bench.now).unwrap().silent_for,
        Some(8 * S)
    );
    let figures = bench.core.process_figures(bench.now);
    assert_eq!(
        (figures.open_requests, figures.longest_silence),
        (1, Some(8 * S))
    );
}

#[test]
fn a_process_that_ends_early_waits_and_then_has_failed() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    bench.send(key, "1");
    bench.die(Ended::Exit, Some(1));
    let figures = bench.core.process_figures(bench.now);
    assert_eq!(
        (figures.phase, figures.running_turns),
        (ProcessPhase::Waiting, 0)
    );
    assert!(
        figures.again_in.is_some() && figures.why.is_none(),
        "{figures:?}"
    );
    bench.core.handle_retry(bench.now);
    bench.core.handle_started(bench.now);
    // Wrong usage: another start would not help.
    bench.die(Ended::Exit, Some(2));
    let figures = bench.core.process_figures(bench.now);
    assert_eq!(
        (figures.phase, figures.again_in),
        (ProcessPhase::Failed, Some(60 * S))
    );
    assert!(
        figures
            .why
            .unwrap()
            .message
            .unwrap()
            .contains("exit status 2")
    );
}
