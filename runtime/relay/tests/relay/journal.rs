//! Sessions of a journal for a hub: each entry once, across the end of the hub and of the host.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use trunkline_host::config::{AgentConfig, SessionMay};

use crate::{adapter::Adapter, hub::Hub, world::World};

/// The minimal extensions of a hub of a journal.
pub(crate) const JOURNAL: [&str; 3] = ["turns", "events", "journal"];

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Opens a session and returns its adapter; the first entry has been received.
pub(crate) async fn open(world: &mut World, id: &str) -> Adapter {
    let ready = world.hub.start_with(id, &JOURNAL, json!({})).await;
    assert_eq!(ready["extensions"], json!(JOURNAL));
    let opened = world.hub.expect("host.fact").await;
    assert_eq!(
        (&opened["fact"], &opened["seq"]),
        (&json!("opened"), &json!(1))
    );
    let mut adapter = world.adapters.next().await;
    assert_eq!(adapter.ready().await, id);
    adapter
}

/// Opens the session `s` of a new journal.
async fn open_journaled() -> (TempDir, World, Adapter) {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let adapter = open(&mut world, "s").await;
    (folder, world, adapter)
}

async fn attach(hub: &mut Hub, id: &str, after: u64) -> Value {
    attach_as(hub, id, after, json!({})).await
}

async fn attach_as(hub: &mut Hub, id: &str, after: u64, more: Value) -> Value {
    let mut attach = json!({"type": "session.attach", "session_id": id, "after": after, "protocol": 1,
        "extensions": JOURNAL});
    attach
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    hub.say(attach).await;
    hub.until("session.attached").await
}

/// Returns the next entry: a message with a number.
async fn entry(hub: &mut Hub) -> Value {
    loop {
        let message = hub.hear().await;
        if message.get("seq").is_some() && message["type"] != "input.result" {
            return message;
        }
    }
}

/// Returns the entries up to one of this type.
pub(crate) async fn entries_until(hub: &mut Hub, kind: &str) -> Vec<Value> {
    let mut entries = Vec::new();
    loop {
        entries.push(entry(hub).await);
        if entries.last().unwrap()["type"] == kind {
            return entries;
        }
    }
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect()
}

fn numbers(entries: &[Value]) -> Vec<u64> {
    entries
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_turn_is_entries_numbered_from_one() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "mine", "hello").await;
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "a").await;
    adapter.output("s", &turn, "b").await;
    adapter.complete("s", &turn).await;
    let entries = entries_until(&mut world.hub, "turn.complete").await;
    let expected = ["turn.begin", "output", "output", "turn.complete"];
    let told: Vec<_> = kinds(&entries)
        .into_iter()
        .filter(|kind| *kind != "session.info")
        .collect();
    assert_eq!(told, expected);
    let first = entries[0]["seq"].as_u64().unwrap();
    assert_eq!(
        numbers(&entries),
        (first..first + entries.len() as u64).collect::<Vec<_>>()
    );
    for entry in &entries {
        assert_eq!(entry["epoch"], 1);
        assert!(entry["time"].as_str().unwrap().ends_with('Z'));
        if entry["type"] != "session.info" {
            assert_eq!(entry["turn_id"], "mine");
        }
    }
    world.hub.hang_up().await;
    world.hub.rest().await;
    world.relay.await.unwrap();
}

#[tokio::test]
async fn an_agent_that_queues_gets_several_inputs_in_every_log() {
    for is_stored in [true, false] {
        let folder = folder();
        let mut world = if is_stored {
            World::journaled(folder.path()).await
        } else {
            World::new()
        };
        let mut adapter = if is_stored {
            world.hub.start_with("s", &JOURNAL, json!({})).await;
            world.adapters.next().await
        } else {
            world.hub.start("s").await;
            world.adapters.next().await
        };
        adapter.expect("session.start").await;
        adapter
            .say(
                json!({"type": "session.ready", "session_id": "s", "protocol": 1,
                "extensions": ["turns", "events"], "input_modes": ["queue"]}),
            )
            .await;
        world.hub.until("session.info").await;
        // More than the session hands on at once: the last ones follow the ends of the first.
        let count = 12;
        for number in 0..count {
            let turn = format!("t-{number}");
            world.hub.input("s", &turn, &number.to_string()).await;
        }
        let mut turns = Vec::new();
        for _ in 0..9 {
            turns.push(adapter.turn().await);
        }
        world
            .hub
            .say(json!({"type": "stop", "session_id": "s", "turn_id": "t-7"}))
            .await;
        let stop = adapter.expect("stop").await;
        assert_eq!(stop["turn_id"], json!(turns[7]), "it names the turn");
        for number in 0..count {
            if turns.len() < count && number > 0 {
                turns.push(adapter.turn().await);
            }
            adapter.complete("s", &turns[number]).await;
            let end = world.hub.until("turn.complete").await;
            assert_eq!(end["turn_id"], json!(format!("t-{number}")));
        }
    }
}

#[tokio::test]
async fn who_comes_back_gets_each_entry_once_and_the_same() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "mine", "hello").await;
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "a").await;
    let mut live = entries_until(&mut world.hub, "output").await;
    world.kill().await;

    let mut world = World::journaled(folder.path()).await;
    let attached = attach(&mut world.hub, "s", 0).await;
    assert_eq!(
        (&attached["state"], &attached["epoch"]),
        (&json!("detached"), &json!(2))
    );
    let again = entries_until(&mut world.hub, "turn.complete").await;
    // The first is the entry of the opening, which was received before.
    let known = live.len();
    live.insert(0, again[0].clone());
    assert_eq!(again[..=known], live[..], "what was live is the same line");
    assert_eq!(
        numbers(&again),
        (1..=again.len() as u64).collect::<Vec<_>>()
    );
    assert_eq!(kinds(&again[known + 1..]), ["host.fact", "turn.complete"]);
    let end = again.last().unwrap();
    assert_eq!(
        (
            &end["turn_id"],
            &end["status"],
            &end["error"]["category"],
            &end["delivered"]
        ),
        (
            &json!("mine"),
            &json!("failed"),
            &json!("host_restart"),
            &json!("yes")
        )
    );

    // A second attach replaces the first; an input right after it is accepted.
    let last = again.len() as u64;
    world
        .hub
        .say(
            json!({"type": "session.attach", "session_id": "s", "after": last, "protocol": 1,
        "extensions": JOURNAL}),
        )
        .await;
    world.hub.input("s", "next", "go on").await;
    let attached = world.hub.until("session.attached").await;
    assert_eq!(attached["last_seq"], last);
    let mut adapter = world.adapters.next().await;
    assert_eq!(adapter.ready().await, "s");
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "b").await;
    adapter.complete("s", &turn).await;
    let entries = entries_until(&mut world.hub, "turn.complete").await;
    assert_eq!(
        numbers(&entries),
        (last + 1..=last + entries.len() as u64).collect::<Vec<_>>()
    );
    let context = entries
        .iter()
        .position(|entry| entry["context"] == "lost")
        .unwrap();
    let output = entries
        .iter()
        .position(|entry| entry["type"] == "output")
        .unwrap();
    assert!(context < output, "{entries:?}");
    world.kill().await;
}

#[tokio::test]
async fn an_input_that_was_never_sent_is_said_to_be() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "one", "hello").await;
    world.hub.input("s", "two", "and more").await;
    adapter.turn().await;
    let begun = entries_until(&mut world.hub, "turn.begin").await;
    assert_eq!(begun.last().unwrap()["queued"], false);
    assert_eq!(entry(&mut world.hub).await["queued"], true);
    world.kill().await;

    let mut world = World::journaled(folder.path()).await;
    attach(&mut world.hub, "s", 0).await;
    let one = entries_until(&mut world.hub, "turn.complete")
        .await
        .pop()
        .unwrap();
    let two = entry(&mut world.hub).await;
    assert_eq!(
        (&one["turn_id"], &one["delivered"]),
        (&json!("one"), &json!("unknown"))
    );
    assert_eq!(
        (&two["turn_id"], &two["delivered"]),
        (&json!("two"), &json!("no"))
    );
    let [ran, waited] = [&one, &two].map(|end| end["error"]["message"].as_str().unwrap());
    assert!(ran.contains("while this turn ran"), "{ran}");
    assert!(waited.contains("before this input reached"), "{waited}");
    world.kill().await;
}

#[tokio::test]
async fn the_same_input_twice_is_one_turn() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    let input = json!({"type": "user.input", "session_id": "s", "turn_id": "a", "message_id": "m",
        "content": "hello"});
    world.hub.say(input.clone()).await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    let result = world.hub.until("input.result").await;
    assert_eq!(result.get("duplicate"), None);
    world.hub.until("turn.complete").await;
    world.kill().await;

    let mut world = World::journaled(folder.path()).await;
    attach(&mut world.hub, "s", 0).await;
    world.hub.say(input).await;
    let again = world.hub.until("input.result").await;
    assert_eq!(
        (&again["duplicate"], &again["seq"]),
        (&json!(true), &result["seq"])
    );
    assert_eq!(again["turn_id"], "a");
    let other = json!({"type": "user.input", "session_id": "s", "turn_id": "b", "message_id": "m",
        "content": "other"});
    world.hub.say(other).await;
    let refused = loop {
        let end = world.hub.until("turn.complete").await;
        if end["turn_id"] == "b" {
            break end;
        }
    };
    assert_eq!(
        (&refused["error"]["category"], refused.get("seq")),
        (&json!("protocol"), None)
    );
    // A used turn id is not used again.
    world.hub.input("s", "a", "new").await;
    let begin = loop {
        let begin = world.hub.until("turn.begin").await;
        if begin["content"] == "new" {
            break begin;
        }
    };
    assert_ne!(begin["turn_id"], "a");
    world.kill().await;
}

#[tokio::test]
async fn what_may_not_be_attached_is_refused_with_its_reason() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    world.hub.until("turn.complete").await;
    let mut refused = async |message: Value| {
        world.hub.say(message).await;
        world.hub.until("session.refused").await["reason"].clone()
    };
    let attach = |id: &str, after: u64, epoch: u64| json!({"type": "session.attach", "session_id": id, "after": after, "epoch": epoch, "extensions": JOURNAL});
    assert_eq!(refused(attach("none", 0, 1)).await, "unknown");
    assert_eq!(refused(attach("s", 99, 1)).await, "ahead");
    assert_eq!(refused(attach("s", 2, 7)).await, "forked");
    let start =
        json!({"type": "session.start", "session_id": "s", "protocol": 1, "extensions": JOURNAL});
    assert_eq!(refused(start).await, "exists");
    world.kill().await;

    // A relay without a journal reports that.
    let mut world = World::new();
    world.hub.say(attach("s", 0, 1)).await;
    let refused = world.hub.expect("session.refused").await;
    assert_eq!(refused["reason"], "unknown");
    assert!(refused["message"].as_str().unwrap().contains("--journal"));
}

fn edit(id: &str, members: &Value) -> Value {
    let mut edit = json!({"type": "session.edit", "session_id": id, "request_id": "q"});
    let members = members.as_object().unwrap().clone();
    edit.as_object_mut().unwrap().extend(members);
    edit
}

/// Returns the ids and titles in the list of the journal, of the archived sessions or of the others.
async fn listed(hub: &mut Hub, archived: bool) -> Vec<(Value, Value)> {
    let list = json!({"type": "sessions.list", "session_id": "", "request_id": "l",
        "extensions": ["journal"], "archived": archived});
    hub.say(list).await;
    let result = hub.until("sessions.list.result").await;
    let sessions = result["sessions"].as_array().unwrap();
    sessions
        .iter()
        .map(|one| (one["session_id"].clone(), one["title"].clone()))
        .collect()
}

#[tokio::test]
async fn a_title_and_the_archive_are_entries_that_a_later_host_has() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    whole_turn(&mut world, &mut adapter, "a").await;
    world
        .hub
        .say(edit(
            "s",
            &json!({"title": "Logs of March", "archived": true}),
        ))
        .await;
    let edited = world.hub.expect("session.edited").await;
    assert_eq!(edited["title"], "Logs of March");
    assert!(edited["by"].is_string(), "{edited}");
    let result = world.hub.expect("session.edit.result").await;
    assert_eq!(result["error"], Value::Null);
    // The agent's own title does not replace it.
    adapter
        .say(json!({"type": "session.info", "session_id": "s", "display_id": "parser work"}))
        .await;
    world.hub.until("session.info").await;
    assert_eq!(listed(&mut world.hub, false).await, []);
    let archived = [(json!("s"), json!("Logs of March"))];
    assert_eq!(listed(&mut world.hub, true).await, archived);
    world.kill().await;

    let mut world = World::journaled(folder.path()).await;
    assert_eq!(listed(&mut world.hub, true).await, archived);
    // A hub that does not listen edits the session, too.
    world
        .hub
        .say(edit("s", &json!({"title": "", "archived": false})))
        .await;
    let result = world.hub.expect("session.edit.result").await;
    assert_eq!(result["error"], Value::Null);
    let own = [(json!("s"), json!("parser work"))];
    assert_eq!(listed(&mut world.hub, false).await, own);
    let attached = attach(&mut world.hub, "s", 0).await;
    assert_eq!(
        (&attached["title"], &attached["archived"]),
        (&json!("parser work"), &Value::Null)
    );
    world.kill().await;

    // A relay without a journal answers, too.
    let mut world = World::new();
    world.hub.say(edit("s", &json!({"title": "t"}))).await;
    let result = world.hub.expect("session.edit.result").await;
    assert!(result["error"].as_str().unwrap().contains("--journal"));
}

fn fork(id: &str, members: &Value) -> Value {
    let mut fork = json!({"type": "session.fork", "session_id": id, "source": "s",
        "extensions": JOURNAL});
    let members = members.as_object().unwrap().clone();
    fork.as_object_mut().unwrap().extend(members);
    fork
}

#[tokio::test]
async fn a_fork_answers_with_the_context_and_asks_again_for_what_was_always_allowed() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "the word is plum").await;
    let turn = adapter.turn().await;
    let ask = |session: &str, turn: &str| {
        json!({"type": "permission.request", "session_id": session, "turn_id": turn,
            "request_id": "r", "tool": "Bash", "description": "List", "resource": "ls"})
    };
    adapter.say(ask("s", &turn)).await;
    world.hub.until("permission.request").await;
    let always = json!({"type": "permission.response", "session_id": "s", "request_id": "r",
        "approved": true, "always_allow": true});
    world.hub.say(always).await;
    adapter.expect("permission.response").await;
    adapter.output("s", &turn, "I note plum.").await;
    adapter.complete("s", &turn).await;
    let last = world.hub.until("turn.complete").await["seq"].clone();
    let untold = whole_turn(&mut world, &mut adapter, "b").await;

    world.hub.say(fork("t", &json!({"seq": last}))).await;
    let attached = world.hub.expect("session.attached").await;
    assert_eq!(
        (&attached["copied"], &attached["title"], &attached["state"]),
        (
            &json!("transcript"),
            &json!("the word is plum"),
            &json!("detached")
        )
    );
    let entries = entries_until(&mut world.hub, "host.fact").await;
    assert_eq!(entries.last().unwrap()["fact"], "opened");
    let copied = entries_until(&mut world.hub, "host.fact").await;
    let fact = copied.last().unwrap();
    assert_eq!(
        (&fact["fact"], &fact["source"]),
        (&json!("forked_from"), &json!("s"))
    );
    assert_eq!(json!(fact["seq"].as_u64().unwrap() - 1), last);
    assert!(copied.iter().all(|entry| entry["session_id"] == "t"));

    world.hub.input("t", "c", "Which word?").await;
    let start = adapter.expect("session.start").await;
    assert_eq!(
        (&start["session_id"], &start["resume"]),
        (&json!("t"), &Value::Null)
    );
    let prompt = start["system_prompt"].as_str().unwrap();
    assert!(prompt.contains("the word is plum") && prompt.contains("I note plum."));
    assert!(!prompt.contains("hello"), "a later turn is in {prompt}");
    adapter
        .say(
            json!({"type": "session.ready", "session_id": "t", "protocol": 1,
            "extensions": crate::hub::ALL, "options_applied": ["system_prompt"]}),
        )
        .await;
    let resumed = world.hub.until("host.fact").await;
    assert_eq!(
        (&resumed["fact"], &resumed["context"]),
        (&json!("resumed"), &json!("lost"))
    );
    assert!(resumed["message"].as_str().unwrap().contains("transcript"));
    let input = adapter.expect("user.input").await;
    assert_eq!(input["content"], "Which word?");
    let turn = input["turn_id"].as_str().unwrap().to_owned();
    adapter.say(ask("t", &turn)).await;
    let asked = world.hub.until("permission.request").await;
    assert_eq!(asked["session_id"], "t");
    world
        .hub
        .say(json!({"type": "permission.response", "session_id": "t",
            "request_id": asked["request_id"], "approved": false}))
        .await;
    assert_eq!(
        adapter.expect("permission.response").await["approved"],
        false
    );
    adapter.complete("t", &turn).await;
    world.hub.until("turn.complete").await;

    // The source is as before.
    let attached = attach(&mut world.hub, "s", untold).await;
    assert_eq!(attached["last_seq"], untold);
    whole_turn(&mut world, &mut adapter, "d").await;
    world.kill().await;
}

#[tokio::test]
async fn a_fork_inside_a_turn_ends_that_turn_in_the_copy_only() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter.output("s", &turn, "half").await;
    world.hub.until("output").await;
    world.hub.say(fork("t", &json!({}))).await;
    world.hub.until("session.attached").await;
    let end = world.hub.until("turn.complete").await;
    assert_eq!(
        (&end["session_id"], &end["error"]["category"]),
        (&json!("t"), &json!("cancelled"))
    );
    adapter.complete("s", &turn).await;
    let end = world.hub.until("turn.complete").await;
    assert_eq!(
        (&end["session_id"], &end["error"]),
        (&json!("s"), &Value::Null)
    );

    let mut refused = async |message: Value| {
        world.hub.say(message).await;
        world.hub.until("session.refused").await["reason"].clone()
    };
    assert_eq!(refused(fork("s", &json!({}))).await, "exists");
    assert_eq!(refused(fork("t", &json!({}))).await, "exists");
    assert_eq!(
        refused(fork("u", &json!({"source": "none"}))).await,
        "unknown"
    );
    assert_eq!(refused(fork("u", &json!({"seq": 99}))).await, "ahead");
    world.kill().await;

    // A relay without a journal answers, too.
    let mut world = World::new();
    world.hub.say(fork("t", &json!({}))).await;
    let refused = world.hub.expect("session.refused").await;
    assert_eq!(refused["reason"], "unknown");
}

#[tokio::test]
async fn an_agent_that_copies_its_own_conversation_is_opened_by_a_fork() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    world.hub.start_with("s", &JOURNAL, json!({})).await;
    let mut adapter = world.adapters.next().await;
    let ready = |id: &str| {
        json!({"type": "session.ready", "session_id": id, "protocol": 1,
            "extensions": crate::hub::ALL, "capabilities": {"forks_sessions": true}})
    };
    adapter.expect("session.start").await;
    adapter.say(ready("s")).await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter
        .say(
            json!({"type": "turn.complete", "session_id": "s", "turn_id": turn,
            "native_session_id": "n-1"}),
        )
        .await;
    let middle = world.hub.until("turn.complete").await["seq"].clone();
    world.hub.say(fork("t", &json!({}))).await;
    let attached = world.hub.until("session.attached").await;
    assert_eq!(attached["copied"], "agent");
    world.hub.until("turn.complete").await;
    world.hub.input("t", "b", "go on").await;
    let start = adapter.expect("session.start").await;
    assert_eq!(
        (&start["resume"], &start["system_prompt"]),
        (
            &json!({"native_session_id": "n-1", "fork": true}),
            &Value::Null
        )
    );
    adapter.say(ready("t")).await;
    let turn = adapter.turn().await;
    adapter
        .say(
            json!({"type": "session.info", "session_id": "t", "native_session_id": "n-2",
            "context": "kept"}),
        )
        .await;
    adapter.complete("t", &turn).await;
    let fact = world.hub.until("host.fact").await;
    assert_eq!(fact["fact"], "forked_from");
    let resumed = world.hub.until("host.fact").await;
    assert_eq!(
        (&resumed["fact"], &resumed["context"]),
        (&json!("resumed"), &json!("kept"))
    );
    world.hub.until("turn.complete").await;

    // A turn without parameters can be copied only while it is the last one.
    world.hub.input("s", "c", "more").await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    world.hub.until("turn.complete").await;
    world.hub.say(fork("u", &json!({"seq": middle}))).await;
    let attached = world.hub.until("session.attached").await;
    assert_eq!(attached["copied"], "transcript");
    world.kill().await;
}

#[tokio::test]
async fn an_agent_keeps_no_session_that_has_been_idle_for_a_week() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    let last = whole_turn(&mut world, &mut adapter, "a").await;
    world
        .hub
        .say(json!({"type": "session.detach", "session_id": "s"}))
        .await;
    // Its answer comes after the detach.
    world
        .hub
        .say(json!({"type": "session.history", "session_id": "s", "request_id": "h"}))
        .await;
    world.hub.until("session.history.result").await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(7 * 24 * 60 * 60 - 60)).await;
    assert_eq!(world.host.sessions().await.len(), 1);
    tokio::time::advance(Duration::from_secs(120)).await;
    while adapter.hear().await["type"] != "session.close" {}
    tokio::time::resume();
    let attached = attach(&mut world.hub, "s", last).await;
    assert_eq!(attached["state"], "detached");
    world.kill().await;
}

/// Leaves the session and releases it, and waits until the relay has done so.
async fn release(world: &mut World) {
    for message in [
        json!({"type": "session.detach", "session_id": "s", "release": true}),
        // Its answer comes after the detach.
        json!({"type": "session.history", "session_id": "s", "request_id": "h"}),
    ] {
        world.hub.say(message).await;
    }
    world.hub.until("session.history.result").await;
}

#[tokio::test]
async fn a_released_session_is_closed_at_its_agent_when_nothing_is_open_in_it() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    release(&mut world).await;
    // An attach undoes the release.
    let attached = attach(&mut world.hub, "s", 0).await;
    assert_eq!(attached["state"], "running");
    adapter.complete("s", &turn).await;
    world.hub.until("turn.complete").await;
    let last = whole_turn(&mut world, &mut adapter, "b").await;
    world.hub.input("s", "c", "hello").await;
    let turn = adapter.turn().await;
    release(&mut world).await;
    adapter.complete("s", &turn).await;
    while adapter.hear().await["type"] != "session.close" {}
    let attached = attach(&mut world.hub, "s", last).await;
    assert_eq!(attached["state"], "detached");
    world.hub.until("turn.complete").await;
    world.hub.input("s", "d", "hello").await;
    while adapter.hear().await["type"] != "session.start" {}
    world.kill().await;
}

/// Runs a turn from its input to its end, and returns the number of the end.
async fn whole_turn(world: &mut World, adapter: &mut Adapter, name: &str) -> u64 {
    world.hub.input("s", name, "hello").await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    world.hub.until("turn.complete").await["seq"]
        .as_u64()
        .unwrap()
}

/// Copies the folder in its current state, as a backup.
fn copied(from: &Path) -> TempDir {
    let to = folder();
    for file in fs::read_dir(from)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file())
    {
        fs::copy(&file, to.path().join(file.file_name().unwrap())).unwrap();
    }
    to
}

#[tokio::test]
async fn a_journal_of_a_backup_parts_from_what_a_hub_has_where_it_says() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    let kept = whole_turn(&mut world, &mut adapter, "a").await;
    let backup = copied(folder.path());
    let seen = whole_turn(&mut world, &mut adapter, "b").await;
    world.kill().await;

    let mut world = World::journaled(backup.path()).await;
    attach(&mut world.hub, "s", kept).await;
    world.hub.input("s", "c", "hello").await;
    let mut adapter = world.adapters.next().await;
    adapter.ready().await;
    let turn = adapter.turn().await;
    adapter.complete("s", &turn).await;
    let other = world.hub.until("turn.complete").await["seq"]
        .as_u64()
        .unwrap();
    assert!(other >= seen);
    let claimed = json!({"type": "session.attach", "session_id": "s", "after": seen, "epoch": 1, "extensions": JOURNAL});
    world.hub.say(claimed).await;
    let refused = world.hub.until("session.refused").await;
    assert_eq!(
        (&refused["reason"], &refused["last_seq"]),
        (&json!("forked"), &json!(kept)),
        "{refused}"
    );
    world.kill().await;
}

#[tokio::test]
async fn an_observer_hears_and_does_not_speak() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    world.hub.until("turn.begin").await;
    attach_as(&mut world.hub, "s", 0, json!({"role": "observe"})).await;
    world.hub.input("s", "b", "not taken").await;
    world
        .hub
        .say(json!({"type": "stop", "session_id": "s", "turn_id": "a"}))
        .await;
    adapter.complete("s", &turn).await;
    let entries = entries_until(&mut world.hub, "turn.complete").await;
    assert_eq!(
        entries
            .iter()
            .filter(|entry| entry["type"] == "turn.begin")
            .count(),
        1
    );
    assert_eq!(entries.last().unwrap()["status"], "completed");
    attach(&mut world.hub, "s", entries.len() as u64).await;
    world.hub.input("s", "b", "taken").await;
    adapter.turn().await;
    world.kill().await;
}

#[tokio::test]
async fn an_approval_is_stored_before_the_agent_has_it_and_a_late_answer_learns_of_it() {
    let (_folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    let turn = adapter.turn().await;
    adapter
        .say(json!({"type": "permission.request", "session_id": "s", "turn_id": turn, "request_id": "r",
            "tool": "Bash", "description": "run", "resource": "ls"}))
        .await;
    let asked = world.hub.until("permission.request").await;
    assert_eq!(asked["turn_id"], "a");
    let answer = json!({"type": "permission.response", "session_id": "s", "request_id": "r", "approved": true});
    world.hub.say(answer.clone()).await;
    let decided = world.hub.until("request.decided").await;
    assert_eq!(
        (&decided["approved"], &decided["request_id"]),
        (&json!(true), &json!("r"))
    );
    assert!(decided["seq"].as_u64().is_some() && decided["by"].as_str().unwrap().starts_with("l-"));
    assert_eq!(
        adapter.expect("permission.response").await["approved"],
        true
    );
    world
        .hub
        .say(json!({"type": "permission.response", "session_id": "s", "request_id": "r", "approved": false}))
        .await;
    let again = world.hub.until("request.decided").await;
    assert_eq!((&again["approved"], again.get("seq")), (&json!(true), None));
    world.kill().await;
}

#[tokio::test]
async fn a_host_that_ends_leaves_no_turn_open_and_the_session_detached() {
    let (folder, mut world, mut adapter) = open_journaled().await;
    world.hub.input("s", "a", "hello").await;
    adapter.turn().await;
    world.hub.until("turn.begin").await;
    world.hub.hang_up().await;
    let rest = world.hub.rest().await;
    let end = rest
        .iter()
        .find(|message| message["type"] == "turn.complete")
        .unwrap();
    assert_eq!(
        (&end["turn_id"], &end["status"]),
        (&json!("a"), &json!("stopped"))
    );
    assert!(end["seq"].as_u64().is_some());
    drop(adapter);
    world.relay.await.unwrap();
    drop(world.host);

    let mut world = World::journaled(folder.path()).await;
    let attached = attach(&mut world.hub, "s", end["seq"].as_u64().unwrap()).await;
    assert_eq!(
        (&attached["state"], &attached["last_seq"]),
        (&json!("detached"), &end["seq"])
    );
    world
        .hub
        .say(json!({"type": "session.history", "session_id": "s", "request_id": "q", "from": 2, "to": 2}))
        .await;
    let history = world.hub.until("session.history.result").await;
    assert_eq!(history["entries"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&history["entries"][0]["seq"], history.get("next")),
        (&json!(2), None)
    );
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    attach(&mut world.hub, "s", 0).await;
    let closed = entries_until(&mut world.hub, "session.closed").await;
    assert_eq!(
        numbers(&closed).len() as u64,
        closed.last().unwrap()["seq"].as_u64().unwrap()
    );
    world.hub.input("s", "late", "x").await;
    let refused = world.hub.until("turn.complete").await;
    assert_eq!(
        (&refused["turn_id"], refused.get("seq")),
        (&json!("late"), None)
    );
    world.kill().await;
}

#[tokio::test]
async fn secrets_are_not_stored_and_are_asked_for_again() {
    let folder = folder();
    let allow_all = |mut agent: AgentConfig| {
        agent.session_may = SessionMay::from_names(["all"]).unwrap();
        agent
    };
    let mut world = World::serving_journal(folder.path(), allow_all);
    let more = json!({"env": {"TOKEN": "mellon-and-more"}});
    world.hub.start_with("s", &JOURNAL, more.clone()).await;
    world.hub.expect("host.fact").await;
    let mut adapter = world.adapters.next().await;
    assert_eq!(adapter.expect("session.start").await["env"], more["env"]);
    world.kill().await;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"mellon"));
    }

    let mut world = World::serving_journal(folder.path(), allow_all);
    attach(&mut world.hub, "s", 1).await;
    world.hub.input("s", "a", "hello").await;
    let end = world.hub.until("turn.complete").await;
    assert_eq!(
        (&end["status"], &end["delivered"]),
        (&json!("refused"), &json!("no"))
    );
    assert!(
        end["error"]["message"].as_str().unwrap().contains("`env`"),
        "{end}"
    );
    attach_as(&mut world.hub, "s", 1, more.clone()).await;
    world.hub.input("s", "b", "hello").await;
    let mut adapter = world.adapters.next().await;
    assert_eq!(adapter.expect("session.start").await["env"], more["env"]);
    world.kill().await;
}
