//! Slow readers: bounded queues, sessions that are held back, and neighbours that are not.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use trunkline_client::{
    Client, EventBody, Events, PAUSE_SESSION_BYTES, STOP_READING_BYTES, Session,
    protocol::{SessionAttach, SessionStart},
};

use super::script::{Script, Scripts, entry, session};

/// The content of one entry, in bytes.
const CONTENT: usize = 10_000;

/// A host with the session `s`, of which there are many entries.
async fn attached() -> (Client, Script, Session, Events) {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attach = client.attach(session("s"), SessionAttach::default());
    let (attached, _) = tokio::join!(attach, host.attached(0, &Value::Null));
    let (session, events) = attached.unwrap();
    (client, host, session, events)
}

fn output(seq: u64) -> Value {
    entry("s", seq, "output", &json!({"content": "x".repeat(CONTENT)}))
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_read_is_held_back_and_its_neighbour_continues() {
    let (client, mut host, _session, mut events) = attached().await;
    let entries = (PAUSE_SESSION_BYTES / CONTENT) as u64;
    for seq in 1..=entries {
        host.write(&output(seq)).await;
    }
    host.expect("flow.pause").await;
    let start = client.open(SessionStart::default());
    let (neighbour, id) = tokio::join!(start, host.ready(&["turns", "journal"]));
    let (_neighbour, mut neighbours_events) = neighbour.unwrap();
    host.write(&entry(&id, 1, "host.fact", &json!({"fact": "opened"})))
        .await;
    assert_eq!(
        neighbours_events.next().await.unwrap().unwrap().stamp.seq,
        Some(1)
    );
    for seq in 1..=entries {
        assert_eq!(events.next().await.unwrap().unwrap().stamp.seq, Some(seq));
    }
    host.expect("flow.resume").await;
    host.write(&output(entries + 1)).await;
    assert_eq!(
        events.next().await.unwrap().unwrap().stamp.seq,
        Some(entries + 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_holds_nothing_back_is_not_read_and_loses_nothing() {
    let (_client, mut host, _session, mut events) = attached().await;
    let entries = (4 * STOP_READING_BYTES / CONTENT) as u64;
    let mut written = 0;
    for seq in 1..=entries {
        if timeout(Duration::from_secs(60), host.write(&output(seq)))
            .await
            .is_err()
        {
            break;
        }
        written = seq;
    }
    let taken = usize::try_from(written).unwrap() * CONTENT;
    assert!(
        taken > STOP_READING_BYTES / 3 && taken < STOP_READING_BYTES,
        "{taken} bytes"
    );
    // The last line was written in part: what it lacks comes with the rest.
    for seq in 1..written {
        assert_eq!(events.next().await.unwrap().unwrap().stamp.seq, Some(seq));
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_nothing_reads_are_dropped_and_hold_nothing_back() {
    let (_client, mut host, session, events) = attached().await;
    let mut turn = session.send("hello").await.unwrap();
    let id = host.expect("user.input").await["turn_id"].clone();
    let entries = (2 * STOP_READING_BYTES / CONTENT) as u64;
    for seq in 1..=100 {
        host.write(&output(seq)).await;
    }
    drop(events);
    for seq in 101..entries {
        host.write(&output(seq)).await;
    }
    host.write(&entry(
        "s",
        entries,
        "turn.complete",
        &json!({"turn_id": id}),
    ))
    .await;
    turn.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_costs_only_itself() {
    let (_client, mut host, _session, mut events) = attached().await;
    host.write_raw(b"{\"session_id\":\"s\",\"content\":\"")
        .await;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..17 {
        host.write_raw(&piece).await;
    }
    host.write_raw(b"\",\"type\":\"output\",\"seq\":1,\"epoch\":1}\n")
        .await;
    host.write(&entry("s", 2, "output", &json!({"content": "x"})))
        .await;
    let event = events.next().await.unwrap().unwrap();
    let EventBody::TooLong { bytes } = event.body else {
        panic!("{event:?}")
    };
    assert!(bytes > 17 << 20);
    assert_eq!(events.next().await.unwrap().unwrap().stamp.seq, Some(2));
}
