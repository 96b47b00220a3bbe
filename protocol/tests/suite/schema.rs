//! The schemas: checked in, agreeing with the golden lines, and refusing what is bad.

use serde_json::{Value, json};

use crate::{
    checked_in::check,
    examples::{EXAMPLES, Way},
};

/// The schema of one message type.
fn of_type<'a>(document: &'a Value, kind: &str) -> &'a Value {
    let types = document["oneOf"].as_array().unwrap();
    types
        .iter()
        .find(|schema| schema["properties"]["type"]["const"] == kind)
        .unwrap()
}

/// Asserts that every member that the schema of a value allows is in that value, and in its parts.
fn assert_exhausted(document: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        if part["type"] != "null" {
            assert_exhausted(document, part, value, at);
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        // A diff has either texts or a patch; the schema has both forms.
        let member = value.get(name);
        assert!(
            member.is_some() || name == "patch",
            "{at} lacks {name} in its full golden line"
        );
        assert_exhausted(
            document,
            schema,
            member.unwrap_or(&Value::Null),
            &format!("{at}.{name}"),
        );
    }
    if let (Some(items), Some(first)) = (schema.get("items"), value.get(0)) {
        assert_exhausted(document, items, first, &format!("{at}[]"));
    }
    if let (Some(schema), Some(members)) = (schema.get("additionalProperties"), value.as_object()) {
        for (name, member) in members {
            assert_exhausted(document, schema, member, &format!("{at}.{name}"));
        }
    }
}

#[test]
fn the_checked_in_schemas_are_current() {
    for way in Way::ALL {
        let text = serde_json::to_string_pretty(&way.schema()).unwrap() + "\n";
        check(&format!("schema/{}.schema.json", way.name()), &text);
    }
}

#[test]
fn golden_lines_are_valid_and_have_all_that_the_schema_names() {
    for way in Way::ALL {
        let document = way.schema();
        let validator = jsonschema::validator_for(&document).unwrap();
        for example in EXAMPLES.iter().filter(|example| example.way == way) {
            let schema = of_type(&document, example.kind);
            let minimal = example.minimal_members();
            let full = example.full_members();
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    minimal.contains_key(name.as_str().unwrap()),
                    "{} needs {name}",
                    example.kind
                );
            }
            assert_exhausted(
                &document,
                schema,
                &Value::Object(full.clone()),
                example.kind,
            );
            for name in full.keys() {
                assert!(
                    schema["properties"].get(name).is_some(),
                    "{} has no {name}",
                    example.kind
                );
            }
            for members in [minimal, full] {
                let value = Value::Object(members);
                validator
                    .validate(&value)
                    .unwrap_or_else(|why| panic!("{value}: {why}"));
            }
        }
    }
}

#[test]
fn a_missing_required_member_is_invalid_and_a_null_optional_one_is_valid() {
    for example in &*EXAMPLES {
        let document = example.way.schema();
        let validator = jsonschema::validator_for(&document).unwrap();
        for name in example.full_members().keys() {
            let mut members = example.full_members();
            let at = format!("{}.{name}", example.kind);
            if !example.minimal_members().contains_key(name) {
                members.insert(name.clone(), Value::Null);
                assert!(validator.is_valid(&Value::Object(members)), "a null {at}");
                continue;
            }
            // These two are always written and may be absent when they are read.
            let may_be_absent =
                ["user.input.content", "permission.response.approved"].contains(&&*at);
            members.remove(name);
            assert_eq!(
                validator.is_valid(&Value::Object(members)),
                may_be_absent,
                "without {at}"
            );
        }
    }
}

#[test]
fn bad_messages_are_invalid() {
    let check = |way: Way, message: Value| {
        let validator = jsonschema::validator_for(&way.schema()).unwrap();
        assert!(!validator.is_valid(&message), "{message}");
    };
    use Way::{AdapterToHost, HostToAdapter};
    check(HostToAdapter, json!({"type": "stop", "session_id": ""}));
    check(
        HostToAdapter,
        json!({"type": "stop", "session_id": "x".repeat(257)}),
    );
    check(
        HostToAdapter,
        json!({"type": "future", "session_id": "s-1"}),
    );
    check(
        HostToAdapter,
        json!({"type": "output", "session_id": "s-1", "content": "wrong way"}),
    );
    check(
        HostToAdapter,
        json!({"type": "user.input", "session_id": "s-1", "content": 7}),
    );
    check(
        HostToAdapter,
        json!({"type": "user.input", "session_id": "s-1", "content": "", "mode": "swerve"}),
    );
    check(
        HostToAdapter,
        json!({"type": "permission.response", "session_id": "s-1", "request_id": "r", "approved": "true"}),
    );
    check(HostToAdapter, json!({"type": "ping", "session_id": "s-1"}));
    check(
        AdapterToHost,
        json!({"type": "output", "session_id": "s-1", "content": ["a"]}),
    );
    check(
        AdapterToHost,
        json!({"type": "turn.complete", "session_id": "s-1", "turn_id": 7}),
    );
    check(
        AdapterToHost,
        json!({"type": "usage", "session_id": "s-1", "input_tokens": -1}),
    );
    check(
        AdapterToHost,
        json!({"type": "pong", "session_id": "", "_meta": "text"}),
    );
    check(AdapterToHost, json!(["output"]));
}
