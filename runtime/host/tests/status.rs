//! Sessions as an embedder sees them: the open ones, their activity and their use.

mod support;

use std::time::Duration;

use support::{Peer, agent, named, played, soon};
use trunkline_host::{EventKind, SessionState, SessionStatus};

const READY: &str = r#","extensions":["turns","events","control","options","flow"]"#;

/// Says a message, and gives its length.
async fn say(peer: &mut Peer, kind: &str, session: &str, more: &str) -> u64 {
    peer.say(kind, session, more).await;
    format!("{{\"type\":\"{kind}\",\"session_id\":\"{session}\"{more}}}\n").len() as u64
}

/// Reads lines up to one of this type, and gives their length.
async fn read(peer: &mut Peer, kind: &str) -> u64 {
    let mut bytes = 0;
    loop {
        let line = peer.read_line().await.expect("a line");
        bytes += line.len() as u64 + 1;
        if line.contains(&format!(r#""type":"{kind}""#)) {
            return bytes;
        }
    }
}

fn ids(sessions: &[SessionStatus]) -> Vec<&str> {
    sessions.iter().map(|session| session.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_is_counted_by_itself_and_its_neighbour_is_not() {
    let (host, mut peers) = played(agent(), 1 << 20);
    assert!(soon(host.sessions()).await.is_empty());
    let session = host.open("a", named("s")).unwrap();
    assert_eq!(
        soon(session.status()).await.unwrap().state,
        SessionState::Unstarted
    );
    let mut peer = soon(peers.recv()).await.unwrap();
    let mut bytes_out = read(&mut peer, "session.start").await;
    let mut bytes_in = say(&mut peer, "session.ready", "s", READY).await;
    let neighbour = host.open("a", named("neighbour")).unwrap();
    let neighbour_start = read(&mut peer, "session.start").await;

    let mut turn = session.send("one").unwrap();
    let _later = (session.send("two").unwrap(), session.send("three").unwrap());
    bytes_out += read(&mut peer, "user.input").await;
    let request = r#","turn_id":"t1","request_id":"r","tool":"T","description":"d","resource":"x""#;
    bytes_in += say(&mut peer, "permission.request", "s", request).await;
    let event = soon(turn.next()).await.unwrap();
    let EventKind::Permission(permission) = event.kind else {
        panic!("a request")
    };
    bytes_in += say(
        &mut peer,
        "output",
        "s",
        r#","turn_id":"t1","content":"unread""#,
    )
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    let now = soon(session.status()).await.unwrap();
    assert_eq!(
        (now.id.as_str(), now.agent.as_str(), now.state),
        ("s", "a", SessionState::Running)
    );
    assert_eq!(
        (now.turn, now.queued_inputs, now.open_requests),
        (Some(turn.no()), 2, 1)
    );
    assert_eq!(
        (now.bytes_in, now.bytes_out, now.held_back),
        (bytes_in, bytes_out, false)
    );
    assert!((7..1024).contains(&now.unread_bytes), "{now:?}");
    let at_least = Some(Duration::from_secs(5));
    assert!(
        now.turn_age >= at_least && now.queue_age >= at_least && now.queue_time.is_zero(),
        "{now:?}"
    );
    let other = soon(neighbour.status()).await.unwrap();
    assert_eq!(
        (other.state, other.turn, other.turn_age),
        (SessionState::Idle, None, None)
    );
    assert_eq!(
        (other.bytes_in, other.bytes_out, other.unread_bytes),
        (0, neighbour_start, 0)
    );
    assert_eq!(
        (other.queued_inputs, other.queue_age, other.open_requests),
        (0, None, 0)
    );

    permission.deny();
    session.pause();
    read(&mut peer, "flow.pause").await;
    let held = soon(session.status()).await.unwrap();
    assert_eq!((held.open_requests, held.held_back), (0, true));
    session.resume();
    say(&mut peer, "turn.complete", "s", r#","turn_id":"t1""#).await;
    read(&mut peer, "user.input").await;
    let then = soon(session.status()).await.unwrap();
    assert_eq!((then.queued_inputs, then.unread_bytes), (1, 0));
    assert!(Some(then.queue_time) >= at_least, "{then:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_lists_its_open_sessions_the_oldest_first() {
    let (host, mut peers) = played(agent(), 1 << 20);
    let mut open = Vec::new();
    for id in ["one", "two", "three"] {
        open.push(host.open("a", named(id)).unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let sessions = soon(host.sessions()).await;
    assert_eq!(ids(&sessions), ["one", "two", "three"]);
    assert!(sessions[0].age >= Duration::from_secs(3), "{sessions:?}");
    let two = open.remove(1);
    soon(two.close()).await;
    assert_eq!(soon(two.status()).await, None);
    let turn = open[1].send("x").unwrap();
    soon(peers.recv()).await.unwrap().read("user.input").await;
    let sessions = soon(host.sessions()).await;
    assert_eq!(ids(&sessions), ["one", "three"]);
    let json = serde_json::to_value(&sessions[1]).unwrap();
    assert_eq!(
        (&json["state"], &json["turn"]),
        (&"running".into(), &turn.no().to_string().into())
    );
    assert!(
        json["age"].is_f64() && json["queue_age"].is_null(),
        "{json}"
    );
    soon(host.shutdown()).await;
    assert!(soon(host.sessions()).await.is_empty());
    assert_eq!(soon(open[0].status()).await, None);
}
