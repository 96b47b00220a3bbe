//! Changes that the gate must catch, and changes that it must let through.

use serde_json::{Value, json};

use super::breach::{
    Breach,
    Newer::{self, Reader, Writer},
    breaches,
};
use crate::examples::Way::{self, AdapterToHost, HostToAdapter};

/// The breaches that a change of the wire makes.
fn after(way: Way, change: impl Fn(&mut Value)) -> Vec<Breach> {
    let then = way.schema();
    let mut now = then.clone();
    change(&mut now);
    assert_ne!(now, then, "the change changes something");
    breaches(&then, &now)
}

/// The schema of one message type.
fn message<'a>(document: &'a mut Value, kind: &str) -> &'a mut Value {
    let types = document["oneOf"].as_array_mut().unwrap();
    types
        .iter_mut()
        .find(|schema| schema["properties"]["type"]["const"] == kind)
        .unwrap()
}

fn remove(list: &mut Value, wanted: impl Fn(&Value) -> bool) {
    list.as_array_mut().unwrap().retain(|value| !wanted(value));
}

fn push(list: &mut Value, value: Value) {
    list.as_array_mut().unwrap().push(value);
}

fn assert_caught(breaches: &[Breach], wanted: &[(Newer, &str)]) {
    let found: Vec<(Newer, &str)> = breaches
        .iter()
        .map(|breach| (breach.newer, &*breach.at))
        .collect();
    assert_eq!(found, wanted, "{breaches:#?}");
}

#[test]
fn a_removed_member_is_caught() {
    let found = after(AdapterToHost, |now| {
        message(now, "output")["properties"]
            .as_object_mut()
            .unwrap()
            .remove("channel");
    });
    assert_caught(&found, &[(Reader, "output.channel")]);

    let found = after(AdapterToHost, |now| {
        let output = message(now, "output");
        output["properties"]
            .as_object_mut()
            .unwrap()
            .remove("content");
        remove(&mut output["required"], |name| name == "content");
    });
    assert_caught(
        &found,
        &[(Reader, "output.content"), (Writer, "output.content")],
    );
}

#[test]
fn a_removed_type_is_caught() {
    let found = after(HostToAdapter, |now| {
        remove(&mut now["oneOf"], |schema| {
            schema["properties"]["type"]["const"] == "flow.pause"
        });
    });
    assert_caught(&found, &[(Reader, "flow.pause")]);
}

#[test]
fn a_narrowed_enumeration_is_caught() {
    let found = after(AdapterToHost, |now| {
        remove(&mut now["$defs"]["Status"]["oneOf"], |value| {
            value["const"] == "refused"
        });
    });
    assert_caught(&found, &[(Reader, "turn.complete.status")]);
}

#[test]
fn a_new_required_member_is_caught() {
    let found = after(HostToAdapter, |now| {
        let input = message(now, "user.input");
        input["properties"]["locale"] = json!({"type": "string"});
        push(&mut input["required"], json!("locale"));
    });
    assert_caught(&found, &[(Reader, "user.input.locale")]);
}

#[test]
fn a_member_that_becomes_required_or_optional_is_caught() {
    let found = after(AdapterToHost, |now| {
        push(&mut message(now, "output")["required"], json!("channel"))
    });
    assert_caught(&found, &[(Reader, "output.channel")]);
    let found = after(AdapterToHost, |now| {
        remove(
            &mut message(now, "permission.request")["required"],
            |name| name == "tool",
        );
    });
    assert_caught(&found, &[(Writer, "permission.request.tool")]);
}

#[test]
fn another_type_of_value_is_caught_in_the_order_that_it_breaks() {
    let content = |types: Value| {
        after(AdapterToHost, move |now| {
            message(now, "output")["properties"]["content"]["type"] = types.clone()
        })
    };
    assert_caught(
        &content(json!("integer")),
        &[(Reader, "output.content"), (Writer, "output.content")],
    );
    assert_caught(
        &content(json!(["string", "array"])),
        &[(Writer, "output.content")],
    );
    let found = after(HostToAdapter, |now| {
        message(now, "session.start")["properties"]["mcp_servers"] = json!({"type": "object"});
    });
    assert_caught(&found, &[(Reader, "session.start.mcp_servers")]);
}

#[test]
fn other_lengths_of_ids_are_caught() {
    let longest = |most: u64| {
        after(HostToAdapter, move |now| {
            message(now, "stop")["properties"]["session_id"]["maxLength"] = most.into()
        })
    };
    assert_caught(&longest(128), &[(Reader, "stop.session_id")]);
    assert_caught(&longest(512), &[(Writer, "stop.session_id")]);
    let shortest = |least: u64| {
        after(HostToAdapter, move |now| {
            message(now, "stop")["properties"]["session_id"]["minLength"] = least.into()
        })
    };
    assert_caught(&shortest(2), &[(Reader, "stop.session_id")]);
    assert_caught(&shortest(0), &[(Writer, "stop.session_id")]);
}

#[test]
fn a_change_within_a_part_of_a_message_is_caught() {
    let found = after(AdapterToHost, |now| {
        push(&mut now["$defs"]["SessionEntry"]["required"], json!("cwd"))
    });
    assert_caught(&found, &[(Reader, "sessions.list.result.entries[].cwd")]);
}

#[test]
fn another_meaning_of_what_is_left_out_is_caught() {
    let found = after(HostToAdapter, |now| {
        message(now, "permission.response")["properties"]["approved"]["default"] = json!(true);
    });
    assert_caught(&found, &[(Reader, "permission.response.approved")]);
}

#[test]
fn what_older_peers_ignore_is_let_through() {
    let found = after(AdapterToHost, |now| {
        message(now, "turn.complete")["properties"]["mood"] = json!({"type": ["string", "null"]});
        now["$defs"]["Capabilities"]["properties"]["sings"] = json!({"type": ["boolean", "null"]});
        push(
            &mut now["$defs"]["Status"]["oneOf"],
            json!({"const": "postponed", "type": "string"}),
        );
        let mut added = message(now, "working").clone();
        added["properties"]["type"]["const"] = json!("resting");
        push(&mut now["oneOf"], added);
        message(now, "output")["description"] = json!("Other words.");
        message(now, "output")["properties"]["channel"]["title"] = json!("Channel");
    });
    assert_caught(&found, &[]);
}

#[test]
fn a_reader_that_understands_less_of_a_line_is_seen() {
    let then = json!({"type": "output", "list": [{"a": 1}], "content": "x"});
    let more =
        json!({"type": "output", "list": [{"a": 1, "b": 2}], "content": "x", "channel": "stdout"});
    assert!(super::says_all(&more, &then));
    for less in [
        json!({"type": "output", "list": [{"a": 1}]}),
        json!({"type": "output", "list": [{}], "content": "x"}),
        json!({"type": "output", "list": [], "content": "x"}),
        json!({"type": "output", "list": [{"a": 1}], "content": "y"}),
    ] {
        assert!(!super::says_all(&less, &then), "{less}");
    }
}
