//! Sessions of others do not exist for a visitor, in memory or on disk.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{path::Path, sync::Arc};

use tokio::io::DuplexStream;
use trunkline_host::{Host, config::AgentConfig};
use trunkline_journal::Options;
use trunkline_protocol::{
    AttachRefusal, HostMessage, RequestId, Role, SessionAttach, SessionHistory, SessionId,
    SessionStart, SessionsList, UserInput,
};
use trunkline_sessions::{RemoveError, Sessions, StartError, StreamItem, Visitor};

/// Opens a host with the agents `x` and `y`, which read and never write, on a folder.
async fn opened(folder: &Path) -> (Sessions, tokio::sync::mpsc::Receiver<DuplexStream>) {
    let (peers, kept) = tokio::sync::mpsc::channel(16);
    let streams = move || {
        let (host, peer) = tokio::io::duplex(64 * 1024);
        peers.try_send(peer).unwrap();
        tokio::io::split(host)
    };
    let agent = |id| AgentConfig::external(id, "none");
    let host = Host::builder()
        .agent_over(agent("x"), streams.clone())
        .agent_over(agent("y"), streams);
    let host = host.build().unwrap();
    let folder = folder.to_owned();
    let opened =
        tokio::task::spawn_blocking(move || Sessions::open(host, &folder, Options::default()));
    (opened.await.unwrap().unwrap().0, kept)
}

fn visitor(name: &str, sees_all: bool, may_speak: bool, agents: Option<&[&str]>) -> Arc<Visitor> {
    let agents = agents.map(|agents| agents.iter().map(|&agent| agent.to_owned()).collect());
    Arc::new(Visitor {
        name: name.to_owned(),
        author: name.to_owned(),
        sees_all,
        may_speak,
        may_approve: may_speak,
        agents,
    })
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn request() -> RequestId {
    RequestId::new("r").unwrap()
}

fn history() -> SessionHistory {
    SessionHistory {
        request_id: request(),
        from: None,
        to: None,
    }
}

async fn listed(sessions: &Sessions) -> Vec<String> {
    let listed = sessions
        .list(SessionsList::new(request()))
        .await
        .sessions
        .unwrap();
    listed.into_iter().map(|one| one.session_id).collect()
}

/// Returns `true` if `sessions` shows a session, through every method that can show one.
async fn is_there(sessions: &Sessions, session: &SessionId) -> bool {
    let attached = sessions
        .attach(session, &SessionAttach::default())
        .await
        .is_ok();
    let joined = sessions.join(session).await.is_ok();
    let read = sessions.history(session, &history()).await.error.is_none();
    let listed = listed(sessions).await.contains(&session.to_string());
    assert_eq!([attached; 3], [joined, read, listed], "{session}");
    if !attached {
        let own = sessions
            .attach(session, &SessionAttach::default())
            .await
            .unwrap_err();
        let never = sessions
            .attach(&id("never was"), &SessionAttach::default())
            .await
            .unwrap_err();
        assert_eq!(own, never, "it looks as if it had never been");
        assert!(matches!(
            sessions.remove(session).await,
            Err(RemoveError::Unknown)
        ));
    }
    attached
}

#[tokio::test]
async fn a_session_of_another_is_not_there_for_a_visitor() {
    let folder = tempfile::tempdir().unwrap();
    let all = [
        ("ann", visitor("ann", false, true, None)),
        ("bob", visitor("bob", false, true, None)),
        ("boss", visitor("boss", true, true, None)),
        ("of-y", visitor("of-y", true, true, Some(&["y"]))),
    ];
    for round in 0..2 {
        let (sessions, _kept) = opened(folder.path()).await;
        let mut open = Vec::new();
        if round == 0 {
            open.push(
                sessions
                    .start(&id("mine"), "x", SessionStart::default(), None, None)
                    .unwrap(),
            );
            let ann = sessions.for_visitor(all[0].1.clone());
            open.push(
                ann.start(&id("ann's x"), "x", SessionStart::default(), None, None)
                    .unwrap(),
            );
            open.push(
                ann.start(&id("ann's y"), "y", SessionStart::default(), None, None)
                    .unwrap(),
            );
            for listener in &mut open {
                let mut lines = Vec::new();
                assert_eq!(
                    listener.next(&mut lines).await.unwrap(),
                    StreamItem::Entries
                );
            }
        }
        for (session, seen_by) in [
            ("mine", vec!["boss"]),
            ("ann's x", vec!["ann", "boss"]),
            ("ann's y", vec!["ann", "boss", "of-y"]),
        ] {
            assert!(
                is_there(&sessions, &id(session)).await,
                "the user of the host sees all"
            );
            for (name, visitor) in &all {
                let its = sessions.for_visitor(visitor.clone());
                assert_eq!(
                    is_there(&its, &id(session)).await,
                    seen_by.contains(name),
                    "{name}: {session}"
                );
            }
        }
        drop(open);
        sessions.finish().await;
        sessions.close().await;
    }
}

#[tokio::test]
async fn one_who_may_only_listen_does_not_speak_and_who_speaks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (sessions, _kept) = opened(folder.path()).await;
    let observer = visitor("tv", true, false, None);
    let ann = visitor("ann", false, true, Some(&["x"]));
    let watched = sessions.for_visitor(observer);
    let own = sessions.for_visitor(ann);
    for (sessions, agent) in [(&watched, "x"), (&own, "y")] {
        let refused = sessions.start(&id("s"), agent, SessionStart::default(), None, None);
        let Err(StartError::Refused(refused)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refused.reason, Some(AttachRefusal::Forbidden));
    }
    let mut begun = own
        .start(&id("s"), "x", SessionStart::default(), None, None)
        .unwrap();
    let control = SessionAttach {
        role: Some(Role::Control),
        ..SessionAttach::default()
    };
    let (attached, watching) = watched.attach(&id("s"), &control).await.unwrap();
    assert_eq!(attached.role, Some(Role::Observe), "whatever it asks for");
    assert!(matches!(
        watched.remove(&id("s")).await,
        Err(RemoveError::Denied)
    ));

    let input = |text: &str| HostMessage::new(id("s"), UserInput::text(text));
    assert!(watching.sender().send(input("from the observer")).await);
    assert!(begun.sender().send(input("from ann")).await);
    let mut lines = Vec::new();
    while !String::from_utf8_lossy(&lines).contains("\"turn.begin\"") {
        let item = begun.next(&mut lines).await.unwrap();
        assert!(!matches!(item, StreamItem::Ended(_)), "{item:?}");
    }
    let lines = String::from_utf8(lines).unwrap();
    let begin = lines
        .lines()
        .find(|line| line.contains("\"turn.begin\""))
        .unwrap();
    assert!(
        begin.contains("from ann") && begin.contains("\"by\":\"ann/l-"),
        "{begin}"
    );
    sessions.finish().await;
    sessions.close().await;
}
