//! Resources that the sessions of a host share: each has its part, none takes all, and a refusal is
//! reported.

mod support;

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use support::{Peer, core_agent, played_with, soon};
use trunkline_host::{
    Cause, EventDelivery, EventKind, Host, HostBuilder, Session, SessionOptions, Turn,
    config::{AgentConfig, Buffers, Config},
    protocol::{Category, ClosedReason, SessionId},
};

const KIB: usize = 1024;

fn opened(host: &Host, id: &str) -> Session {
    let id = Some(SessionId::new(id).expect("an id"));
    host.open(
        "a",
        SessionOptions {
            id,
            delivery: EventDelivery::PerTurn,
            ..SessionOptions::default()
        },
    )
    .expect("a session")
}

fn builder(buffers: Buffers) -> HostBuilder {
    let mut config = Config::new(Vec::new());
    config.buffers = buffers;
    Host::builder().config(config)
}

/// An agent that may give files from this folder.
fn agent_with(folder: &Path) -> AgentConfig {
    let mut agent = core_agent();
    agent.file_roots.push(folder.to_owned());
    agent.limits.max_file_bytes = 256 * KIB as u64;
    agent
}

/// Sends a file this many times in one write; returns the number accepted, and the reports about
/// the others.
async fn give(
    peer: &mut Peer,
    turn: &mut Turn,
    session: &str,
    path: &Path,
    times: usize,
) -> (usize, Vec<String>) {
    let line = format!(
        "{{\"type\":\"file.output\",\"session_id\":\"{session}\",\"file_path\":\"{}\"}}\n",
        path.display()
    );
    peer.write(&line.repeat(times)).await;
    let mut taken = 0;
    let mut refused = Vec::new();
    for _ in 0..times {
        match soon(turn.next()).await.expect("an event").kind {
            EventKind::File(_) => taken += 1,
            EventKind::Error(error) => {
                assert_eq!(error.category, Some(Category::FileRefused));
                refused.push(error.message);
            }
            other => panic!("{other:?}"),
        }
    }
    (taken, refused)
}

fn sparse(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("sparse");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(256 * KIB as u64).expect("a sparse file");
    path
}

#[tokio::test]
async fn copies_of_a_sparse_file_end_at_the_bound_of_the_session_and_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = sparse(folder.path());
    let buffers = Buffers {
        session_files: 1 << 20,
        ..Buffers::default()
    };
    let (host, mut peers) = played_with(builder(buffers), agent_with(folder.path()), 256 * KIB);
    let mut peer = None;
    for id in ["one", "two"] {
        let session = opened(&host, id);
        let mut turn = session.send("x").unwrap();
        let peer = match &mut peer {
            Some(peer) => peer,
            none => none.insert(soon(peers.recv()).await.unwrap()),
        };
        let (taken, refused) = give(peer, &mut turn, id, &file, 100).await;
        assert_eq!((taken, refused.len()), (4, 96));
        assert!(refused[0].contains("session_files"), "{}", refused[0]);
        // What the hub gives counts, too.
        let given = soon(session.deliver_file(&file, None, None)).await;
        assert!(given.unwrap_err().to_string().contains("session_files"));
    }
    assert_eq!(host.agent("a").unwrap().counters.files_refused, 192);
}

#[tokio::test]
async fn copies_of_all_sessions_end_at_the_bound_of_the_host_and_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = sparse(folder.path());
    let buffers = Buffers {
        host_files: 8 << 20,
        ..Buffers::default()
    };
    let (host, mut peers) = played_with(builder(buffers), agent_with(folder.path()), 256 * KIB);
    let mut open = Vec::new();
    for id in ["one", "two", "three"] {
        let session = opened(&host, id);
        open.push((session.send("x").unwrap(), session));
    }
    let mut peer = soon(peers.recv()).await.unwrap();
    let mut taken = Vec::new();
    for ((turn, _), id) in open.iter_mut().zip(["one", "two", "three"]) {
        taken.push(give(&mut peer, turn, id, &file, 40).await.0);
    }
    // Each has at most as much as it leaves.
    assert_eq!(taken, [16, 8, 4]);
    open.truncate(1);
    let session = opened(&host, "four");
    let mut turn = session.send("x").unwrap();
    let mut taken = 0;
    for _ in 0..1000 {
        // Closed sessions are let go of beside the test.
        taken += give(&mut peer, &mut turn, "four", &file, 1).await.0;
        tokio::time::sleep(Duration::from_millis(10)).await;
        if taken == 8 {
            return;
        }
    }
    panic!("the room of closed sessions is not given back: {taken} were taken");
}

#[tokio::test]
async fn a_file_counts_at_least_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty");
    std::fs::write(&file, "").unwrap();
    let buffers = Buffers {
        session_files: 256 * KIB as u64,
        ..Buffers::default()
    };
    let (host, mut peers) = played_with(builder(buffers), agent_with(folder.path()), 256 * KIB);
    let session = opened(&host, "s");
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    assert_eq!(give(&mut peer, &mut turn, "s", &file, 100).await.0, 64);
}

#[tokio::test]
async fn a_flood_of_files_in_one_session_refuses_none_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, vec![7; 16 * KIB]).unwrap();
    let (host, mut peers) = played_with(Host::builder(), agent_with(folder.path()), 1 << 20);
    let flood = opened(&host, "flood");
    let other = opened(&host, "other");
    let mut flooded = flood.send("x").unwrap();
    let mut quiet = other.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    let line = |session: &str| {
        let path = file.display();
        format!(
            "{{\"type\":\"file.output\",\"session_id\":\"{session}\",\"file_path\":\"{path}\"}}\n"
        )
    };
    let flooding = line("flood").repeat(500);
    peer.write(&format!(
        "{flooding}{}{flooding}{}",
        line("other"),
        line("other")
    ))
    .await;
    for _ in 0..2 {
        let event = soon(quiet.next()).await.expect("an event");
        assert!(matches!(event.kind, EventKind::File(_)), "{event:?}");
    }
    let mut files = 0;
    while files < 1000 {
        let event = soon(flooded.next()).await.expect("an event");
        assert!(matches!(event.kind, EventKind::File(_)), "{event:?}");
        files += 1;
    }
}

/// Returns the number of this process's descriptors in a folder.
fn descriptors_in(folder: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let paths = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    paths.filter(|path| path.parent() == Some(folder)).count()
}

#[tokio::test]
async fn mailboxes_on_disk_share_one_descriptor_and_read_their_own() {
    const SESSIONS: usize = 100;
    const LINES: usize = 12;
    let spool = tempfile::tempdir().unwrap();
    let buffers = Buffers {
        mailbox: 16 * KIB,
        ..Buffers::default()
    };
    let (host, mut peers) = played_with(
        builder(buffers).spool_dir(spool.path()),
        core_agent(),
        256 * KIB,
    );
    let mut turns = Vec::new();
    for at in 0..SESSIONS {
        let session = opened(&host, &format!("s{at}"));
        turns.push((session.send("x").unwrap(), session));
    }
    let mut peer = soon(peers.recv()).await.unwrap();
    let begun = SystemTime::now();
    let pad = "p".repeat(64 * KIB);
    for line in 0..LINES {
        for at in 0..SESSIONS {
            peer.say(
                "output",
                &format!("s{at}"),
                &format!(",\"content\":\"{at}:{line}:{pad}\""),
            )
            .await;
        }
    }
    for at in 0..SESSIONS {
        peer.say("turn.complete", &format!("s{at}"), "").await;
    }
    while host.agent("a").unwrap().counters.lines_in < ((LINES + 1) * SESSIONS) as u64 {
        tokio::task::yield_now().await;
    }
    assert_eq!(descriptors_in(spool.path()), 1);
    // Each event has the time of its receipt, also if it was on disk.
    let received = SystemTime::now();
    for (at, (mut turn, _session)) in turns.into_iter().enumerate() {
        for line in 0..LINES {
            let event = soon(turn.next()).await.expect("an event");
            assert!((begun..=received).contains(&event.time), "{:?}", event.time);
            let EventKind::Output(output) = event.kind else {
                panic!("{event:?}")
            };
            let start = format!("{at}:{line}:p");
            assert!(
                output.content.starts_with(&start),
                "{start} is {}",
                &output.content[..16]
            );
        }
        assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    }
}

/// Floods a turn with as many KiB, unread, and ends it.
async fn flood(peer: &mut Peer, session: &str, kib: usize) {
    let pad = "p".repeat(32 * KIB);
    for _ in 0..kib / 32 {
        peer.say("output", session, &format!(",\"content\":\"{pad}\""))
            .await;
    }
    peer.say("turn.complete", session, "").await;
}

#[tokio::test]
async fn a_turn_that_fills_its_part_of_the_disk_ends_its_session_and_says_so() {
    for spool in [None, Some("/nowhere/at/all")] {
        let buffers = Buffers {
            mailbox: 16 * KIB,
            spool: 1 << 20,
            ..Buffers::default()
        };
        let builder = builder(buffers);
        let builder = match spool {
            Some(folder) => builder.spool_dir(folder),
            None => builder,
        };
        let (host, mut peers) = played_with(builder, core_agent(), 256 * KIB);
        let session = opened(&host, "s");
        let other = opened(&host, "other");
        let turn = session.send("x").unwrap();
        let quiet = other.send("x").unwrap();
        let mut peer = soon(peers.recv()).await.unwrap();
        flood(&mut peer, "s", 2048).await;
        peer.say("output", "other", ",\"content\":\"fine\"").await;
        peer.say("turn.complete", "other", "").await;
        assert_eq!(soon(quiet.text()).await.0, "fine");
        assert_eq!(soon(turn.end()).await.cause, Cause::Limit);
        let EventKind::Closed(end) = soon(session.next_event()).await.unwrap().kind else {
            panic!("an end")
        };
        assert_eq!(end.reason, ClosedReason::Limit);
    }
}

#[tokio::test]
async fn turns_that_fill_the_disk_of_the_host_leave_room_for_the_next_and_give_theirs_back() {
    let buffers = Buffers {
        mailbox: 16 * KIB,
        spools: 8 << 20,
        ..Buffers::default()
    };
    let (host, mut peers) = played_with(builder(buffers), core_agent(), 256 * KIB);
    let greedy = opened(&host, "greedy");
    let next = opened(&host, "next");
    let first = greedy.send("x").unwrap();
    let second = next.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    flood(&mut peer, "greedy", 16 * 1024).await;
    flood(&mut peer, "next", 1024).await;
    let (text, end) = soon(second.text()).await;
    assert_eq!((text.len(), end.cause), (1 << 20, Cause::Complete));
    assert_eq!(soon(first.end()).await.cause, Cause::Limit);
    drop(greedy);
    for round in 0..4 {
        // More in all than the bound.
        let turn = next.send("x").unwrap();
        flood(&mut peer, "next", 3 * 1024).await;
        assert_eq!(soon(turn.text()).await.0.len(), 3 << 20, "round {round}");
    }
}
