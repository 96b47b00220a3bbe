//! Written messages: one line, which any line reader can split.

use proptest::prelude::*;
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Channel, Custom, HostBody, HostMessage, Json, Meta, Output,
    RequestId, SessionId, SessionStart, ToolCallId, ToolUpdate, TurnId, UserInput,
};

use crate::examples::{message, text};

fn assert_one_line(line: &[u8], kind: &str) {
    let text = std::str::from_utf8(line).unwrap();
    let (message, end) = text.split_at(text.len() - 1);
    assert_eq!(end, "\n");
    assert!(
        !message.contains(['\n', '\r', '\u{2028}', '\u{2029}']),
        "{message:?}"
    );
    assert!(!message.bytes().any(|byte| byte < 0x20), "{message:?}");
    assert!(
        message.starts_with(&format!(r#"{{"type":"{kind}","session_id":"#)),
        "{message:?}"
    );
    let value: serde_json::Value = serde_json::from_str(message).unwrap();
    assert!(value.is_object());
}

proptest! {
    #[test]
    fn any_message_is_one_line((way, line) in message()) {
        let kind = serde_json::from_str::<serde_json::Value>(&line).unwrap()["type"].as_str().unwrap().to_owned();
        assert_one_line(way.rewrite(&line).unwrap().as_bytes(), &kind);
    }

    #[test]
    fn any_text_is_one_line_and_comes_back(text in text(), id in text()) {
        let id = SessionId::new(id).unwrap_or(SessionId::new("s-1").unwrap());
        let turn_id = TurnId::new(id.as_str()).ok();
        let call = ToolCallId::new(id.as_str()).unwrap();
        let json = Json::from_serialize(&[&text]).unwrap();
        let meta = Meta::new(Json::from_serialize(&std::collections::BTreeMap::from([(&text, &text)])).unwrap());
        let tool = ToolUpdate {
            tool_call_id: call, content: Some(text.clone()), stream: None, title: None, input: Some(json.clone()),
            locations: None,
            data: None, truncated: None, message_id: None, parent_tool_call_id: None, history: None,
        };
        let bodies: [(AdapterBody, &str); 4] = [
            (Output::text(&*text).into(), "output"),
            (Output::on(Channel::named(&text), &*text).into(), "output"),
            (tool.into(), "tool.update"),
            (Custom { name: text.clone(), data: Some(json), ..Custom::default() }.into(), "custom"),
        ];
        for (body, kind) in bodies {
            let message = AdapterMessage { meta: meta.clone(), ..AdapterMessage::new(id.clone(), body).of_turn(turn_id.clone()) };
            let line = message.to_line();
            assert_one_line(&line, kind);
            let line = std::str::from_utf8(&line).unwrap();
            prop_assert_eq!(AdapterMessage::parse(line.trim_end_matches('\n')), Ok(message));
        }
        let start = SessionStart { variables: Some([(text.clone(), text.clone())].into()), ..SessionStart::default() };
        for (body, kind) in [(HostBody::from(start), "session.start"), (UserInput::text(&*text).into(), "user.input")] {
            let message = HostMessage::new(id.clone(), body);
            let line = message.to_line();
            assert_one_line(&line, kind);
            let line = std::str::from_utf8(&line).unwrap();
            prop_assert_eq!(HostMessage::parse(line.trim_end_matches('\n')), Ok(message));
        }
    }
}

#[test]
fn line_ends_between_the_tokens_of_foreign_json_do_not_get_out() {
    let line = "{\"type\":\"custom\",\"session_id\":\"s-1\",\"name\":\"n\",\"data\":{\r\"a\":\r\n[1,\r\"\u{2028}\u{2029}\"]},\"_meta\":{\r}}";
    let message = AdapterMessage::parse(line).unwrap();
    let written = message.to_line();
    assert_one_line(&written, "custom");
    let values: [serde_json::Value; 2] =
        [line.as_bytes(), &written].map(|text| serde_json::from_slice(text).unwrap());
    assert_eq!(values[0], values[1]);
}

#[test]
fn messages_are_appended_whole() {
    let mut out = b"before\n".to_vec();
    let id = SessionId::new("s-1").unwrap();
    AdapterMessage::new(id.clone(), Output::text("a")).write(&mut out);
    HostMessage::new(id, trunkline_protocol::Stop::default()).write(&mut out);
    let wanted = "before\n{\"type\":\"output\",\"session_id\":\"s-1\",\"content\":\"a\"}\n{\"type\":\"stop\",\"session_id\":\"s-1\"}\n";
    assert_eq!(String::from_utf8(out).unwrap(), wanted);
}

#[test]
fn an_answer_always_says_whether_it_approves() {
    let line = r#"{"type":"permission.response","session_id":"s-1","request_id":"r-1"}"#;
    let message = HostMessage::parse(line).unwrap();
    let HostBody::PermissionResponse(answer) = &message.body else {
        panic!()
    };
    assert_eq!(answer.request_id, RequestId::new("r-1").unwrap());
    assert!(
        String::from_utf8(message.to_line())
            .unwrap()
            .contains(r#""approved":false"#)
    );
}
