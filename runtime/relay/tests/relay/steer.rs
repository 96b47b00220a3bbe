//! Additions to the running turn ([turn.10], [relay.8]).

use serde_json::{Value, json};

use crate::{adapter::Adapter, hub::ALL, world::World};

fn steer(id: &str) -> Value {
    json!({"type": "user.input", "session_id": "s", "turn_id": "a", "mode": "steer", "message_id": id, "content": "more"})
}

/// Takes the session that the hub has begun, with an agent that can be steered.
async fn ready_to_steer(world: &mut World) -> Adapter {
    let mut adapter = world.adapters.next().await;
    adapter.expect("session.start").await;
    let ready = json!({"type": "session.ready", "session_id": "s", "protocol": 1, "extensions": ALL,
        "input_modes": ["steer"]});
    adapter.say(ready).await;
    adapter
}

#[tokio::test(start_paused = true)]
async fn a_steer_has_one_result_and_no_end() {
    let mut world = World::new();
    world.hub.start("s").await;
    let mut adapter = ready_to_steer(&mut world).await;
    assert_eq!(
        world.hub.expect("session.info").await["input_modes"],
        json!(["queue", "steer"])
    );

    world.hub.say(steer("m0")).await;
    let result = world.hub.expect("steer.result").await;
    assert_eq!(
        (&result["message_id"], &result["delivered"]),
        (&json!("m0"), &json!(false)),
        "no turn runs"
    );
    assert!(
        result.get("turn_id").is_none(),
        "the steer's own names no turn"
    );

    world.hub.input("s", "a", "go").await;
    let turn = adapter.turn().await;
    world.hub.say(steer("m1")).await;
    let input = adapter.expect("user.input").await;
    assert_eq!(
        (&input["mode"], &input["message_id"]),
        (&json!("steer"), &json!("m1"))
    );
    assert_ne!(
        input["turn_id"],
        json!(turn),
        "a steer has no turn of its own, and none of another's"
    );
    adapter
        .say(json!({"type": "steer.result", "session_id": "s", "turn_id": turn, "message_id": "m1", "delivered": true}))
        .await;
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "steer.result", "session_id": "s", "turn_id": "a", "message_id": "m1", "delivered": true})
    );

    world.hub.say(steer("m2")).await;
    adapter.expect("user.input").await;
    adapter
        .say(json!({"type": "steer.result", "session_id": "s", "message_id": "m2", "delivered": false, "reason": "no"}))
        .await;
    let result = world.hub.expect("steer.result").await;
    assert_eq!(result["delivered"], false);
    assert!(result["reason"].as_str().unwrap().contains("no"));

    // The turn ends first: the result reports it, once.
    world.hub.say(steer("m3")).await;
    adapter.expect("user.input").await;
    adapter.complete("s", &turn).await;
    let mut heard = [world.hub.hear().await, world.hub.hear().await];
    heard.sort_by_key(|message| message["type"].to_string());
    assert_eq!(
        (&heard[0]["type"], &heard[0]["delivered"]),
        (&json!("steer.result"), &json!(false))
    );
    assert_eq!(heard[1]["type"], "turn.complete");
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_steered_is_answered_for() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "go").await;
    adapter.turn().await;
    world.hub.say(steer("m")).await;
    assert_eq!(world.hub.expect("steer.result").await["delivered"], false);
    adapter.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_mode_of_a_hub_without_turns_means_nothing() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.say(steer("m")).await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    world.hub.expect("turn.complete").await;
}

#[tokio::test(start_paused = true)]
async fn what_the_host_has_not_answered_is_answered_at_the_end_of_the_session() {
    // Without `control` the hub gets the end as text, so each of its requests needs its own answer.
    let mut world = World::new();
    world
        .hub
        .start_with("s", &["turns", "options"], json!({}))
        .await;
    let mut adapter = ready_to_steer(&mut world).await;
    world.hub.expect("session.info").await;
    world.hub.input("s", "a", "go").await;
    adapter.turn().await;
    world.hub.say(steer("m")).await;
    adapter.expect("user.input").await;
    world
        .hub
        .say(json!({"type": "session.update", "session_id": "s", "model": "x"}))
        .await;
    adapter.expect("session.update").await;
    adapter
        .say(json!({"type": "session.closed", "session_id": "s", "reason": "finished"}))
        .await;
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(world.hub.hear().await["type"].as_str().unwrap().to_owned());
    }
    heard.sort();
    assert_eq!(
        heard,
        ["output", "session.info", "steer.result", "turn.complete"]
    );
    world
        .hub
        .say(json!({"type": "session.update", "session_id": "s", "model": "x"}))
        .await;
    world.hub.expect("session.info").await;
    world.hub.say(steer("m")).await;
    assert_eq!(world.hub.expect("steer.result").await["delivered"], false);
    world.hub.hears_nothing().await;
}
