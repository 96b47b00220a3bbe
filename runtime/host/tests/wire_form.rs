//! Events as JSON: each as its message on the wire.

mod support;

use serde_json::{Value, json};
use support::{Peer, agent, played, soon};
use trunkline_host::{
    Event, EventKind, Host, Session, SessionOptions, Turn, config::AgentConfig, protocol::SessionId,
};

const READY: &str = r#","extensions":["turns","events","usage","options","questions","control"]"#;

struct Talk {
    session: Session,
    turn: Turn,
    peer: Peer,
    _host: Host,
}

async fn talk(agent: AgentConfig) -> Talk {
    let (host, mut started) = played(agent, 64 * 1024);
    let id = SessionId::new("s").expect("it works");
    let session = host
        .open(
            "a",
            SessionOptions {
                id: Some(id),
                ..SessionOptions::default()
            },
        )
        .expect("it works");
    let turn = session.send("x").expect("it works");
    let mut peer = soon(started.recv()).await.expect("it works");
    peer.read("user.input").await;
    peer.say("session.ready", "s", READY).await;
    Talk {
        session,
        turn,
        peer,
        _host: host,
    }
}

fn json_of(event: &Event) -> Value {
    serde_json::from_str(&serde_json::to_string(event).expect("it works")).expect("it works")
}

#[tokio::test]
async fn what_an_adapter_says_is_the_json_of_its_event() {
    let mut talk = talk(agent()).await;
    // A request that is dropped is answered, and withdrawn no more.
    let mut held = Vec::new();
    for (kind, members) in [
        (
            "output",
            r#""content":"a \u2028 b","channel":"system","message_id":"m""#,
        ),
        ("output", r#""content":"with meta","_meta":{"trace":[1,2]}"#),
        ("thinking", r#""content":"hm""#),
        ("message", r#""role":"user","content":"hi""#),
        (
            "tool.start",
            r#""tool_call_id":"c","tool":"Bash","input":{"command":"ls","n":1.50}"#,
        ),
        ("tool.update", r#""tool_call_id":"c","content":"half""#),
        (
            "tool.end",
            r#""tool_call_id":"c","is_error":false,"diffs":[{"path":"a","patch":"+b"}]"#,
        ),
        (
            "plan",
            r#""entries":[{"content":"one","status":"pending"}]"#,
        ),
        ("progress", r#""message":"on it""#),
        ("log", r#""stream":"stderr","content":"line""#),
        (
            "error",
            r#""category":"rate_limit","message":"slow down","fatal":false"#,
        ),
        ("custom", r#""name":"n","data":[null]"#),
        (
            "usage",
            r#""input_tokens":1,"models":{"a":{"output_tokens":2}},"scope":"turn""#,
        ),
        ("context.usage", r#""used_tokens":1,"total_tokens":2"#),
        ("compaction", r#""pre_tokens":9"#),
        ("rate_limit", r#""window":"5h","utilization":0.5"#),
        (
            "permission.request",
            r#""request_id":"p","tool":"Bash","description":"d","resource":"ls""#,
        ),
        ("input.request", r#""request_id":"q","prompt":"which?""#),
    ] {
        talk.peer
            .say(kind, "s", &format!(",\"turn_id\":\"t1\",{members}"))
            .await;
        let event = soon(talk.turn.next()).await.unwrap();
        let expected: Value = serde_json::from_str(&format!(
            "{{\"type\":\"{kind}\",\"turn_id\":\"t1\",{members}}}"
        ))
        .unwrap();
        assert_eq!(json_of(&event), expected, "{kind}");
        held.push(event);
    }
    talk.peer
        .say(
            "permission.cancel",
            "s",
            r#","request_id":"q","reason":"timeout""#,
        )
        .await;
    let event = soon(talk.turn.next()).await.unwrap();
    assert_eq!(json_of(&event)["type"], "permission.cancel");
    assert_eq!(json_of(&event)["request_id"], "q");
}

#[tokio::test]
async fn what_the_host_tells_is_a_message_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = agent();
    config.file_roots = vec![folder.path().to_owned()];
    let mut talk = talk(config).await;
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "text").unwrap();
    talk.peer
        .say(
            "file.output",
            "s",
            &format!(",\"turn_id\":\"t1\",\"file_path\":{path:?}"),
        )
        .await;
    let event = soon(talk.turn.next()).await.unwrap();
    let EventKind::File(file) = &event.kind else {
        panic!("{event:?}")
    };
    let members = json!({ "file_name": "a.txt", "file_mime_type": "application/octet-stream", "file_path": file.path,
            "size": 4, "sha256": file.sha256.to_string() });
    assert_eq!(serde_json::to_value(file).unwrap(), members);
    let mut whole = members.clone();
    (whole["type"], whole["turn_id"]) = ("file.output".into(), "t1".into());
    assert_eq!(json_of(&event), whole);

    let said = r#","turn_id":"t1","status":"failed","error":{"category":"other","message":"no"},"result":{"n":1.0},"_meta":{"k":1}"#;
    talk.peer.say("turn.complete", "s", said).await;
    let event = soon(talk.turn.next()).await.unwrap();
    let expected = json!({ "type": "turn.complete", "turn_id": "t1", "status": "failed", "delivered": "yes",
        "error": { "category": "other", "message": "no" }, "result": { "n": 1.0 }, "_meta": { "k": 1 } });
    assert_eq!(json_of(&event), expected);
    let EventKind::End(end) = &event.kind else {
        panic!("{event:?}")
    };
    let mut expected = expected;
    let members = serde_json::to_value(end).unwrap();
    for of_event in ["type", "turn_id", "_meta"] {
        expected.as_object_mut().unwrap().remove(of_event);
    }
    assert_eq!(members, expected);

    talk.session.close().await;
    let last = loop {
        let event = soon(talk.session.next_event()).await.unwrap();
        if let EventKind::Closed(_) = event.kind {
            break event;
        }
        assert_eq!(json_of(&event)["type"], "session.info");
    };
    assert_eq!(
        json_of(&last),
        json!({ "type": "session.closed", "reason": "finished" })
    );
}

#[tokio::test]
async fn two_messages_of_one_answer_have_an_empty_line_between_them() {
    let mut talk = talk(agent()).await;
    for piece in [
        r#""content":"a","message_id":"m1""#,
        r#""content":"b","message_id":"m1""#,
        r#""content":"c","message_id":"m2""#,
        r#""content":"d""#,
        r#""content":"e","message_id":"m2""#,
    ] {
        talk.peer
            .say("output", "s", &format!(",\"turn_id\":\"t1\",{piece}"))
            .await;
    }
    talk.peer
        .say(
            "turn.complete",
            "s",
            ",\"turn_id\":\"t1\",\"status\":\"completed\"",
        )
        .await;
    let (text, _) = soon(talk.turn.text()).await;
    assert_eq!(text, "ab\n\ncde");
}
