//! The head of a line, and whole messages of both directions.

use serde_json::Value;
use trunkline_protocol::{
    AdapterMessage, Body, Envelope, Head, HostMessage, fuzz, session_named_in, type_named_in,
};

use super::Target;

const SEEDS: [&[u8]; 12] = [
    br#"{"type":"session.start","session_id":"s1","protocol":1,"extensions":["turns","options"],"cwd":"/w","env":{"A":"b"},"mcp_servers":[{"name":"x","url":"http://h"}],"resume":{"native_session_id":"n","history":true}}"#,
    br#"{"type":"user.input","session_id":"s1","turn_id":"t1","content":"a\n\"b\" \u00e9 \ud83d\ude00"}"#,
    br#"{"type":"permission.response","session_id":"s1","request_id":"r","approved":true,"updated_input":{"a":[1,2.5e3]}}"#,
    br#"{"type":"output","session_id":"s1","content":"text","channel":"stderr"}"#,
    br#"{"type":"turn.complete","session_id":"s1","turn_id":"t1","status":"failed","error":{"category":"auth","message":"m"},"usage":{"input_tokens":5,"models":{"m":{"cost_usd":0.25}}}}"#,
    br#"{"type":"permission.request","session_id":"s1","request_id":"r","tool":"Bash","description":"d","resource":"ls","options":[{"id":"a","label":"b"}]}"#,
    br#"{"type":"session.ready","session_id":"s1","protocol":1,"extensions":["turns"],"adapter":{"name":"n","version":"1"},"capabilities":{"max_sessions":4}}"#,
    br#"{"type":"tool.start","session_id":"s1","tool_id":"x","name":"n","input":{"a":null},"kind":"edit","paths":["/a"]}"#,
    br#"{"type":"question","session_id":"s1","request_id":"q","fields":[{"name":"f","kind":"choice","options":["a"]}]}"#,
    br#"{"type":"file.output","session_id":"s1","file_path":"/x","file_name":"x","file_mime_type":"text/plain"}"#,
    br#"{"type":"sessions.list.result","session_id":"","request_id":"r","entries":[{"native_session_id":"n","message_count":3}]}"#,
    br#" { "type" : "stop" , "session_id":"s", "reason":"user", "x_meta": {"deep":[[[[{}]]]]} } "#,
];

const WORDS: [&str; 34] = [
    "\"type\":\"output\",",
    "\"session_id\":\"s\",",
    "\"turn_id\":\"t1\",",
    "\"content\":\"a\\u0041\",",
    "\"channel\":\"stdout\",",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "0.1",
    "{}",
    "[]",
    "[[",
    "{\"",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\\udc00",
    ",",
    ":",
    "}",
    "]",
    " ",
    "\t",
    "\u{1}",
    "é",
    "\u{2028}",
    "\"status\":\"stopped\",",
    "\"type\":\"session.start\",",
    "\"error\":{\"category\":\"x\"},",
];

pub(super) const HEAD: Target = Target {
    name: "head",
    seeds: &SEEDS,
    words: &WORDS,
    run: head,
};
pub(super) const MESSAGES: Target = Target {
    name: "messages",
    seeds: &SEEDS,
    words: &WORDS,
    run: messages,
};

/// The fast reader of a head agrees with the general one, and both with a JSON reader that knows
/// nothing of messages.
fn head(input: &[u8]) {
    let _ = (session_named_in(input), type_named_in(input));
    let Ok(line) = std::str::from_utf8(input) else {
        return;
    };
    fuzz::scans_agree(line);
    let Ok(head) = Head::read(line) else { return };
    // A number that is too large for one is read by no reader that keeps values.
    let Ok(Value::Object(read)) = serde_json::from_str::<Value>(line) else {
        return;
    };
    let text = |name: &str| read.get(name).and_then(Value::as_str);
    assert_eq!(Some(&*head.kind), text("type"), "{line}");
    assert_eq!(
        &*head.session_id,
        text("session_id").unwrap_or_default(),
        "{line}"
    );
}

/// A message that was read is written as one line, which is read as the same message.
fn messages(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else {
        return;
    };
    again(line, HostMessage::parse(line), HostMessage::parse);
    again(line, AdapterMessage::parse(line), AdapterMessage::parse);
}

fn again<B: Body + std::fmt::Debug, E: std::fmt::Display>(
    line: &str,
    read: Result<Envelope<B>, E>,
    parse: fn(&str) -> Result<Envelope<B>, E>,
) {
    let message = match read {
        Ok(message) => message,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    let mut written = Vec::new();
    message.write(&mut written);
    let text = std::str::from_utf8(&written).expect("what is written is text");
    let whole = text
        .strip_suffix('\n')
        .filter(|text| !text.contains(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}']));
    let whole =
        whole.unwrap_or_else(|| panic!("one line, for any reader of lines: {text:?} of {line:?}"));
    let second = parse(whole).unwrap_or_else(|why| panic!("{why}: {whole} of {line}"));
    assert_eq!(format!("{message:?}"), format!("{second:?}"), "of {line}");
    let mut twice = Vec::new();
    second.write(&mut twice);
    assert_eq!(written, twice, "of {line}");
}
