//! The pipe itself: pings, lists, and what cannot be understood ([msg.4], [frame.*]).

use serde_json::{Value, json};

use crate::{
    hub::ALL,
    journal::{JOURNAL, folder},
    world::World,
};

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_before_any_session_is_open() {
    let mut world = World::new();
    world
        .hub
        .say(json!({"type": "ping", "session_id": "", "nonce": {"n": 7}}))
        .await;
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "pong", "session_id": "", "nonce": {"n": 7}})
    );
}

fn list(members: &Value) -> Value {
    let mut list = json!({"type": "sessions.list", "session_id": "", "request_id": "r"});
    let members = members.as_object().unwrap().clone();
    list.as_object_mut().unwrap().extend(members);
    list
}

#[tokio::test]
async fn the_conversations_that_an_agent_keeps_are_listed() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    world.hub.start_with("s", &JOURNAL, json!({})).await;
    let mut adapter = world.adapters.next().await;
    let ready = |id: &Value, lists: bool| {
        json!({"type": "session.ready", "session_id": id, "protocol": 1, "extensions": ALL,
            "native_session_id": "n-1", "capabilities": {"lists_sessions": lists}})
    };
    let start = adapter.expect("session.start").await;
    adapter.say(ready(&start["session_id"], true)).await;
    world.hub.until("session.info").await;
    world
        .hub
        .say(list(&json!({"cwd": "/srv", "limit": 2})))
        .await;
    let start = adapter.expect("session.start").await;
    adapter.say(ready(&start["session_id"], true)).await;
    let asked = adapter.expect("sessions.list").await;
    assert_eq!(
        (&asked["session_id"], &asked["cwd"], &asked["limit"]),
        (&json!(""), &json!("/srv"), &json!(2))
    );
    // An answer to no request is not passed on.
    adapter
        .say(json!({"type": "sessions.list.result", "session_id": "", "request_id": "other"}))
        .await;
    let entries = json!([{"native_session_id": "n-2", "title": "lexer work"},
        {"native_session_id": "n-1"}]);
    adapter
        .say(json!({"type": "sessions.list.result", "session_id": "",
            "request_id": asked["request_id"], "entries": entries}))
        .await;
    let result = world.hub.until("sessions.list.result").await;
    assert_eq!(
        (&result["request_id"], &result["error"]),
        (&json!("r"), &Value::Null)
    );
    let agent = result["entries"][0]["agent_id"].clone();
    assert_eq!(
        result["entries"],
        json!([{"native_session_id": "n-2", "title": "lexer work", "agent_id": agent},
            {"native_session_id": "n-1", "agent_id": agent, "session_id": "s"}])
    );
    assert_eq!(
        adapter.expect("session.close").await["session_id"],
        start["session_id"]
    );

    world.hub.say(list(&json!({"agent_id": "missing"}))).await;
    let result = world.hub.until("sessions.list.result").await;
    assert!(result["error"].as_str().unwrap().contains("missing"));
    // An agent that has declared that it lists none is not asked again.
    world.hub.say(list(&json!({}))).await;
    let start = adapter.expect("session.start").await;
    adapter.say(ready(&start["session_id"], false)).await;
    for _ in 0..2 {
        let result = world.hub.until("sessions.list.result").await;
        assert!(result["error"].as_str().unwrap().contains("does not list"));
        world.hub.say(list(&json!({}))).await;
    }
    adapter.expect("session.close").await;
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_understood_is_counted_and_never_answered() {
    let mut world = World::new();
    for line in [
        "Welcome to my hub!",
        "[1, 2]",
        "{not json}",
        r#"{"type":"user.input"}"#,
        r#"{"type":"permission.response","session_id":"s"}"#,
        r#"{"type":"telepathy","session_id":"s"}"#,
        r#"{"type":"user.input","session_id":"s","content":"hello"}"#,
        r#"{"type":"session.close","session_id":"s"}"#,
        "",
    ] {
        world.hub.write(line).await;
    }
    world
        .hub
        .write(&format!(
            r#"{{"type":"stop","session_id":"s","x":"{}"}}"#,
            "x".repeat(17 << 20)
        ))
        .await;
    world.hub.start_core("s").await;
    world.hub.start_core("s").await;
    world
        .hub
        .say(json!({"type": "flow.pause", "session_id": "s"}))
        .await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    world.hub.input_core("s", "late").await;
    world.hub.hears_nothing().await;
    let counters = world.end().await.counters;
    assert_eq!((counters.noise, counters.bad, counters.too_long), (3, 2, 1));
    // The unknown type and the extension that was not agreed on.
    assert_eq!((counters.unknown_type, counters.unknown_session), (2, 2));
    assert_eq!(
        (counters.repeated, counters.late, counters.messages),
        (2, 1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_of_a_hub_has_at_most_256_bytes() {
    let mut world = World::new();
    let longest = "i".repeat(256);
    let too_long = "i".repeat(257);
    world.hub.start(&longest).await;
    let mut adapter = world.adapters.next().await;
    assert_eq!(adapter.ready().await, longest);
    let session = longest.as_str();
    for (kind, member) in [
        ("user.input", "session_id"),
        ("user.input", "turn_id"),
        ("user.input", "message_id"),
        ("stop", "turn_id"),
        ("permission.response", "request_id"),
        ("input.response", "request_id"),
        ("agents.list", "request_id"),
        ("session.history", "request_id"),
    ] {
        let pipe = kind == "agents.list";
        let mut message =
            json!({"type": kind, "session_id": if pipe { "" } else { session }, "content": "x"});
        message[member] = too_long.clone().into();
        world.hub.say(message).await;
    }
    world.hub.hears_nothing().await;
    world
        .hub
        .say(json!({"type": "user.input", "session_id": longest, "turn_id": longest, "message_id": longest,
            "content": "go"}))
        .await;
    let turn = adapter.turn().await;
    adapter.complete(&longest, &turn).await;
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["session_id"], &end["turn_id"]),
        (&json!(longest), &json!(longest))
    );
    assert_eq!(world.end().await.counters.bad, 8);
}

#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_is_reported_to_the_session_that_it_names() {
    let mut world = World::new();
    world.hub.start("rich").await;
    world.hub.start_core("core").await;
    let long = "x".repeat(17 << 20);
    for id in ["rich", "core"] {
        world
            .hub
            .write(&format!(
                r#"{{"type":"user.input","session_id":"{id}","content":"{long}"}}"#
            ))
            .await;
    }
    let error = world.hub.expect("error").await;
    assert_eq!(
        (&error["session_id"], &error["category"]),
        (&json!("rich"), &json!("oversize"))
    );
    assert_eq!(error["fatal"], false);
    let text = world.hub.expect("output").await;
    assert_eq!(
        (&text["session_id"], &text["channel"]),
        (&json!("core"), &json!("system"))
    );
    assert!(
        text["content"].as_str().unwrap().contains("over the limit"),
        "{text}"
    );
    assert_eq!(world.end().await.counters.too_long, 2);
}
