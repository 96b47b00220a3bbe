//! Ends and their causes: permanent failures, time limits, sessions that move, hosts without a
//! journal.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_client::{
    Client, ClientError, Connect, ConnectError, Pipe, ReconnectPolicy, Streams,
    protocol::{AttachRefusal, ClosedReason, SessionAttach, SessionStart},
};

use super::script::{Script, Scripts, entry, id_of, session};

async fn opened(
    scripts: Scripts,
    hosts: &mut tokio::sync::mpsc::Receiver<Script>,
    extensions: &[&str],
) -> (
    Client,
    Script,
    trunkline_client::Session,
    trunkline_client::Events,
) {
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let start = client.open(SessionStart::default());
    let (opened, _) = tokio::join!(start, host.ready(extensions));
    let (session, events) = opened.unwrap();
    (client, host, session, events)
}

#[tokio::test(start_paused = true)]
async fn a_first_connection_that_fails_is_not_tried_again() {
    struct Fails(u32);
    impl Connect for Fails {
        async fn connect(&mut self) -> Result<Pipe, ConnectError> {
            self.0 += 1;
            assert_eq!(self.0, 1);
            Err(ConnectError::transient("it is not there"))
        }
    }
    let failure = Client::connect(Fails(0)).await.unwrap_err();
    assert!(matches!(&failure, ClientError::Unreachable(_)) && !failure.is_permanent());
    assert_eq!(
        failure.to_string(),
        "the host cannot be reached: it is not there"
    );
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_ends_everything_at_once_with_its_reason() {
    let (scripts, mut hosts) = Scripts::new();
    let refused = ConnectError::permanent("the token is refused");
    let scripts = scripts.then([refused.clone()]);
    let (client, host, session, mut events) =
        opened(scripts, &mut hosts, &["turns", "journal"]).await;
    let mut turn = session.send("lost").await.unwrap();
    let since = Instant::now();
    drop(host);
    let lost = ClientError::ConnectionLost(refused);
    assert_eq!(turn.end().await, Err(lost.clone()));
    assert!(since.elapsed() < Duration::from_secs(1) && lost.is_permanent());
    assert_eq!(turn.accepted().await, Err(lost.clone()));
    assert_eq!(events.next().await, Err(lost.clone()));
    assert_eq!(
        events.next().await,
        Err(lost.clone()),
        "again for each call"
    );
    assert_eq!(session.send("more").await.err(), Some(lost.clone()));
    assert_eq!(session.close().await, Err(lost.clone()));
    assert_eq!(client.agents(false).await, Err(lost));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stays_away_is_given_up_after_the_time_limit() {
    let (scripts, mut hosts) = Scripts::new();
    let scripts = scripts.then([ConnectError::transient("nothing listens")]);
    let (_client, host, _session, mut events) =
        opened(scripts, &mut hosts, &["turns", "journal"]).await;
    let since = Instant::now();
    drop(host);
    let lost = events.next().await.unwrap_err();
    assert!(matches!(&lost, ClientError::ConnectionLost(_)) && !lost.is_permanent());
    assert!(lost.to_string().contains("nothing listens"), "{lost}");
    let limit = ReconnectPolicy::default().give_up_after;
    assert!(since.elapsed() >= limit && since.elapsed() < limit * 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_accepts_and_breaks_again_is_given_up_too() {
    let (scripts, mut hosts) = Scripts::new();
    let (_client, host, _session, mut events) =
        opened(scripts, &mut hosts, &["turns", "journal"]).await;
    drop(host);
    tokio::spawn(async move { while hosts.recv().await.is_some() {} });
    let since = Instant::now();
    assert!(matches!(
        events.next().await,
        Err(ClientError::ConnectionLost(_))
    ));
    assert!(since.elapsed() < Duration::from_secs(120));
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_journal_ends_with_its_connection_and_others_are_attached_again() {
    let (scripts, mut hosts) = Scripts::new();
    let (client, mut host, short, mut short_events) = opened(scripts, &mut hosts, &["turns"]).await;
    let start = client.open(SessionStart::default());
    let (long, _) = tokio::join!(start, host.ready(&["turns", "journal"]));
    let (long, mut long_events) = long.unwrap();
    let mut turn = short.send("hello").await.unwrap();
    assert_eq!(turn.accepted().await.unwrap().seq, None);
    drop(host);
    assert!(matches!(
        turn.end().await,
        Err(ClientError::ConnectionLost(_))
    ));
    assert!(matches!(
        short_events.next().await,
        Err(ClientError::ConnectionLost(_))
    ));
    let mut host = hosts.recv().await.unwrap();
    // The start was answered, and no entry came: the host may have nothing of the session.
    let start = host.expect("session.start").await;
    assert_eq!(id_of(&start), long.id().to_string());
    host.write(
        &json!({"type": "session.refused", "session_id": id_of(&start), "reason": "exists"}),
    )
    .await;
    let attach = host.attached(1, &json!({})).await;
    assert_eq!(
        (id_of(&attach), &attach["after"]),
        (long.id().to_string(), &json!(0))
    );
    host.write(&entry(
        long.id().as_str(),
        1,
        "host.fact",
        &json!({"fact": "opened"}),
    ))
    .await;
    assert_eq!(
        long_events.next().await.unwrap().unwrap().stamp.seq,
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_moves_is_attached_again_and_repeats_what_has_no_acceptance() {
    let (scripts, mut hosts) = Scripts::new();
    let (_client, mut host, session, mut events) =
        opened(scripts, &mut hosts, &["turns", "journal"]).await;
    let id = session.id().to_string();
    host.write(&entry(&id, 1, "host.fact", &json!({"fact": "opened"})))
        .await;
    let turn = session.send("hello").await.unwrap();
    let first = host.expect("user.input").await;
    for _ in 0..3 {
        host.write(&json!({"type": "session.refused", "session_id": id, "reason": "unavailable"}))
            .await;
        assert_eq!(host.expect("session.attach").await["after"], 1);
    }
    host.write(
        &json!({"type": "session.attached", "session_id": id, "agent_id": "a",
        "state": "idle", "first_seq": 1, "last_seq": 2, "epoch": 2}),
    )
    .await;
    host.write(&entry(&id, 2, "host.fact", &json!({"fact": "moved"})))
        .await;
    assert_eq!(host.expect("user.input").await, first, "the same line");
    let ended = json!({"turn_id": turn.id().as_str()});
    host.write(&entry(&id, 3, "turn.complete", &ended)).await;
    let mut last = events.next().await.unwrap().unwrap();
    while !last.ends(&turn) {
        last = events.next().await.unwrap().unwrap();
    }
    // From now on it is never served.
    tokio::spawn(async move {
        loop {
            let refusal =
                json!({"type": "session.refused", "session_id": id, "reason": "unavailable"});
            host.write(&refusal).await;
            if host.read().await.is_none() {
                return;
            }
        }
    });
    let unserved = events.next().await.unwrap_err();
    assert!(
        matches!(&unserved, ClientError::SessionUnserved { .. }),
        "{unserved}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_the_cause_that_its_host_names() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attach = client.attach(session("s"), SessionAttach::default());
    let refuse = async {
        host.expect("session.attach").await;
        let refusal = json!({"type": "session.refused", "session_id": "s", "reason": "gone",
            "message": "it was removed"});
        host.write(&refusal).await;
    };
    let (refused, ()) = tokio::join!(attach, refuse);
    let refused = refused.unwrap_err();
    let ClientError::SessionRefused { reason, .. } = &refused else {
        panic!("{refused}")
    };
    assert!(*reason == Some(AttachRefusal::Gone) && refused.is_permanent());

    let attach = client.attach(session("s"), SessionAttach::default());
    let (attached, _) = tokio::join!(attach, host.attached(0, &Value::Null));
    let (attached, mut events) = attached.unwrap();
    let mut turn = attached.send("hello").await.unwrap();
    host.expect("user.input").await;
    let closed = json!({"reason": "failed", "error": {"category": "auth", "message": "expired"}});
    host.write(&entry("s", 1, "session.closed", &closed)).await;
    let cause = turn.end().await.unwrap_err();
    let ClientError::SessionClosed { reason, .. } = &cause else {
        panic!("{cause}")
    };
    assert_eq!(*reason, Some(ClosedReason::Failed));
    assert_eq!(cause.to_string(), "the session is closed (failed): expired");
    assert!(
        events.next().await.unwrap().is_some(),
        "the end is an event"
    );
    assert_eq!(events.next().await, Ok(None));
    assert_eq!(
        attached.close().await,
        Ok(()),
        "closed twice is closed once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_over_the_network_that_answers_no_ping_is_lost() {
    let (scripts, mut hosts) = Scripts::new();
    let (_client, mut host, _session, _events) =
        opened(scripts.over_network(), &mut hosts, &["turns", "journal"]).await;
    for _ in 0..5 {
        host.expect("ping").await;
        host.write(&json!({"type": "pong", "session_id": ""})).await;
    }
    for _ in 0..3 {
        host.expect("ping").await;
    }
    assert_eq!(host.read().await, None, "the connection is closed");
    assert!(hosts.recv().await.is_some(), "and made again");
}

#[tokio::test(start_paused = true)]
async fn streams_that_end_are_not_made_again() {
    let (near, far) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(near);
    let client = Client::connect(Streams::new(input, output)).await.unwrap();
    drop(far);
    let lost = client.agents(false).await.unwrap_err();
    assert!(
        matches!(&lost, ClientError::ConnectionLost(_)) && lost.is_permanent(),
        "{lost}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_entry_that_closes_a_session_is_waited_for_unless_it_was_there_before() {
    let (scripts, mut hosts) = Scripts::new();
    let (client, mut host, closing, mut events) =
        opened(scripts, &mut hosts, &["turns", "journal"]).await;
    let id = closing.id().to_string();
    host.write(&entry(&id, 1, "host.fact", &json!({"fact": "opened"})))
        .await;
    events.next().await.unwrap().unwrap();
    let closes = async {
        host.expect("session.close").await;
        host.attached(1, &json!({"state": "closed"})).await;
        host.write(&entry(&id, 2, "session.closed", &json!({})))
            .await;
        // Otherwise the host could not remove it.
        host.expect("session.detach").await;
    };
    let (closed, ()) = tokio::join!(closing.close(), closes);
    closed.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().stamp.seq, Some(2));
    assert_eq!(events.next().await, Ok(None));

    let attach = SessionAttach {
        after: 2,
        ..SessionAttach::default()
    };
    let attach = client.attach(session(&id), attach);
    let closed = json!({"state": "closed"});
    let (attached, _) = tokio::join!(attach, host.attached(2, &closed));
    let (_session, mut events) = attached.unwrap();
    assert_eq!(events.next().await, Ok(None));
    host.expect("session.detach").await;
}
