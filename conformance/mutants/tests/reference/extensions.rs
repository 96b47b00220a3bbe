//! Additions of each extension, only if it was agreed on.

use serde_json::{Value, json};

use crate::peer::{Peer, kinds, text};

const ALL: [&str; 9] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
    "large",
];

fn script(steps: Value) -> String {
    json!({ "$probe": 1, "do": steps }).to_string()
}

fn agreed() -> Peer {
    let mut peer = Peer::start();
    peer.open("s", &ALL);
    assert_eq!(peer.next("s")["type"], "session.ready");
    peer
}

#[test]
fn turns_are_named_stopped_and_steered_by_id() {
    let mut peer = agreed();
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t1", "content": script(json!([["until_stop"]])) }),
    );
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t2", "content": "queued" }),
    );
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t3", "content": "x", "mode": "steer", "message_id": "m" }),
    );
    peer.tell("stop", "s", json!({ "turn_id": "t2" }));
    peer.tell("stop", "s", json!({ "turn_id": "gone" }));
    let mut seen = vec![peer.next("s"), peer.next("s")];
    seen.retain(|message| message["type"] != "output");
    while seen.len() < 2 {
        let next = peer.next("s");
        seen.extend((next["type"] != "output").then_some(next));
    }
    assert_eq!(
        (&seen[0]["delivered"], &seen[0]["turn_id"]),
        (&json!(true), &json!("t1"))
    );
    assert_eq!(
        (&seen[1]["turn_id"], &seen[1]["status"]),
        (&json!("t2"), &json!("stopped"))
    );
    peer.tell("stop", "s", json!({ "turn_id": "t1", "reason": "user" }));
    let turn = peer.turn("s");
    assert!(
        turn.iter().all(|message| message["turn_id"] == "t1"),
        "{turn:?}"
    );
    assert_eq!(turn.last().unwrap()["stop_reason"], "user");
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t4", "content": "x", "mode": "steer", "message_id": "m" }),
    );
    assert_eq!(peer.next("s")["delivered"], false);
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t5", "content": "x", "mode": "unknown", "message_id": 7 }),
    );
    assert_eq!(peer.turn("s").last().unwrap()["status"], "completed");
}

#[test]
fn the_end_of_a_session_ends_its_turns_first() {
    let mut peer = agreed();
    let steps = json!([["event", { "type": "tool.start", "tool_call_id": "c", "tool": "t" }], ["sleep", 100], ["close_session", "failed"]]);
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t1", "content": script(steps) }),
    );
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t2", "content": "x" }),
    );
    let mut seen = Vec::new();
    while seen
        .last()
        .is_none_or(|last: &Value| last["type"] != "session.closed")
    {
        seen.push(peer.next("s"));
    }
    seen.retain(|message| message["type"] != "output");
    assert_eq!(
        kinds(&seen),
        [
            "tool.start",
            "tool.end",
            "turn.complete",
            "turn.complete",
            "session.closed"
        ]
    );
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t3", "content": "x" }),
    );
    assert!(peer.fence("s").is_empty());
}

#[test]
fn a_pause_holds_everything_within_a_bound() {
    let mut peer = agreed();
    peer.tell("flow.pause", "s", json!({}));
    peer.tell("flow.pause", "s", json!({}));
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t1", "content": script(json!([["burst", 200_000, 1000]])) }),
    );
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t2", "content": "x" }),
    );
    peer.send(json!({ "type": "ping", "session_id": "", "nonce": [1, "\u{2029}"] }));
    assert_eq!(peer.next("")["nonce"], json!([1, "\u{2029}"]));
    assert!(peer.fence("s").is_empty());
    peer.tell("stop", "s", json!({}));
    assert!(peer.fence("s").is_empty());
    assert!(peer.memory() < 32, "{} MiB", peer.memory());
    peer.tell("flow.resume", "s", json!({}));
    let burst = peer.turn("s");
    assert!(burst.len() < 1000 && burst.last().unwrap()["status"] == "stopped");
    assert_eq!(text(&peer.turn("s")), "x");
    peer.tell("flow.pause", "s", json!({}));
    peer.tell(
        "user.input",
        "s",
        json!({ "turn_id": "t3", "content": "x" }),
    );
    peer.fence("s");
    peer.tell("session.close", "s", json!({}));
    assert!(peer.fence("s").is_empty());
}

#[test]
fn options_that_contradict_deny() {
    let mut peer = agreed();
    let options =
        json!([{ "id": "y", "kind": "allow_once" }, { "id": "n", "kind": "reject_once" }]);
    for (approved, option, expected) in [
        (true, json!("y"), true),
        (true, json!("n"), false),
        (false, json!("y"), false),
        (true, json!("z"), false),
        (true, json!(7), true),
    ] {
        peer.script(
            "s",
            json!([["ask", { "tool": "t", "resource": "r", "options": options }]]),
        );
        let id = peer.next("s")["request_id"].clone();
        peer.tell(
            "permission.response",
            "s",
            json!({ "request_id": id, "approved": approved, "option_id": option }),
        );
        let told = text(&peer.turn("s"));
        assert!(
            told.contains(&format!("\"approved\":{expected}")),
            "{option}: {told}"
        );
    }
}

#[test]
fn questions_are_answered_cancelled_and_stopped() {
    let mut peer = agreed();
    for (answer, values, cancelled) in [
        (json!({ "values": { "a": 1 } }), json!({ "a": 1 }), false),
        (
            json!({ "values": { "a": 1 }, "cancelled": true }),
            json!({}),
            true,
        ),
        (json!({}), json!({}), true),
        (json!({ "values": 7 }), json!({}), true),
    ] {
        peer.script(
            "s",
            json!([["question", { "prompt": "?", "fields": [{ "id": "a" }] }]]),
        );
        let asked = peer.next("s");
        assert_eq!(
            (&asked["type"], &asked["fields"]),
            (&json!("input.request"), &json!([{ "id": "a" }]))
        );
        let id = asked["request_id"].clone();
        peer.tell(
            "permission.response",
            "s",
            json!({ "request_id": id, "approved": true }),
        );
        let mut answer = answer;
        answer["request_id"] = id;
        peer.tell("input.response", "s", answer);
        let told: Value = serde_json::from_str(&text(&peer.turn("s"))).unwrap();
        assert_eq!(
            (&told["values"], &told["cancelled"]),
            (&values, &json!(cancelled))
        );
    }
    peer.script("s", json!([["question", { "prompt": "?" }]]));
    peer.next("s");
    peer.tell("stop", "s", json!({}));
    assert_eq!(peer.turn("s").last().unwrap()["status"], "stopped");
}

#[test]
fn what_is_withdrawn_is_not_approved_later() {
    let folder = tempfile::tempdir().unwrap();
    let effect = folder.path().join("never");
    let mut peer = agreed();
    peer.script(
        "s",
        json!([["ask", { "tool": "t", "resource": "r", "effect": effect, "withdraw_ms": 20 }]]),
    );
    let id = peer.next("s")["request_id"].clone();
    let cancel = peer.next("s");
    assert_eq!(
        (&cancel["type"], &cancel["request_id"]),
        (&json!("permission.cancel"), &id)
    );
    peer.tell(
        "permission.response",
        "s",
        json!({ "request_id": id, "approved": true }),
    );
    assert!(text(&peer.turn("s")).contains("\"approved\":false"));
    peer.fence("s");
    assert!(!effect.exists());
}

#[test]
fn options_and_resume() {
    let mut peer = Peer::start();
    let start = json!({ "extensions": ["options", "resume"], "model": "m", "temperature": 1, "denied_tools": ["X"] });
    peer.tell("session.start", "a", start);
    let ready = peer.next("a");
    assert_eq!(ready["options_applied"], json!(["model", "denied_tools"]));
    peer.tell("session.update", "a", json!({ "model": "n", "mode": 7 }));
    let info = peer.next("a");
    assert_eq!(
        (&info["type"], &info["model"], &info["mode"]),
        (&json!("session.info"), &json!("n"), &json!("code"))
    );
    assert_eq!(
        peer.data("a", json!([["ask", { "tool": "X", "resource": "r" }]]))["asked"]["approved"],
        false
    );
    peer.script("a", json!([["set", "k", "v"]]));
    let native = peer.turn("a").last().unwrap()["native_session_id"].clone();
    peer.tell("session.close", "a", json!({}));
    for (session, id, context) in [("b", native, "kept"), ("c", json!("unknown"), "lost")] {
        let resume = json!({ "extensions": ["resume"], "resume": { "native_session_id": id } });
        peer.tell("session.start", session, resume);
        assert_eq!(peer.next(session)["context"], context);
    }
    assert_eq!(peer.data("b", json!([["get", "k"]]))["value"], "v");
    assert_eq!(peer.data("c", json!([["get", "k"]]))["value"], Value::Null);
    peer.send(json!({ "type": "sessions.list", "session_id": "", "request_id": "q" }));
    assert_eq!(peer.next("")["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_version_that_is_not_served_ends_the_session() {
    let mut peer = Peer::start();
    for (session, protocol, answered) in [("a", 9, 1), ("b", 0, 0)] {
        peer.tell(
            "session.start",
            session,
            json!({ "extensions": ["control"], "protocol": protocol }),
        );
        assert_eq!(peer.next(session)["protocol"], answered);
    }
    let closed = peer.next("b");
    assert_eq!(
        (&closed["reason"], &closed["error"]["category"]),
        (&json!("protocol"), &json!("protocol"))
    );
    peer.input("a", "x");
    assert_eq!(text(&peer.turn("a")), "x");
}
