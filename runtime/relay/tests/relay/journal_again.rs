//! Repeated messages in a session of the journal, and ends while nothing runs.

use serde_json::{Value, json};

use crate::{
    journal::{JOURNAL, entries_until, folder, open},
    world::World,
};

#[tokio::test]
async fn a_start_of_a_known_id_is_refused_and_no_ready_comes() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    open(&mut world, "s").await;
    let start =
        json!({"type": "session.start", "session_id": "s", "protocol": 1, "extensions": JOURNAL});
    for detach in [false, true] {
        if detach {
            world
                .hub
                .say(json!({"type": "session.detach", "session_id": "s"}))
                .await;
        }
        world.hub.say(start.clone()).await;
        let refused = loop {
            let message = world.hub.hear().await;
            assert_ne!(message["type"], "session.ready");
            if message["type"] == "session.refused" {
                break message;
            }
        };
        assert_eq!(refused["reason"], "exists");
    }
    world.kill().await;
}

#[tokio::test]
async fn an_input_sent_twice_at_once_is_answered_in_its_order_when_it_is_stored() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    open(&mut world, "s").await;
    let input =
        json!({"type": "user.input", "session_id": "s", "message_id": "m", "content": "hello"});
    world.hub.write(&format!("{input}\n{input}")).await;
    let mut results = Vec::new();
    let mut is_stored = false;
    while results.len() < 2 {
        let message = world.hub.hear().await;
        is_stored |= message["type"] == "turn.begin";
        if message["type"] == "input.result" {
            results.push(message);
        }
    }
    let duplicates: Vec<Option<&Value>> = results
        .iter()
        .map(|result| result.get("duplicate"))
        .collect();
    assert_eq!(duplicates, [None, Some(&json!(true))]);
    assert_eq!(results[0]["seq"], results[1]["seq"]);
    if !is_stored {
        world.hub.until("turn.begin").await;
    }
    world.kill().await;
}

#[tokio::test]
async fn a_steer_sent_twice_reaches_the_agent_once() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let ready = world.hub.start_with("s", &JOURNAL, json!({})).await;
    assert_eq!(ready["extensions"], json!(JOURNAL));
    let mut adapter = world.adapters.next().await;
    adapter.expect("session.start").await;
    adapter
        .say(json!({"type": "session.ready", "session_id": "s", "protocol": 1, "extensions": ["turns"],
            "input_modes": ["steer"]}))
        .await;
    world.hub.until("session.info").await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "a").await;
    entries_until(&mut world.hub, "output").await;
    let steer = json!({"type": "user.input", "session_id": "s", "mode": "steer", "message_id": "m",
        "content": "more"});
    world.hub.say(steer.clone()).await;
    let first = world.hub.until("input.result").await;
    world.hub.say(steer).await;
    let second = world.hub.until("input.result").await;
    assert_eq!(
        (first.get("duplicate"), &second["duplicate"]),
        (None, &json!(true))
    );
    assert_eq!(first["seq"], second["seq"]);
    assert_eq!(adapter.expect("user.input").await["mode"], "steer");
    world
        .hub
        .say(json!({"type": "stop", "session_id": "s"}))
        .await;
    adapter.expect("stop").await;
    world.kill().await;
}

#[tokio::test]
async fn the_end_of_a_process_is_an_entry_also_while_nothing_runs() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let mut adapter = open(&mut world, "s").await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    entries_until(&mut world.hub, "turn.complete").await;
    drop(adapter);
    assert_eq!(world.hub.until("host.fact").await["fact"], "process_ended");
    world.kill().await;
}

#[tokio::test]
async fn each_of_very_many_inputs_at_once_is_answered() {
    const MANY: usize = 3000;
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let _silent = open(&mut world, "s").await;
    let inputs = (0..MANY).map(|turn| {
        json!({"type": "user.input", "session_id": "s", "turn_id": format!("t-{turn}"), "content": "x"})
            .to_string()
    });
    let inputs = inputs.collect::<Vec<_>>().join("\n");
    let mut input = world.hub.lend_input();
    let writing = tokio::spawn(async move {
        input.write(&inputs).await;
        input
    });
    // Nothing ends the running turn, so all inputs except the waiting ones are refused.
    let mut taken = 0;
    let mut refused = 0;
    while taken + refused < MANY {
        let message = world.hub.hear().await;
        taken += usize::from(message["type"] == "input.result");
        if message["type"] == "turn.complete" {
            assert_eq!(
                (&message["delivered"], &message["error"]["category"]),
                (&json!("no"), &json!("busy"))
            );
            refused += 1;
        }
    }
    assert_eq!(taken, 64);
    world.hub.return_input(writing.await.unwrap());
    world.kill().await;
}
