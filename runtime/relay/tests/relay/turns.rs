//! Turns: their ids, their order, their stop ([turn.*], [relay.8]).

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

fn stop(turn: Option<&str>) -> Value {
    match turn {
        Some(turn) => {
            json!({"type": "stop", "session_id": "s", "turn_id": turn, "reason": "policy"})
        }
        None => json!({"type": "stop", "session_id": "s"}),
    }
}

#[tokio::test(start_paused = true)]
async fn everything_of_a_turn_bears_the_hubs_id() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world
        .hub
        .say(json!({"type": "user.input", "session_id": "s", "turn_id": "hub-1", "message_id": "m", "content": "hi",
            "_meta": {"k": 1}}))
        .await;
    let input = adapter.expect("user.input").await;
    assert_eq!(
        (&input["message_id"], &input["_meta"]),
        (&json!("m"), &json!({"k": 1}))
    );
    let turn = input["turn_id"].as_str().unwrap().to_owned();
    assert_ne!(turn, "hub-1");
    adapter
        .say(json!({"type": "output", "session_id": "s", "turn_id": turn, "content": "a", "_meta": {"k": 2}}))
        .await;
    adapter.say(json!({"type": "tool.start", "session_id": "s", "turn_id": turn, "tool_call_id": "c", "tool": "T"})).await;
    adapter
        .say(json!({"type": "output", "session_id": "s", "content": "outside"}))
        .await;
    adapter
        .say(json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "num_turns": 3, "stop_reason": "end",
            "usage": {"input_tokens": 5}}))
        .await;
    let output = world.hub.expect("output").await;
    assert_eq!(
        (&output["turn_id"], &output["_meta"]),
        (&json!("hub-1"), &json!({"k": 2}))
    );
    assert_eq!(world.hub.expect("tool.start").await["turn_id"], "hub-1");
    assert_eq!(world.hub.expect("output").await["turn_id"], json!(null));
    let end = world.hub.expect("tool.end").await;
    assert_eq!(
        (&end["turn_id"], &end["is_error"]),
        (&json!("hub-1"), &json!(true))
    );
    assert_eq!(
        world.hub.expect("turn.complete").await,
        json!({"type": "turn.complete", "session_id": "s", "turn_id": "hub-1", "status": "completed",
            "stop_reason": "end", "delivered": "yes", "num_turns": 3, "usage": {"input_tokens": 5}})
    );
}

#[tokio::test(start_paused = true)]
async fn what_comes_late_keeps_the_id_of_the_turn_that_has_ended() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    let first = adapter.turn().await;
    adapter.complete("s", &first).await;
    world.hub.expect("turn.complete").await;
    world.hub.input("s", "b", "two").await;
    adapter.turn().await;
    adapter.output("s", &first, "late").await;
    assert_eq!(world.hub.expect("output").await["turn_id"], "a");
}

#[tokio::test(start_paused = true)]
async fn what_comes_late_never_becomes_part_of_the_next_turn_of_a_core_only_hub() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "one").await;
    let first = adapter.turn().await;
    adapter.complete("s", &first).await;
    world.hub.expect("turn.complete").await;
    adapter.output("s", &first, "between turns").await;
    assert_eq!(world.hub.expect("output").await["content"], "between turns");
    world.hub.input_core("s", "two").await;
    let second = adapter.turn().await;
    adapter.output("s", &first, "late").await;
    adapter.output("s", &second, "two").await;
    assert_eq!(world.hub.expect("output").await["content"], "two");
    assert_eq!(world.end().await.counters.late_output, 1);
}

#[tokio::test(start_paused = true)]
async fn inputs_queue_and_are_served_in_order() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    for turn in ["a", "b", "c"] {
        world.hub.input("s", turn, turn).await;
    }
    for turn in ["a", "b", "c"] {
        let input = adapter.expect("user.input").await;
        assert_eq!(input["content"], turn);
        adapter.hears_nothing().await;
        adapter
            .complete("s", input["turn_id"].as_str().unwrap())
            .await;
        assert_eq!(world.hub.expect("turn.complete").await["turn_id"], turn);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_names_a_turn_or_means_the_running_one() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    for turn in ["a", "b", "c"] {
        world.hub.input("s", turn, turn).await;
    }
    let first = adapter.turn().await;
    world.hub.say(stop(Some("b"))).await;
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (
            &end["turn_id"],
            &end["status"],
            &end["stop_reason"],
            &end["delivered"]
        ),
        (
            &json!("b"),
            &json!("stopped"),
            &json!("policy"),
            &json!("no")
        )
    );
    world.hub.say(stop(None)).await;
    let told = adapter.expect("stop").await;
    assert_eq!(
        (&told["turn_id"], &told["reason"]),
        (&json!(first), &json!("user"))
    );
    adapter
        .say(json!({"type": "turn.complete", "session_id": "s", "turn_id": first, "status": "stopped"}))
        .await;
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["turn_id"], &end["status"]),
        (&json!("a"), &json!("stopped"))
    );
    assert_eq!(end["stop_reason"], "user");
    let third = adapter.turn().await;
    // Ended, unknown: nothing happens.
    world.hub.say(stop(Some("a"))).await;
    world.hub.say(stop(Some("unheard-of"))).await;
    adapter.hears_nothing().await;
    world.hub.say(stop(Some("c"))).await;
    assert_eq!(adapter.expect("stop").await["reason"], "policy");
    adapter.complete("s", &third).await;
    world.hub.expect("turn.complete").await;
    world.hub.say(stop(None)).await;
    adapter.hears_nothing().await;
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_crosses_the_end_stops_no_other_turn() {
    // The hub has not read the end of its turn when it stops it; the turn that runs below by then
    // continues.
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    world.hub.input("s", "b", "two").await;
    let first = adapter.turn().await;
    adapter.complete("s", &first).await;
    let second = adapter.turn().await;
    world.hub.say(stop(Some("a"))).await;
    adapter.hears_nothing().await;
    adapter.complete("s", &second).await;
    for turn in ["a", "b"] {
        let end = world.hub.expect("turn.complete").await;
        assert_eq!(
            (&end["turn_id"], &end["status"]),
            (&json!(turn), &json!("completed"))
        );
    }
}

#[tokio::test]
async fn every_input_has_one_end_however_stops_and_ends_interleave() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    let rounds = 60_u32;
    let below = tokio::spawn(async move {
        // Ends each turn soon, whether it was stopped or not.
        let mut ended = 0;
        while let Some(message) = adapter.hear_or_end().await {
            if message["type"] == "user.input" {
                let turn = message["turn_id"].as_str().unwrap();
                for _ in 0..ended % 4 {
                    tokio::task::yield_now().await;
                }
                adapter.output("s", turn, "x").await;
                adapter.complete("s", turn).await;
                ended += 1;
            }
        }
    });
    for round in 0..rounds {
        let turn = format!("t{round}");
        world.hub.input("s", &turn, "go").await;
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        world
            .hub
            .say(if round % 3 == 0 {
                stop(None)
            } else {
                stop(Some(&turn))
            })
            .await;
        if round % 2 == 0 {
            world.hub.say(stop(Some(&turn))).await;
        }
    }
    let mut ends = vec![0; rounds as usize];
    for _ in 0..rounds {
        let end = world.hub.until("turn.complete").await;
        let turn: usize = end["turn_id"].as_str().unwrap()[1..].parse().unwrap();
        ends[turn] += 1;
        assert!(
            ["completed", "stopped"].contains(&end["status"].as_str().unwrap()),
            "{end}"
        );
    }
    assert_eq!(ends, vec![1; rounds as usize]);
    world.hub.hang_up().await;
    let rest = world.hub.rest().await;
    assert!(
        rest.iter()
            .all(|message| message["type"] != "turn.complete"),
        "{rest:?}"
    );
    world.relay.await.unwrap();
    below.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_input_too_many_is_refused_as_busy() {
    let mut world = World::with(|mut agent| {
        agent.limits.queued_inputs = 1;
        agent
    });
    let mut adapter = world.open("s").await;
    for turn in ["a", "b", "c"] {
        world.hub.input("s", turn, turn).await;
        if turn == "a" {
            adapter.turn().await;
        }
    }
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (
            &end["turn_id"],
            &end["status"],
            &end["error"]["category"],
            &end["delivered"]
        ),
        (&json!("c"), &json!("failed"), &json!("busy"), &json!("no"))
    );
}

#[tokio::test(start_paused = true)]
async fn steers_and_updates_too_many_are_refused_as_busy() {
    let mut world = World::with(|mut agent| {
        agent.limits.queued_inputs = 1;
        agent
    });
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    adapter.turn().await;
    let update = |model: &str| json!({"type": "session.update", "session_id": "s", "model": model});
    world.hub.say(update("m")).await;
    adapter.expect("session.update").await;
    world.hub.say(update("n")).await;
    let error = world.hub.expect("error").await;
    assert_eq!(
        (&error["category"], &error["fatal"]),
        (&json!("busy"), &json!(false))
    );
    world.hub.expect("session.info").await;
    world
        .hub
        .say(json!({"type": "user.input", "session_id": "s", "mode": "steer", "message_id": "x", "content": "x"}))
        .await;
    let result = world.hub.expect("steer.result").await;
    assert_eq!(
        (&result["message_id"], &result["delivered"]),
        (&json!("x"), &json!(false))
    );
    assert!(
        result["reason"]
            .as_str()
            .unwrap()
            .contains("too much is waiting"),
        "{result}"
    );
    adapter
        .say(json!({"type": "session.info", "session_id": "s", "model": "m"}))
        .await;
    assert_eq!(world.hub.expect("session.info").await["model"], "m");
    world.hub.say(update("n")).await;
    adapter.expect("session.update").await;
}

#[tokio::test(start_paused = true)]
async fn a_core_only_hub_reads_the_ends_of_its_inputs_in_their_order() {
    let mut world = World::with(|mut agent| {
        agent.limits.queued_inputs = 1;
        agent
    });
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "one").await;
    let first = adapter.turn().await;
    world.hub.input_core("s", "two").await;
    world.hub.input_core("s", "three").await;
    // The third is refused, and reported after the earlier ends.
    world.hub.hears_nothing().await;
    adapter.output("s", &first, "one").await;
    adapter.complete("s", &first).await;
    assert_eq!(world.hub.expect("output").await["content"], "one");
    world.hub.expect("turn.complete").await;
    let second = adapter.turn().await;
    adapter.output("s", &second, "two").await;
    adapter.complete("s", &second).await;
    assert_eq!(world.hub.expect("output").await["content"], "two");
    world.hub.expect("turn.complete").await;
    assert_eq!(world.hub.expect("output").await["channel"], "system");
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "turn.complete", "session_id": "s"})
    );
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_closes_hears_nothing_more_of_the_session() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    let turn = adapter.turn().await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    adapter.expect("session.close").await;
    adapter.output("s", &turn, "late").await;
    adapter.complete("s", &turn).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.hub.hears_nothing().await;
}
