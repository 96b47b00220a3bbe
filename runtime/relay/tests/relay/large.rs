//! Messages that are longer than the hub reads ([frame.11]).

use serde_json::{Value, json};

use crate::{
    hub::{ALL, SOON},
    world::World,
};

const MIB: usize = 1 << 20;

async fn hear(world: &mut World, most: usize) -> Value {
    let message = tokio::time::timeout(SOON, world.hub.hear()).await.unwrap();
    assert!(
        message.to_string().len() <= most,
        "a {} of {} bytes",
        message["type"],
        message.to_string().len()
    );
    message
}

#[tokio::test]
async fn a_hub_gets_lines_that_it_reads_and_learns_what_was_cut() {
    for (max_line, most) in [(None, MIB), (Some(8 << 20), 8 << 20)] {
        let mut world = World::new();
        let ready = world
            .hub
            .start_with("s", &ALL, json!({"max_line": max_line}))
            .await;
        assert_eq!(ready["max_line"], 16 << 20);
        let mut adapter = world.adapters.next().await;
        adapter.ready().await;
        world.hub.input("s", "t", "go").await;
        let turn = adapter.turn().await;
        let long = "y".repeat(3 * MIB);
        adapter.output("s", &turn, &long).await;
        let call = json!({"session_id": "s", "turn_id": turn, "tool_call_id": "c", "tool": "T"});
        for (kind, members) in [
            ("tool.start", json!({})),
            ("tool.end", json!({"content": long})),
        ] {
            let mut message = call.clone();
            message
                .as_object_mut()
                .unwrap()
                .extend(members.as_object().unwrap().clone());
            message["type"] = kind.into();
            adapter.say(message).await;
        }
        adapter
            .say(json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "result": {"a": long}}))
            .await;
        let mut text = String::new();
        let mut cut = Vec::new();
        loop {
            let message = hear(&mut world, most).await;
            match message["type"].as_str().unwrap() {
                "output" => text.push_str(message["content"].as_str().unwrap()),
                "tool.end" => {
                    cut.push(message["truncated"] == true);
                    assert_eq!(
                        message["content"].as_str().unwrap().len() == long.len(),
                        max_line.is_some()
                    );
                }
                "turn.complete" => {
                    cut.push(message["truncated"] == true);
                    assert_eq!(message["result"].is_null(), max_line.is_none());
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(text.len(), long.len());
        assert_eq!(cut, [max_line.is_none(); 2]);
    }
}

#[tokio::test]
async fn a_core_only_hub_gets_long_output_in_lines_of_a_mebibyte() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "go").await;
    let turn = adapter.turn().await;
    let long = "\u{e9}".repeat(3 * MIB);
    adapter.output("s", &turn, &long).await;
    adapter.complete("s", &turn).await;
    let mut text = String::new();
    loop {
        let message = hear(&mut world, MIB).await;
        if message["type"] == "turn.complete" {
            break;
        }
        text.push_str(message["content"].as_str().unwrap());
    }
    assert!(text == long);
}

#[tokio::test]
async fn an_input_that_the_agent_cannot_read_ends_with_a_word_and_the_session_goes_on() {
    let mut world = World::new();
    world.hub.start("s").await;
    let mut adapter = world.adapters.next().await;
    adapter.expect("session.start").await;
    adapter
        .say(json!({"type": "session.ready", "session_id": "s", "extensions": ["turns"], "max_line": MIB}))
        .await;
    world.hub.input("s", "t", &"y".repeat(2 * MIB)).await;
    let end = loop {
        let message = world.hub.hear().await;
        if message["type"] == "turn.complete" {
            break message;
        }
    };
    assert_eq!(
        (&end["turn_id"], &end["status"], &end["delivered"]),
        (&json!("t"), &json!("failed"), &json!("no"))
    );
    assert_eq!(end["error"]["category"], "oversize");
    world.hub.input("s", "u", "short").await;
    assert_eq!(adapter.expect("user.input").await["content"], "short");
}

#[tokio::test]
async fn large_values_go_by_file_on_both_sides_of_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new();
    world
        .hub
        .start_with("s", &ALL, json!({"exchange_dir": folder.path()}))
        .await;
    let mut adapter = world.adapters.next().await;
    adapter.ready().await;
    let text = "y".repeat(2 * MIB);
    let json = serde_json::to_string(&text).unwrap();
    let member = trunkline_pipe::keep_json(folder.path(), &json).unwrap();
    world
        .hub
        .say(json!({"type": "user.input", "session_id": "s", "turn_id": "t", "content": "", "large": {"content": member}}))
        .await;
    let input = adapter.expect("user.input").await;
    // The input may wait for the agent to report its limit; this agent reports none, so the line is
    // unchanged.
    assert!(input["content"] == text.as_str());
    let turn = input["turn_id"].as_str().unwrap();
    adapter
        .say(json!({"type": "message", "session_id": "s", "turn_id": turn, "role": "assistant", "content": text}))
        .await;
    adapter.complete("s", turn).await;
    let message = loop {
        let message = hear(&mut world, MIB).await;
        if message["type"] == "message" {
            break message;
        }
    };
    assert_eq!(
        (&message["content"], &message["truncated"]),
        (&json!(""), &Value::Null)
    );
    let member = serde_json::from_value::<Value>(message["large"]["content"].clone()).unwrap();
    assert_eq!(
        std::fs::read_to_string(member["file_path"].as_str().unwrap()).unwrap(),
        json
    );
    world.hub.expect("turn.complete").await;

    let gone =
        json!({"file_path": folder.path().join("gone"), "size": 1, "sha256": member["sha256"]});
    world
        .hub
        .say(json!({"type": "user.input", "session_id": "s", "turn_id": "u", "content": "", "large": {"content": gone}}))
        .await;
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["turn_id"], &end["error"]["category"]),
        (&json!("u"), &json!("file_refused"))
    );
}

#[tokio::test(start_paused = true)]
async fn every_end_reaches_a_hub_of_the_shortest_lines() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    let long = "y\n".repeat(2 * MIB);
    for (n, (member, value)) in [
        ("native_session_id", json!(long)),
        ("model", json!(long)),
        ("provider", json!(long)),
        ("stop_reason", json!(long)),
        ("session_params", json!({"a": long})),
        ("usage", json!({"input_tokens": 7, "model": long})),
        (
            "error",
            json!({"category": "rate_limit", "message": long, "code": long}),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let hub_turn = format!("t-{n}");
        world.hub.input("s", &hub_turn, "go").await;
        let turn = adapter.turn().await;
        let mut end = json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "status": "failed"});
        end[member] = value;
        adapter.say(end).await;
        let mut end = hear(&mut world, MIB).await;
        if member == "native_session_id" || member == "session_params" {
            // The host does not store so much to resume from.
            assert_eq!(end["type"], "error");
            end = hear(&mut world, MIB).await;
        }
        assert_eq!(
            (
                &end["type"],
                &end["turn_id"],
                &end["status"],
                &end["truncated"]
            ),
            (
                &json!("turn.complete"),
                &json!(hub_turn),
                &json!("failed"),
                &json!(true)
            ),
            "{member}: {}",
            end["message"]
        );
        if member == "error" {
            assert_eq!(end["error"]["category"], "rate_limit");
            assert!(end["error"]["message"].as_str().unwrap().len() > MIB / 2);
        }
    }
    adapter
        .say(json!({"type": "session.closed", "session_id": "s", "reason": "failed", "error": {"message": long}}))
        .await;
    let closed = hear(&mut world, MIB).await;
    assert_eq!(
        (&closed["type"], &closed["reason"]),
        (&json!("session.closed"), &json!("failed"))
    );
    assert_eq!(world.end().await.counters.shortened, 8);
}

#[tokio::test(start_paused = true)]
async fn the_refusal_of_a_session_fits_whatever_it_names() {
    let mut world = World::new();
    let agent = "y".repeat(2 * MIB);
    world
        .hub
        .start_with("s", &ALL, json!({"agent_id": agent}))
        .await;
    let closed = hear(&mut world, MIB).await;
    assert_eq!(
        (&closed["type"], &closed["reason"]),
        (&json!("session.closed"), &json!("unknown_agent"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_hub_cannot_be_shown_is_settled() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    let long = "y".repeat(MIB);
    let request = json!({"type": "permission.request", "session_id": "s", "turn_id": turn, "request_id": "r",
        "tool": "T", "description": "d", "resource": long});
    adapter.say(request).await;
    let answer = adapter.expect("permission.response").await;
    assert_eq!(answer["approved"], false);
    assert_eq!(hear(&mut world, MIB).await["category"], "permission_denied");
    let question = json!({"type": "input.request", "session_id": "s", "turn_id": turn, "request_id": "q", "prompt": long});
    adapter.say(question).await;
    let answer = adapter.expect("input.response").await;
    assert_eq!(answer["cancelled"], true);
    assert_eq!(hear(&mut world, MIB).await["category"], "oversize");
    // A request that just fits is shown.
    let mut request = json!({"type": "permission.request", "session_id": "s", "turn_id": "t", "request_id": "f",
        "tool": "T", "description": "d", "resource": ""});
    let room = MIB - request.to_string().len();
    request["resource"] = "y".repeat(room).into();
    request["turn_id"] = turn.clone().into();
    adapter.say(request).await;
    let shown = hear(&mut world, MIB).await;
    assert_eq!(
        (&shown["type"], &shown["request_id"]),
        (&json!("permission.request"), &json!("f"))
    );
    assert_eq!(shown["resource"].as_str().unwrap().len(), room);
}
