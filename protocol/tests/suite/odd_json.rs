//! Odd JSON and no JSON at all: nothing panics, and what can be understood is.

use proptest::prelude::*;
use serde_json::Value;
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Channel, HostBody, HostMessage, Meta, SessionId, Unread, Why,
};

use crate::examples::{EXAMPLES, Way, message, text};

const DEEP: usize = 10_000;

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn output(line: &str) -> trunkline_protocol::Output {
    match AdapterMessage::parse(line)
        .unwrap_or_else(|why| panic!("{line}: {why}"))
        .body
    {
        AdapterBody::Output(output) => output,
        other => panic!("{line}: {other:?}"),
    }
}

fn bad_field(line: &str) -> (&'static str, Why) {
    match AdapterMessage::parse(line) {
        Err(Unread::Bad { field, why, .. }) => (field, why),
        other => panic!("{line}: {other:?}"),
    }
}

/// Reads a line in both directions; what is understood is understood again when it is written.
fn assert_stable(line: &str) {
    for way in Way::BOTH {
        if let Ok(once) = way.rewrite(line) {
            assert_eq!(
                way.rewrite(once.trim_end_matches('\n')).as_ref(),
                Ok(&once),
                "{line}"
            );
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_noise_at_worst(bytes in prop::collection::vec(any::<u8>(), 0..80), object in any::<bool>()) {
        let text = String::from_utf8_lossy(&bytes);
        assert_stable(&text);
        if object {
            assert_stable(&format!("{{{text}}}"));
        }
    }

    #[test]
    fn spoilt_messages_do_no_harm(
        which in any::<prop::sample::Index>(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..6, "[ -~]|\\\\u[d][89cd]00|\\PC"), 1..5),
    ) {
        let mut line: Vec<char> = which.get(&EXAMPLES[..]).full.chars().collect();
        for (at, removed, put) in spoils {
            let at = at.index(line.len() + 1);
            let until = (at + removed).min(line.len());
            line.splice(at..until, put.chars());
        }
        assert_stable(&line.into_iter().collect::<String>());
    }

    #[test]
    fn what_is_understood_is_written_whole_and_understood_again((way, line) in message()) {
        assert_stable(&line);
        let mut value: Value = serde_json::from_str(&line).unwrap();
        if value["channel"] == "" {
            value["channel"] = "stdout".into();
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&way.rewrite(&line).unwrap()).unwrap(), value);
    }

    #[test]
    fn numbers_come_back_as_they_went(cost in any::<f64>(), tokens in any::<u64>()) {
        prop_assume!(cost.is_finite());
        let line = format!(r#"{{"type":"usage","session_id":"s-1","input_tokens":{tokens},"cost_usd":{cost:e}}}"#);
        let AdapterBody::Usage(usage) = AdapterMessage::parse(&line).unwrap().body else { panic!("{line}") };
        prop_assert_eq!((usage.input_tokens, usage.cost_usd), (Some(tokens), Some(cost)));
        assert_stable(&line);
    }

    #[test]
    fn any_text_survives_however_it_is_escaped(text in text(), escaped in any::<bool>()) {
        let mut content = serde_json::to_string(&text).unwrap();
        if escaped {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            content = format!("\"{}\"", units.collect::<String>());
        }
        let line = format!(r#"{{"type":"output","session_id":"s-1","content":{content}}}"#);
        prop_assert_eq!(output(&line).content, text);
    }
}

#[test]
fn no_json_object_is_noise() {
    for line in [
        "",
        " ",
        "word",
        "12",
        "\"output\"",
        "null",
        "[]",
        "{",
        "}",
        "{}}",
        "{} {}",
        "{} garbage",
        "{'type':'stop'}",
        r#"{"type":"stop","session_id":"s-1",}"#,
        r#"{"type":"stop","session_id":"s-1","n":NaN}"#,
        r#"{"type":"stop","session_id":"s-1","n":01}"#,
        r#"{"type":"stop","session_id":"s-1","n":+1}"#,
        r#"{"type":"stop","session_id":"s-1","x":"\x"}"#,
        r#"{"type":"stop","session_id":"s-1","x":"\ud8"}"#,
        r#"{"type":"stop","session_id":"s-1" "x":1}"#,
        r#"{"type":"stop" /* stop */,"session_id":"s-1"}"#,
        "{\"type\":\"stop\",\"session_id\":\"s-1\",\"x\":\"a\tb\"}",
        "{\"type\":\"stop\",\"session_id\":\"s-1\",\"a\tb\":1}",
        "{\"type\":\"stop\",\"session_id\":\"s-1\",\"a\tb\":1,\"turn_id\":null}",
        "\u{feff}{\"type\":\"stop\",\"session_id\":\"s-1\"}",
    ] {
        assert_eq!(HostMessage::parse(line), Err(Unread::Noise), "{line:?}");
    }
    for line in [
        &"[".repeat(DEEP),
        &"{\"a\":".repeat(DEEP),
        &format!("{{\"a\":{}", "[".repeat(DEEP)),
    ] {
        assert_eq!(HostMessage::parse(line), Err(Unread::Noise));
    }
}

#[test]
fn any_depth_is_skipped_where_no_one_reads() {
    for deep in [
        nested(DEEP),
        "{\"a\":".repeat(DEEP) + "1" + &"}".repeat(DEEP),
    ] {
        let before =
            format!(r#"{{"future":{deep},"type":"output","session_id":"s-1","content":"hi"}}"#);
        let after = format!(
            r#"{{"type":"output","session_id":"s-1","turn_id":null,"content":"hi","future":{deep}}}"#
        );
        assert_eq!(
            [output(&before).content, output(&after).content],
            ["hi", "hi"]
        );
        let repeated =
            format!(r#"{{"type":"output","session_id":"s-1","content":{deep},"content":"hi"}}"#);
        assert_eq!(
            output(&repeated).content,
            "hi",
            "of duplicates the last counts"
        );
    }
}

#[test]
fn more_than_128_levels_are_bad_where_they_are_read() {
    let custom =
        |data: &str| format!(r#"{{"type":"custom","session_id":"s-1","name":"n","data":{data}}}"#);
    assert!(AdapterMessage::parse(&custom(&nested(128))).is_ok());
    assert_eq!(bad_field(&custom(&nested(129))), ("data", Why::TooDeep));
    assert_eq!(bad_field(&custom(&nested(DEEP))), ("data", Why::TooDeep));
    let in_text = format!(r#"{{"a":"\"{}","b":[]}}"#, "[".repeat(500));
    assert!(
        AdapterMessage::parse(&custom(&in_text)).is_ok(),
        "brackets in a string are not levels"
    );
    assert!(
        AdapterMessage::parse(&custom(&format!("[{}]", vec![nested(100); 10].join(",")))).is_ok()
    );
    let meta = format!(
        r#"{{"type":"working","session_id":"s-1","_meta":{{"a":{}}}}}"#,
        nested(128)
    );
    assert_eq!(bad_field(&meta), ("_meta", Why::TooDeep));
    let approved = format!(
        r#"{{"type":"permission.response","session_id":"s-1","request_id":"r-1","approved":{}}}"#,
        nested(DEEP)
    );
    let HostBody::PermissionResponse(answer) = HostMessage::parse(&approved).unwrap().body else {
        panic!()
    };
    assert!(!answer.approved, "whatever is not true denies");
}

#[test]
fn an_unpaired_surrogate_in_text_becomes_a_replacement_character() {
    for (given, wanted) in [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude00b", "\u{fffd}b"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\ud83dA", "\u{fffd}A"),
        (r"\\ud83d \ud83d", "\\ud83d \u{fffd}"),
        (r"\ufffd", "\u{fffd}"),
    ] {
        let line = format!(
            r#"{{"type":"output","session_id":"s-1","content":"{given}","channel":"{given}","\ud83d":1}}"#
        );
        let output = output(&line);
        assert_eq!(
            (&*output.content, output.channel().as_str()),
            (wanted, wanted),
            "{given}"
        );
        assert_stable(&line);
    }
}

#[test]
fn an_unpaired_surrogate_is_never_passed_on() {
    let line = r#"{"type":"tool.start","session_id":"s-1","tool_call_id":"c-1","tool":"\ud83d","input":{"\ud83d":["\ude00","\\ud83d"]},"_meta":{"a":"\ud83d"}}"#;
    let written = Way::AdapterToHost.rewrite(line).unwrap();
    let value: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["tool"], "\u{fffd}");
    assert_eq!(
        value["input"],
        serde_json::json!({"\u{fffd}": ["\u{fffd}", "\\ud83d"]})
    );
    assert_eq!(value["_meta"]["a"], "\u{fffd}");
    let line = r#"{"type":"session.start","session_id":"s-1","variables":{"\ud83d":"\ud83d"},"allowed_tools":["\ud83d"]}"#;
    let written = Way::HostToAdapter.rewrite(line).unwrap();
    let value: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        value["variables"],
        serde_json::json!({"\u{fffd}": "\u{fffd}"})
    );
    assert_eq!(value["allowed_tools"], serde_json::json!(["\u{fffd}"]));
}

#[test]
fn an_unpaired_surrogate_in_a_type_or_an_id_is_bad() {
    let line = |kind: &str, session: &str, turn: &str, call: &str, content: &str| {
        format!(
            r#"{{"type":"{kind}","session_id":"{session}","turn_id":"{turn}","tool_call_id":"{call}","tool":"t","content":"{content}"}}"#
        )
    };
    for half in [r"\ud83d", r"\ude00", r"a\ud83db", r"\ud83d\ufffd"] {
        for content in ["plain", r"\ud83d"] {
            assert_eq!(
                bad_field(&line(half, "s-1", "t-1", "c-1", content)),
                ("type", Why::BadId)
            );
            assert_eq!(
                bad_field(&line("tool.start", half, "t-1", "c-1", content)),
                ("session_id", Why::BadId)
            );
            assert_eq!(
                bad_field(&line("tool.start", "s-1", half, "c-1", content)),
                ("turn_id", Why::BadId)
            );
            assert_eq!(
                bad_field(&line("tool.start", "s-1", "t-1", half, content)),
                ("tool_call_id", Why::BadId)
            );
        }
    }
}

#[test]
fn an_id_may_hold_a_replacement_character_or_what_looks_like_its_escape() {
    for (given, wanted) in [
        (r"a\ufffd", "a\u{fffd}"),
        (r"\\ufffd", r"\ufffd"),
        ("\u{fffd}", "\u{fffd}"),
    ] {
        for content in ["plain", r"\ud83d"] {
            let line = format!(
                r#"{{"type":"tool.end","session_id":"{given}","turn_id":"{given}","tool_call_id":"{given}","content":"{content}"}}"#
            );
            let message =
                AdapterMessage::parse(&line).unwrap_or_else(|why| panic!("{line}: {why}"));
            let AdapterBody::ToolEnd(end) = message.body else {
                panic!("{line}")
            };
            let turn_id = message.turn_id.unwrap();
            assert_eq!(
                [
                    message.session_id.as_str(),
                    turn_id.as_str(),
                    end.tool_call_id.as_str()
                ],
                [wanted; 3]
            );
        }
    }
}

#[test]
fn ids_are_opaque_and_copied_byte_for_byte() {
    for id in [
        " ",
        " s ",
        "S",
        "s",
        "é",
        "e\u{301}",
        "\u{2028}",
        "\0",
        "\"\\/",
        "__proto__",
        &"x".repeat(256),
    ] {
        let line = format!(
            r#"{{"type":"turn.complete","session_id":{}}}"#,
            serde_json::to_string(id).unwrap()
        );
        let message = AdapterMessage::parse(&line).unwrap();
        assert_eq!(message.session_id.as_str(), id);
        let again = message.to_line();
        assert_eq!(
            AdapterMessage::parse(std::str::from_utf8(&again).unwrap().trim_end_matches('\n')),
            Ok(message)
        );
    }
    assert_eq!(
        SessionId::new("é".repeat(129)).map_err(|bad| bad.bytes),
        Err(258),
        "bytes count, not characters"
    );
}

#[test]
fn an_unknown_type_is_told_from_a_bad_message() {
    let unknown = |kind: &str| {
        Err(Unread::UnknownType {
            kind: kind.to_owned(),
        })
    };
    let line = |kind: &str| format!(r#"{{"type":"{kind}","session_id":"s-1","content":7}}"#);
    for kind in [
        "future.thing",
        "",
        "Output",
        " output",
        "user.input",
        "ping",
    ] {
        assert_eq!(AdapterMessage::parse(&line(kind)), unknown(kind));
    }
    assert_eq!(
        AdapterMessage::parse(&line(&"é".repeat(100))),
        unknown(&"é".repeat(32)),
        "cut to 64 bytes"
    );
    assert_eq!(
        AdapterMessage::parse(&line(&format!("a{}", "é".repeat(100)))),
        unknown(&format!("a{}", "é".repeat(31)))
    );
    assert_eq!(bad_field(&line("output")), ("content", Why::WrongType));
}

#[test]
fn an_empty_channel_is_stdout_and_an_unknown_one_passes_through() {
    for (given, wanted) in [
        ("", Channel::Stdout),
        (r#","channel":null"#, Channel::Stdout),
        (r#","channel":"""#, Channel::Stdout),
        (r#","channel":"stdout""#, Channel::Stdout),
        (r#","channel":"stderr""#, Channel::Stderr),
        (r#","channel":"system""#, Channel::System),
        (r#","channel":"question""#, Channel::Question),
        (r#","channel":"tool""#, Channel::Tool),
        (r#","channel":"Stdout""#, Channel::Other("Stdout".into())),
        (r#","channel":7"#, Channel::Stdout),
    ] {
        for extra in ["", r#","history":true"#] {
            let line =
                format!(r#"{{"type":"output","session_id":"s-1","content":"a"{given}{extra}}}"#);
            assert_eq!(output(&line).channel(), &wanted, "{line}");
        }
    }
}

#[test]
fn keys_may_be_escaped_and_spaced() {
    let line = r#" { "typ\u0065" : "output" , "session_id":"s-1", "conten\u0074" : "hi" , "histor\u0079" : true } "#;
    let output = output(line);
    assert_eq!((&*output.content, output.history), ("hi", Some(true)));
}

#[test]
fn meta_is_kept_up_to_its_bound_and_dropped_beyond_it() {
    for (length, kept) in [(Meta::MAX_BYTES, true), (Meta::MAX_BYTES + 1, false)] {
        let meta = format!(r#"{{"a":"{}"}}"#, "x".repeat(length - r#"{"a":""}"#.len()));
        let line =
            format!(r#"{{"type":"output","session_id":"s-1","content":"hi","_meta":{meta}}}"#);
        let message = AdapterMessage::parse(&line).unwrap();
        assert_eq!(
            message.meta.map(|meta| meta.json().get().len()),
            kept.then_some(length)
        );
    }
    let line =
        r#"{"type":"working","session_id":"s-1","_meta":{ "b" : 1.0, "a":[1e400, "\u00e9"] }}"#;
    let written = Way::AdapterToHost.rewrite(line).unwrap();
    assert!(
        written.contains(r#""_meta":{ "b" : 1.0, "a":[1e400, "\u00e9"] }"#),
        "untouched: {written}"
    );
}
