//! The store has lost content, or is an older copy: the number of an entry that a client has seen
//! is never assigned to another one.

use trunkline_cluster::{marks::Marks, memory::Memory, node::JoinError, store::Space};
use trunkline_gateway::{Peers, SessionLocation};
use trunkline_protocol::SessionId;
use trunkline_sessions::{Listener, StreamItem};

use super::{
    id,
    machine::{Known, Machine, until},
};

/// Waits until a host serves nothing and reports the reason.
async fn says(machine: &Machine, id: &SessionId, part: &str) {
    until(|| machine.marks.lost().is_some() && machine.sessions.owned().is_empty()).await;
    let place = machine.node.locate(id).await;
    let is_said = matches!(&place, SessionLocation::Unavailable { why, .. } if why.contains(part));
    assert!(is_said, "{place:?}");
    let refused = machine
        .node
        .place(&super::id("new"), Some("echo"))
        .await
        .unwrap_err();
    assert!(refused.contains(part), "{refused}");
}

/// Returns everything that a subscriber receives until its end.
async fn rest(mut listener: Listener) -> String {
    let mut lines = Vec::new();
    while let Ok(StreamItem::Entries | StreamItem::Reply) = listener.next(&mut lines).await {}
    String::from_utf8(lines).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_ends_when_the_journal_under_it_is_an_older_copy() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let older = id("older");
    let same = id("same");
    for id in [&older, &same] {
        a.open_here(id).await;
        a.turn(id, "m-1", "one").await;
    }
    let copy = memory.copy(Space::Journal);
    a.turn(&older, "m-2", "two").await;
    memory.restore(copy);
    // Nothing of this session is missing: only the number reveals the loss.
    let heard = rest(a.say(&same, "m-3", "three").await).await;
    assert!(!heard.contains("three"), "it was shown: {heard}");
    says(&a, &same, "journal gave the number").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_ends_when_a_space_is_lost_though_no_one_works() {
    for space in [Space::Sessions, Space::Journal] {
        let memory = Memory::default();
        let a = Machine::start(&memory, "a").await;
        let id = id("s");
        a.open_here(&id).await;
        a.turn(&id, "m-1", "one").await;
        memory.lose(space);
        says(&a, &id, &format!("its {space} was made at 1")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_goes_on_when_the_store_was_behind_for_a_moment() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    let older = memory.copy(Space::Journal);
    a.turn(&id, "m-1", "one").await;
    let whole = memory.copy(Space::Journal);
    // As a server answers that others have left behind.
    memory.restore(older);
    says(&a, &id, "had come to number").await;
    memory.restore(whole);
    a.has(&id).await;
    assert_eq!(a.turn(&id, "m-2", "two").await, "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_has_seen_more_does_not_join() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    let copy = memory.copy(Space::Journal);
    a.turn(&id, "m-1", "one").await;
    // Everything is stored: the host has it again.
    let again = Machine::again(&memory, "a", a.end().await).await.unwrap();
    until(|| again.sessions.owns(&id)).await;
    let known = again.end().await;
    memory.restore(copy);
    let refused = Machine::again(&memory, "a", known).await.unwrap_err();
    assert!(
        matches!(&refused, JoinError::Lost(why) if why.contains("had come to number")),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_which_the_store_has_less_than_this_host_is_not_taken() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m-1", "one").await;
    let copy = memory.copy(Space::Journal);
    a.turn(&id, "m-2", "two").await;
    let known = a.end().await;
    memory.restore(copy);
    // As if no mark had been kept: what this machine has is enough.
    let again = Machine::again(
        &memory,
        "a",
        Known {
            marks: Marks::default(),
            ..known
        },
    )
    .await
    .unwrap();
    let place = again.node.locate(&id).await;
    let is_said = matches!(&place, SessionLocation::Unavailable { why, .. } if why.contains("has entries of the session up to"));
    assert!(is_said, "{place:?}");
}
