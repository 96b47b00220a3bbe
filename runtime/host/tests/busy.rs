//! Steers, updates and files are bounded as inputs are: the excess is refused, and the rest
//! continues.

mod support;

use std::time::Duration;

use support::{Peer, agent, named, played, soon};
use tokio::task::JoinHandle;
use trunkline_host::{
    Cause, FileError, Host, SendError, Session, SteerError, UpdateError, config::AgentConfig,
    protocol::SessionUpdate,
};

const READY: &str = r#","extensions":["turns","events","options"],"input_modes":["steer"]"#;

/// A session whose adapter can be steered and changes options; its first turn runs.
async fn running(agent: AgentConfig, pipe: usize) -> (Host, Session, Peer) {
    let (host, mut peers) = played(agent, pipe);
    let session = host.open("a", named("s")).expect("a session");
    let mut peer = soon(peers.recv()).await.expect("a start");
    peer.read("session.start").await;
    peer.say("session.ready", "s", READY).await;
    session.send("x").expect("room").detach();
    peer.read("user.input").await;
    (host, session, peer)
}

/// At most two of each wait.
fn two() -> AgentConfig {
    let mut agent = agent();
    agent.limits.queued_inputs = 2;
    agent
}

/// Lets the link and all callers do what they can.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn steer(session: &Session, text: &str) -> JoinHandle<Result<(), SteerError>> {
    let session = session.clone();
    let text = text.to_owned();
    tokio::spawn(async move { session.steer(text).await })
}

fn update(session: &Session, model: &str) -> JoinHandle<Result<(), UpdateError>> {
    let update = SessionUpdate {
        model: Some(model.to_owned()),
        ..SessionUpdate::default()
    };
    let session = session.clone();
    tokio::spawn(async move { session.update(update).await.map(|_| ()) })
}

#[tokio::test(start_paused = true)]
async fn steers_and_updates_without_an_answer_are_bounded_and_keep_no_input_out() {
    let (_host, session, mut peer) = running(two(), 1 << 20).await;
    let steered = steer(&session, "one");
    let updated = update(&session, "m");
    let message = peer.read("user.input").await;
    peer.read("session.update").await;
    assert_eq!(
        soon(steer(&session, "too many")).await.unwrap(),
        Err(SteerError::Busy)
    );
    assert_eq!(
        soon(update(&session, "too many")).await.unwrap(),
        Err(UpdateError::Busy)
    );
    let two = session.send("two").unwrap();
    let three = session.send("three").unwrap();
    assert_eq!(session.send("too many").unwrap_err(), SendError::Busy);

    let answer = format!(
        r#","message_id":{},"delivered":true"#,
        message["message_id"]
    );
    peer.say("steer.result", "s", &answer).await;
    assert_eq!(soon(steered).await.unwrap(), Ok(()));
    let again = steer(&session, "again");
    peer.read("user.input").await;
    peer.say("session.info", "s", r#","model":"m""#).await;
    assert_eq!(soon(updated).await.unwrap(), Ok(()));
    // The end of a turn answers what it left open.
    for turn in ["t1", "t2", "t3"] {
        peer.say("turn.complete", "s", &format!(r#","turn_id":"{turn}""#))
            .await;
    }
    assert_eq!(soon(again).await.unwrap(), Err(SteerError::NoTurn));
    assert_eq!(soon(two.end()).await.cause, Cause::Complete);
    assert_eq!(soon(three.end()).await.cause, Cause::Complete);
    let updates = [update(&session, "n"), update(&session, "n")];
    peer.read("session.update").await;
    peer.read("session.update").await;
    soon(session.close()).await;
    for update in updates {
        assert_eq!(soon(update).await.unwrap(), Err(UpdateError::Closed));
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_of_steers_and_updates_count_until_the_pipe_has_them() {
    const BIG: usize = 8 * 1024;
    let mut agent = agent();
    agent.limits.outbox = BIG;
    let (_host, session, mut peer) = running(agent, 256).await;
    let big = "x".repeat(BIG);
    let first = steer(&session, &big);
    settle().await;
    // The pipe has not taken the first.
    assert_eq!(
        soon(steer(&session, &big)).await.unwrap(),
        Err(SteerError::Busy)
    );
    assert_eq!(
        soon(update(&session, &big)).await.unwrap(),
        Err(UpdateError::Busy)
    );
    assert_eq!(session.send(big.as_str()).unwrap_err(), SendError::Busy);
    let message = peer.read("user.input").await;
    settle().await;
    // It has no answer yet, and is in the way of nothing.
    let second = update(&session, &big);
    settle().await;
    assert_eq!(
        soon(steer(&session, &big)).await.unwrap(),
        Err(SteerError::Busy)
    );
    peer.read("session.update").await;
    settle().await;
    let third = session.send(big.as_str()).unwrap();
    peer.say("session.info", "s", r#","model":"m""#).await;
    let answer = format!(
        r#","message_id":{},"delivered":true"#,
        message["message_id"]
    );
    peer.say("steer.result", "s", &answer).await;
    assert_eq!(
        (soon(first).await.unwrap(), soon(second).await.unwrap()),
        (Ok(()), Ok(()))
    );
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    peer.read("user.input").await;
    peer.say("turn.complete", "s", r#","turn_id":"t2""#).await;
    assert_eq!(soon(third.end()).await.cause, Cause::Complete);
}

#[tokio::test]
async fn files_that_wait_behind_an_input_are_bounded_and_are_announced_in_their_place() {
    let (_host, session, mut peer) = running(two(), 1 << 20).await;
    let second = session.send("two").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "1").unwrap();
    for _ in 0..2 {
        soon(session.deliver_file(&file, None, None)).await.unwrap();
    }
    let refused = soon(session.deliver_file(&file, None, None))
        .await
        .unwrap_err();
    assert!(matches!(refused, FileError::Busy), "{refused}");
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    peer.read("user.input").await;
    peer.read("file.input").await;
    peer.read("file.input").await;
    // A file that is refused counts no longer, either.
    for _ in 0..3 {
        let missing = soon(session.deliver_file(folder.path().join("missing"), None, None)).await;
        assert!(matches!(missing, Err(FileError::Refused(_))), "{missing:?}");
    }
    soon(session.deliver_file(&file, None, None)).await.unwrap();
    peer.read("file.input").await;
    peer.say("turn.complete", "s", r#","turn_id":"t2""#).await;
    assert_eq!(soon(second.end()).await.cause, Cause::Complete);
}
