//! The published exchange, end to end, with a hub that knows only the core ([msg]).

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn the_published_exchange_passes_a_relay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.csv");
    std::fs::write(&data, "a,b\n").unwrap();
    let result = folder.path().join("result.png");
    std::fs::write(&result, "png").unwrap();
    let root = folder.path().to_owned();
    let mut world = World::with(|mut agent| {
        agent.extensions = Some(Vec::new());
        agent.file_roots.push(root);
        agent
    });

    world
        .hub
        .write(r#"{"type":"session.start","session_id":"abc-123"}"#)
        .await;
    let mut adapter = world.adapters.next().await;
    assert_eq!(
        adapter.hear().await,
        json!({"type": "session.start", "session_id": "abc-123"})
    );

    let input = r#"{"type":"user.input","session_id":"abc-123","content":"Hello, agent!"}"#;
    world.hub.write(input).await;
    assert_eq!(adapter.hear().await.to_string().len(), input.len());
    let output = json!({"type": "output", "session_id": "abc-123", "content": "Hello! How can I help?", "channel": "stdout"});
    adapter.say(output.clone()).await;
    adapter
        .say(json!({"type": "turn.complete", "session_id": "abc-123"}))
        .await;
    assert_eq!(world.hub.hear().await, output);
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "turn.complete", "session_id": "abc-123"})
    );

    let file = json!({"type": "file.input", "session_id": "abc-123", "file_name": "data.csv",
        "file_mime_type": "text/csv", "file_path": data});
    world.hub.say(file).await;
    let file = adapter.expect("file.input").await;
    assert_eq!(
        (&file["file_name"], &file["file_mime_type"]),
        (&json!("data.csv"), &json!("text/csv"))
    );
    assert_eq!(
        std::fs::read_to_string(file["file_path"].as_str().unwrap()).unwrap(),
        "a,b\n"
    );

    adapter
        .say(
            json!({"type": "file.output", "session_id": "abc-123", "file_name": "result.png",
            "file_mime_type": "image/png", "file_path": result}),
        )
        .await;
    let file = world.hub.expect("file.output").await;
    assert_eq!(
        (&file["file_name"], &file["file_mime_type"]),
        (&json!("result.png"), &json!("image/png"))
    );
    assert_eq!(
        std::fs::read_to_string(file["file_path"].as_str().unwrap()).unwrap(),
        "png"
    );

    world
        .hub
        .write(r#"{"type":"user.input","session_id":"abc-123","content":"more"}"#)
        .await;
    adapter.expect("user.input").await;
    world
        .hub
        .write(r#"{"type":"stop","session_id":"abc-123"}"#)
        .await;
    assert_eq!(
        adapter.hear().await,
        json!({"type": "stop", "session_id": "abc-123"})
    );
    adapter
        .say(json!({"type": "turn.complete", "session_id": "abc-123"}))
        .await;
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "turn.complete", "session_id": "abc-123"})
    );

    world
        .hub
        .write(r#"{"type":"session.close","session_id":"abc-123"}"#)
        .await;
    assert_eq!(
        adapter.hear().await,
        json!({"type": "session.close", "session_id": "abc-123"})
    );
    drop(adapter);
    assert_eq!(world.end().await.counters.messages, 6);
}

#[tokio::test(start_paused = true)]
async fn a_core_only_hub_never_hears_more_than_the_four_types() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "go").await;
    let turn = adapter.turn().await;
    let of_turn = |kind: &str| json!({"type": kind, "session_id": "s", "turn_id": turn});
    let with = |kind: &str, more: serde_json::Value| {
        let mut message = of_turn(kind);
        message
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        message
    };
    for message in [
        with("thinking", json!({"content": "hm"})),
        with("message", json!({"role": "assistant", "content": "x"})),
        with("tool.start", json!({"tool_call_id": "c", "tool": "Bash"})),
        with("tool.update", json!({"tool_call_id": "c", "content": "x"})),
        with("tool.end", json!({"tool_call_id": "c"})),
        with("plan", json!({"entries": []})),
        with("progress", json!({"message": "x"})),
        with("log", json!({"content": "x"})),
        with("custom", json!({"name": "x"})),
        with("usage", json!({"input_tokens": 1})),
        with("context.usage", json!({"used_tokens": 1})),
        with("compaction", json!({"trigger": "auto"})),
        with("rate_limit", json!({"window": "x"})),
        with("session.info", json!({"model": "m"})),
        with("working", json!({})),
        with(
            "error",
            json!({"category": "overloaded", "message": "busy", "fatal": false}),
        ),
        with(
            "output",
            json!({"content": "answer", "message_id": "m", "_meta": {"a": 1}}),
        ),
        with(
            "turn.complete",
            json!({"status": "failed", "error": {"message": "broken"}, "usage": {}}),
        ),
    ] {
        adapter.say(message).await;
    }
    let output = |channel: &str, content: &str| json!({"type": "output", "session_id": "s", "channel": channel, "content": content});
    assert_eq!(world.hub.hear().await, output("system", "busy"));
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "output", "session_id": "s", "content": "answer"})
    );
    assert_eq!(world.hub.hear().await, output("system", "broken"));
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "turn.complete", "session_id": "s"})
    );
    world.hub.hears_nothing().await;
}
