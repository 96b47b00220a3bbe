//! Hosts of one process that share a store and a network: what they do when one of them is cut off,
//! drains or comes back.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "nodes/drain.rs"]
mod drain;
#[path = "nodes/files.rs"]
mod files;
#[path = "nodes/hostile.rs"]
mod hostile;
#[path = "nodes/lost.rs"]
mod lost;
#[path = "nodes/machine.rs"]
mod machine;
#[path = "nodes/rights.rs"]
mod rights;
#[path = "nats/server.rs"]
mod server;
#[path = "nodes/tokens.rs"]
mod tokens;

use serde_json::json;
use trunkline_cluster::memory::Memory;
use trunkline_gateway::{HostPhase, Peers, SessionLocation};
use trunkline_protocol::SessionId;

use self::machine::{Machine, TTL, until};

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_host_finds_a_session_and_new_ones_are_spread() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let b = Machine::start(&memory, "b").await;
    let c = Machine::start(&memory, "c").await;
    let all = [&a, &b, &c];
    for machine in all {
        until(|| machine.node.hosts().len() == 3).await;
    }
    let mut at = std::collections::BTreeMap::<String, u32>::new();
    for n in 0..30 {
        let id = id(&format!("s-{n}"));
        let place = a.node.place(&id, Some("echo")).await.unwrap();
        let host = match &place {
            SessionLocation::Here => "a".to_owned(),
            SessionLocation::There(host) => host.clone(),
            place => panic!("{place:?}"),
        };
        let machine = all
            .into_iter()
            .find(|machine| machine.node.host() == host)
            .unwrap();
        machine.open(&id);
        assert_eq!(machine.turn(&id, "m", "hello").await, "hello");
        for other in all {
            let expected = if other.node.host() == host {
                SessionLocation::Here
            } else {
                SessionLocation::There(host.clone())
            };
            assert_eq!(other.node.locate(&id).await, expected);
        }
        *at.entry(host).or_default() += 1;
    }
    assert_eq!(at.len(), 3, "{at:?}");
    assert!(a.node.place(&id("s-1"), Some("none")).await.is_err());
    assert_eq!(a.node.locate(&id("never")).await, SessionLocation::Unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_host_had_that_is_cut_off_goes_on_elsewhere_once() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let quiet = id("quiet");
    let busy = id("busy");
    for id in [&quiet, &busy] {
        a.open_here(id).await;
    }
    a.turn(&quiet, "m-1", "one").await;
    // Its turn does not end by itself.
    a.begin(&busy, "m-2", "wait").await;
    let before = a.entries(&quiet).await;
    let b = Machine::start(&memory, "b").await;
    until(|| b.node.hosts().len() == 2).await;

    memory.cut("a", true);
    b.has(&quiet).await;
    b.has(&busy).await;
    assert!(
        a.sessions.owned().is_empty(),
        "it had stopped before another took over"
    );
    // With the last of its sessions, it goes from the list.
    until(|| b.node.hosts().len() == 1).await;

    let after = b.entries(&quiet).await;
    assert_eq!(after[..before.len()], before);
    let seqs: Vec<_> = after
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=after.len() as u64).collect::<Vec<_>>());
    assert_eq!(after.last().unwrap()["fact"], "moved");
    assert_eq!(after.last().unwrap()["epoch"], 2);
    let ends: Vec<_> = b
        .entries(&busy)
        .await
        .into_iter()
        .filter(|entry| entry["type"] == "turn.complete")
        .collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0]["error"]["category"], "host_restart");

    // The same input again is the same turn; a new one continues.
    assert_eq!(b.turn(&quiet, "m-1", "one").await, "one");
    assert_eq!(b.turn(&quiet, "m-3", "two").await, "two");
    let inputs = b
        .entries(&quiet)
        .await
        .into_iter()
        .filter(|entry| entry["type"] == "turn.begin")
        .count();
    assert_eq!(inputs, 2);

    // Back, it has none of them, and finds them.
    memory.cut("a", false);
    a.sees(&quiet, &SessionLocation::There("b".to_owned()))
        .await;
    assert!(a.sessions.owned().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_a_host_that_is_gone_are_shared_though_no_one_asks() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let ids: Vec<_> = (0..12).map(|n| id(&format!("s-{n}"))).collect();
    for id in &ids {
        a.open_here(id).await;
        a.turn(id, "m", "one").await;
    }
    let b = Machine::start(&memory, "b").await;
    let c = Machine::start(&memory, "c").await;
    until(|| b.node.hosts().len() == 3 && c.node.hosts().len() == 3).await;
    memory.cut("a", true);
    let had = || (b.sessions.owned().len(), c.sessions.owned().len());
    until(|| had().0 + had().1 == ids.len()).await;
    assert!(
        had().0 > 0 && had().1 > 0,
        "one looked for both: {:?}",
        had()
    );
    for id in &ids {
        let heir = if b.sessions.owns(id) { &b } else { &c };
        assert_eq!(heir.turn(id, "m-2", "two").await, "two");
        assert_eq!(
            heir.entries(id)
                .await
                .iter()
                .filter(|entry| entry["fact"] == "moved")
                .count(),
            1
        );
    }
    until(|| b.node.hosts().len() == 2 && c.node.hosts().len() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_host_has_its_own_sessions_again_when_the_store_is_back() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m-1", "one").await;
    memory.cut("a", true);
    until(|| a.sessions.owned().is_empty()).await;
    memory.cut("a", false);
    a.has(&id).await;
    assert_eq!(a.turn(&id, "m-2", "two").await, "two");
    let epochs: Vec<_> = a
        .entries(&id)
        .await
        .iter()
        .map(|entry| entry["epoch"].as_u64().unwrap())
        .collect();
    assert!(
        epochs.is_sorted() && epochs.last() == Some(&2),
        "{epochs:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_doubles_nothing() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    for n in 0..20 {
        memory.lose_answer("a");
        let text = format!("text {n}");
        assert_eq!(a.turn(&id, &format!("m-{n}"), &text).await, text);
    }
    let entries = a.entries(&id).await;
    let seqs: Vec<_> = entries
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=entries.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_whose_files_are_elsewhere_are_unavailable_until_they_begin_anew_at_any_host() {
    let memory = Memory::default();
    let a = Machine::with(&memory, "a", &["disk"]).await;
    let ids: Vec<_> = (0..6).map(|n| id(&format!("s-{n}"))).collect();
    for id in &ids {
        a.open_here(id).await;
        a.turn(id, "m", "one").await;
    }
    let never = id("never-spoken-to");
    a.open_here(&never).await;
    // That it was opened is in the record.
    until(|| a.sessions.copied_to(&never) > 0).await;
    let b = Machine::start(&memory, "b").await;
    let c = Machine::start(&memory, "c").await;
    until(|| b.node.hosts().len() == 3 && c.node.hosts().len() == 3).await;
    assert!(
        b.node
            .relocate(&ids[0])
            .await
            .unwrap_err()
            .contains("the host a has it"),
        "its host is alive"
    );
    memory.cut("a", true);
    until(|| b.node.hosts()[0].state == HostPhase::Lost).await;
    let command = format!("trunkline sessions attach {} --relocate", ids[0]);
    let says = |place: &SessionLocation, what: &str| match place {
        SessionLocation::Unavailable { host, why } => {
            host == "a" && why.contains("disk") && why.contains(what)
        }
        _ => false,
    };
    let place = b.node.locate(&ids[0]).await;
    assert!(says(&place, &command), "{place:?}");
    assert!(b.sessions.owned().is_empty() && c.sessions.owned().is_empty());

    let mut at = std::collections::BTreeSet::new();
    for id in ids.iter().chain([&never]) {
        // All are asked for at one host, which is not the one that takes each.
        let host = b.begins_anew(id).await;
        let machine = if host == "b" { &b } else { &c };
        machine.has(id).await;
        let moved = machine.entries(id).await.pop().unwrap();
        let lost = if *id == never {
            json!(null)
        } else {
            json!("lost")
        };
        assert_eq!(
            (&moved["fact"], &moved["message"], &moved["context"]),
            (&json!("moved"), &json!(host), &lost)
        );
        assert_eq!(machine.turn(id, "m-2", "two").await, "two");
        let entries = machine.entries(id).await;
        let seqs: Vec<_> = entries
            .iter()
            .map(|entry| entry["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (1..=entries.len() as u64).collect::<Vec<_>>());
        let resumed = entries
            .iter()
            .find(|entry| entry["fact"] == "resumed")
            .unwrap();
        assert_eq!(
            resumed["context"],
            if *id == never { "kept" } else { "lost" }
        );
        at.insert(host);
    }
    assert_eq!(at.len(), 2, "each host has some");
    memory.cut("a", false);
    for id in &ids {
        let place = b.node.locate(id).await;
        let there = if place == SessionLocation::Here {
            SessionLocation::There("b".to_owned())
        } else {
            place
        };
        a.sees(id, &there).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_host_takes_sessions_none_begins_anew_and_that_is_not_advised() {
    let memory = Memory::default();
    let a = Machine::with(&memory, "a", &["disk"]).await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m", "one").await;
    let b = Machine::start(&memory, "b").await;
    until(|| b.node.hosts().len() == 2).await;
    b.node.drain(TTL).await;
    memory.cut("a", true);
    until(|| b.node.hosts()[0].state == HostPhase::Lost).await;
    let place = b.node.locate(&id).await;
    assert!(
        matches!(&place, SessionLocation::Unavailable { why, .. } if !why.contains("--relocate")),
        "{place:?}"
    );
    assert!(b.node.relocate(&id).await.unwrap_err().contains("no host"));
    assert!(b.sessions.owned().is_empty());
}

#[test]
fn a_name_is_had_by_one_at_a_time_and_the_next_run_has_what_the_last_one_had() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let memory = Memory::default();
    let id = id("s");
    let first = runtime();
    let a = first.block_on(async {
        let a = Machine::start(&memory, "a").await;
        a.open_here(&id).await;
        a.turn(&id, "m", "one").await;
        let refused = Machine::join(&memory, "a", &[]).await.unwrap_err();
        assert!(refused.to_string().contains("another daemon"), "{refused}");
        a
    });
    // As by SIGKILL: nothing more is renewed or written.
    first.shutdown_background();
    drop(a);
    runtime().block_on(async {
        // Its lease is waited for.
        let again = Machine::start(&memory, "a").await;
        assert_eq!(again.turn(&id, "m-2", "two").await, "two");
        // An orderly end gives it back.
        again.end().await;
        let begun = std::time::Instant::now();
        let third = Machine::start(&memory, "a").await;
        assert!(begun.elapsed() < TTL, "{:?}", begun.elapsed());
        assert_eq!(third.turn(&id, "m-3", "three").await, "three");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_removed_is_gone_everywhere_and_its_id_is_not_used_again() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m", "one").await;
    let b = Machine::start(&memory, "b").await;
    until(|| b.node.hosts().len() == 2 && a.node.hosts().len() == 2).await;
    a.remove(&id).await;
    assert_eq!(b.node.locate(&id).await, SessionLocation::Unknown);
    assert!(b.node.place(&id, Some("echo")).await.is_err());
}
