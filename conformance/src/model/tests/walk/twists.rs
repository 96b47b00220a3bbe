//! Tables with one wrong entry each.

use trunkline_protocol::rules::{
    self, RequestPhase, RequestRule, RequestStep, SessionPhase, SessionRule, TurnPhase, TurnStep,
};
use trunkline_protocol::{AdapterKind, HostKind};

use super::{RULES, Rules, Walk};

/// A walk that could not fail would prove nothing: each twisted table must be caught.
#[test]
fn a_twisted_rule_is_caught() {
    use {RequestPhase as Q, RequestStep as A, TurnPhase as P, TurnStep as S};
    let twists = [
        (
            "a closed session takes a stop",
            Rules {
                from_host: |phase, kind| match (phase, kind) {
                    (SessionPhase::Closed, HostKind::Stop) => SessionRule::Accept,
                    _ => rules::from_host(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "an unknown session takes output",
            Rules {
                from_adapter: |phase, kind| match (phase, kind) {
                    (SessionPhase::Unstarted, AdapterKind::Output) => SessionRule::Accept,
                    _ => rules::from_adapter(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "session.closed ends nothing",
            Rules {
                from_adapter: |phase, kind| match (phase, kind) {
                    (SessionPhase::Open, AdapterKind::SessionClosed) => SessionRule::Accept,
                    _ => rules::from_adapter(phase, kind),
                },
                ..RULES
            },
        ),
        (
            "a turn ends twice",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Ended, S::Complete) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "late output is in time",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Ended, S::Emit) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "a stop ends the turn by itself",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Running, S::Stop) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "queued turns are served out of order",
            Rules {
                turn: |phase, step| match (phase, step) {
                    (P::Queued, S::Complete) => Ok(P::Ended),
                    _ => phase.after(step),
                },
                ..RULES
            },
        ),
        (
            "a pending id is asked again",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Pending, A::Ask) => RequestRule::Open,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
        (
            "a late answer counts",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Settled, A::Answer) => RequestRule::Settle,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
        (
            "a withdrawal is ignored",
            Rules {
                request: |phase, step| match (phase, step) {
                    (Q::Pending, A::Withdraw) => RequestRule::Ignore,
                    _ => rules::request(phase, step),
                },
                ..RULES
            },
        ),
    ];
    for (name, twisted) in twists {
        assert!(Walk::new(twisted, 7).run(20_000).is_err(), "{name}");
    }
}
