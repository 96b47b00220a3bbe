//! The first read of a line, by which a host decides before it reads the rest.

use proptest::prelude::*;
use trunkline_protocol::{
    AdapterBody, AdapterKind, Body, Envelope, Head, HostBody, HostKind, HubBody, RelayBody,
    SessionId, TurnId, Unread, Why,
};

use crate::examples::{EXAMPLES, Way, message};

#[test]
fn the_head_is_the_same_in_a_plain_line_and_in_an_odd_one() {
    let plain = r#"{"type":"output","session_id":"é\u00e9","turn_id":"t-1","content":"a","channel":"stderr"}"#;
    let extended =
        r#"{"type":"output","session_id":"é\u00e9","turn_id":"t-1","content":"a","history":true}"#;
    let odd = r#"{"type":"output","session_id":"é\u00e9","turn_id":"t-1","content":7,"content":"\ud83d"}"#;
    for (line, is_plain) in [(plain, true), (extended, false), (odd, false)] {
        let head = Head::read(line).unwrap();
        assert_eq!(
            (&*head.kind, &*head.session_id, head.turn_id.as_deref()),
            ("output", "éé", Some("t-1"))
        );
        assert_eq!(head.is_plain(), is_plain, "{line}");
    }
}

#[test]
fn an_empty_turn_id_is_none() {
    for line in [
        r#"{"type":"turn.complete","session_id":"s-1","turn_id":""}"#,
        r#"{"type":"turn.complete","session_id":"s-1","turn_id":null}"#,
        r#"{"type":"turn.complete","session_id":"s-1","turn_id":"","turn_id":7}"#,
    ] {
        assert_eq!(Head::read(line).unwrap().turn_id, None, "{line}");
    }
}

#[test]
fn a_head_without_its_session_is_bad_before_anything_else_is_read() {
    for (line, wanted) in [
        (
            r#"{"type":"output","content":"lost"}"#,
            ("session_id", Why::Missing),
        ),
        (r#"{"session_id":"s-1"}"#, ("type", Why::Missing)),
        (
            r#"{"type":["output"],"session_id":"s-1"}"#,
            ("type", Why::WrongType),
        ),
        (
            r#"{"type":"output","session_id":7}"#,
            ("session_id", Why::WrongType),
        ),
    ] {
        let Err(Unread::Bad {
            field,
            why,
            session_id,
            kind: None,
        }) = Head::read(line)
        else {
            panic!("{line}")
        };
        assert_eq!((field, why), wanted);
        assert_eq!(
            session_id,
            SessionId::new("s-1").ok().filter(|_| field == "type"),
            "{line}"
        );
    }
}

#[test]
fn the_type_is_judged_by_the_direction() {
    let head = Head::read(r#"{"type":"stop","session_id":"s-1"}"#).unwrap();
    assert_eq!(head.kind_of::<HostBody>(), Ok(HostKind::Stop));
    assert_eq!(
        head.kind_of::<AdapterBody>(),
        Err(Unread::UnknownType {
            kind: "stop".to_owned()
        })
    );
    let pong = Head::read(r#"{"type":"pong","session_id":""}"#).unwrap();
    assert_eq!(pong.kind_of::<AdapterBody>(), Ok(AdapterKind::Pong));
}

fn ids<B: Body>(message: Result<Envelope<B>, Unread>) -> (SessionId, Option<TurnId>) {
    let message = message.unwrap();
    (message.session_id, message.turn_id)
}

fn agrees(way: Way, line: &str) {
    let head = Head::read(line).unwrap();
    let session_id = head.session_id.to_string();
    let turn_id = head.turn_id.as_deref().map(str::to_owned);
    let (of_message, turn_of_message) = match way {
        Way::HostToAdapter => ids(head.message::<HostBody>()),
        Way::AdapterToHost => ids(head.message::<AdapterBody>()),
        Way::HubToRelay => ids(head.message::<HubBody>()),
        Way::RelayToHub => ids(head.message::<RelayBody>()),
    };
    assert_eq!(session_id, of_message.as_str());
    assert_eq!(
        turn_id.as_deref(),
        turn_of_message.as_ref().map(|id| id.as_str())
    );
}

#[test]
fn head_and_message_agree_on_golden_lines() {
    for example in &*EXAMPLES {
        agrees(example.way, &example.minimal);
        agrees(example.way, &example.full);
    }
}

proptest! {
    #[test]
    fn head_and_message_agree((way, line) in message()) {
        agrees(way, &line);
    }
}
