//! A restart by the operator: of a process that works, starts or ends, and of none.

use std::time::Duration;

use trunkline_protocol::{AgentState, Category, Delivered, Extensions, Failure, Status};

use super::bench::{Bench, Did, rules};
use crate::{Cause, Ended};

impl Bench {
    fn restart(&mut self) {
        self.core.handle_restart(self.now);
        self.drain();
    }

    /// Ends the process by a restart.
    fn die_of_restart(&mut self) {
        self.restart();
        assert!(self.take().contains(&Did::Kill(Ended::Restart)));
        self.die(Ended::Restart, None);
    }

    fn fail_to_start(&mut self) {
        let why = Failure::new(Category::NotInstalled, "no");
        self.core.handle_start_failed(why, self.now);
        self.drain();
    }
}

#[test]
fn a_restart_ends_the_turns_with_its_reason_and_the_next_input_starts_at_once() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    let running = bench.send(key, "1");
    let queued = bench.send(key, "2");
    bench.die_of_restart();
    let ends: Vec<_> = bench
        .ends
        .iter()
        .map(|end| (end.turn, end.cause, end.status, end.delivered))
        .collect();
    let failed = (Cause::ProcessExit, Status::Failed);
    assert_eq!(
        ends,
        [
            (running, failed.0, failed.1, Delivered::Unknown),
            (queued, failed.0, failed.1, Delivered::No)
        ]
    );
    let reason = "the adapter's process was ended: the agent was restarted";
    assert!(bench.message(0).starts_with(reason), "{}", bench.message(0));
    assert_eq!(bench.errors, [reason]);
    bench.take();
    bench.send(key, "3");
    assert_eq!(bench.take(), [Did::Start]);
}

#[test]
fn inputs_that_wait_for_a_start_stay_queued_for_the_next_process() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    bench.send(key, "1");
    bench.die_of_restart();
    assert_eq!(bench.take(), [Did::Start]);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert_eq!(bench.lines().len(), 2, "the session and its input");
    assert!(bench.ends.is_empty());
}

#[test]
fn a_restart_ends_a_back_off_and_a_failure_and_forgets_them() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    let key = bench.open("s");
    bench.take();
    for _ in 0..4 {
        bench.fail_to_start();
        bench.send(key, "waits");
        assert!(!bench.take().contains(&Did::Start));
        bench.restart();
        assert_eq!(bench.take(), [Did::Start]);
    }
    // Without a waiting input, nothing starts before the next one.
    bench.fail_to_start();
    assert_eq!(bench.core.agent_state(), AgentState::Idle);
    bench.take();
    bench.restart();
    assert_eq!(bench.take(), []);
    for _ in 0..5 {
        bench.send(key, "fails");
        bench.pass(Duration::from_secs(5));
        bench.fail_to_start();
    }
    assert_eq!(bench.core.agent_state(), AgentState::Failed);
    bench.restart();
    assert_eq!(bench.core.agent_state(), AgentState::Idle);
    bench.take();
    bench.send(key, "starts");
    assert_eq!(bench.take(), [Did::Start]);
}

#[test]
fn a_restart_without_a_process_starts_only_one_in_standby() {
    let mut bench = Bench::new(rules(Extensions::empty()));
    bench.restart();
    assert_eq!(bench.take(), []);
    let mut with = rules(Extensions::empty());
    with.standby = true;
    let mut bench = Bench::new(with);
    bench.core.handle_standby(bench.now);
    bench.drain();
    bench.fail_to_start();
    bench.take();
    bench.restart();
    assert_eq!(bench.take(), [Did::Start]);
    bench.core.handle_shutdown(bench.now);
    bench.restart();
    assert_eq!(bench.take(), []);
}

#[test]
fn a_process_that_ends_already_is_killed_once_and_has_not_failed() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "1");
    bench.pass(Duration::from_secs(120));
    assert!(bench.take().contains(&Did::Kill(Ended::StartTimeout)));
    bench.restart();
    bench.restart();
    assert_eq!(bench.take(), []);
    bench.die(Ended::StartTimeout, None);
    assert_eq!(bench.ends[0].cause, Cause::StartTimeout);
    bench.take();
    bench.send(key, "2");
    assert_eq!(bench.take(), [Did::Start]);
}
