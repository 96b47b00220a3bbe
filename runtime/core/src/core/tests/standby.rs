//! A process that is started before a session asks for it.

use std::time::Duration;

use trunkline_protocol::{Category, Extensions, Failure};

use super::bench::{Bench, Did, rules};
use crate::{Ended, TurnNo};

fn standing_by() -> Bench {
    let mut with = rules(Extensions::empty());
    with.standby = true;
    let mut bench = Bench::new(with);
    bench.stand_by();
    assert_eq!(bench.take(), [Did::Start]);
    bench
}

impl Bench {
    fn stand_by(&mut self) {
        self.core.handle_standby(self.now);
        self.drain();
    }

    fn started(&mut self) {
        self.core.handle_started(self.now);
        self.drain();
    }
}

fn starts(bench: &mut Bench) -> usize {
    bench
        .take()
        .into_iter()
        .filter(|did| *did == Did::Start)
        .count()
}

#[test]
fn a_session_finds_the_process_and_starts_none() {
    let mut bench = standing_by();
    bench.stand_by();
    bench.started();
    bench.stand_by();
    // It may be silent for as long as no input waits.
    bench.pass(Duration::from_secs(3600));
    assert_eq!(bench.take(), []);
    let key = bench.open("s");
    bench.send(key, "1");
    let lines = bench.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[test]
fn a_process_that_ends_after_its_work_is_replaced_at_once() {
    let mut bench = standing_by();
    bench.started();
    let key = bench.open("s");
    bench.send(key, "1");
    bench.say(r#"{"type":"turn.complete","session_id":"s"}"#);
    bench.take();
    bench.die(Ended::Exit, Some(0));
    assert_eq!(starts(&mut bench), 1);
    bench.started();
    assert_eq!(bench.ends[0].turn, TurnNo(1));
    assert_eq!(starts(&mut bench), 0);
}

#[test]
fn one_that_fails_is_started_again_after_the_back_off_and_not_for_ever() {
    let mut bench = standing_by();
    let mut failures = 1;
    while failures < 20 {
        if failures % 2 == 0 {
            bench
                .core
                .handle_start_failed(Failure::new(Category::NotInstalled, "no"), bench.now);
            bench.drain();
        } else {
            bench.started();
            bench.die(Ended::Exit, Some(1));
        }
        assert_eq!(starts(&mut bench), 0, "never at once");
        // Longer than each wait of the first five, so that all are within the window.
        bench.pass(Duration::from_secs(5));
        match starts(&mut bench) {
            0 => break,
            more => assert_eq!(more, 1),
        }
        failures += 1;
    }
    assert!((2..=5).contains(&failures), "{failures} starts");
    assert_eq!(
        bench.core.agent_state(),
        trunkline_protocol::AgentState::Failed
    );
}

#[test]
fn nothing_stands_by_after_a_shutdown_nor_where_it_is_not_asked_for() {
    let mut bench = standing_by();
    bench.started();
    bench.core.handle_shutdown(bench.now);
    bench.die(Ended::Exit, Some(0));
    bench.stand_by();
    assert_eq!(starts(&mut bench), 0);
    let mut bench = Bench::new(rules(Extensions::empty()));
    bench.stand_by();
    assert_eq!(bench.take(), []);
}
