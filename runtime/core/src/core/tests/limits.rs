//! The limits that sessions and inputs set: they narrow the configuration's, end turns, and use up a session.

use std::time::Duration;

use trunkline_protocol::{
    Category, Delivered, Extensions, FileInput, InputLimits, SessionId, SessionStart, Status,
    UserInput,
};

use super::{
    super::{Key, NewSession, Ticket},
    bench::{Bench, Did, rules},
};
use crate::{Cause, Ended, Rules, TurnNo};

const S: Duration = Duration::from_secs(1);

const READY: &str = r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["turns","usage","options"]}"#;

/// A session with these limits whose adapter runs and lists none of them.
fn open(rules: Rules, limits: &InputLimits) -> (Bench, Key) {
    let mut bench = Bench::new(rules);
    let start = SessionStart {
        max_tokens: limits.max_tokens,
        turn_timeout_ms: limits.turn_timeout_ms,
        inactivity_timeout_ms: limits.inactivity_timeout_ms,
        ..SessionStart::default()
    };
    let new = NewSession {
        id: SessionId::new("s").unwrap(),
        chosen: true,
        start: Some(Box::new(start)),
        meta: None,
        real_cwd: None,
    };
    let key = bench.core.handle_open(new, bench.now);
    bench.core.handle_started(bench.now);
    bench.drain();
    bench.say(READY);
    bench.did.clear();
    (bench, key)
}

fn send(bench: &mut Bench, key: Key, turn: u64, limits: InputLimits) -> TurnNo {
    let input = UserInput {
        limits: Some(limits),
        ..UserInput::text("x")
    };
    bench
        .core
        .handle_send(key, TurnNo(turn), input, None, bench.now);
    bench.drain();
    TurnNo(turn)
}

fn say(bench: &mut Bench, turn: TurnNo, kind: &str, more: &str) {
    bench.say(&format!(
        r#"{{"type":"{kind}","session_id":"s","turn_id":"{turn}"{more}}}"#
    ));
}

fn tokens(most: u64) -> InputLimits {
    InputLimits {
        max_tokens: Some(most),
        ..InputLimits::default()
    }
}

fn turn_timeout(millis: Option<u64>) -> InputLimits {
    InputLimits {
        turn_timeout_ms: millis,
        ..InputLimits::default()
    }
}

fn inactivity_timeout(millis: Option<u64>) -> InputLimits {
    InputLimits {
        inactivity_timeout_ms: millis,
        ..InputLimits::default()
    }
}

#[test]
fn the_shortest_timeout_of_configuration_session_and_input_holds_and_is_named() {
    let huge = Some(u64::MAX);
    for (configured, session, input, after, named) in [
        (
            Some(9),
            Some(5_000),
            Some(3_000),
            3,
            "the input's NAME_ms of 3 s",
        ),
        (
            Some(9),
            Some(3_000),
            Some(5_000),
            3,
            "the session's NAME_ms of 3 s",
        ),
        (Some(3), Some(5_000), Some(9_000), 3, "NAME of 3 s"),
        (Some(3), Some(3_000), Some(3_000), 3, "NAME of 3 s"),
        (Some(9), Some(0), Some(0), 9, "NAME of 9 s"),
        (Some(9), huge, huge, 9, "NAME of 9 s"),
        (None, huge, Some(3_000), 3, "the input's NAME_ms of 3 s"),
        (None, Some(3_000), None, 3, "the session's NAME_ms of 3 s"),
    ] {
        let configured = configured.map(|seconds| seconds * S);
        for is_turn in [true, false] {
            let mut with = rules(Extensions::all());
            with.turn_timeout = configured.filter(|_| is_turn);
            with.inactivity_timeout = configured.filter(|_| !is_turn);
            let limits = if is_turn {
                turn_timeout
            } else {
                inactivity_timeout
            };
            let (mut bench, key) = open(with, &limits(session));
            let turn = send(&mut bench, key, 1, limits(input));
            bench.did.clear();
            bench.pass(after * S - S / 100);
            assert_eq!(bench.take(), [], "{named}");
            bench.pass(S / 50);
            assert_eq!(
                bench.lines(),
                [r#"{"type":"stop","session_id":"s","turn_id":"t1","reason":"timeout"}"#]
            );
            say(&mut bench, turn, "turn.complete", "");
            let (name, cause, followed) = if is_turn {
                ("turn_timeout", Cause::TurnTimeout, "the turn was stopped")
            } else {
                let followed = "no message of this session came, and the turn was stopped";
                ("inactivity_timeout", Cause::Inactivity, followed)
            };
            assert_eq!(bench.ends[0].cause, cause);
            let named = named.replace("NAME", name);
            assert_eq!(bench.message(0), format!("{named} reached; {followed}"));
        }
    }
}

#[test]
fn a_timeout_without_end_and_a_timeout_of_zero_end_nothing() {
    for millis in [0, u64::MAX] {
        let with = Rules {
            turn_timeout: None,
            ..rules(Extensions::all())
        };
        let limits = InputLimits {
            turn_timeout_ms: Some(millis),
            inactivity_timeout_ms: Some(millis),
            max_tokens: None,
        };
        let (mut bench, key) = open(with, &limits);
        send(&mut bench, key, 1, limits);
        bench.did.clear();
        bench.pass(1_000_000 * S);
        assert_eq!(bench.take(), []);
    }
}

#[test]
fn a_turn_that_ran_longer_than_its_limit_has_both_times_in_its_message() {
    let with = rules(Extensions::all());
    let (mut bench, key) = open(with, &turn_timeout(Some(3_000)));
    send(&mut bench, key, 1, InputLimits::default());
    // The driver was late.
    bench.now += 7 * S;
    bench.core.handle_timeout(bench.now);
    bench.drain();
    say(&mut bench, TurnNo(1), "turn.complete", "");
    assert_eq!(
        bench.message(0),
        "the session's turn_timeout_ms of 3 s reached: the turn ran for 7 s; the turn was stopped"
    );
}

#[test]
fn a_turn_that_reaches_the_tokens_of_its_input_is_stopped_and_the_next_one_runs() {
    for (first, second, is_reached) in [
        (r#","total_tokens":9"#, "", false),
        (r#","total_tokens":10"#, "", true),
        (r#","input_tokens":7,"output_tokens":3"#, "", true),
        (r#","input_tokens":10"#, "", true),
        // The later numbers of a turn replace the earlier ones.
        (r#","total_tokens":9"#, r#","total_tokens":5"#, false),
        (r#","total_tokens":9"#, r#","total_tokens":11"#, true),
        // The provider's sum counts; parts that were counted twice do not.
        (
            r#","input_tokens":7,"output_tokens":7,"total_tokens":9"#,
            "",
            false,
        ),
        (r#","cost_usd":3"#, "", false),
        (r#","total_tokens":18446744073709551615"#, "", true),
        (
            r#","input_tokens":18446744073709551615,"output_tokens":9"#,
            "",
            true,
        ),
    ] {
        let (mut bench, key) = open(rules(Extensions::all()), &InputLimits::default());
        let turn = send(&mut bench, key, 1, tokens(10));
        bench.did.clear();
        say(&mut bench, turn, "usage", first);
        if !second.is_empty() {
            say(&mut bench, turn, "usage", second);
        }
        let stops = bench.lines();
        assert_eq!(stops.len(), usize::from(is_reached), "{first} {second}");
        say(&mut bench, turn, "turn.complete", "");
        let end = &bench.ends[0];
        let expected = if is_reached {
            (Cause::MaxTokens, Status::Limit, Some(Category::UsageLimit))
        } else {
            (Cause::Complete, Status::Completed, None)
        };
        let category = end.error.as_ref().and_then(|error| error.category);
        assert_eq!(
            (end.cause, end.status, category),
            expected,
            "{first} {second}"
        );
        assert_eq!(end.delivered, Delivered::Yes);

        let next = send(&mut bench, key, 2, InputLimits::default());
        assert_eq!(bench.lines().len(), 1, "{first} {second}");
        say(&mut bench, next, "usage", r#","total_tokens":99"#);
        assert_eq!(bench.lines(), [""; 0]);
    }
}

#[test]
fn the_reason_names_whose_tokens_are_used_up_and_how_many_were_used() {
    let (mut bench, key) = open(rules(Extensions::all()), &tokens(100));
    let turn = send(&mut bench, key, 1, tokens(10));
    say(&mut bench, turn, "usage", r#","total_tokens":12"#);
    say(&mut bench, turn, "turn.complete", "");
    assert_eq!(
        bench.message(0),
        "the input's max_tokens of 10 reached: 12 tokens were used; the turn was stopped"
    );

    let turn = send(&mut bench, key, 2, InputLimits::default());
    say(&mut bench, turn, "usage", r#","total_tokens":89"#);
    send(&mut bench, key, 3, InputLimits::default());
    say(&mut bench, turn, "turn.complete", "");
    for at in [1, 2] {
        let end = &bench.ends[at];
        assert_eq!((end.cause, end.status), (Cause::MaxTokens, Status::Limit));
    }
    assert_eq!(
        (bench.message(1), bench.message(2)),
        (
            "the session's max_tokens of 100 reached: 101 tokens were used; the turn was stopped",
            "the session's max_tokens of 100 reached: 101 tokens were used; the input was not sent"
        )
    );
    assert_eq!(bench.ends[2].delivered, Delivered::No);
}

#[test]
fn a_session_whose_tokens_are_used_up_ends_each_further_input_unsent() {
    for at_the_end in [false, true] {
        let (mut bench, key) = open(rules(Extensions::all()), &tokens(10));
        let turn = send(&mut bench, key, 1, InputLimits::default());
        say(&mut bench, turn, "usage", r#","total_tokens":6"#);
        let end = r#","usage":{"total_tokens":6}"#;
        say(&mut bench, turn, "turn.complete", end);
        let turn = send(&mut bench, key, 2, InputLimits::default());
        let file = FileInput {
            file_path: "/x".to_owned(),
            ..FileInput::default()
        };
        send(&mut bench, key, 3, InputLimits::default());
        bench
            .core
            .handle_file(key, Box::new(file), Ticket(1), bench.now);
        send(&mut bench, key, 4, InputLimits::default());
        bench.did.clear();
        if at_the_end {
            // The end of a turn stays what it is.
            let end = r#","usage":{"total_tokens":4}"#;
            say(&mut bench, turn, "turn.complete", end);
            assert_eq!(bench.ends[1].cause, Cause::Complete);
        } else {
            say(&mut bench, turn, "usage", r#","total_tokens":4"#);
            assert_eq!(
                bench.lines(),
                [r#"{"type":"stop","session_id":"s","turn_id":"t2","reason":"policy"}"#]
            );
            say(&mut bench, turn, "turn.complete", "");
            assert_eq!(bench.ends[1].cause, Cause::MaxTokens);
        }
        let ended = [
            Did::Ended(TurnNo(3), Cause::MaxTokens),
            Did::Ended(TurnNo(4), Cause::MaxTokens),
        ];
        let did = bench.take();
        assert!(did.windows(2).any(|pair| pair == ended), "{did:?}");
        let wrote = |did: &Did| matches!(did, Did::Wrote(line) if line.contains("file.input"));
        assert!(did.iter().any(wrote), "a file is no input: {did:?}");

        // No process is started for what it would not get.
        bench.die(Ended::Exit, Some(0));
        bench.did.clear();
        send(&mut bench, key, 5, InputLimits::default());
        assert_eq!(bench.take(), [Did::Ended(TurnNo(5), Cause::MaxTokens)]);
        let end = bench.ends.last().unwrap();
        assert_eq!((end.status, end.delivered), (Status::Limit, Delivered::No));
    }
}

#[test]
fn a_running_total_of_the_session_uses_up_the_session_and_no_input() {
    let total = r#","scope":"session","total_tokens":10"#;
    let (mut bench, key) = open(rules(Extensions::all()), &tokens(10));
    let turn = send(&mut bench, key, 1, InputLimits::default());
    bench.did.clear();
    say(&mut bench, turn, "usage", total);
    assert_eq!(bench.lines().len(), 1, "the turn is stopped");

    let (mut bench, key) = open(rules(Extensions::all()), &InputLimits::default());
    let turn = send(&mut bench, key, 1, tokens(10));
    bench.did.clear();
    say(&mut bench, turn, "usage", total);
    assert_eq!(bench.lines(), [""; 0]);
}

#[test]
fn an_input_that_allows_no_tokens_ends_unsent() {
    let (mut bench, key) = open(rules(Extensions::all()), &InputLimits::default());
    bench.did.clear();
    send(&mut bench, key, 1, tokens(0));
    assert_eq!(bench.take(), [Did::Ended(TurnNo(1), Cause::MaxTokens)]);
    assert_eq!(bench.ends[0].delivered, Delivered::No);
    send(&mut bench, key, 2, InputLimits::default());
    assert_eq!(bench.lines().len(), 1);
}

#[test]
fn limits_are_never_refused_and_go_to_an_adapter_that_knows_options() {
    for unlisted in [crate::ReliedOn::Restrictions, crate::ReliedOn::Everything] {
        let limits = InputLimits {
            max_tokens: Some(9),
            turn_timeout_ms: Some(9_000),
            inactivity_timeout_ms: Some(9_000),
        };
        for offered in [Extensions::all(), Extensions::empty()] {
            let with = Rules {
                relied_on: unlisted,
                ..rules(offered)
            };
            let (mut bench, key) = open(with, &limits);
            send(&mut bench, key, 1, limits.clone());
            let lines = bench.lines();
            assert_eq!((lines.len(), bench.ends.len()), (1, 0), "{lines:?}");
            assert_eq!(lines[0].contains(r#""limits":{"#), !offered.is_empty());
        }
    }
}
