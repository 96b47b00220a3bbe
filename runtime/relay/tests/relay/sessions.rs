//! Sessions: their opening, the first messages, their end ([relay.1], [relay.4], [relay.8],
//! [session.8]).

use serde_json::json;
use trunkline_host::HostBuilder;
use trunkline_host::config::{AgentConfig, Command, OnAdapterExit, SessionMay};

use crate::{hub::ALL, world::World};

#[tokio::test(start_paused = true)]
async fn a_start_is_answered_at_once_whatever_the_agent_does() {
    let mut world = World::new();
    let ready = world
        .hub
        .start_with("s", &["turns", "flow", "unheard-of"], json!({}))
        .await;
    assert_eq!(ready["protocol"], 1);
    assert_eq!(ready["extensions"], json!(["turns", "flow"]));
    assert_eq!(ready["adapter"]["name"], "trunkline");
    assert_eq!(ready["input_modes"], json!(["queue", "steer"]));
    let mut adapter = world.adapters.next().await;
    let start = adapter.expect("session.start").await;
    assert_eq!(start["session_id"], "s");
    assert_eq!(
        start["extensions"],
        json!(ALL),
        "the relay offers below what it knows itself"
    );
}

#[tokio::test(start_paused = true)]
async fn options_pass_and_facts_of_the_agent_follow() {
    let mut world = World::with(|mut agent| {
        agent.session_may = SessionMay::All;
        agent
    });
    let more = json!({"model": "m", "denied_tools": ["Bash"], "variables": {"a": "b"}, "agent_id": "scripted",
        "exchange_dir": "/elsewhere", "resume": {"native_session_id": "n"}, "_meta": {"trace": [1, 2]}});
    let ready = world.hub.start_with("s", &ALL, more).await;
    assert_eq!(
        ready["options_applied"],
        json!([
            "denied_tools",
            "max_tokens",
            "turn_timeout_ms",
            "inactivity_timeout_ms"
        ]),
        "what the host below sees to"
    );
    let mut adapter = world.adapters.next().await;
    let start = adapter.expect("session.start").await;
    assert_eq!(
        (
            &start["model"],
            &start["denied_tools"],
            &start["resume"]["native_session_id"],
            &start["_meta"]
        ),
        (
            &json!("m"),
            &json!(["Bash"]),
            &json!("n"),
            &json!({"trace": [1, 2]})
        )
    );
    assert_eq!(start["agent_id"], json!(null));
    assert_ne!(start["exchange_dir"], "/elsewhere");
    adapter
        .say(json!({"type": "session.ready", "session_id": "s", "protocol": 1, "extensions": ALL,
            "adapter": {"name": "scripted", "version": "7"}, "capabilities": {"resume_attach": true},
            "native_session_id": "n", "models": [{"id": "m"}], "input_modes": ["steer"],
            "options_applied": ["model", "denied_tools"], "_meta": {"x": "y"}}))
        .await;
    let info = world.hub.expect("session.info").await;
    assert_eq!(info["adapter"]["name"], "scripted");
    assert_eq!(info["input_modes"], json!(["queue", "steer"]));
    assert_eq!(
        info["options_applied"],
        json!([
            "model",
            "denied_tools",
            "max_tokens",
            "turn_timeout_ms",
            "inactivity_timeout_ms"
        ])
    );
    assert_eq!(info["_meta"], json!({"x": "y"}));

    world
        .hub
        .say(json!({"type": "agents.list", "session_id": "", "request_id": "1"}))
        .await;
    let list = world.hub.expect("agents.list.result").await;
    assert_eq!(list["request_id"], "1");
    assert_eq!(
        list["agents"],
        json!([{"id": "scripted", "name": "scripted", "profile": "external", "state": "running",
            "capabilities": {"resume_attach": true}, "models": [{"id": "m"}]}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_asks_learns_the_health_of_agents_and_nothing_of_other_hubs_sessions() {
    let mut world = World::new();
    let list = json!({"type": "agents.list", "session_id": "", "request_id": "1", "health": true, "sessions": 9});
    world.hub.say(list.clone()).await;
    let unused = world.hub.expect("agents.list.result").await;
    assert_eq!(unused["agents"][0]["health"]["liveness"], "down");
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "hello").await;
    let turn = adapter.turn().await;
    adapter.write("no message").await;
    adapter.output("s", &turn, "x").await;
    world.hub.expect("output").await;
    world.hub.say(list).await;
    let list = world.hub.expect("agents.list.result").await;
    assert!(list["sessions"].is_null(), "{list}");
    let health = &list["agents"][0]["health"];
    assert_eq!(
        (&health["liveness"], &health["severity"]),
        (&json!("progressing"), &json!("note"))
    );
    assert_eq!(
        (&health["sessions"], &health["turns"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&health["counters"]["noise"], &health["counters"]["late"]),
        (&json!(1), &json!(null))
    );
    assert!(
        health["verdict"]
            .as_str()
            .unwrap()
            .contains("no messages (1 of 3)"),
        "{health}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_ends_the_session_of_a_hub_that_knows_control() {
    let mut world = World::new();
    world
        .hub
        .start_with("s", &ALL, json!({"agent_id": "missing"}))
        .await;
    let closed = world.hub.expect("session.closed").await;
    assert_eq!(closed["reason"], "unknown_agent");
    assert!(
        closed["error"]["message"]
            .as_str()
            .unwrap()
            .contains("\"scripted\""),
        "{closed}"
    );
    // The session has ended: further messages are late, and the id may open a new session.
    world.hub.input("s", "t", "hello").await;
    world.hub.start("s").await;
    world.hub.hears_nothing().await;
    assert_eq!(world.end().await.counters.late, 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_told_a_core_only_hub_at_each_input() {
    let mut world = World::new();
    world
        .hub
        .say(json!({"type": "session.start", "session_id": "s", "agent_id": "missing"}))
        .await;
    let text = world.hub.expect("output").await;
    assert_eq!(text["channel"], "system");
    for _ in 0..2 {
        world.hub.input_core("s", "hello").await;
        assert_eq!(world.hub.hear().await, text);
        assert_eq!(
            world.hub.hear().await,
            json!({"type": "turn.complete", "session_id": "s"})
        );
    }
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    world.hub.input_core("s", "hello").await;
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_with_turns_and_without_control_gets_text_and_an_end_for_its_turn() {
    let mut world = World::new();
    world
        .hub
        .start_with("s", &["turns"], json!({"agent_id": "missing"}))
        .await;
    assert_eq!(world.hub.expect("output").await["turn_id"], json!(null));
    world.hub.input("s", "t", "hello").await;
    let text = world.hub.expect("output").await;
    assert_eq!(
        (&text["channel"], &text["turn_id"]),
        (&json!("system"), &json!("t"))
    );
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["turn_id"], &end["status"], &end["delivered"]),
        (&json!("t"), &json!("refused"), &json!("no"))
    );
}

#[tokio::test(start_paused = true)]
async fn limits_and_widening_options_refuse_a_session() {
    let mut world = World::with(|mut agent| {
        agent.limits.max_sessions = Some(1);
        agent
    });
    world
        .hub
        .start_with(
            "wide",
            &ALL,
            json!({"permission_mode": "bypassPermissions"}),
        )
        .await;
    assert_eq!(
        world.hub.expect("session.closed").await["reason"],
        "refused"
    );
    world.hub.start("one").await;
    world.hub.start("two").await;
    assert_eq!(world.hub.expect("session.closed").await["reason"], "limit");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_makes_room_for_the_next_at_once() {
    let mut world = World::with(|mut agent| {
        agent.limits.max_sessions = Some(1);
        agent
    });
    let mut adapter = world.open("s0").await;
    for round in 0..20 {
        world
            .hub
            .say(json!({"type": "session.close", "session_id": format!("s{round}")}))
            .await;
        let next = format!("s{}", round + 1);
        world.hub.start(&next).await;
        adapter.expect("session.close").await;
        assert_eq!(adapter.ready().await, next);
    }
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn the_agent_is_picked_by_its_id() {
    let (mut others, connect) = crate::adapter::Adapters::new();
    let other = AgentConfig::external("other", "none");
    let mut world = World::made(
        |agent| agent,
        |host| host.agent_over(other, connect),
        64 * 1024,
    );
    world
        .hub
        .start_with("s", &ALL, json!({"agent_id": "other"}))
        .await;
    assert_eq!(others.next().await.ready().await, "s");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_adapter_ends_is_told_after_its_turns() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "a", "one").await;
    world.hub.input("s", "b", "two").await;
    adapter.turn().await;
    adapter
        .say(json!({"type": "session.closed", "session_id": "s", "reason": "failed", "error": {"message": "gone"}}))
        .await;
    let mut ended = Vec::new();
    let closed = loop {
        let message = world.hub.hear().await;
        match message["type"].as_str().unwrap() {
            "turn.complete" => ended_push(&message),
            "session.closed" => break message,
            other => panic!("{other}"),
        }
    };
    fn ended_push(message: &serde_json::Value) {
        assert_eq!(message["status"], "failed");
    }
    ended.push(());
    assert_eq!(
        (&closed["reason"], &closed["error"]["message"]),
        (&json!("failed"), &json!("gone"))
    );
    world.hub.hears_nothing().await;
    // The hub may open it again; below it gets an id of its own.
    world.hub.start("s").await;
    let start = adapter.expect("session.start").await;
    assert_ne!(start["session_id"], "s");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_with_its_process_is_told_a_core_only_hub_as_text() {
    let mut world = World::with(|mut agent| {
        agent.on_adapter_exit = OnAdapterExit::Close;
        agent
    });
    let mut adapter = world.open_core("s").await;
    world.hub.input_core("s", "one").await;
    adapter.turn().await;
    drop(adapter);
    assert_eq!(world.hub.expect("output").await["channel"], "system");
    world.hub.expect("turn.complete").await;
    // The end of the process has been read: this is the session's end.
    let closed = world.hub.expect("output").await;
    assert_eq!(closed["channel"], "system");
    assert!(
        closed["content"]
            .as_str()
            .unwrap()
            .starts_with("the session cannot continue"),
        "{closed}"
    );
    world.hub.input_core("s", "two").await;
    assert_eq!(world.hub.expect("output").await["channel"], "system");
    world.hub.expect("turn.complete").await;
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_has_one_answer_also_where_the_agent_knows_none() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    let update = json!({"type": "session.update", "session_id": "s", "model": "large"});
    world.hub.say(update.clone()).await;
    let asked = adapter.expect("session.update").await;
    assert_eq!(asked["model"], "large");
    adapter
        .say(json!({"type": "session.info", "session_id": "s", "model": "large", "mode": "plan"}))
        .await;
    let info = world.hub.expect("session.info").await;
    assert_eq!(
        (&info["model"], &info["mode"]),
        (&json!("large"), &json!("plan"))
    );
    world.hub.hears_nothing().await;

    // An agent's answer without values: the values in force are reported.
    world.hub.say(update).await;
    adapter.expect("session.update").await;
    adapter
        .say(json!({"type": "session.info", "session_id": "s"}))
        .await;
    let info = world.hub.expect("session.info").await;
    assert_eq!(
        (&info["model"], &info["mode"]),
        (&json!("large"), &json!("plan"))
    );
    // An update that would widen the configuration changes nothing, and the hub receives the
    // reason.
    world
        .hub
        .say(json!({"type": "session.update", "session_id": "s", "permission_mode": "bypass"}))
        .await;
    let error = world.hub.expect("error").await;
    assert_eq!(
        (&error["category"], &error["fatal"]),
        (&json!("permission_denied"), &json!(false))
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("`permission_mode`"),
        "{error}"
    );
    assert_eq!(
        world.hub.expect("session.info").await["permission_mode"],
        json!(null)
    );
    world.hub.hears_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_for_a_core_only_agent_is_answered_by_the_relay() {
    let mut world = World::new();
    world.hub.start("s").await;
    let mut adapter = world.adapters.next().await;
    adapter.expect("session.start").await;
    adapter
        .say(json!({"type": "output", "session_id": "s", "content": "hi"}))
        .await;
    world.hub.expect("output").await;
    world
        .hub
        .say(json!({"type": "session.update", "session_id": "s", "model": "large"}))
        .await;
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "session.info", "session_id": "s"})
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_that_was_closed_opens_a_new_session() {
    let mut world = World::new();
    let mut adapter = world.open("s").await;
    world.hub.input("s", "t", "one").await;
    let turn = adapter.turn().await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    world.hub.start("s").await;
    // Two sessions below: neither waits for the other.
    let mut both = [adapter.hear().await, adapter.hear().await];
    both.sort_by_key(|message| message["type"].to_string());
    let [close, start] = both;
    assert_eq!(
        (&close["type"], &close["session_id"]),
        (&json!("session.close"), &json!("s"))
    );
    let mapped = start["session_id"].as_str().unwrap();
    assert_ne!(mapped, "s", "an id is not used twice in one process");
    adapter
        .say(json!({"type": "session.ready", "session_id": mapped, "protocol": 1, "extensions": ALL}))
        .await;
    adapter.output("s", &turn, "too late").await;
    world.hub.input("s", "t", "two").await;
    let turn = adapter.turn().await;
    adapter.output(mapped, &turn, "two").await;
    let output = world.hub.expect("output").await;
    assert_eq!(
        (
            &output["session_id"],
            &output["turn_id"],
            &output["content"]
        ),
        (&json!("s"), &json!("t"), &json!("two"))
    );
}

/// Returns an agent whose program answers `--describe` by this script.
fn described_by(id: &str, script: &str) -> AgentConfig {
    let mut agent = AgentConfig::external(id, Command::new("sh").args(["-c", script, "sh"]));
    agent.sdk = true;
    agent
}

#[tokio::test]
async fn agents_are_listed_with_what_they_say_of_themselves_before_a_session() {
    let state = tempfile::tempdir().unwrap();
    let more = |host: HostBuilder| {
        let says = r#"echo '{"capabilities":{"max_sessions":2},"models":[{"id":"m"}]}'"#;
        host.state_dir(state.path())
            .agent(described_by("b", says))
            .agent(described_by("c", "exit 2"))
    };
    let mut world = World::made(|agent| agent, more, 64 * 1024);
    for request in ["1", "2"] {
        world
            .hub
            .say(json!({"type": "agents.list", "session_id": "", "request_id": request}))
            .await;
    }
    for request in ["1", "2"] {
        let list = world.hub.expect("agents.list.result").await;
        assert_eq!(list["request_id"], request);
        let of = |at: usize| {
            (
                &list["agents"][at]["id"],
                &list["agents"][at]["capabilities"],
            )
        };
        assert_eq!(of(0), (&json!("b"), &json!({"max_sessions": 2})));
        assert_eq!(
            (of(1), of(2)),
            (
                (&json!("c"), &json!(null)),
                (&json!("scripted"), &json!(null))
            )
        );
        assert_eq!(list["agents"][0]["models"], json!([{"id": "m"}]));
    }
    let ready = world
        .hub
        .start_with("s", &ALL, json!({"agent_id": "b"}))
        .await;
    assert_eq!(ready["capabilities"]["max_sessions"], 2);
}

#[tokio::test]
async fn a_list_that_waits_is_answered_when_the_hub_hangs_up() {
    let state = tempfile::tempdir().unwrap();
    let more = |host: HostBuilder| {
        host.state_dir(state.path())
            .agent(described_by("b", "sleep 600"))
    };
    let mut world = World::made(|agent| agent, more, 64 * 1024);
    world
        .hub
        .say(json!({"type": "agents.list", "session_id": "", "request_id": "1"}))
        .await;
    world.hub.hang_up().await;
    let list = world.hub.expect("agents.list.result").await;
    assert_eq!(
        (
            &list["request_id"],
            list["agents"].as_array().unwrap().len()
        ),
        (&json!("1"), 2)
    );
    world.relay.await.unwrap();
}
