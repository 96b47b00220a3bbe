//! Sessions that the hub holds back ([flow.*], [relay.5]).

use serde_json::{Value, json};

use crate::world::World;

const LINES: usize = 4000;
const LINE: usize = 1000;

fn flow(what: &str) -> Value {
    json!({"type": what, "session_id": "s"})
}

#[tokio::test]
async fn a_paused_session_waits_on_disk_in_order_while_others_go_on() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.start("other").await;
    adapter.ready().await;
    world.hub.say(flow("flow.pause")).await;
    world.hub.say(flow("flow.pause")).await;
    world.hub.input("s", "t", "flood").await;
    let turn = adapter.turn().await;
    // The pause is passed on. Messages that an adapter sends anyway wait here.
    adapter.expect("flow.pause").await;
    let filling = "x".repeat(LINE);
    for line in 0..LINES {
        adapter
            .output("s", &turn, &format!("{line:06}{filling}"))
            .await;
    }
    adapter.complete("s", &turn).await;
    adapter.expect("flow.resume").await;
    // The pause lasts over turns.
    world.hub.input("s", "u", "more").await;
    let turn = adapter.turn().await;
    adapter.expect("flow.pause").await;
    adapter.output("s", &turn, "second").await;
    adapter.complete("s", &turn).await;
    adapter.expect("flow.resume").await;
    for round in 0..20 {
        let name = format!("o{round}");
        world.hub.input("other", &name, "hello").await;
        let turn = adapter.turn().await;
        adapter.output("other", &turn, "hello").await;
        adapter.complete("other", &turn).await;
        assert_eq!(world.hub.expect("output").await["session_id"], "other");
        assert_eq!(
            world.hub.expect("turn.complete").await["turn_id"],
            name.as_str()
        );
    }
    world.hub.say(flow("flow.resume")).await;
    for line in 0..LINES {
        let output = world.hub.expect("output").await;
        assert_eq!(output["turn_id"], "t");
        assert_eq!(
            output["content"].as_str().unwrap()[..6],
            format!("{line:06}")
        );
    }
    assert_eq!(world.hub.expect("turn.complete").await["turn_id"], "t");
    assert_eq!(world.hub.expect("output").await["content"], "second");
    assert_eq!(world.hub.expect("turn.complete").await["turn_id"], "u");
}

#[tokio::test(start_paused = true)]
async fn a_stop_works_while_the_session_is_paused() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    world.hub.say(flow("flow.pause")).await;
    adapter.expect("flow.pause").await;
    world
        .hub
        .say(json!({"type": "stop", "session_id": "s", "turn_id": "t"}))
        .await;
    // The end of a stopped turn is not held back.
    adapter.expect("flow.resume").await;
    adapter.expect("stop").await;
    adapter.output("s", &turn, "bye").await;
    adapter
        .say(json!({"type": "turn.complete", "session_id": "s", "turn_id": turn, "status": "stopped"}))
        .await;
    adapter
        .say(
            json!({"type": "permission.request", "session_id": "s", "request_id": "r", "tool": "T",
            "description": "d", "resource": "r"}),
        )
        .await;
    world.hub.hears_nothing().await;
    world.hub.say(flow("flow.resume")).await;
    world.hub.expect("output").await;
    assert_eq!(world.hub.expect("turn.complete").await["status"], "stopped");
    world.hub.expect("permission.request").await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_session_is_closed_without_a_word() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    world.hub.say(flow("flow.pause")).await;
    world
        .hub
        .say(json!({"type": "ping", "session_id": ""}))
        .await;
    world.hub.expect("pong").await;
    adapter.output("s", &turn, "held back").await;
    adapter.expect("flow.pause").await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    adapter.expect("session.close").await;
    world.hub.hears_nothing().await;
    world.hub.start("s").await;
    adapter.ready().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_paused_session_waits_for_the_resume() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.say(flow("flow.pause")).await;
    world
        .hub
        .say(json!({"type": "ping", "session_id": ""}))
        .await;
    world.hub.expect("pong").await;
    adapter
        .say(json!({"type": "session.closed", "session_id": "s", "reason": "finished"}))
        .await;
    world.hub.hears_nothing().await;
    world.hub.say(flow("flow.resume")).await;
    assert_eq!(
        world.hub.expect("session.closed").await["reason"],
        "finished"
    );
}

#[tokio::test(start_paused = true)]
async fn the_inactivity_deadline_rests_while_a_session_is_paused() {
    let mut world = World::with(|mut agent| {
        agent.timeouts.inactivity = Some(std::time::Duration::from_secs(3));
        agent
    });
    let mut adapter = world.open("s").await;
    world.hub.say(flow("flow.pause")).await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    adapter.expect("flow.pause").await;
    for _ in 0..3 {
        adapter.hears_nothing().await;
    }
    world.hub.say(flow("flow.resume")).await;
    adapter.expect("flow.resume").await;
    assert_eq!(adapter.expect("stop").await["reason"], "timeout");
    adapter.complete("s", &turn).await;
    assert_eq!(
        world.hub.expect("turn.complete").await["error"]["category"],
        "timeout"
    );
}

#[tokio::test]
async fn what_a_slow_hub_does_not_read_waits_on_disk() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "flood").await;
    let turn = adapter.turn().await;
    let filling = "x".repeat(LINE);
    for _ in 0..LINES {
        adapter.output("s", &turn, &filling).await;
    }
    adapter.complete("s", &turn).await;
    let spooled = || world.host.agent("scripted").unwrap().counters.spooled_bytes;
    let begun = std::time::Instant::now();
    while spooled() < 2 << 20 {
        assert!(
            begun.elapsed() < crate::hub::SOON,
            "only {} bytes are on disk",
            spooled()
        );
        tokio::task::yield_now().await;
    }
    for _ in 0..LINES {
        world.hub.expect("output").await;
    }
    world.hub.expect("turn.complete").await;
}
