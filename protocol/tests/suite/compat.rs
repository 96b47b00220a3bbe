//! The compatibility gate: today's wire against the frozen one in `compat/`, in both orders of an
//! upgrade.
//!
//! What the frozen version wrote, today's readers take; what today's writers must send, its readers
//! take. New optional members and new types are ignored by older peers ([msg.2]), so they are no
//! breach.
//!
//! `cargo test -p trunkline-protocol --test suite freeze -- --ignored` freezes the wire as it is.

mod breach;
mod mutants;

use std::{collections::BTreeSet, fs};

use serde_json::{Map, Value};
use trunkline_protocol::PROTOCOL;

use crate::{
    checked_in::file,
    examples::{EXAMPLES, Way},
};
use breach::breaches;

/// The command that the gate names.
const FREEZE: &str = "cargo test -p trunkline-protocol --test suite freeze -- --ignored";

fn path(way: Way, end: &str) -> String {
    format!("compat/v{PROTOCOL}/{}.{end}", way.name())
}

fn frozen(way: Way, end: &str) -> String {
    let path = path(way, end);
    fs::read_to_string(file(&path))
        .unwrap_or_else(|error| panic!("{path}: {error}; it is made by: {FREEZE}"))
}

/// The schema of one direction as it was frozen.
fn frozen_schema(way: Way) -> Value {
    serde_json::from_str(&frozen(way, "schema.json")).unwrap()
}

/// The golden lines of one direction as they were frozen: of each type the minimal and the full one.
fn frozen_lines(way: Way) -> Vec<[Map<String, Value>; 2]> {
    let text = frozen(way, "jsonl");
    let lines: Vec<Map<String, Value>> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (pairs, rest) = lines.as_chunks();
    assert!(rest.is_empty(), "of each type two lines");
    pairs.to_vec()
}

/// Returns true if a value contains everything of another; it may contain more.
fn says_all(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => then
            .iter()
            .all(|(name, then)| now.get(name).is_some_and(|now| says_all(now, then))),
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| says_all(now, then))
        }
        _ => now == then,
    }
}

#[test]
fn the_schemas_break_no_peer_of_the_frozen_version() {
    for way in Way::BOTH {
        let breaches = breaches(&frozen_schema(way), &way.schema());
        let told: Vec<String> = breaches.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{}:\n{}", way.name(), told.join("\n"));
    }
}

#[test]
fn what_the_frozen_version_wrote_is_understood_today() {
    for way in Way::BOTH {
        for then in frozen_lines(way).concat().into_iter().map(Value::Object) {
            let line = then.to_string();
            let now = way
                .rewrite(&line)
                .unwrap_or_else(|why| panic!("{line}: {why}"));
            let now: Value = serde_json::from_str(&now).unwrap();
            assert!(
                says_all(&now, &then),
                "of {then}\ntoday's reader understands {now}"
            );
        }
    }
}

#[test]
fn what_must_be_written_today_is_valid_for_the_frozen_version() {
    for way in Way::BOTH {
        let lines = frozen_lines(way);
        let kinds: BTreeSet<&str> = lines
            .iter()
            .map(|[minimal, _]| minimal["type"].as_str().unwrap())
            .collect();
        let validator = jsonschema::validator_for(&frozen_schema(way)).unwrap();
        // Older peers ignore other types.
        for example in EXAMPLES
            .iter()
            .filter(|example| example.way == way && kinds.contains(example.kind))
        {
            let now = example.minimal_members();
            let [then, _] = lines
                .iter()
                .find(|[then, _]| then["type"] == example.kind)
                .unwrap();
            for name in then.keys() {
                assert!(
                    now.contains_key(name),
                    "{}: `{name}` was always written",
                    example.kind
                );
            }
            let now = Value::Object(now);
            validator
                .validate(&now)
                .unwrap_or_else(|why| panic!("{now}: {why}"));
        }
    }
}

#[test]
#[ignore = "a command: it freezes the wire"]
fn freeze() {
    for way in Way::BOTH {
        let schema = file(&path(way, "schema.json"));
        // A first freeze cannot break a peer.
        if schema.exists() {
            let breaches = breaches(&frozen_schema(way), &way.schema());
            assert!(
                breaches.is_empty(),
                "an incompatible wire is another version of the protocol: {breaches:#?}"
            );
        }
        fs::create_dir_all(schema.parent().unwrap()).unwrap();
        fs::write(
            schema,
            serde_json::to_string_pretty(&way.schema()).unwrap() + "\n",
        )
        .unwrap();
        let examples = EXAMPLES.iter().filter(|example| example.way == way);
        let lines: String = examples
            .map(|example| format!("{}\n{}\n", example.minimal, example.full))
            .collect();
        fs::write(file(&path(way, "jsonl")), lines).unwrap();
    }
}
