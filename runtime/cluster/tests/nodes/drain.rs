//! Drained hosts: their sessions move in order, and their subscribers and seekers follow.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::timeout,
};
use trunkline_cluster::memory::Memory;
use trunkline_gateway::{HostPhase, Peers, SessionLocation};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_protocol::{AttachRefusal, SessionAttach};
use trunkline_relay::{RelayOptions, serve_hub};
use trunkline_sessions::{StreamEnd, StreamItem};

use crate::{
    id,
    machine::{Machine, TTL, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_drains_hands_its_sessions_over_and_one_with_files_stays() {
    let memory = Memory::default();
    let a = Machine::with(&memory, "a", &["disk"]).await;
    let stays = id("stays");
    let moves = id("moves");
    a.open_here(&stays).await;
    a.turn(&stays, "m", "one").await;
    let b = Machine::start(&memory, "b").await;
    until(|| a.node.hosts().len() == 2 && b.node.hosts().len() == 2).await;
    // `b` has no such storage.
    let drained = a.node.drain(TTL).await;
    assert_eq!((drained.moved, drained.stay), (0, vec!["stays".to_owned()]));
    assert_eq!(
        a.turn(&stays, "m-2", "two").await,
        "two",
        "it is served meanwhile"
    );

    until(|| b.node.hosts()[0].state == HostPhase::Draining).await;
    b.open_here(&moves).await;
    b.turn(&moves, "m", "one").await;
    let c = Machine::start(&memory, "c").await;
    until(|| b.node.hosts().len() == 3).await;
    let drained = b.node.drain(TTL).await;
    assert_eq!((drained.moved, drained.stay), (1, Vec::new()));
    assert_eq!(c.turn(&moves, "m-2", "two").await, "two");
    assert_eq!(
        b.node.locate(&moves).await,
        SessionLocation::There("c".to_owned())
    );
    // Who was on the way to it there comes again, and does not think that it was lost.
    let refused = b
        .sessions
        .attach(&moves, &SessionAttach::default())
        .await
        .err()
        .unwrap();
    assert_eq!(
        refused.reason,
        Some(AttachRefusal::Unavailable),
        "{refused:?}"
    );
    let never = b
        .sessions
        .attach(&id("never"), &SessionAttach::default())
        .await
        .err()
        .unwrap();
    assert_eq!(never.reason, Some(AttachRefusal::Unknown), "{never:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_moves_once_however_it_is_looked_for_meanwhile_and_who_listens_is_told() {
    let memory = Memory::default();
    let a = Arc::new(Machine::start(&memory, "a").await);
    let ids: Vec<_> = (0..20).map(|n| id(&format!("s-{n}"))).collect();
    let mut listeners = Vec::new();
    for id in &ids {
        a.open_here(id).await;
        a.turn(id, "m", "one").await;
        listeners.push(a.join_session(id).await);
    }
    let b = Machine::start(&memory, "b").await;
    until(|| a.node.hosts().len() == 2).await;
    let looks = ids.iter().map(|id| {
        let a = a.clone();
        let id = id.clone();
        tokio::spawn(async move {
            while a.node.locate(&id).await != SessionLocation::There("b".to_owned()) {
                tokio::task::yield_now().await;
            }
        })
    });
    let looks: Vec<_> = looks.collect();
    let drained = a.node.drain(TTL).await;
    assert_eq!(
        (drained.moved, drained.stay, drained.busy),
        (20, Vec::new(), Vec::new())
    );
    for look in looks {
        look.await.unwrap();
    }
    for mut listener in listeners {
        let mut lines = Vec::new();
        let mut heard = StreamItem::Entries;
        while heard == StreamItem::Entries {
            heard = listener.next(&mut lines).await.unwrap();
        }
        assert_eq!(heard, StreamItem::Ended(StreamEnd::Moved));
    }
    for id in &ids {
        let entries = b.entries(id).await;
        let moves = entries
            .iter()
            .filter(|entry| entry["fact"] == "moved")
            .map(|entry| &entry["message"]);
        assert_eq!(moves.collect::<Vec<_>>(), ["b"], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_hears_last_of_a_session_that_moves_that_it_is_to_attach_again() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m", "one").await;
    let b = Machine::start(&memory, "b").await;
    until(|| a.node.hosts().len() == 2).await;
    let (hub, pipe) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(pipe);
    let (heard, mut says) = tokio::io::split(hub);
    let options = RelayOptions::default().sessions(a.sessions.clone());
    let host = Host::builder()
        .agent(AgentConfig::external("none", Command::new("none")))
        .build()
        .unwrap();
    let relay = serve_hub(host, options, read, write, std::future::pending());
    let hears = async {
        let attach = json!({"type": "session.attach", "session_id": "s", "after": 0, "extensions": ["journal"]});
        says.write_all(format!("{attach}\n").as_bytes())
            .await
            .unwrap();
        let mut lines = BufReader::new(heard).lines();
        let mut all = Vec::<Value>::new();
        while all
            .last()
            .is_none_or(|last| last["type"] != "session.refused")
        {
            let line = lines.next_line().await.unwrap().expect("the pipe stays");
            all.push(serde_json::from_str(&line).unwrap());
            if all.last().unwrap()["type"] == "turn.complete" {
                a.node.drain(TTL).await;
            }
        }
        all
    };
    let all = timeout(Duration::from_secs(60), async {
        tokio::select! { all = hears => all, report = relay => panic!("{report:?}") }
    });
    let all = all.await.expect("it hears it");
    assert_eq!(all.last().unwrap()["reason"], "unavailable", "{all:?}");
    b.has(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_run_at_the_deadline_of_a_drain_are_stopped_and_their_session_moves() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.begin(&id, "m-1", "wait").await;
    a.begin(&id, "m-2", "wait").await;
    let b = Machine::start(&memory, "b").await;
    until(|| a.node.hosts().len() == 2).await;
    let drained = a.node.drain(TTL).await;
    assert_eq!((drained.moved, drained.busy), (1, Vec::new()));
    assert_eq!(b.turn(&id, "m-3", "three").await, "three");
    let ends = b
        .entries(&id)
        .await
        .into_iter()
        .filter(|entry| entry["type"] == "turn.complete");
    let ends: Vec<_> = ends
        .map(|end| json!([end["turn_id"], end["status"], end["stop_reason"]]))
        .collect();
    let stopped = |turn: &str| json!([turn, "stopped", "shutdown"]);
    assert_eq!(
        ends[..2],
        [stopped("t-m-2"), stopped("t-m-1")],
        "what waits does not begin"
    );
}
