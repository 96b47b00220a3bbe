//! Sessions share the pipe to a slow hub by bytes ([relay.6]).

use std::{collections::HashMap, time::Duration};

use serde_json::json;
use trunkline_host::config::{AgentConfig, Config};

use crate::{
    adapter::{Adapter, Adapters},
    world::World,
};

/// Maximum of bytes in transit at any moment: a batch, the pipe, a turn's quantum, the queue of a
/// session.
const ON_THE_WAY: usize = 512 * 1024;

/// Floods a turn with messages of one size until the given number of bytes is sent.
async fn flood(adapter: &mut Adapter, id: &str, message: usize, bytes: usize) {
    let turn = adapter.turn().await;
    let filling = "x".repeat(message);
    for _ in 0..bytes / message {
        adapter.output(id, &turn, &filling).await;
    }
    adapter.complete(id, &turn).await;
}

#[tokio::test(start_paused = true)]
async fn two_floods_share_the_pipe_by_bytes() {
    let (mut others, connect) = Adapters::new();
    let other = AgentConfig::external("other", "none");
    let bytes = 8 << 20;
    // No spool: its thread runs outside the runtime, and its speed would decide how the sessions
    // share the pipe.
    let mut unspooled = Config::default();
    unspooled.buffers.mailbox = 4 * bytes;
    let mut world = World::made(
        |agent| agent,
        |host| host.config(unspooled).agent_over(other, connect),
        64 * 1024,
    );
    let mut small = world.open("small").await;
    world
        .hub
        .start_with("large", &crate::hub::ALL, json!({"agent_id": "other"}))
        .await;
    let mut large = others.next().await;
    large.ready().await;
    world.hub.input("small", "t", "go").await;
    world.hub.input("large", "t", "go").await;
    tokio::join!(
        flood(&mut small, "small", 300, bytes),
        flood(&mut large, "large", 150_000, bytes)
    );

    let mut got: HashMap<String, usize> = HashMap::new();
    let mut since_rest = 0;
    while got.values().sum::<usize>() < bytes {
        let output = world.hub.expect("output").await;
        let bytes = output.to_string().len();
        *got.entry(output["session_id"].as_str().unwrap().to_owned())
            .or_default() += bytes;
        since_rest += bytes;
        if since_rest > 64 * 1024 {
            // Time passes only when nothing else can run: the pipe, which they share, is full
            // again.
            since_rest = 0;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    let one = got["small"];
    let two = got["large"];
    assert!(
        one.abs_diff(two) < ON_THE_WAY / 4,
        "small: {one} bytes, large: {two} bytes"
    );
}

#[tokio::test]
async fn an_answer_passes_a_flood_within_a_bound_of_bytes() {
    let (mut others, connect) = Adapters::new();
    let other = AgentConfig::external("other", "none");
    let mut world = World::made(
        |agent| agent,
        |host| host.agent_over(other, connect),
        64 * 1024,
    );
    let mut quick = world.open("quick").await;
    world
        .hub
        .start_with("flood", &crate::hub::ALL, json!({"agent_id": "other"}))
        .await;
    let mut flooding = others.next().await;
    flooding.ready().await;
    world.hub.input("flood", "t", "go").await;
    flood(&mut flooding, "flood", 2000, 16 << 20).await;
    for round in 0..8 {
        let name = format!("t{round}");
        world.hub.input("quick", &name, "hello").await;
        let turn = quick.turn().await;
        quick.complete("quick", &turn).await;
        let mut passed = 0;
        loop {
            let message = world.hub.hear().await;
            if message["session_id"] == "quick" {
                assert_eq!(message["turn_id"], name.as_str());
                break;
            }
            passed += message.to_string().len();
        }
        assert!(
            passed < ON_THE_WAY,
            "{passed} bytes of the flood came before the answer"
        );
        world
            .hub
            .say(json!({"type": "ping", "session_id": "", "nonce": round}))
            .await;
        let mut passed = 0;
        loop {
            let message = world.hub.hear().await;
            if message["type"] == "pong" {
                break;
            }
            passed += message.to_string().len();
        }
        assert!(
            passed < ON_THE_WAY,
            "{passed} bytes of the flood came before the pong"
        );
    }
}
