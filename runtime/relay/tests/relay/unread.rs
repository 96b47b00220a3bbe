//! A hub that does not read: each of its messages has its answer anyway, and memory is bounded
//! ([turn.1], [relay.6]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    adapter::Adapter,
    hub::{ALL, Hub, Lines},
    world::World,
};

/// Number of inputs that is "very many". `TRUNKLINE_MANY=1000000` selects the long form, which also
/// checks memory.
fn many() -> usize {
    std::env::var("TRUNKLINE_MANY").map_or(20_000, |many| many.parse().unwrap())
}

/// Upper bound of the inputs, as in the tests below, that the relay accepts from a hub that reads
/// no answer.
const UNREAD: usize = 12_000;

/// Returns the memory of this process, in bytes; checked in the long form only, which runs by
/// itself.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn assert_flat(before: usize) {
    let grown = memory().saturating_sub(before);
    assert!(
        many() < 1_000_000 || grown < 32 << 20,
        "memory has grown by {grown} bytes"
    );
}

/// Writes `many` lines while the test continues. Returns the number that the relay has read, give
/// or take what the pipe holds.
fn write_all(
    mut input: Lines,
    many: usize,
    line: impl Fn(usize) -> Value + Send + 'static,
) -> (Arc<AtomicUsize>, tokio::task::JoinHandle<Lines>) {
    let written = Arc::new(AtomicUsize::new(0));
    let writing = tokio::spawn({
        let written = written.clone();
        async move {
            for number in 0..many {
                input.write(&line(number).to_string()).await;
                written.fetch_add(1, Ordering::Relaxed);
            }
            input
        }
    });
    (written, writing)
}

/// Waits until nothing moves: time passes only then.
async fn all_is_still() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Exceeds the limit of a session's waiting bytes: the line that is written, and 1 MiB.
async fn fill(adapter: &mut Adapter, turn: &str) {
    adapter.output("s", turn, &"x".repeat(2 << 20)).await;
    all_is_still().await;
}

async fn drain(hub: &mut Hub) {
    // In lines of 1 MiB at most: this hub has not announced that it reads longer ones.
    let mut bytes = 0;
    while bytes < 2 << 20 {
        bytes += hub.expect("output").await["content"]
            .as_str()
            .unwrap()
            .len();
    }
    assert_eq!(bytes, 2 << 20);
}

/// Completes each further turn of the session `s`, to the end of the adapter.
async fn complete_each(mut adapter: Adapter) {
    while let Some(input) = adapter.hear_or_end().await {
        if input["type"] == "user.input" {
            let turn = input["turn_id"].as_str().unwrap();
            adapter.complete("s", turn).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_is_refused_with_an_end_while_its_session_waits_and_a_stop_ends_the_turn_that_runs()
 {
    for core_only in [false, true] {
        let mut world = World::new();
        let mut adapter = if core_only {
            world.open_core("s").await
        } else {
            world.open("s").await
        };
        world.hub.input("s", "a", "one").await;
        let first = adapter.turn().await;
        fill(&mut adapter, &first).await;
        for turn in ["b", "c", "d"] {
            world.hub.input("s", turn, turn).await;
        }
        all_is_still().await;
        drain(&mut world.hub).await;
        adapter.complete("s", &first).await;
        let mut ends = Vec::new();
        for _ in 0..4 {
            ends.push(world.hub.until("turn.complete").await);
        }
        if !core_only {
            ends.sort_by_key(|end| end["turn_id"].to_string());
            assert_eq!(
                (&ends[0]["turn_id"], &ends[0]["status"]),
                (&json!("a"), &json!("completed"))
            );
            for (end, turn) in ends[1..].iter().zip(["b", "c", "d"]) {
                assert_eq!(
                    (&end["turn_id"], &end["status"]),
                    (&json!(turn), &json!("failed"))
                );
                assert_eq!(
                    (&end["error"]["category"], &end["delivered"]),
                    (&json!("busy"), &json!("no"))
                );
            }
        }
        // Nothing else is open: the stop means the turn that runs.
        world.hub.input("s", "e", "five").await;
        let fifth = adapter.turn().await;
        world
            .hub
            .say(json!({"type": "stop", "session_id": "s"}))
            .await;
        assert_eq!(adapter.expect("stop").await["turn_id"], json!(fifth));
        adapter.complete("s", &fifth).await;
        world.hub.expect("turn.complete").await;
        world.hub.hears_nothing().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_very_many_unread_inputs_has_one_end() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t0", "first").await;
    let first = adapter.turn().await;
    let before = memory();
    let many = many();
    let (written, writing) = write_all(world.hub.lend_input(), many - 1, |number| {
        let turn = format!("t{}", number + 1);
        json!({"type": "user.input", "session_id": "s", "turn_id": turn, "content": "more"})
    });
    all_is_still().await;
    let taken = written.load(Ordering::Relaxed);
    assert!(
        taken < UNREAD,
        "{taken} inputs were taken of a hub that reads no end"
    );
    assert_flat(before);

    // Now the hub reads. Accepted inputs are served when the first turn ends.
    let mut ends = vec![0_u8; many];
    let mut left = many;
    let mut one = async |hub: &mut Hub| {
        let end = hub.expect("turn.complete").await;
        let turn: usize = end["turn_id"].as_str().unwrap()[1..].parse().unwrap();
        ends[turn] += 1;
        left -= 1;
        (end["error"]["category"] == "busy", left)
    };
    while one(&mut world.hub).await.1 > 65 {}
    adapter.complete("s", &first).await;
    let below = tokio::spawn(complete_each(adapter));
    while one(&mut world.hub).await.1 > 0 {}
    assert!(
        ends.iter().all(|ends| *ends == 1),
        "an input has not exactly one end"
    );
    assert_flat(before);
    world.hub.hears_nothing().await;
    world.hub.return_input(writing.await.unwrap());
    assert_eq!(world.end().await.counters.unanswered, 0);
    below.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn very_many_refused_inputs_of_a_core_only_hub_wait_for_their_order_without_room_and_a_stop_passes_them()
 {
    let mut world = World::new();
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "first").await;
    let first = adapter.turn().await;
    let before = memory();
    let many = many();
    let (written, writing) = write_all(
        world.hub.lend_input(),
        many - 1,
        |_| json!({"type": "user.input", "session_id": "s", "content": "more"}),
    );
    all_is_still().await;
    // Their ends come after the end of the first turn, so nothing waits for the hub.
    assert_eq!(written.load(Ordering::Relaxed), many - 1);
    world.hub.return_input(writing.await.unwrap());
    world
        .hub
        .say(json!({"type": "stop", "session_id": "s"}))
        .await;
    assert_eq!(adapter.expect("stop").await["turn_id"], json!(first));
    adapter.complete("s", &first).await;
    let below = tokio::spawn(complete_each(adapter));
    all_is_still().await;
    assert_flat(before);
    let mut texts = 0;
    for _ in 0..many {
        while world.hub.hear().await["type"] != "turn.complete" {
            texts += 1;
        }
    }
    // The first turn and the 64 that waited were served; the others were refused, as text.
    assert_eq!(texts, many - 65);
    assert_flat(before);
    world.hub.hears_nothing().await;
    world.end().await;
    below.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_input_for_a_session_that_has_ended_is_answered_also_unread() {
    let mut world = World::new();
    world
        .hub
        .start_with("s", &["turns"], json!({"agent_id": "unknown"}))
        .await;
    world.hub.expect("output").await;
    let many = many();
    let (written, writing) = write_all(
        world.hub.lend_input(),
        many,
        |number| json!({"type": "user.input", "session_id": "s", "turn_id": format!("t{number}"), "content": "hello"}),
    );
    all_is_still().await;
    assert!(written.load(Ordering::Relaxed) < UNREAD);
    for number in 0..many {
        world.hub.expect("output").await;
        assert_eq!(
            world.hub.expect("turn.complete").await["turn_id"],
            format!("t{number}")
        );
    }
    world.hub.hears_nothing().await;
    world.hub.return_input(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn steers_updates_and_files_are_answered_also_while_their_session_waits() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    let first = adapter.turn().await;
    fill(&mut adapter, &first).await;
    let rounds = 100;
    for round in 0..rounds {
        let id = format!("m{round}");
        world
            .hub
            .say(json!({"type": "user.input", "session_id": "s", "mode": "steer", "message_id": id, "content": "x"}))
            .await;
        // The relay answers an update that would widen the configuration with an error and the
        // values in force.
        world
            .hub
            .say(json!({"type": "session.update", "session_id": "s", "permission_mode": "bypass"}))
            .await;
    }
    world
        .hub
        .say(json!({"type": "file.input", "session_id": "s", "file_path": "/not/there"}))
        .await;
    all_is_still().await;
    drain(&mut world.hub).await;
    let mut heard = std::collections::HashMap::new();
    for _ in 0..3 * rounds + 1 {
        *heard
            .entry(world.hub.hear().await["type"].as_str().unwrap().to_owned())
            .or_insert(0) += 1;
    }
    assert_eq!(
        (heard["steer.result"], heard["session.info"], heard["error"]),
        (rounds, rounds, rounds + 1)
    );
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_rather_than_hold_back_many_answers() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world
        .hub
        .say(json!({"type": "flow.pause", "session_id": "s"}))
        .await;
    world.hub.input("s", "t0", "first").await;
    let first = adapter.turn().await;
    adapter.output("s", &first, "held back").await;
    let many = many();
    let (_, writing) = write_all(world.hub.lend_input(), many - 1, |number| {
        let turn = format!("t{}", number + 1);
        json!({"type": "user.input", "session_id": "s", "turn_id": turn, "content": "more"})
    });
    // No message of the hub could release anything, since the relay accepts none: the hub only has
    // to read.
    let mut outputs = 0;
    for _ in 0..many - 65 {
        while world.hub.hear().await["type"] != "turn.complete" {
            outputs += 1;
        }
    }
    assert_eq!(outputs, 1);
    world.hub.return_input(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn every_ping_is_answered_however_long_its_nonce_and_however_many_are_unread() {
    let mut world = World::new();
    for length in [300_000, 3_000_000] {
        let nonce = "n".repeat(length);
        world
            .hub
            .say(json!({"type": "ping", "session_id": "", "nonce": nonce}))
            .await;
        assert_eq!(world.hub.expect("pong").await["nonce"], nonce.as_str());
    }
    let many = many();
    let (written, writing) = write_all(
        world.hub.lend_input(),
        many,
        |number| json!({"type": "ping", "session_id": "", "nonce": [number, "x".repeat(100)]}),
    );
    all_is_still().await;
    assert!(written.load(Ordering::Relaxed) < UNREAD);
    for number in 0..many {
        assert_eq!(world.hub.expect("pong").await["nonce"][0], number);
    }
    world.hub.return_input(writing.await.unwrap());
}

/// Answers a `session.start` with models of the given number of bytes.
async fn ready_with_models(adapter: &mut Adapter, bytes: usize) {
    let models: Vec<_> = (0..bytes / 100)
        .map(|number| json!({"id": format!("{number:0100}")}))
        .collect();
    let start = adapter.expect("session.start").await;
    let id = &start["session_id"];
    adapter
        .say(json!({"type": "session.ready", "session_id": id, "protocol": 1, "extensions": ALL, "models": models}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn agents_are_listed_however_many_models_they_have_within_a_line_that_any_hub_reads() {
    use trunkline_host::config::AgentConfig;

    use crate::adapter::Adapters;

    let (mut second, connect_second) = Adapters::new();
    let (mut third, connect_third) = Adapters::new();
    let more = |host: trunkline_host::HostBuilder| {
        host.agent_over(AgentConfig::external("second", "none"), connect_second)
            .agent_over(AgentConfig::external("third", "none"), connect_third)
    };
    let mut world = World::made(|agent| agent, more, 64 * 1024);
    let mut kept = Vec::new();
    for (agent, bytes) in [
        ("scripted", 400_000),
        ("second", 600_000),
        ("third", 500_000),
    ] {
        world
            .hub
            .start_with(agent, &ALL, json!({"agent_id": agent}))
            .await;
        let mut adapter = match agent {
            "scripted" => world.adapters.next().await,
            "second" => second.next().await,
            _ => third.next().await,
        };
        ready_with_models(&mut adapter, bytes).await;
        world.hub.expect("session.info").await;
        kept.push(adapter);
        world
            .hub
            .say(json!({"type": "agents.list", "session_id": "", "request_id": agent}))
            .await;
        let list = world.hub.expect("agents.list.result").await;
        assert_eq!(list["request_id"], agent);
        let models = |at: usize| list["agents"][at]["models"].as_array().map(Vec::len);
        assert_eq!(list["agents"].as_array().unwrap().len(), 3);
        assert!(list.to_string().len() <= 1 << 20);
        // The longest is left out if all are too long for one line.
        match agent {
            "scripted" => assert_eq!((models(0), models(1), models(2)), (Some(4000), None, None)),
            "second" => assert_eq!((models(0), models(1), models(2)), (Some(4000), None, None)),
            _ => assert_eq!(
                (models(0), models(1), models(2)),
                (Some(4000), None, Some(5000))
            ),
        }
    }
}
