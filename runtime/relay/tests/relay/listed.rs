//! The sessions of a journal, searched and listed page by page ([journal.12]).

use serde_json::{Value, json};

use crate::{
    adapter::Adapter,
    hub::Hub,
    journal::{JOURNAL, entries_until, folder, open},
    world::World,
};

/// Returns the answer to a request for the sessions of the journal.
async fn answer(hub: &mut Hub, more: Value) -> Value {
    let mut asked = json!({"type": "sessions.list", "session_id": "", "request_id": "l",
        "extensions": ["journal"]});
    asked
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    hub.say(asked).await;
    let result = hub.until("sessions.list.result").await;
    assert_eq!(
        (&result["session_id"], &result["request_id"]),
        (&json!(""), &json!("l"))
    );
    result
}

/// Opens one more session of the adapter.
async fn open_more(hub: &mut Hub, adapter: &mut Adapter, id: &str) {
    hub.say(
        json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": JOURNAL}),
    )
    .await;
    while hub.until("host.fact").await["session_id"] != id {}
    assert_eq!(adapter.ready().await, id);
}

/// Returns the sessions of an answer, by id and state, in the order of ids.
fn states(answer: &Value) -> Vec<(&str, &str)> {
    let sessions = answer["sessions"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    let mut states: Vec<_> = sessions
        .iter()
        .map(|one| {
            (
                one["session_id"].as_str().unwrap(),
                one["state"].as_str().unwrap(),
            )
        })
        .collect();
    states.sort_unstable();
    states
}

#[tokio::test]
async fn a_hub_finds_sessions_by_what_they_do_and_what_they_are_called() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let mut adapter = open(&mut world, "old").await;
    world
        .hub
        .input("old", "first", "Tidy the Cellar\nand the roof")
        .await;
    let turn = adapter.turn().await;
    adapter.complete("old", &turn).await;
    entries_until(&mut world.hub, "turn.complete").await;
    // The next host also knows what a host reports at the moment of its last entry.
    assert_eq!(
        states(&answer(&mut world.hub, json!({})).await),
        [("old", "idle")]
    );
    world.kill().await;

    let mut world = World::journaled(folder.path()).await;
    let mut adapter = open(&mut world, "busy").await;
    for id in ["quiet", "shut"] {
        open_more(&mut world.hub, &mut adapter, id).await;
    }
    world.hub.input("busy", "work", "hello").await;
    let turn = adapter.turn().await;
    let request = json!({"type": "permission.request", "session_id": "busy", "turn_id": turn,
        "request_id": "r", "tool": "T", "description": "d"});
    adapter.say(request).await;
    entries_until(&mut world.hub, "permission.request").await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "shut"}))
        .await;
    adapter.expect("session.close").await;

    let all = [
        ("busy", "running"),
        ("old", "detached"),
        ("quiet", "idle"),
        ("shut", "closed"),
    ];
    let hub = &mut world.hub;
    let whole = answer(hub, json!({})).await;
    assert_eq!(states(&whole), all);
    assert_eq!((whole.get("next"), whole.get("error")), (None, None));
    for one in all {
        assert_eq!(states(&answer(hub, json!({"state": one.1})).await), [one]);
        assert_eq!(states(&answer(hub, json!({"id": one.0})).await), [one]);
    }
    for (asked, found) in [
        (json!({"text": "cELLAR"}), vec![all[1]]),
        (json!({"text": "ROOF"}), vec![]),
        (json!({"text": "U"}), vec![all[0], all[2], all[3]]),
        (json!({"agent_id": "scripted"}), all.to_vec()),
        (json!({"agent_id": "other"}), vec![]),
        (json!({"cwd": "/elsewhere"}), vec![]),
        (
            json!({"agent_id": "scripted", "state": "idle", "text": "q"}),
            vec![all[2]],
        ),
        (json!({"id": "none"}), vec![]),
    ] {
        assert_eq!(states(&answer(hub, asked.clone()).await), found, "{asked}");
    }
    let old = &answer(hub, json!({"id": "old"})).await["sessions"][0];
    assert_eq!(
        (&old["title"], &old["agent_id"], &old["open_turns"]),
        (&json!("Tidy the Cellar"), &json!("scripted"), &json!(0))
    );
    assert!(
        old["entries"].as_u64() > Some(2) && old["bytes"].as_u64() > Some(100),
        "{old}"
    );
    assert!(
        old["created"].is_string() && old["active"].is_string(),
        "{old}"
    );
    let busy = &answer(hub, json!({"id": "busy"})).await["sessions"][0];
    assert_eq!(
        (&busy["title"], &busy["open_turns"], &busy["open_requests"]),
        (&json!("hello"), &json!(1), &json!(1))
    );
    let approved = json!({"type": "permission.response", "session_id": "busy", "request_id": "r", "approved": true});
    hub.say(approved).await;
    hub.until("request.decided").await;
    let busy = &answer(hub, json!({"id": "busy"})).await["sessions"][0];
    assert_eq!(
        (&busy["open_turns"], &busy["open_requests"]),
        (&json!(1), &json!(0))
    );
    world.kill().await;
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let mut adapter = open(&mut world, "0").await;
    for id in 1..7 {
        open_more(&mut world.hub, &mut adapter, &id.to_string()).await;
    }
    for (filter, limit) in [
        (json!({}), 3),
        (json!({"state": "idle"}), 2),
        (json!({"text": ""}), 1),
    ] {
        let mut found = Vec::new();
        let mut cursor = Value::Null;
        let mut pages = 0;
        loop {
            let mut asked = filter.clone();
            (asked["limit"], asked["cursor"]) = (limit.into(), cursor);
            let page = answer(&mut world.hub, asked).await;
            let states = states(&page);
            assert!(states.len() <= limit, "{page}");
            found.extend(states.into_iter().map(|(id, _)| id.to_owned()));
            pages += 1;
            cursor = page["next"].clone();
            if cursor.is_null() {
                break;
            }
        }
        found.sort();
        assert_eq!(
            (found.concat(), pages),
            ("0123456".to_owned(), 7_usize.div_ceil(limit))
        );
    }
    let wrong = answer(&mut world.hub, json!({"cursor": "the second page"})).await;
    assert!(
        wrong["error"]
            .as_str()
            .unwrap()
            .contains("\"the second page\""),
        "{wrong}"
    );
    assert_eq!(wrong.get("sessions"), None);
    world.kill().await;
}

#[tokio::test]
async fn a_hub_that_does_not_name_the_journal_gets_none_of_it() {
    let folder = folder();
    let mut world = World::journaled(folder.path()).await;
    let mut adapter = open(&mut world, "s").await;
    for extensions in [json!(null), json!([]), json!(["resume", "turns"])] {
        let asked = json!({"extensions": extensions, "text": "s", "agent_id": "missing"});
        let result = answer(&mut world.hub, asked).await;
        let why = result["error"].as_str().unwrap();
        assert!(why.contains("missing"), "{result}");
        assert_eq!((result.get("sessions"), result.get("next")), (None, None));
    }
    // The agent is asked for what it keeps itself, instead.
    world
        .hub
        .say(json!({"type": "sessions.list", "session_id": "", "request_id": "l"}))
        .await;
    adapter.expect("session.start").await;
    world.kill().await;
}

#[tokio::test]
async fn a_relay_without_a_journal_has_no_list_of_it() {
    let mut world = World::new();
    let result = answer(&mut world.hub, json!({"agent_id": "missing"})).await;
    assert!(
        result["error"].as_str().unwrap().contains("missing"),
        "{result}"
    );
    assert_eq!(result.get("sessions"), None);
}
