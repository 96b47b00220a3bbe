//! Resources of a session are released when its last handle is dropped, whatever is unread in it.

mod support;

use std::{os::unix::fs::MetadataExt, path::Path, time::Duration};

use support::{Peer, agent, played_with, soon};
use trunkline_host::{EventDelivery, Host, Session, SessionOptions, protocol::SessionId};

/// The bytes on disk of this process's open files in a folder.
fn bytes_spooled_in(folder: &Path) -> u64 {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let spooled = descriptors.filter(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|path| path.parent().is_some_and(|parent| parent == folder))
    });
    spooled
        .filter_map(|entry| Some(std::fs::metadata(entry.path()).ok()?.blocks() * 512))
        .sum()
}

/// Waits until a condition holds; other threads cause it without a notification.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 30 s: {what}");
}

fn opened(host: &Host, id: &str, delivery: EventDelivery) -> Session {
    let id = Some(SessionId::new(id).expect("an id"));
    host.open(
        "a",
        SessionOptions {
            id,
            delivery,
            ..SessionOptions::default()
        },
    )
    .expect("a session")
}

/// Says more than memory may hold of a session, then asks.
async fn ask_behind_a_flood(peer: &mut Peer, id: &str) {
    peer.say(
        "session.ready",
        id,
        r#","protocol":1,"extensions":["turns","questions"]"#,
    )
    .await;
    let pad = "p".repeat(200 * 1024);
    for _ in 0..3 {
        peer.say("output", id, &format!(r#","content":"{pad}""#))
            .await;
    }
    peer.say(
        "permission.request",
        id,
        r#","request_id":"p","tool":"t","description":"d","resource":"x""#,
    )
    .await;
    peer.say(
        "input.request",
        id,
        r#","request_id":"q","prompt":"well?","fields":[]"#,
    )
    .await;
}

#[tokio::test]
async fn a_session_with_unread_requests_gives_its_folder_and_its_disk_back() {
    for delivery in [EventDelivery::PerTurn, EventDelivery::Merged] {
        let spool = tempfile::tempdir().unwrap();
        let (host, mut peers) =
            played_with(Host::builder().spool_dir(spool.path()), agent(), 256 * 1024);
        // It stays, and keeps the host's thread for the disk.
        let other = opened(&host, "other", delivery);
        let mut peer = soon(peers.recv()).await.unwrap();
        for at in 0..4 {
            let id = format!("s{at}");
            let session = opened(&host, &id, delivery);
            let start = loop {
                let start = peer.read("session.start").await;
                if start["session_id"] == id.as_str() {
                    break start;
                }
            };
            let folder = start["exchange_dir"].as_str().unwrap().to_owned();
            ask_behind_a_flood(&mut peer, &id).await;
            until("the flood is on disk", || {
                bytes_spooled_in(spool.path()) > 0
            })
            .await;
            let turn = session.send("x").unwrap();
            if at % 2 == 0 {
                // Closed and then let go of, unread.
                session.close().await;
            }
            drop(session);
            drop(turn);
            until("the exchange folder is gone", || {
                !Path::new(&folder).exists()
            })
            .await;
            until("nothing of it is on disk", || {
                bytes_spooled_in(spool.path()) == 0
            })
            .await;
        }
        drop(other);
    }
}

#[tokio::test]
async fn a_turn_that_outlives_its_session_keeps_no_events_outside_it() {
    let spool = tempfile::tempdir().unwrap();
    let (host, mut peers) =
        played_with(Host::builder().spool_dir(spool.path()), agent(), 256 * 1024);
    let session = opened(&host, "s", EventDelivery::PerTurn);
    let mut peer = soon(peers.recv()).await.unwrap();
    ask_behind_a_flood(&mut peer, "s").await;
    until("the flood is on disk", || {
        bytes_spooled_in(spool.path()) > 0
    })
    .await;
    let mut turn = session.send("x").unwrap();
    drop(session);
    assert!(soon(turn.next()).await.is_some(), "its end");
    until("nothing is on disk", || bytes_spooled_in(spool.path()) == 0).await;
}
