//! The tables: total, and true to the clauses that they state.

use proptest::prelude::*;
use trunkline_protocol::{
    AdapterKind, HostKind, OptionKind, PermissionOption,
    rules::{
        Illegal, RequestPhase, RequestRule, RequestStep, SessionPhase, SessionRule, TurnPhase,
        TurnStep, approves, from_adapter, from_host, request,
    },
};

/// Returns the phase of a session after a rule.
fn next(phase: SessionPhase, rule: SessionRule) -> SessionPhase {
    match rule {
        SessionRule::Open => SessionPhase::Open,
        SessionRule::Close => SessionPhase::Closed,
        SessionRule::Accept
        | SessionRule::Pipe
        | SessionRule::IgnoreUnknown
        | SessionRule::IgnoreLate
        | SessionRule::IgnoreRepeated => phase,
    }
}

#[test]
fn only_a_start_opens_a_session_and_only_an_open_one_takes_anything() {
    for phase in SessionPhase::ALL {
        let open = phase == SessionPhase::Open;
        for kind in HostKind::ALL {
            let rule = from_host(phase, *kind);
            assert_eq!(
                rule == SessionRule::Open,
                *kind == HostKind::SessionStart && !open,
                "{phase:?} {kind:?}"
            );
            assert_eq!(
                rule == SessionRule::Close,
                *kind == HostKind::SessionClose && open,
                "{phase:?} {kind:?}"
            );
            assert!(open || rule != SessionRule::Accept, "{phase:?} {kind:?}");
            assert_eq!(
                rule == SessionRule::Pipe,
                kind.is_of_pipe(),
                "{phase:?} {kind:?}"
            );
        }
        for kind in AdapterKind::ALL {
            let rule = from_adapter(phase, *kind);
            assert_ne!(rule, SessionRule::Open, "an adapter opens nothing");
            assert_eq!(
                rule == SessionRule::Close,
                *kind == AdapterKind::SessionClosed && open,
                "{phase:?} {kind:?}"
            );
            assert_eq!(
                rule == SessionRule::Pipe,
                kind.is_of_pipe(),
                "{phase:?} {kind:?}"
            );
            let taken = matches!(rule, SessionRule::Accept | SessionRule::Close);
            assert_eq!(taken, open && !kind.is_of_pipe(), "{phase:?} {kind:?}");
        }
    }
}

#[test]
fn what_is_ignored_says_why() {
    use SessionPhase::{Closed, Open, Unstarted};
    use SessionRule::{IgnoreLate, IgnoreRepeated, IgnoreUnknown};
    for kind in HostKind::ALL.iter().filter(|kind| !kind.is_of_pipe()) {
        let [unstarted, open, closed] =
            [Unstarted, Open, Closed].map(|phase| from_host(phase, *kind));
        match kind {
            HostKind::SessionStart => assert_eq!(open, IgnoreRepeated),
            HostKind::SessionClose => {
                assert_eq!([unstarted, closed], [IgnoreUnknown, IgnoreRepeated])
            }
            _ => assert_eq!(
                [unstarted, open, closed],
                [IgnoreUnknown, SessionRule::Accept, IgnoreLate]
            ),
        }
    }
    for kind in AdapterKind::ALL.iter().filter(|kind| !kind.is_of_pipe()) {
        assert_eq!(from_adapter(Unstarted, *kind), IgnoreUnknown);
        assert_eq!(from_adapter(Closed, *kind), IgnoreLate);
    }
}

#[test]
fn each_step_of_a_turn_is_decided() {
    use TurnPhase::{Ended, Queued, Running, Stopping};
    use TurnStep::{Abort, Begin, Complete, Emit, Stop};
    let legal = [
        (Queued, Begin, Running),
        (Queued, Stop, Ended),
        (Queued, Abort, Ended),
        (Running, Emit, Running),
        (Running, Stop, Stopping),
        (Running, Complete, Ended),
        (Running, Abort, Ended),
        (Stopping, Emit, Stopping),
        (Stopping, Stop, Stopping),
        (Stopping, Complete, Ended),
        (Stopping, Abort, Ended),
        (Ended, Stop, Ended),
    ];
    for phase in TurnPhase::ALL {
        for step in TurnStep::ALL {
            let wanted = legal
                .iter()
                .find(|(from, by, _)| (*from, *by) == (phase, step))
                .map(|(.., to)| *to);
            assert_eq!(
                phase.after(step),
                wanted.ok_or(Illegal { phase, step }),
                "{phase:?} {step:?}"
            );
        }
    }
    let why = Ended.after(Complete).unwrap_err().to_string();
    assert_eq!(why, "Complete does not happen to a turn that is Ended");
}

#[test]
fn a_request_is_settled_once() {
    use RequestPhase::{Pending, Settled};
    use RequestStep::{Answer, Ask, Deny, Withdraw};
    assert_eq!(request(Settled, Ask), RequestRule::Open);
    assert_eq!(request(Pending, Ask), RequestRule::Reject);
    for step in [Answer, Withdraw, Deny] {
        assert_eq!(request(Pending, step), RequestRule::Settle);
        assert_eq!(request(Settled, step), RequestRule::Ignore);
    }
}

#[test]
fn only_approved_without_a_contradicting_option_approves() {
    use OptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let option = |id: &str, kind| PermissionOption {
        id: id.to_owned(),
        label: None,
        kind,
    };
    let offered = [
        option("once", Some(AllowOnce)),
        option("always", Some(AllowAlways)),
        option("no", Some(RejectOnce)),
        option("never", Some(RejectAlways)),
        option("odd", None),
    ];
    for (chosen, wanted) in [
        (None, true),
        (Some("once"), true),
        (Some("always"), true),
        (Some("odd"), true),
        (Some("no"), false),
        (Some("never"), false),
        (Some("not offered"), false),
    ] {
        assert_eq!(approves(true, chosen, &offered), wanted, "{chosen:?}");
        assert!(!approves(false, chosen, &offered), "{chosen:?}");
    }
}

proptest! {
    #[test]
    fn a_turn_ends_once_whatever_happens(steps in prop::collection::vec(prop::sample::select(&TurnStep::ALL[..]), 0..30)) {
        let mut phase = TurnPhase::Queued;
        let mut ends = 0;
        for step in steps {
            let Ok(after) = phase.after(step) else { continue };
            prop_assert!(phase != TurnPhase::Ended || after == TurnPhase::Ended, "the end is final");
            ends += u32::from(phase != TurnPhase::Ended && after == TurnPhase::Ended);
            phase = after;
        }
        prop_assert!(ends <= 1);
        // Whatever came before, an abort leaves it ended.
        prop_assert_eq!(phase.after(TurnStep::Abort).unwrap_or(phase), TurnPhase::Ended);
    }

    #[test]
    fn a_closed_session_takes_nothing_until_it_is_started_again(
        kinds in prop::collection::vec((prop::sample::select(HostKind::ALL), prop::sample::select(AdapterKind::ALL)), 0..60),
    ) {
        let mut phase = SessionPhase::Unstarted;
        let mut opened = false;
        for (host, adapter) in kinds {
            for rule in [from_host(phase, host), from_adapter(phase, adapter)] {
                prop_assert!(rule != SessionRule::Accept || phase == SessionPhase::Open || opened);
            }
            phase = next(phase, from_host(phase, host));
            opened = phase == SessionPhase::Open;
            let rule = from_adapter(phase, adapter);
            prop_assert!(opened || !matches!(rule, SessionRule::Accept | SessionRule::Close | SessionRule::Open));
            phase = next(phase, rule);
            opened = phase == SessionPhase::Open;
        }
    }
}
