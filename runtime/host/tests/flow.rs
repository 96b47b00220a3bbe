//! A turn that its embedder does not read is held back at the adapter ([flow.1]), before its output
//! goes to disk; and what happens where that does not help.

mod support;

use std::time::Duration;

use support::{Peer, agent, core_agent, named, played, played_with, soon};
use trunkline_host::{
    Cause, EventDelivery, EventKind, Host, Session, SessionOptions,
    config::{Buffers, Config},
    protocol::ClosedReason,
};

const KIB: usize = 1024;
const ALL: &str = r#","extensions":["turns","events","options","flow"],"input_modes":["steer"]"#;

/// Lets the link and all readers do what they can.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A session whose adapter knows `flow`.
async fn opened(host: &Host, peer: &mut Peer, id: &str) -> Session {
    let session = host.open("a", named(id)).expect("a session");
    peer.read("session.start").await;
    peer.say("session.ready", id, ALL).await;
    session
}

/// The first session of a host, and its adapter.
async fn first(delivery: EventDelivery) -> (Host, Session, Peer) {
    let (host, mut peers) = played(agent(), 1024 * KIB);
    let session = host
        .open(
            "a",
            SessionOptions {
                delivery,
                ..named("s")
            },
        )
        .expect("a session");
    let mut peer = soon(peers.recv()).await.expect("a start");
    peer.read("session.start").await;
    peer.say("session.ready", "s", ALL).await;
    (host, session, peer)
}

async fn output(peer: &mut Peer, id: &str, turn: &str, kib: usize) {
    let content = "x".repeat(kib * KIB);
    peer.say(
        "output",
        id,
        &format!(r#","turn_id":"{turn}","content":"{content}""#),
    )
    .await;
    settle().await;
}

/// Returns the types of the host's messages since the last call.
async fn wrote(peer: &mut Peer) -> Vec<String> {
    settle().await;
    let mut kinds = Vec::new();
    while let Ok(line) = tokio::time::timeout(Duration::from_millis(5), peer.read_line()).await {
        let message: serde_json::Value =
            serde_json::from_str(&line.expect("the host is there")).expect("JSON");
        kinds.push(message["type"].as_str().expect("a type").to_owned());
    }
    kinds
}

fn spooled(host: &Host) -> u64 {
    host.agent("a").expect("an agent").counters.spooled_bytes
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_read_is_held_back_before_the_disk_is_used_and_goes_on_when_it_is_read()
{
    let (host, session, mut peer) = first(EventDelivery::PerTurn).await;
    let mut turn = session.send("x").unwrap();
    peer.read("user.input").await;
    output(&mut peer, "s", "t1", 80).await;
    assert_eq!(
        wrote(&mut peer).await,
        [""; 0],
        "its reader may be about to read"
    );
    output(&mut peer, "s", "t1", 1).await;
    assert_eq!(wrote(&mut peer).await, ["flow.pause"]);
    // What the pipe held comes, and fits.
    output(&mut peer, "s", "t1", 64).await;
    assert_eq!((wrote(&mut peer).await.len(), spooled(&host)), (0, 0));
    for bytes in [80, 1] {
        let EventKind::Output(output) = soon(turn.next()).await.unwrap().kind else {
            panic!("an output")
        };
        assert_eq!(output.content.len(), bytes * KIB);
    }
    assert_eq!(wrote(&mut peer).await, [""; 0], "much is still unread");
    soon(turn.next()).await.unwrap();
    assert_eq!(wrote(&mut peer).await, ["flow.resume"]);
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_read_is_never_held_back() {
    let (_host, session, mut peer) = first(EventDelivery::PerTurn).await;
    let turn = session.send("x").unwrap();
    let reading = tokio::spawn(turn.text());
    for _ in 0..32 {
        output(&mut peer, "s", "t1", 128).await;
    }
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    assert_eq!(soon(reading).await.unwrap().0.len(), 32 * 128 * KIB);
    assert_eq!(wrote(&mut peer).await, ["user.input"]);
}

#[tokio::test(start_paused = true)]
async fn what_no_one_reads_outside_turns_holds_back_no_turn() {
    let (host, session, mut peer) = first(EventDelivery::PerTurn).await;
    for _ in 0..8 {
        let big = "m".repeat(64 * KIB);
        peer.say("session.info", "s", &format!(r#","model":"{big}""#))
            .await;
        settle().await;
    }
    assert!(spooled(&host) > 0);
    for number in 1..=3 {
        let turn = session.send("x").unwrap();
        peer.read("user.input").await;
        let of_turn = format!(r#","turn_id":"t{number}""#);
        peer.say("output", "s", &format!(r#"{of_turn},"content":"fine""#))
            .await;
        peer.say("turn.complete", "s", &of_turn).await;
        assert_eq!(soon(turn.text()).await.0, "fine");
    }
    assert_eq!(wrote(&mut peer).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_let_go_of_is_resumed() {
    let (_host, session, mut peer) = first(EventDelivery::PerTurn).await;
    let turn = session.send("x").unwrap();
    output(&mut peer, "s", "t1", 80).await;
    output(&mut peer, "s", "t1", 80).await;
    assert_eq!(wrote(&mut peer).await, ["user.input", "flow.pause"]);
    turn.detach();
    assert_eq!(wrote(&mut peer).await, ["flow.resume"]);
    output(&mut peer, "s", "t1", 80).await;
    output(&mut peer, "s", "t1", 80).await;
    assert_eq!(wrote(&mut peer).await, [""; 0]);
    session.stop();
    peer.read("stop").await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_comes_through_to_a_turn_that_is_held_back() {
    let (_host, session, mut peer) = first(EventDelivery::PerTurn).await;
    let turn = session.send("x").unwrap();
    output(&mut peer, "s", "t1", 80).await;
    output(&mut peer, "s", "t1", 80).await;
    drop(turn);
    assert_eq!(
        wrote(&mut peer).await,
        ["user.input", "flow.pause", "flow.resume", "stop"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_reader_of_a_session_that_is_behind_holds_its_turn_back() {
    let (_host, session, mut peer) = first(EventDelivery::Merged).await;
    session.send("x").unwrap().detach();
    session.send("y").unwrap().detach();
    output(&mut peer, "s", "t1", 80).await;
    output(&mut peer, "s", "t1", 80).await;
    assert_eq!(wrote(&mut peer).await, ["user.input", "flow.pause"]);
    let mut outputs = 0;
    while outputs < 2 {
        let event = soon(session.next_event()).await.unwrap();
        outputs += usize::from(matches!(event.kind, EventKind::Output(_)));
    }
    assert_eq!(wrote(&mut peer).await, ["flow.resume"]);
    // A pause that its user asks for holds back what there may be.
    session.pause();
    assert_eq!(wrote(&mut peer).await, ["flow.pause"]);
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    assert_eq!(
        wrote(&mut peer).await,
        ["flow.resume", "user.input", "flow.pause"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_held_back_keeps_no_neighbour_waiting() {
    let (host, session, mut peer) = first(EventDelivery::PerTurn).await;
    let _unread = session.send("x").unwrap();
    output(&mut peer, "s", "t1", 80).await;
    output(&mut peer, "s", "t1", 80).await;
    assert_eq!(wrote(&mut peer).await, ["user.input", "flow.pause"]);
    let other = opened(&host, &mut peer, "other").await;
    let turn = other.send("x").unwrap();
    let reading = tokio::spawn(turn.text());
    peer.read("user.input").await;
    for _ in 0..8 {
        output(&mut peer, "other", "t1", 128).await;
    }
    peer.say("turn.complete", "other", r#","turn_id":"t1""#)
        .await;
    assert_eq!(soon(reading).await.unwrap().0.len(), 8 * 128 * KIB);
    assert_eq!((wrote(&mut peer).await.len(), spooled(&host)), (0, 0));
}

/// A host whose adapter knows only the core, so that what is unread goes to disk.
fn with_buffers(buffers: Buffers) -> (Host, tokio::sync::mpsc::Receiver<Peer>) {
    let mut config = Config::new(Vec::new());
    config.buffers = buffers;
    played_with(Host::builder().config(config), core_agent(), 1024 * KIB)
}

#[tokio::test]
async fn a_disk_at_its_brim_ends_the_session_and_says_how_much_waits() {
    const LINES: usize = 96;
    let buffers = Buffers {
        mailbox: 64 * KIB,
        spool: 2 << 20,
        ..Buffers::default()
    };
    let (host, mut peers) = with_buffers(buffers);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    let content = "x".repeat(32 * KIB);
    for _ in 0..LINES {
        peer.say("output", "s", &format!(r#","content":"{content}""#))
            .await;
    }
    let mut read = 0;
    let end = loop {
        match soon(turn.next()).await.unwrap().kind {
            EventKind::Output(_) => read += 1,
            EventKind::End(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    // What went to disk comes back, up to the brim.
    assert_eq!(end.cause, Cause::Limit);
    assert!((64..LINES).contains(&read), "{read} were read");
    let EventKind::Closed(end) = soon(session.next_event()).await.unwrap().kind else {
        panic!("an end")
    };
    assert_eq!(end.reason, ClosedReason::Limit);
    let message = end.error.unwrap().message.unwrap();
    let bytes = message
        .split(' ')
        .find_map(|word| word.parse::<usize>().ok())
        .unwrap_or_default();
    assert!(bytes > 2 << 20 && bytes < 3 << 20, "{message}");
    let counters = host.agent("a").unwrap().counters;
    assert_eq!(counters.overflows, 1);
    while (host.agent("a").unwrap().counters.late as usize) < LINES - read - 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn reading_pauses_while_the_disk_is_behind_and_loses_nothing() {
    let buffers = Buffers {
        mailbox: 16 * KIB,
        backlog: 1,
        ..Buffers::default()
    };
    let (host, mut peers) = with_buffers(buffers);
    let session = host.open("a", named("s")).unwrap();
    let turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    let content = "x".repeat(64 * KIB);
    let mut lines = 0;
    // A block is on its way to disk while the next is read: sooner or later the link meets it there.
    while host.agent("a").unwrap().counters.pauses == 0 {
        assert!(lines < 4096, "the link never paused");
        peer.say("output", "s", &format!(r#","content":"{content}""#))
            .await;
        lines += 1;
    }
    peer.say("turn.complete", "s", "").await;
    let (text, end) = soon(turn.text()).await;
    assert_eq!(
        (text.len(), end.cause),
        (lines * content.len(), Cause::Complete)
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_over_its_rate_keeps_no_neighbour_waiting() {
    let mut agent = agent();
    (agent.limits.max_output_rate, agent.limits.output_burst) =
        (Some(64 * KIB as u64), 256 * KIB as u64);
    let (host, mut peers) = played(agent, 1024 * KIB);
    let session = host.open("a", named("s")).unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.read("session.start").await;
    peer.say("session.ready", "s", ALL).await;
    let turn = session.send("x").unwrap();
    let reading = tokio::spawn(turn.text());
    output(&mut peer, "s", "t1", 128).await;
    assert_eq!(wrote(&mut peer).await, ["user.input"]);
    output(&mut peer, "s", "t1", 130).await;
    assert_eq!(wrote(&mut peer).await, ["flow.pause"]);
    assert!(soon(session.status()).await.unwrap().held_back);

    let other = opened(&host, &mut peer, "other").await;
    let turn = other.send("x").unwrap();
    let others = tokio::spawn(turn.text());
    output(&mut peer, "other", "t1", 128).await;
    peer.say("turn.complete", "other", r#","turn_id":"t1""#)
        .await;
    assert_eq!(soon(others).await.unwrap().0.len(), 128 * KIB);
    assert_eq!(
        wrote(&mut peer).await,
        ["user.input"],
        "it is held back still"
    );

    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(wrote(&mut peer).await, ["flow.resume"]);
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    let (text, end) = soon(reading).await.unwrap();
    assert_eq!((text.len(), end.cause), (258 * KIB, Cause::Complete));
}
