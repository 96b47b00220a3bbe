//! Clients that reach a session at the same moment: one task serves it, and each accepted input is
//! stored exactly once.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, DuplexStream},
    task::JoinSet,
    time::timeout,
};
use trunkline_host::{Host, config::AgentConfig};
use trunkline_journal::Options;
use trunkline_protocol::{
    HostMessage, RequestId, SessionAttach, SessionHistory, SessionId, SessionStart,
};
use trunkline_sessions::{Listener, Sessions, StreamEnd, StreamItem};

/// Timeout for events that should happen soon, on a busy machine too.
const SOON: Duration = Duration::from_secs(60);

/// Number of clients that use one session at the same moment.
const CLIENTS: usize = 4;

/// Opens the journal of a folder on a host whose agent reads everything and never writes.
async fn open_sessions(folder: &Path) -> (Host, Sessions) {
    let streams = move || {
        let (host, agent) = tokio::io::duplex(64 * 1024);
        tokio::spawn(read_all(agent));
        tokio::io::split(host)
    };
    let host = Host::builder()
        .agent_over(AgentConfig::external("silent", "none"), streams)
        .build()
        .unwrap();
    let opened = host.clone();
    let folder = folder.to_owned();
    let open = move || Sessions::open(opened, &folder, Options::default());
    let (sessions, damaged) = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    (host, sessions)
}

async fn read_all(mut agent: DuplexStream) {
    let mut read = vec![0; 64 * 1024];
    while agent.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Ends the sessions like a host that ends in order.
async fn close_sessions(host: Host, sessions: Sessions) {
    sessions.finish().await;
    host.shutdown().await;
    sessions.close().await;
}

fn session(number: usize) -> SessionId {
    SessionId::new(format!("s-{number}")).unwrap()
}

async fn create_session(sessions: &Sessions, id: &SessionId) {
    let mut listener = sessions
        .start(id, "silent", SessionStart::default(), None, None)
        .unwrap();
    let stored = timeout(SOON, listener.next(&mut Vec::new())).await;
    assert_eq!(stored.unwrap().unwrap(), StreamItem::Entries);
}

/// Sends an input and returns the number of its entry, or `None` if it was refused.
async fn send_input(listener: &mut Listener, message_id: &str) -> Option<u64> {
    let input = json!({
        "type": "user.input", "session_id": listener.session().as_str(), "message_id": message_id,
        "turn_id": format!("t-{message_id}"), "content": message_id,
    });
    let input = HostMessage::parse(&input.to_string()).unwrap();
    assert!(listener.sender().send(input).await);
    loop {
        let mut lines = Vec::new();
        match timeout(SOON, listener.next(&mut lines))
            .await
            .unwrap()
            .unwrap()
        {
            StreamItem::Entries => continue,
            StreamItem::Reply => {}
            StreamItem::Ended(end) => panic!("{end:?}"),
        }
        let reply: Value = serde_json::from_slice(&lines).unwrap();
        if reply["type"] == "turn.complete" {
            return None;
        }
        assert_eq!(
            (&reply["type"], &reply["message_id"]),
            (&json!("input.result"), &json!(message_id))
        );
        return reply["seq"].as_u64();
    }
}

/// Reads all entries of a session, which are numbered from 1 without a gap.
async fn read_entries(sessions: &Sessions, id: &SessionId) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    loop {
        let request = SessionHistory {
            request_id: RequestId::new("r").unwrap(),
            from: Some(entries.len() as u64 + 1),
            to: None,
        };
        let page = sessions.history(id, &request).await;
        assert_eq!(page.error, None);
        for entry in page.entries.unwrap() {
            let entry: Value = serde_json::from_str(entry.get()).unwrap();
            assert_eq!(entry["seq"].as_u64(), Some(entries.len() as u64 + 1));
            entries.push(entry);
        }
        if page.next.is_none() {
            return entries;
        }
    }
}

/// Checks that every accepted input is in the entry reported to its sender, and in no other one.
fn check_inputs(accepted: &HashMap<String, u64>, entries: &[Value]) {
    let mut seen = HashSet::new();
    for entry in entries.iter().filter(|entry| entry["type"] == "turn.begin") {
        let id = entry["message_id"].as_str().unwrap();
        assert!(seen.insert(id.to_owned()), "{id} is stored twice");
    }
    for (id, seq) in accepted {
        let entry = &entries[usize::try_from(*seq).unwrap() - 1];
        assert_eq!(
            (&entry["type"], &entry["message_id"]),
            (&json!("turn.begin"), &json!(id)),
            "entry {seq}"
        );
    }
}

/// Returns the number of sessions, from `TRUNKLINE_STRESS`; the daily run sets more than the
/// default.
fn stress_sessions() -> usize {
    std::env::var("TRUNKLINE_STRESS").map_or(60, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn inputs_of_clients_that_enter_at_the_same_moment_are_stored_once() {
    const ROUNDS: usize = 3;
    let count = stress_sessions();
    let folder = tempfile::tempdir().unwrap();
    let (host, sessions) = open_sessions(folder.path()).await;
    for number in 0..count {
        create_session(&sessions, &session(number)).await;
    }
    close_sessions(host, sessions).await;

    let accepted: Arc<Mutex<HashMap<usize, HashMap<String, u64>>>> = Arc::default();
    for round in 0..ROUNDS {
        let (host, sessions) = open_sessions(folder.path()).await;
        for number in 0..count {
            let mut clients = JoinSet::new();
            for client in 0..CLIENTS {
                let sessions = sessions.clone();
                let accepted = accepted.clone();
                clients.spawn(async move {
                    let id = session(number);
                    let attach = SessionAttach::default();
                    let (_, mut listener) = sessions.attach(&id, &attach).await.unwrap();
                    let message_id = format!("m-{round}-{client}");
                    if let Some(seq) = send_input(&mut listener, &message_id).await {
                        let mut accepted = accepted.lock().unwrap();
                        accepted.entry(number).or_default().insert(message_id, seq);
                    }
                });
            }
            while let Some(client) = clients.join_next().await {
                client.unwrap();
            }
        }
        close_sessions(host, sessions).await;
    }

    let (host, sessions) = open_sessions(folder.path()).await;
    let accepted = std::mem::take(&mut *accepted.lock().unwrap());
    for number in 0..count {
        let accepted = &accepted[&number];
        assert_eq!(accepted.len(), ROUNDS * CLIENTS);
        check_inputs(accepted, &read_entries(&sessions, &session(number)).await);
    }
    close_sessions(host, sessions).await;
}

/// The second caller waits for the first, which reads the journal on another thread meanwhile.
#[tokio::test]
async fn two_clients_of_a_session_that_is_not_in_memory_join_one_task() {
    let folder = tempfile::tempdir().unwrap();
    let (host, sessions) = open_sessions(folder.path()).await;
    create_session(&sessions, &session(0)).await;
    close_sessions(host, sessions).await;

    let (host, sessions) = open_sessions(folder.path()).await;
    let id = session(0);
    let attach = SessionAttach::default();
    let (first, second) =
        tokio::join!(sessions.attach(&id, &attach), sessions.attach(&id, &attach));
    let ((_, mut first), (_, mut second)) = (first.unwrap(), second.unwrap());
    assert_eq!((first.listeners(), second.listeners()), (2, 2));
    let numbers = [
        send_input(&mut first, "m-1").await.unwrap(),
        send_input(&mut second, "m-2").await.unwrap(),
    ];
    assert!(numbers[0] < numbers[1], "{numbers:?}");
    close_sessions(host, sessions).await;
}

/// A client that gives up while it opens a session leaves the slot to the next one.
#[tokio::test]
async fn an_opening_that_is_dropped_blocks_no_other_client() {
    let folder = tempfile::tempdir().unwrap();
    let (host, sessions) = open_sessions(folder.path()).await;
    create_session(&sessions, &session(0)).await;
    close_sessions(host, sessions).await;

    let (host, sessions) = open_sessions(folder.path()).await;
    let id = session(0);
    let attach = SessionAttach::default();
    let mut dropped = Box::pin(sessions.attach(&id, &attach));
    assert!(futures_util::FutureExt::now_or_never(dropped.as_mut()).is_none());
    let waits = sessions.attach(&id, &attach);
    let (attached, ()) = tokio::join!(timeout(SOON, waits), async move { drop(dropped) });
    attached.unwrap().unwrap();
    close_sessions(host, sessions).await;
}

#[tokio::test]
async fn listeners_learn_that_the_host_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (host, sessions) = open_sessions(folder.path()).await;
    create_session(&sessions, &session(0)).await;
    let (_, mut listener) = sessions.join(&session(0)).await.unwrap();
    let ends = sessions.clone();
    let finished = tokio::spawn(async move { ends.finish().await });
    let mut lines = Vec::new();
    let end = loop {
        match timeout(SOON, listener.next(&mut lines))
            .await
            .unwrap()
            .unwrap()
        {
            StreamItem::Entries | StreamItem::Reply => {}
            StreamItem::Ended(end) => break end,
        }
    };
    assert_eq!(end, StreamEnd::HostEnding);
    let line: Value = serde_json::from_slice(&listener.last_line(end)).unwrap();
    assert_eq!(
        (&line["type"], &line["reason"]),
        (&json!("session.refused"), &json!("unavailable"))
    );
    finished.await.unwrap();
    // Nothing is opened from now on.
    let refused = sessions.join(&session(0)).await.unwrap_err();
    assert_eq!(
        refused.reason,
        Some(trunkline_protocol::AttachRefusal::Unavailable)
    );
    close_sessions(host, sessions).await;
}

/// Second line of defence: a task whose session was written elsewhere stops, and loses nothing
/// silently.
#[tokio::test]
async fn a_writer_that_the_journal_refuses_ends_and_its_inputs_are_not_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (host, sessions) = open_sessions(folder.path()).await;
    create_session(&sessions, &session(0)).await;
    let (attached, mut listener) = sessions.join(&session(0)).await.unwrap();

    let journal = sessions.journal();
    let key = journal.find(session(0).as_str()).unwrap();
    let next = attached.last_seq + 1;
    let epoch = attached.epoch;
    let line = format!(
        "{{\"type\":\"host.fact\",\"session_id\":\"s-0\",\"seq\":{next},\"epoch\":{epoch},\"time\":\"2026-01-01T00:00:00.000Z\"}}\n"
    );
    let stored = journal.put_entries(key, epoch, next, 1, line.as_bytes());
    journal.wait(&stored).unwrap();

    let input =
        json!({"type": "user.input", "session_id": "s-0", "message_id": "m", "content": "x"});
    let input = HostMessage::parse(&input.to_string()).unwrap();
    assert!(listener.sender().send(input).await);
    let mut replies = Vec::new();
    let end = loop {
        match timeout(SOON, listener.next(&mut replies))
            .await
            .unwrap()
            .unwrap()
        {
            StreamItem::Reply => {}
            StreamItem::Entries => panic!("{}", String::from_utf8_lossy(&replies)),
            StreamItem::Ended(end) => break end,
        }
    };
    assert_eq!(end, StreamEnd::Interrupted);
    let reply: Value = serde_json::from_slice(&replies).unwrap();
    assert_eq!(
        (&reply["type"], &reply["delivered"]),
        (&json!("turn.complete"), &json!("no")),
        "{reply}"
    );

    // The session is opened again after the other writer's entry.
    let (_, mut listener) = sessions.join(&session(0)).await.unwrap();
    assert_eq!(send_input(&mut listener, "m").await, Some(next + 1));
    close_sessions(host, sessions).await;
}
