//! Answers to permissions and questions that are longer than a line of the adapter ([frame.11]).

use trunkline_protocol::{Extensions, Json, MIN_MAX_LINE, PermissionResponse, RequestId};

use super::{
    super::Key,
    bench::{Bench, Did, rules},
};
use crate::{TurnNo, TurnScope, core::Answer};

/// A session whose turn runs, of an adapter that reads lines of 1 MiB.
fn running() -> (Bench, Key) {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"max_line":1}"#);
    bench.send(key, "x");
    (bench, key)
}

/// Answers the request that was asked last; returns what was done for that, without the lines, and the lines.
fn answer(bench: &mut Bench, key: Key, answer: Answer) -> (Vec<Did>, Vec<String>) {
    bench.did.clear();
    let (_, id, serial) = bench.serials.pop().unwrap();
    bench
        .core
        .handle_answer(key, &id, serial, answer, bench.now);
    bench.drain();
    let (lines, others): (Vec<_>, Vec<_>) = bench
        .take()
        .into_iter()
        .partition(|did| matches!(did, Did::Wrote(_)));
    let line = |did| match did {
        Did::Wrote(line) => Some(line),
        _ => None,
    };
    (others, lines.into_iter().filter_map(line).collect())
}

fn big() -> String {
    "x".repeat(MIN_MAX_LINE)
}

#[test]
fn an_approval_that_does_not_fit_is_a_denial_and_the_user_learns_why() {
    let request = r#"{"type":"permission.request","session_id":"s","turn_id":"t1","request_id":"r","tool":"Bash","description":"d","resource":"x","options":[{"id":"yes","label":"Yes","kind":"allow_once"}]}"#;
    let response = |approved: bool| PermissionResponse::new(RequestId::new("r").unwrap(), approved);
    let told = || {
        let scope = TurnScope::Running(TurnNo(1));
        vec![Did::Reported(scope, "error")]
    };

    let (mut bench, key) = running();
    bench.say(request);
    let with_input = PermissionResponse {
        updated_input: Some(Json::from_serialize(&big()).unwrap()),
        ..response(true)
    };
    let (did, lines) = answer(&mut bench, key, Answer::Permission(Box::new(with_input)));
    assert_eq!(
        lines,
        [r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":false}"#]
    );
    assert_eq!(did, told());
    assert_eq!(
        bench.errors,
        [
            "the answer to request r is longer than a line that the adapter reads (`max_line`), so the request was denied; answer with less"
        ]
    );

    // If only a text is cut, the decision stays.
    for approved in [true, false] {
        let (mut bench, key) = running();
        bench.say(request);
        let with_text = PermissionResponse {
            message: Some(big()),
            ..response(approved)
        };
        let (did, lines) = answer(&mut bench, key, Answer::Permission(Box::new(with_text)));
        assert!(lines[0].len() <= MIN_MAX_LINE, "{} bytes", lines[0].len());
        assert!(lines[0].contains(&format!(r#""approved":{approved}"#)));
        assert_eq!(did, told());
        assert!(bench.errors[0].contains("so `message` was cut"));
    }

    // A denial stays one.
    let (mut bench, key) = running();
    bench.say(request);
    let with_input = PermissionResponse {
        updated_input: Some(Json::from_serialize(&big()).unwrap()),
        ..response(false)
    };
    answer(&mut bench, key, Answer::Permission(Box::new(with_input)));
    assert!(bench.errors[0].contains("so `updated_input` was cut or left out"));

    // What fits is written as it is.
    let (mut bench, key) = running();
    bench.say(request);
    let with_input = PermissionResponse {
        updated_input: Some(Json::from_serialize(&"y").unwrap()),
        ..response(true)
    };
    let (did, lines) = answer(&mut bench, key, Answer::Permission(Box::new(with_input)));
    assert!(
        lines[0].contains(r#""approved":true,"updated_input":"y""#),
        "{lines:?}"
    );
    assert_eq!(did, []);
}

#[test]
fn values_that_do_not_fit_cancel_the_question_and_the_user_learns_why() {
    for (value, is_cut) in [(big(), true), ("y".to_owned(), false)] {
        let (mut bench, key) = running();
        bench
            .say(r#"{"type":"input.request","session_id":"s","request_id":"q","prompt":"Which?"}"#);
        let values = [("answer".to_owned(), Json::from_serialize(&value).unwrap())];
        let (did, lines) = answer(&mut bench, key, Answer::Question(Some(values.into())));
        let rest = if is_cut {
            assert_eq!(did, [Did::Reported(TurnScope::Outside, "error")]);
            assert!(bench.errors[0].contains("so the question was cancelled"));
            r#""cancelled":true"#
        } else {
            assert_eq!(did, []);
            r#""values":{"answer":"y"}"#
        };
        let expected =
            format!(r#"{{"type":"input.response","session_id":"s","request_id":"q",{rest}}}"#);
        assert_eq!(lines, [expected]);
    }
}

#[test]
fn an_edited_call_is_denied_for_an_adapter_that_takes_no_edits() {
    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    bench.send(key, "x");
    bench.say(r#"{"type":"permission.request","session_id":"s","request_id":"r","tool":"Write","description":"d","resource":"x"}"#);
    let edited = PermissionResponse {
        updated_input: Some(Json::from_serialize(&"y").unwrap()),
        ..PermissionResponse::new(RequestId::new("r").unwrap(), true)
    };
    let (did, lines) = answer(&mut bench, key, Answer::Permission(Box::new(edited)));
    assert_eq!(
        lines,
        [r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":false}"#]
    );
    assert_eq!(did, [Did::Reported(TurnScope::Running(TurnNo(1)), "error")]);
    assert!(bench.errors[0].contains("so the request was denied"));
}
