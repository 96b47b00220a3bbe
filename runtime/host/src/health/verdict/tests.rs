use trunkline_protocol::Liveness;

use super::*;
use crate::{
    Counters,
    health::{LastEnd, ProcessHealth, Rates},
};

const S: Duration = Duration::from_secs(1);

/// An agent whose process runs and works.
fn working() -> AgentHealth {
    AgentHealth {
        agent: "a".to_owned(),
        state: AgentState::Running,
        why: None,
        restart_in: None,
        process: Some(ProcessHealth {
            pid: Some(7),
            age: 90 * S,
            silent_for: S,
            was_heard: true,
            suspected_for: None,
            stderr_tail: String::new(),
        }),
        last_end: None,
        sessions: 2,
        running_turns: 1,
        open_requests: 0,
        longest_silence: Some(S),
        failing: None,
        rates: Rates::default(),
        counters: Counters {
            lines_in: 100,
            ..Counters::default()
        },
        draining: 0,
        removed: false,
    }
}

#[test]
fn sessions_that_go_on_with_an_earlier_configuration_are_a_note() {
    let said = |change: fn(&mut AgentHealth)| changed(change);
    let (severity, text) = said(|health| health.draining = 1);
    assert_eq!(severity, Severity::Note);
    assert_eq!(
        text,
        "1 session goes on with an earlier configuration of it until closed"
    );
    let (severity, text) = said(|health| (health.draining, health.removed) = (1, true));
    assert_eq!(severity, Severity::Note);
    assert_eq!(
        text,
        "it was removed from the configuration; 3 sessions go on until closed"
    );
    let (severity, _) = said(|health| (health.draining, health.counters.too_long) = (1, 1));
    assert_eq!(severity, Severity::Warning);
}

/// The verdict of a working agent that is changed.
fn changed(change: impl FnOnce(&mut AgentHealth)) -> (Severity, String) {
    let mut health = working();
    change(&mut health);
    let Verdict { severity, text } = health.verdict();
    (severity, text)
}

fn process(health: &mut AgentHealth) -> &mut ProcessHealth {
    health.process.as_mut().unwrap()
}

fn ended(health: &mut AgentHealth) {
    let how = "ended with exit status 1".to_owned();
    health.last_end = Some(LastEnd {
        how,
        ago: 65 * S,
        stderr_tail: "boom\n".to_owned(),
    });
}

#[test]
fn an_agent_that_works_is_fine() {
    for (change, text) in [
        ((|_| {}) as fn(&mut AgentHealth), "fine: 1 turn runs"),
        (|health| health.running_turns = 3, "fine: 3 turns run"),
        (|health| health.running_turns = 0, "fine: no turn runs"),
        (
            |health| health.process = None,
            "fine: no process runs; the next input starts one",
        ),
        (
            |health| process(health).was_heard = false,
            "fine: it has run for 1 min 30 s without a message so far",
        ),
    ] {
        assert_eq!(changed(change), (Severity::Ok, text.to_owned()));
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    use Severity::{Error, Note, Warning};
    let failed = |health: &mut AgentHealth| {
        (health.state, health.process) = (AgentState::Failed, None);
        health.why = Some("the adapter ended with exit status 2 before it completed a turn; its last words on stderr:\nusage".to_owned());
    };
    for (change, severity, parts) in [
        (
            Box::new(move |health: &mut AgentHealth| failed(health))
                as Box<dyn Fn(&mut AgentHealth)>,
            Error,
            &[
                "it may not run: the adapter ended with exit status 2",
                "last words on stderr: usage",
            ][..],
        ),
        (
            Box::new(move |health: &mut AgentHealth| {
                failed(health);
                health.restart_in = Some(30 * S);
            }),
            Error,
            &[
                "failed to start too often",
                "exit status 2",
                "it may be started again in 30 s",
            ],
        ),
        (
            Box::new(|health| process(health).suspected_for = Some(12 * S)),
            Warning,
            &[
                "not answered a ping for 12 s",
                "`trunkline agents restart a`",
            ],
        ),
        (
            Box::new(|health| {
                (health.state, health.process) = (AgentState::Idle, None);
                health.restart_in = Some(S / 2);
                ended(health);
            }),
            Warning,
            &[
                "its process ended with exit status 1",
                "started again now",
                "read its stderr",
            ],
        ),
        (
            Box::new(|health| health.counters.queued_bytes = 3 << 20),
            Warning,
            &["does not read its stdin: 3 MiB wait"],
        ),
        (
            Box::new(|health| health.counters.overflows = 1),
            Warning,
            &["1 session ended", "read each turn"],
        ),
        (
            Box::new(|health| health.counters.noise = 50),
            Warning,
            &["no messages (50 of 100)", "stderr"],
        ),
        (
            Box::new(|health| health.counters.noise = 2),
            Note,
            &["no messages (2 of 100)"],
        ),
        (
            Box::new(|health| health.counters.too_long = 2),
            Warning,
            &["2 lines of it", "`max_line`"],
        ),
        (
            Box::new(|health| (health.counters.bad, health.counters.foreign) = (2, 1)),
            Note,
            &["(2 bad, 1 of no turn)", "trunkline-conformance"],
        ),
        (
            Box::new(|health| health.longest_silence = Some(200 * S)),
            Note,
            &["silent for 3 min 20 s", "stop it"],
        ),
        (
            Box::new(|health| health.open_requests = 1),
            Note,
            &["1 request waits for an answer"],
        ),
        (
            Box::new(|health| health.counters.pauses = 2),
            Note,
            &["paused 2 times", "`spool`"],
        ),
        (
            Box::new(|health| {
                health.counters.restarts = 1;
                ended(health);
            }),
            Note,
            &["started again 1 time; the last time it ended with exit status 1, 1 min 5 s ago"],
        ),
    ] {
        let (found, text) = changed(change);
        assert_eq!(found, severity, "{text}");
        for part in parts {
            assert!(text.contains(part), "{text:?} has no {part:?}");
        }
        assert!(
            !text.contains('\n') && text.len() < 400,
            "one sentence: {text:?}"
        );
    }
}

#[test]
fn the_worst_is_said_and_of_equals_the_first() {
    let (severity, text) = changed(|health| {
        health.counters.noise = 50;
        health.counters.restarts = 3;
        process(health).suspected_for = Some(20 * S);
    });
    assert_eq!(severity, Severity::Warning);
    assert!(text.contains("ping"), "{text}");
}

#[test]
fn liveness_has_three_steps_and_what_lies_beside_them() {
    let of = |change: fn(&mut AgentHealth)| {
        let mut health = working();
        change(&mut health);
        health.liveness()
    };
    assert_eq!(of(|_| {}), Liveness::Progressing);
    assert_eq!(
        of(|health| health.longest_silence = Some(90 * S)),
        Liveness::Answering
    );
    assert_eq!(of(|health| health.running_turns = 0), Liveness::Answering);
    assert_eq!(
        of(|health| process(health).silent_for = 90 * S),
        Liveness::Alive
    );
    assert_eq!(
        of(|health| process(health).was_heard = false),
        Liveness::Starting
    );
    assert_eq!(
        of(|health| process(health).suspected_for = Some(S)),
        Liveness::Suspected
    );
    assert_eq!(of(|health| health.process = None), Liveness::Down);
}
