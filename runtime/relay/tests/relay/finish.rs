//! The end of a relay ([relay.9]).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_relay::{RelayEnd, RelayOptions, serve};

use crate::{
    adapter::{Adapter, Adapters},
    hub::Hub,
    world::World,
};

const AT_MOST: Duration = Duration::from_secs(4);

fn assert_stopped(end: &Value, turn: &str, delivered: &str) {
    assert_eq!(
        (
            &end["type"],
            &end["turn_id"],
            &end["status"],
            &end["stop_reason"],
            &end["delivered"]
        ),
        (
            &json!("turn.complete"),
            &json!(turn),
            &json!("stopped"),
            &json!("shutdown"),
            &json!(delivered)
        ),
        "{end}"
    );
}

/// Reads to the end of the input and returns the types of all messages.
async fn obedient(mut adapter: Adapter) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(message) = adapter.hear_or_end().await {
        heard.push(message["type"].as_str().unwrap().to_owned());
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_in_mid_turn_ends_each_turn_once() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.start("idle").await;
    adapter.ready().await;
    for turn in ["a", "b"] {
        world.hub.input("s", turn, turn).await;
    }
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "half").await;
    world.hub.expect("output").await;
    let begun = Instant::now();
    let below = tokio::spawn(obedient(adapter));
    world.hub.hang_up().await;
    let rest = world.hub.rest().await;
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_stopped(&rest[0], "a", "yes");
    assert_stopped(&rest[1], "b", "no");
    assert_eq!(world.relay.await.unwrap().ended, RelayEnd::EndOfInput);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "an obedient adapter keeps no one waiting: {:?}",
        begun.elapsed()
    );
    assert_eq!(below.await.unwrap(), ["session.close", "session.close"]);
}

#[tokio::test(start_paused = true)]
async fn a_core_only_hub_reads_its_ends_too() {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    for _ in 0..3 {
        world.hub.input_core("s", "go").await;
    }
    adapter.turn().await;
    world.hub.hang_up().await;
    let end = json!({"type": "turn.complete", "session_id": "s"});
    assert_eq!(world.hub.rest().await, [end.clone(), end.clone(), end]);
    world.relay.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_does_not_end_is_ended_in_time() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "go").await;
    adapter.turn().await;
    let begun = Instant::now();
    world.stop.take().unwrap().send(()).unwrap();
    assert_stopped(&world.hub.hear().await, "t", "unknown");
    assert!(begun.elapsed() < Duration::from_secs(1));
    let report = world.relay.await.unwrap();
    assert_eq!(report.ended, RelayEnd::Stopped);
    assert!(begun.elapsed() <= AT_MOST, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_reads_nothing_does_not_delay_the_end() {
    let mut world = World::made(|agent| agent, |host| host, 1024);
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    let filling = "x".repeat(10_000);
    for _ in 0..100 {
        adapter.output("s", &turn, &filling).await;
    }
    let begun = Instant::now();
    world.hub.hang_up().await;
    let report = world.relay.await.unwrap();
    assert_eq!(report.ended, RelayEnd::EndOfInput);
    assert!(begun.elapsed() <= AT_MOST, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_for_the_hub_is_written_before_the_end() {
    let mut world = World::made(|agent| agent, |host| host, 1024);
    let mut adapter = world.open("s").await;
    world
        .hub
        .say(json!({"type": "flow.pause", "session_id": "s"}))
        .await;
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    adapter.expect("flow.pause").await;
    for line in 0..200 {
        adapter.output("s", &turn, &format!("{line}")).await;
    }
    adapter.complete("s", &turn).await;
    adapter.expect("flow.resume").await;
    world.hub.input("s", "u", "go").await;
    adapter.turn().await;
    world.hub.hang_up().await;
    for line in 0..200 {
        assert_eq!(
            world.hub.expect("output").await["content"],
            line.to_string()
        );
    }
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["turn_id"], &end["status"]),
        (&json!("t"), &json!("completed"))
    );
    assert_stopped(&world.hub.hear().await, "u", "unknown");
    assert_eq!(world.hub.hear_or_end().await, None);
    world.relay.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_broken_output_ends_the_relay() {
    let (mut adapters, connect) = Adapters::new();
    let host = Host::builder()
        .agent_over(AgentConfig::external("scripted", "none"), connect)
        .build()
        .unwrap();
    let (above, below) = tokio::io::duplex(64 * 1024);
    let (output, pipe) = tokio::io::duplex(64 * 1024);
    let relay = tokio::spawn(serve(host, below, pipe, RelayOptions::default()));
    let mut hub = Hub::new(above);
    hub.start_core("s").await;
    let mut adapter = adapters.next().await;
    adapter.ready().await;
    let begun = Instant::now();
    drop(output);
    adapter
        .say(json!({"type": "output", "session_id": "s", "content": "anyone there?"}))
        .await;
    let below = tokio::spawn(obedient(adapter));
    assert_eq!(relay.await.unwrap().ended, RelayEnd::BrokenOutput);
    assert!(begun.elapsed() <= AT_MOST, "{:?}", begun.elapsed());
    assert_eq!(below.await.unwrap(), ["session.close"]);
}

#[tokio::test]
async fn a_process_that_ignores_every_step_is_killed_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 0.1; done",
        pid.display()
    );
    let agent = AgentConfig::external("sh", Command::new("sh").arg("-c").arg(script));
    let mut world = World::made(
        |agent| agent,
        |host| host.agent(agent).default_agent("sh"),
        64 * 1024,
    );
    world.hub.start("s").await;
    world.hub.input("s", "t", "go").await;
    let child = loop {
        match std::fs::read_to_string(&pid) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    };
    let begun = Instant::now();
    world.hub.hang_up().await;
    let rest = world.hub.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    // The input may or may not have been written by then.
    assert_stopped(&rest[0], "t", rest[0]["delivered"].as_str().unwrap());
    assert_eq!(world.relay.await.unwrap().ended, RelayEnd::EndOfInput);
    let took = begun.elapsed();
    assert!(took <= AT_MOST, "{took:?}");
    assert!(
        !std::path::Path::new(&format!("/proc/{child}")).exists(),
        "the process is gone and reaped"
    );
}
