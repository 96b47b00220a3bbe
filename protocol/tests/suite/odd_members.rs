//! Every member of every message type with an odd value: null, repeated, of the wrong type, out of
//! range, too long.

use serde_json::{Map, Value, json};
use trunkline_protocol::{
    AdapterMessage, HostMessage, MAX_FAILURE_LINE, MAX_FAILURE_LINES, Unread, Why,
};

use crate::examples::{EXAMPLES, Example, Way, line};

/// A member of a message type.
struct Member {
    way: Way,
    kind: &'static str,
    name: String,
    /// Value in the full golden line.
    value: Value,
    /// All other members of the full golden line.
    others: Map<String, Value>,
    required: bool,
    schema: Value,
}

impl Member {
    /// Reads a message in which the member has this JSON text, or these one after the other.
    fn given(&self, texts: &[&str]) -> Result<String, Unread> {
        let raw: Vec<(&str, &str)> = texts.iter().map(|text| (&*self.name, *text)).collect();
        self.way.rewrite(&line(&self.others, &raw))
    }

    fn absent(&self) -> Result<String, Unread> {
        self.given(&[])
    }

    fn whole(&self) -> Result<String, Unread> {
        self.given(&[&self.value.to_string()])
    }

    fn at(&self) -> String {
        format!("{}.{}", self.kind, self.name)
    }

    fn is_any(&self) -> bool {
        self.schema["anyOf"][0]["$ref"] == "#/$defs/Json"
    }

    fn is_id(&self) -> bool {
        self.name.ends_with("_id") && self.schema.to_string().contains("Id\"")
            || self.is_of_head() && self.name != "type"
    }

    fn is_of_head(&self) -> bool {
        matches!(&*self.name, "type" | "session_id" | "turn_id")
    }

    /// Asserts that this is how a bad message reads.
    fn assert_bad(&self, read: Result<String, Unread>, wanted: Why) {
        let Err(Unread::Bad {
            kind,
            session_id,
            field,
            why,
        }) = read
        else {
            panic!("{}: {read:?}", self.at())
        };
        assert_eq!((field, why), (&*self.name, wanted), "{}", self.at());
        assert_eq!(
            kind,
            (!self.is_of_head()).then_some(self.kind),
            "{}",
            self.at()
        );
        if self.name != "session_id" && self.others["session_id"] != "" {
            assert_eq!(
                session_id.unwrap().as_str(),
                "s-1",
                "its session is known: {}",
                self.at()
            );
        }
    }
}

/// Calls this for every member of every message type.
fn for_each_member(check: impl Fn(&Member)) {
    let schemas = Way::ALL.map(Way::schema);
    for example in &*EXAMPLES {
        let Example { way, kind, .. } = *example;
        let types = schemas[way as usize]["oneOf"].as_array().unwrap();
        let schema = types
            .iter()
            .find(|schema| schema["properties"]["type"]["const"] == kind)
            .unwrap();
        let minimal = example.minimal_members();
        for (name, value) in example.full_members() {
            let mut others = example.full_members();
            others.remove(&name);
            let may_be_absent = ["description", "resource"].contains(&&*name);
            let required =
                minimal.contains_key(&name) && !(kind == "permission.request" && may_be_absent);
            let schema = schema["properties"][&name].clone();
            check(&Member {
                way,
                kind,
                name,
                value,
                others,
                required,
                schema,
            });
        }
    }
}

#[test]
fn null_equals_absent() {
    for_each_member(|member| {
        assert_eq!(member.given(&["null"]), member.absent(), "{}", member.at());
        assert_eq!(
            member.given(&[&member.value.to_string(), "null"]),
            member.absent(),
            "{}",
            member.at()
        );
        match &*member.at() {
            "user.input.content" => assert!(member.absent().unwrap().contains(r#""content":"""#)),
            "permission.response.approved" => {
                assert!(member.absent().unwrap().contains(r#""approved":false"#))
            }
            _ if member.required => member.assert_bad(member.absent(), Why::Missing),
            _ => assert!(member.absent().is_ok(), "{}", member.at()),
        }
    });
}

#[test]
fn of_duplicates_the_last_counts() {
    for_each_member(|member| {
        for first in ["null", "7", "\"other\"", "[{}]", "1e999"] {
            assert_eq!(
                member.given(&[first, &member.value.to_string()]),
                member.whole(),
                "{}",
                member.at()
            );
        }
    });
}

#[test]
fn a_wrong_type_is_bad_where_required_and_absent_elsewhere() {
    for_each_member(|member| {
        for wrong in [
            json!(true),
            json!(7),
            json!("w"),
            json!("true"),
            json!([]),
            json!({}),
            json!([7]),
            json!({"a": 7}),
        ] {
            if member.is_any()
                || std::mem::discriminant(&wrong) == std::mem::discriminant(&member.value)
            {
                continue;
            }
            let given = member.given(&[&wrong.to_string()]);
            match &*member.at() {
                "permission.response.approved" => {
                    assert_eq!(given, member.given(&["false"]), "{wrong}")
                }
                _ if member.required => member.assert_bad(given, Why::WrongType),
                _ => assert_eq!(given, member.absent(), "{} of {wrong}", member.at()),
            }
        }
    });
}

#[test]
fn one_odd_element_makes_the_whole_array_or_map_absent() {
    for_each_member(|member| {
        if member.is_any() || member.name == "_meta" {
            return;
        }
        let spoilt = match &member.value {
            // Entries of any form.
            Value::Array(_) if member.schema["items"]["$ref"] == "#/$defs/Json" => return,
            Value::Array(elements) => Value::from([&elements[..], &[json!(7)]].concat()),
            Value::Object(members) if member.schema["additionalProperties"]["type"] == "string" => {
                Value::from_iter(
                    members
                        .clone()
                        .into_iter()
                        .chain([("odd".to_owned(), json!(7))]),
                )
            }
            _ => return,
        };
        let given = member.given(&[&spoilt.to_string()]);
        if member.required {
            member.assert_bad(given, Why::WrongType)
        } else {
            assert_eq!(given, member.absent(), "{}", member.at())
        }
    });
}

#[test]
fn an_unknown_value_of_an_enumerated_field_is_absent() {
    let found = std::cell::Cell::new(0);
    let schemas = Way::ALL.map(Way::schema);
    for_each_member(|member| {
        let schemas = &schemas[member.way as usize];
        let name = member.schema["anyOf"][0]["$ref"]
            .as_str()
            .unwrap_or("#/none");
        let Some(values) = schemas
            .pointer(&name[1..])
            .and_then(|schema| schema["oneOf"].as_array())
        else {
            return;
        };
        found.set(found.get() + 1);
        for unknown in ["future", "", "USER", " user"] {
            assert_eq!(
                member.given(&[&json!(unknown).to_string()]),
                member.absent(),
                "{}",
                member.at()
            );
        }
        for known in values {
            let wanted = format!("\"{}\":{}", member.name, known["const"]);
            let given = member.given(&[&known["const"].to_string()]).unwrap();
            assert!(given.contains(&wanted), "{given}");
        }
    });
    assert!(
        found.get() >= 14,
        "{} enumerated fields were found",
        found.get()
    );
}

#[test]
fn an_id_has_1_to_256_bytes() {
    let found = std::cell::Cell::new(0);
    for_each_member(|member| {
        // The session id of a message of the pipe is empty.
        if !member.is_id() || member.value == "" {
            return;
        }
        found.set(found.get() + 1);
        for longest in ["x".repeat(256), "é".repeat(128)] {
            let read = member.given(&[&json!(longest).to_string()]).unwrap();
            assert!(read.contains(&longest), "{}", member.at());
        }
        for too_long in ["x".repeat(257), "é".repeat(129), "x".repeat(100_000)] {
            member.assert_bad(member.given(&[&json!(too_long).to_string()]), Why::BadId);
        }
        let empty = member.given(&["\"\""]);
        match member.required {
            true if member.name == "session_id" => assert!(empty.is_err(), "{}", member.at()),
            true => member.assert_bad(empty, Why::Missing),
            false => assert_eq!(empty, member.absent(), "{}", member.at()),
        }
    });
    assert!(found.get() > 100, "{} ids were found", found.get());
}

#[test]
fn only_messages_of_the_pipe_have_an_empty_session_id() {
    for example in &*EXAMPLES {
        let mut members = example.full_members();
        let of_pipe = members["session_id"] == "";
        members.insert("session_id".to_owned(), json!(""));
        let read = example.way.rewrite(&Value::Object(members).to_string());
        match read {
            Ok(_) => assert!(of_pipe, "{}", example.kind),
            Err(Unread::Bad {
                kind,
                session_id,
                field,
                why,
            }) => {
                assert!(!of_pipe, "{}", example.kind);
                assert_eq!(
                    (kind, session_id, field, why),
                    (Some(example.kind), None, "session_id", Why::BadId)
                );
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn absurd_numbers_do_no_harm() {
    let digits = "9".repeat(6000);
    for_each_member(|member| {
        let absurd = [
            "1e999",
            "-1e999",
            "1E400000",
            "-0",
            "-1",
            "1.5",
            "18446744073709551616",
            "1e-999",
            &digits,
        ];
        for number in absurd {
            let read = member.given(&[number]);
            if member.is_any() {
                assert!(
                    read.unwrap().contains(number),
                    "passed through: {}",
                    member.at()
                );
            } else if member.value.is_number() && member.required {
                // Taken, or bad in this member.
                if read.is_err() {
                    member.assert_bad(read, Why::WrongType);
                }
            } else if member.value.is_number() {
                let strip = |line: String| {
                    let mut members: Map<String, Value> = serde_json::from_str(&line).unwrap();
                    members.remove(&member.name);
                    members
                };
                assert_eq!(
                    read.map(strip),
                    member.absent().map(strip),
                    "{} of {number}",
                    member.at()
                );
            }
        }
    });
}

#[test]
fn a_version_or_a_limit_out_of_bounds_is_the_largest() {
    for (name, line) in [
        (
            "protocol",
            r#"{"type":"session.start","session_id":"s-1","protocol":4294967296}"#,
        ),
        (
            "limit",
            r#"{"type":"sessions.list","session_id":"","request_id":"q-1","limit":18446744073709551615}"#,
        ),
    ] {
        let read = Way::HostToAdapter.rewrite(line).unwrap();
        assert!(read.contains(&format!("\"{name}\":4294967295")), "{read}");
    }
}

#[test]
fn of_too_much_standard_error_the_last_lines_are_read_up_to_their_bound() {
    let long = format!("{}é", "x".repeat(MAX_FAILURE_LINE - 1));
    let mut lines: Vec<String> = (0..MAX_FAILURE_LINES).map(|at| at.to_string()).collect();
    lines.push(long);
    for message in ["turn.complete", "session.closed"] {
        let line = json!({"type": message, "session_id": "s-1", "error": {"stderr": lines}});
        let read = read(&line.to_string());
        let read = read["error"]["stderr"].as_array().unwrap();
        assert_eq!((read.len(), &read[0]), (MAX_FAILURE_LINES, &json!("1")));
        let last = read[MAX_FAILURE_LINES - 1].as_str().unwrap();
        assert_eq!(last, "x".repeat(MAX_FAILURE_LINE - 1));
    }
}

#[test]
fn unknown_members_are_ignored() {
    for example in &*EXAMPLES {
        for text in [&example.minimal, &example.full] {
            let members: Map<String, Value> = serde_json::from_str(text).unwrap();
            let odd = [
                ("future", "{\"type\":\"stop\"}"),
                ("", "1e999"),
                ("Type", "7"),
                ("session_id ", "null"),
                ("future", "[]"),
            ];
            assert_eq!(
                example.way.rewrite(&line(&members, &odd)),
                example.way.rewrite(&line(&members, &[]))
            );
        }
    }
}

/// Reads a line of the adapter, as a value.
fn read(line: &str) -> Value {
    serde_json::from_slice(
        &AdapterMessage::parse(line)
            .unwrap_or_else(|why| panic!("{line}: {why}"))
            .to_line(),
    )
    .unwrap()
}

#[test]
fn an_object_without_its_required_member_is_absent() {
    for (name, text) in [
        ("adapter", r#"{"version":"1"}"#),
        ("models", r#"[{"id":"a"},{"label":"b"}]"#),
        ("modes", r#"[{"id":null}]"#),
        ("commands", r#"[{"name":7}]"#),
    ] {
        let line = format!(
            r#"{{"type":"session.info","session_id":"s-1","mode":"code","{name}":{text}}}"#
        );
        assert_eq!(
            read(&line),
            json!({"type": "session.info", "session_id": "s-1", "mode": "code"})
        );
    }
    for line in [
        r#"{"type":"plan","session_id":"s-1","entries":[{"content":"a"},{}]}"#,
        r#"{"type":"agents.list.result","session_id":"","request_id":"q-1","agents":[{"name":"a"}]}"#,
    ] {
        let Err(Unread::Bad { field, why, .. }) = AdapterMessage::parse(line) else {
            panic!("{line}")
        };
        assert!(
            matches!((field, why), ("entries" | "agents", Why::WrongType)),
            "{field}"
        );
    }
}

#[test]
fn members_of_members_are_read_by_the_same_rules() {
    let odd = r#"{"type":"turn.complete","session_id":"s-1","error":{"category":"future","message":"m","message":"last","code":7,"retry_at":null,"x":1},"usage":{"scope":"future","input_tokens":-1,"output_tokens":2,"models":{"a":{"cost_usd":"x","provider":"p"}}}}"#;
    let wanted = json!({
        "type": "turn.complete", "session_id": "s-1",
        "error": {"message": "last"},
        "usage": {"output_tokens": 2, "models": {"a": {"provider": "p"}}},
    });
    assert_eq!(read(odd), wanted);
    let plan = r#"{"type":"plan","session_id":"s-1","entries":[{"content":"a","status":"future","priority":7}]}"#;
    assert_eq!(read(plan)["entries"], json!([{"content": "a"}]));
}

#[test]
fn what_is_wrong_is_told_with_the_type_and_the_member() {
    for (line, wanted) in [
        (
            r#"{"type":"user.input","session_id":"s-1","content":7}"#,
            "user.input with a content of the wrong type",
        ),
        (
            r#"{"type":"file.input","session_id":"s-1"}"#,
            "file.input without file_path",
        ),
        (r#"{"type":"stop"}"#, "message without session_id"),
        (
            r#"{"type":"stop","session_id":""}"#,
            "stop with a session_id that is not an id of 1 to 256 bytes",
        ),
        (
            r#"{"type":"later","session_id":"s-1"}"#,
            "unknown type \"later\"",
        ),
        ("hello", "not a JSON object"),
    ] {
        assert_eq!(HostMessage::parse(line).unwrap_err().to_string(), wanted);
    }
}
