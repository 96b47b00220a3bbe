//! The pipe itself: pings, lists, and what cannot be understood ([msg.4], [frame.*]).

use serde_json::json;

use crate::world::World;

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
    for agent in [json!(null), json!("a"), json!("missing")] {
        let list = json!({"type": "sessions.list", "session_id": "", "request_id": "r",
            "agent_id": agent});
        world.hub.say(list).await;
        let list = world.hub.expect("sessions.list.result").await;
        assert_eq!(list["request_id"], "r");
        assert!(list["error"].as_str().unwrap().starts_with("not supported"));
    }
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
    let (longest, too_long) = ("i".repeat(256), "i".repeat(257));
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
