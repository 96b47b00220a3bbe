//! Ids of agents, limits of the host, and tools that an administrator disallows.

use super::*;

/// The host's answer when no more sessions fit.
fn full(wire: &Value) -> Value {
    let error = json!({ "category": "busy", "message": "no more sessions on this host" });
    json!({ "type": "session.closed", "session_id": wire, "reason": "limit", "error": error })
}

fn create(session: &str, agent: &str) -> Value {
    json!({ "session_id": session, "agent_id": agent })
}

impl Ends {
    /// Opens sessions of the agent `a`, each later than the one before. Returns their ids at the
    /// host.
    async fn open_each(&mut self, sessions: &[&str]) -> Vec<Value> {
        let mut wires = Vec::new();
        for (index, session) in sessions.iter().enumerate() {
            self.at(index as u64 + 1).await;
            self.hub("session.create", create(session, "r.a")).await;
            wires.push(self.ready(&["turns"]).await.into());
        }
        self.at(sessions.len() as u64 + 1).await;
        self.words();
        self.lines();
        wires
    }

    async fn update(&mut self, agent: &str, tools: &[&str]) -> Value {
        let security = json!({ "disallowed_tools": tools });
        let update = json!({ "agent_id": agent, "security": security });
        self.hub("agent.config_update", update).await;
        self.frames().remove(0).1
    }
}

#[tokio::test(start_paused = true)]
async fn agents_are_registered_by_one_form_and_found_by_both() {
    for (bare_ids, registered) in [(false, ["r.a", "r.b"]), (true, ["a", "b"])] {
        let mut ends = Ends::new().await;
        ends.bridge.options.bare_ids = bare_ids;
        let hello: Value = serde_json::from_str(&ends.bridge.hello("secret")).unwrap();
        let agents = hello["payload"]["agents"].as_array().unwrap();
        let ids: Vec<_> = agents.iter().map(|agent| &agent["id"]).collect();
        assert_eq!(ids, registered);
        for id in ["a", "r.a"] {
            ends.hub("session.create", create(id, id)).await;
            assert_eq!(ends.lines()[0]["agent_id"], "a");
        }
        for id in ["other.a", "ra", "r.", "r.none", ""] {
            ends.hub("session.create", create("none", id)).await;
            assert!(ends.lines().is_empty(), "{id:?}");
        }
    }
    // An agent whose own id looks like the id of another one with its runtime.
    let mut ends = Ends::new().await;
    ends.bridge.set_agents(["a", "r.a"].map(agent).into());
    for (bare_ids, id, meant) in [
        (false, "r.a", "a"),
        (false, "r.r.a", "r.a"),
        (true, "r.a", "r.a"),
        (true, "a", "a"),
    ] {
        ends.bridge.options.bare_ids = bare_ids;
        let session = format!("{bare_ids}-{id}");
        ends.hub("session.create", create(&session, id)).await;
        assert_eq!(ends.lines()[0]["agent_id"], meant, "{session}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_reports_no_ends_of_turns_is_registered_so() {
    let mut ends = Ends::new().await;
    let completion = |turn_completion| {
        let capabilities = trunkline_protocol::Capabilities {
            turn_completion,
            ..trunkline_protocol::Capabilities::default()
        };
        AgentEntry {
            capabilities: Some(capabilities),
            ..agent("a")
        }
    };
    let reported = [Some(false), Some(true), None];
    ends.bridge.set_agents(reported.map(completion).into());
    let hello: Value = serde_json::from_str(&ends.bridge.hello("secret")).unwrap();
    let agents = hello["payload"]["agents"].as_array().unwrap();
    let caps = agents.iter().map(|agent| &agent["caps"]["turn_completion"]);
    assert_eq!(caps.collect::<Vec<_>>(), [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn at_the_hosts_limit_the_longest_idle_session_makes_room() {
    // A relay greets before its host opens the session.
    for is_ready_first in [false, true] {
        make_room(is_ready_first).await;
    }
}

async fn make_room(is_ready_first: bool) {
    let mut ends = Ends::new().await;
    let wires = ends.open_each(&["one", "two", "three"]).await;
    // The first one works, so the second one has been idle for the longest time.
    let mut busy = message("m-0", "work");
    busy["session_id"] = json!("one");
    ends.hub("user.message", busy).await;
    ends.words();
    ends.lines();
    ends.hub("user.message", message("m-1", "hello")).await;
    let start = ends.lines().remove(0);
    assert_eq!(start["type"], "session.start");
    if is_ready_first {
        let ready = json!({
            "type": "session.ready", "session_id": start["session_id"], "protocol": 1, "extensions": ["turns"],
        });
        ends.host(ready).await;
        let input = ends.lines().remove(0);
        assert_eq!(input["content"], "hello");
        ends.host(json!({
            "type": "turn.complete", "session_id": start["session_id"], "turn_id": input["turn_id"],
            "status": "limit", "delivered": "no",
            "error": { "category": "busy", "message": "no more sessions on this host" },
        }))
        .await;
    }
    ends.host(full(&start["session_id"])).await;
    let lines = ends.lines.lock().unwrap().clone();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["type"], &lines[0]["session_id"]),
        (&json!("session.close"), &wires[1])
    );
    assert_ne!(ends.ready(&["turns"]).await, start["session_id"]);
    let lines = ends.lines();
    assert_eq!(
        (&lines[0]["type"], &lines[0]["content"]),
        (&json!("user.input"), &json!("hello"))
    );
    assert_eq!(ends.words(), ["started m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_stays_is_shown_when_two_sessions_are_closed() {
    let mut ends = Ends::new().await;
    let wires = ends.open_each(&["one", "two", "three"]).await;
    ends.hub("session.create", create("s", "r.a")).await;
    let mut wire = ends.lines().remove(0)["session_id"].clone();
    for closed in &wires[..2] {
        ends.host(full(&wire)).await;
        let lines = ends.lines();
        assert_eq!(lines[0]["session_id"], *closed);
        wire = lines[1]["session_id"].clone();
    }
    ends.host(full(&wire)).await;
    assert_eq!(
        ends.words(),
        ["created false no more sessions on this host"]
    );
    assert!(ends.lines().is_empty());
}

/// A host with a journal opens the agent's session with its first message.
#[tokio::test(start_paused = true)]
async fn a_message_for_which_there_is_no_room_is_sent_again() {
    let mut ends = Ends::new().await;
    let mut wires = Vec::new();
    for session in ["one", "s"] {
        ends.hub("session.create", create(session, "r.a")).await;
        wires.push(ends.ready(&["turns", "journal"]).await);
    }
    ends.words();
    let mut turn = json!(ends.message("m-1", "hello").await.unwrap());
    let mut message_id = json!("m-1");
    for attempt in [1, 3] {
        ends.host(json!({
            "type": "turn.begin", "session_id": wires[1], "turn_id": turn, "content": "hello", "seq": attempt,
            "message_id": message_id,
        }))
        .await;
        ends.host(json!({
            "type": "turn.complete", "session_id": wires[1], "turn_id": turn, "seq": attempt + 1,
            "status": "limit", "delivered": "no",
            "error": { "category": "busy", "message": "no more sessions on this host" },
        }))
        .await;
        if attempt > 1 {
            break;
        }
        assert_eq!(ends.words(), ["started m-1"]);
        let lines = ends.lines();
        let sent: Vec<_> = lines
            .iter()
            .map(|line| (&line["type"], &line["session_id"]))
            .collect();
        let one = json!(wires[0]);
        let expected = [
            (&json!("session.close"), &one),
            (&json!("session.attach"), &one),
        ];
        assert_eq!(sent, expected, "it waits for the end of that one");
        ends.host(json!({ "type": "session.refused", "session_id": one, "reason": "unknown" }))
            .await;
        let again = ends.lines().remove(0);
        assert_eq!(
            (&again["type"], &again["content"]),
            (&json!("user.input"), &json!("hello"))
        );
        assert_ne!(again["message_id"], "m-1", "the journal has had that id");
        turn = again["turn_id"].clone();
        message_id = again["message_id"].clone();
    }
    let expected = [
        "system: a limit was reached: no more sessions on this host",
        "completed m-1 1",
    ];
    assert_eq!(ends.words(), expected);
    assert!(ends.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_agent_never_had_lacks_nothing() {
    let mut ends = Ends::new().await;
    for id in ["m-1", "m-2"] {
        ends.hub("user.message", message(id, "hello")).await;
        let wire = ends.lines().remove(0)["session_id"].clone();
        ends.host(full(&wire)).await;
        let text = "system: no more sessions on this host".to_owned();
        let started = format!("started {id}");
        let completed = format!("completed {id} 1");
        assert_eq!(ends.words(), [started, text, completed]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_process_is_shown_once() {
    for facts_come_first in [false, true] {
        let mut ends = Ends::new().await;
        let wire = ends.open().await;
        let turn = ends.message("m-1", "hello").await.unwrap();
        let fact = json!({
            "type": "host.fact", "session_id": wire, "fact": "process_ended", "message": "killed by signal 9",
        });
        let complete = json!({
            "type": "turn.complete", "session_id": wire, "turn_id": turn, "status": "failed",
            "error": { "category": "process_exit", "message": "killed by signal 9" },
        });
        let lines = if facts_come_first {
            [fact.clone(), complete]
        } else {
            [complete, fact.clone()]
        };
        for line in lines {
            ends.host(line).await;
        }
        let words = ends.words();
        let shown = words.iter().filter(|word| word.contains("killed"));
        assert_eq!(shown.count(), 1, "{words:?}");
        // Without a turn it is the only line.
        ends.message("m-2", "again").await;
        ends.words();
        ends.host(fact).await;
        assert_eq!(ends.words(), ["system: killed by signal 9"]);
    }
}

#[tokio::test(start_paused = true)]
async fn disallowed_tools_are_denied_at_the_request_if_every_call_is_asked_about() {
    let mut ends = Ends::new().await;
    ends.hub("session.create", create("s", "r.b")).await;
    let wire = ends.ready(&["turns"]).await;
    ends.words();
    let ack = ends.update("r.b", &["rm"]).await;
    assert_eq!(ack, json!({ "agent_id": "r.b", "ok": true }));
    assert!(ends.lines().is_empty(), "its adapter has no such option");
    for (request, tool, words) in [
        (
            "q-1",
            "rm",
            "system: denied: rm: the hub's administrator has disallowed this tool",
        ),
        ("q-2", "ls", "permission.request"),
    ] {
        ends.host(json!({
            "type": "permission.request", "session_id": wire, "request_id": request, "tool": tool,
            "description": "d", "resource": "r",
        }))
        .await;
        assert_eq!(ends.words(), [words]);
    }
    let lines = ends.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (
            &lines[0]["request_id"],
            &lines[0]["approved"],
            &lines[0]["reason"]
        ),
        (&json!("q-1"), &json!(false), &json!("policy"))
    );
    // A later session starts without the option, too.
    ends.hub("session.create", create("t", "r.b")).await;
    assert_eq!(ends.lines()[0]["denied_tools"], Value::Null);
    let ack = ends.update("r.b", &["Bash(rm *)"]).await;
    assert_eq!(ack["ok"], false);
    assert!(
        ack["error"]
            .as_str()
            .unwrap()
            .contains("Bash(rm *) is a pattern")
    );
}

#[tokio::test(start_paused = true)]
async fn disallowed_tools_that_no_one_enforces_are_refused_by_name_and_not_fatal() {
    let mut ends = Ends::new().await;
    let external = AgentEntry {
        profile: Some("external".to_owned()),
        ..agent("a")
    };
    ends.bridge.set_agents(vec![external]);
    let ack = ends.update("r.a", &["Bash"]).await;
    assert_eq!(ack["ok"], false);
    let error = ack["error"].as_str().unwrap();
    assert!(error.starts_with("disallowed_tools is refused"), "{error}");
    ends.hub("session.create", create("s", "r.a")).await;
    assert_eq!(ends.lines()[0]["denied_tools"], Value::Null);
    // Limits beside it are not applied either, and limits without it are.
    let limits = json!({ "agent_id": "r.a", "limits": { "max_sessions": 1 } });
    ends.hub("agent.config_update", limits).await;
    let acks = ends.frames();
    assert_eq!(acks.last().unwrap().1["ok"], true);
}
