//! Owner of a line of which only the first bytes are available.

use proptest::prelude::*;
use trunkline_protocol::{session_named_in, type_named_in};

use crate::examples::EXAMPLES;

fn session(first: &[u8]) -> Option<String> {
    session_named_in(first).map(|id| id.as_str().to_owned())
}

/// Cuts a line at every byte: a member is named from the byte that ends its value, and never otherwise.
fn check(line: &str, kind: (&str, Option<&str>), id: (&str, Option<&str>)) {
    for cut in 0..=line.len() {
        let first = &line.as_bytes()[..cut];
        let named = |(until, value): (&str, Option<&str>)| {
            let end = line.find(until).expect("the text stands in the line") + until.len();
            value.filter(|_| cut >= end).map(str::to_owned)
        };
        assert_eq!(
            type_named_in(first),
            named(kind),
            "{}",
            String::from_utf8_lossy(first)
        );
        assert_eq!(
            session(first),
            named(id),
            "{}",
            String::from_utf8_lossy(first)
        );
    }
}

#[test]
fn a_member_is_named_as_soon_as_its_value_has_ended() {
    let kind = (r#""output""#, Some("output"));
    let id = (r#""s-1""#, Some("s-1"));
    for line in [
        r#"{"type":"output","session_id":"s-1","content":"aaaa"#,
        r#"{"session_id":"s-1","type":"output","content":"aaaa"#,
        r#" { "type" : "output" , "session_id" : "s-1" , "content" : "aaaa"#,
        r#"{"n":-1.5e3,"b":true,"x":null,"type":"output","session_id":"s-1","content":"é€😀"#,
        r#"{"o":{"type":"no","session_id":["no",{"a":"}]"}]},"type":"output","session_id":"s-1","c"#,
        r#"{"a":"\"session_id\":\"no\",\\","type":"output","session_id":"s-1","c":"#,
        "\u{feff}{\"type\":\"output\",\"session_id\":\"s-1\",\"content\":\"aaaa",
    ] {
        check(line, kind, id);
    }
    check(
        r#"{"type":"output","session_id":"é€\u00e9\"","c"#,
        kind,
        (r#"é€\u00e9\"""#, Some("é€é\"")),
    );
}

#[test]
fn what_names_nothing_gives_nothing() {
    for line in [
        r#"{"type":7,"session_id":7,"content":"#,
        r#"{"type":null,"session_id":null,"#,
        r#"{"type":["output"],"session_id":{"a":"s-1"},"#,
        r#"{"type":"\ud83d\u12","session_id":"\ud83d","#,
        r#"[{"type":"output","session_id":"s-1"}]"#,
        r#"{"a" "type":"output","session_id":"s-1"}"#,
        r#"{"a":1;"type":"output","session_id":"s-1"}"#,
        r#"{"a":"b";"type":"output","session_id":"s-1"}"#,
        r#"{"a":,"type":"output","session_id":"s-1"}"#,
        r#"{,"type":"output","session_id":"s-1"}"#,
        r#"type":"output","session_id":"s-1"}"#,
        "",
    ] {
        for cut in 0..=line.len() {
            let first = &line.as_bytes()[..cut];
            assert_eq!(type_named_in(first), None, "{line}");
            assert_eq!(session(first), None, "{line}");
        }
    }
    assert_eq!(
        session(br#"{"session_id":"","content":"#),
        None,
        "the pipe is not a session"
    );
    let long = format!(r#"{{"session_id":"{}","content":"#, "x".repeat(257));
    assert_eq!(session(long.as_bytes()), None, "no id is that long");
}

#[test]
fn every_golden_line_names_its_session_and_type_when_it_is_cut() {
    for example in &*EXAMPLES {
        let members = example.full_members();
        let id = members["session_id"].as_str().filter(|id| !id.is_empty());
        let kind = format!("\"type\":\"{}\"", example.kind);
        let session_id = format!("\"session_id\":{}", members["session_id"]);
        check(
            &example.full,
            (&kind, Some(example.kind)),
            (&session_id, id),
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'{'), Just(b':'), Just(b'\\'), Just(b',')], 0..60)) {
        let (..) = (session_named_in(&bytes), type_named_in(&bytes));
        let inside = [b"{\"a\":", &bytes[..], b",\"session_id\":\"s-1\","].concat();
        let (..) = (session_named_in(&inside), type_named_in(&inside));
    }
}
