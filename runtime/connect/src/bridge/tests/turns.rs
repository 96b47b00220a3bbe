//! Sessions, turns and their texts.

use super::*;
use crate::files::read_file;

#[tokio::test(start_paused = true)]
async fn the_hello_names_agents_that_no_other_runtime_has() {
    let ends = Ends::new().await;
    let hello: Value = serde_json::from_str(&ends.bridge.hello("secret")).unwrap();
    assert_eq!(hello["type"], "runtime.hello");
    let payload = &hello["payload"];
    assert_eq!(
        (&payload["runtime_id"], &payload["token"]),
        (&json!("r"), &json!("secret"))
    );
    assert_eq!(payload["org_id"], Value::Null);
    assert_eq!(
        (&payload["agents"][0]["id"], &payload["agents"][1]["id"]),
        (&json!("r.a"), &json!("r.b"))
    );
    assert_eq!(payload["agents"][0]["caps"]["exec_model"], "interactive");
}

#[tokio::test(start_paused = true)]
async fn deltas_of_a_turn_are_joined_and_its_end_comes_last() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "hello").await.unwrap();
    assert_eq!(ends.words(), ["started m-1"]);
    for delta in ["One ", "para", "graph."] {
        ends.output(&wire, &turn, delta).await;
    }
    assert!(ends.words().is_empty(), "deltas are no rows of the hub's");
    let tool =
        json!({ "type": "tool.start", "session_id": wire, "tool_call_id": "c", "tool": "Read" });
    ends.host(tool).await;
    let complete = json!({
        "type": "turn.complete", "session_id": wire, "turn_id": turn, "status": "failed",
        "error": { "category": "rate_limit", "message": "asked too often" }, "native_session_id": "n-1",
    });
    ends.host(complete.clone()).await;
    // An entry that comes behind its provisional form.
    ends.host(complete).await;
    let frames = ends.frames();
    let kinds: Vec<_> = frames.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "agent.output",
            "agent.output",
            "agent.output",
            "turn.completed"
        ]
    );
    assert_eq!(frames[0].1["content"], "One paragraph.");
    assert_eq!(frames[1].1["channel"], "tool");
    assert_eq!(frames[2].1["content"], "the turn failed: asked too often");
    let expected = json!({ "session_id": "s", "in_response_to": "m-1", "exit_code": 1, "native_handle": "n-1" });
    assert_eq!(frames[3].1, expected);
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_begin_for_the_hub_when_they_do() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let first = ends.message("m-1", "one").await.unwrap();
    let second = ends.message("m-2", "two").await.unwrap();
    assert_ne!(first, second);
    assert_eq!(ends.words(), ["started m-1"]);
    ends.end(&wire, &first).await;
    assert_eq!(ends.words(), ["completed m-1 0", "started m-2"]);
    // One that is refused while another runs leaves the hub waiting for that.
    let third = ends.message("m-3", "three").await.unwrap();
    ends.host(json!({
        "type": "turn.complete", "session_id": wire, "turn_id": third, "status": "failed", "error": { "category": "busy" },
    })).await;
    let expected = [
        "started m-3",
        "system: the turn failed: busy",
        "completed m-3 1",
        "started m-2",
    ];
    assert_eq!(ends.words(), expected);
    ends.end(&wire, &second).await;
    assert_eq!(ends.words(), ["completed m-2 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_an_unknown_session_opens_it_and_resumes() {
    let mut ends = Ends::new().await;
    let mut first = message("m-1", "hello");
    first["native_handle"] = json!("n-1");
    first["prompt_profile"] = json!("careful");
    ends.hub("user.message", first).await;
    let start = ends.lines().remove(0);
    assert_eq!(start["type"], "session.start");
    assert_eq!(
        (&start["agent_id"], &start["user_id"]),
        (&json!("a"), &json!("u"))
    );
    assert_eq!(
        start["resume"],
        json!({ "native_session_id": "n-1", "history": false })
    );
    assert_eq!(start["system_prompt_mode"], "append");
    let ready =
        json!({ "type": "session.ready", "session_id": start["session_id"], "protocol": 1 });
    ends.host(ready).await;
    let input = ends.lines().remove(0);
    assert_eq!(
        (&input["type"], &input["message_id"]),
        (&json!("user.input"), &json!("m-1"))
    );
    assert_eq!(
        ends.words(),
        ["started m-1"],
        "the hub waits for no session.created"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_by_a_person_shows_what_was_said() {
    let mut ends = Ends::new().await;
    let create = json!({ "session_id": "s", "agent_id": "r.a", "resume_session_id": "n-1" });
    ends.hub("session.create", create).await;
    let start = ends.lines().remove(0);
    assert_eq!(start["resume"]["history"], true);
    let wire = &start["session_id"];
    ends.host(json!({ "type": "session.ready", "session_id": wire, "protocol": 1 }))
        .await;
    ends.host(
        json!({ "type": "message", "session_id": wire, "role": "user", "content": "A", "history": true }),
    ).await;
    ends.host(json!({ "type": "output", "session_id": wire, "content": "B", "history": true }))
        .await;
    ends.host(json!({ "type": "tool.start", "session_id": wire, "tool_call_id": "c", "tool": "T", "history": true })).await;
    ends.host(json!({ "type": "session.info", "session_id": wire, "context": "lost" }))
        .await;
    let words = ends.words();
    assert_eq!(
        words[..3],
        ["created true", "history_user: A", "history_assistant: B"]
    );
    assert!(words[3].starts_with("history_tool: "), "{words:?}");
    assert_eq!(
        words[4],
        "system: The agent does not remember the earlier conversation."
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_opened_has_an_end_and_a_reason() {
    let mut ends = Ends::new().await;
    ends.hub(
        "session.create",
        json!({ "session_id": "s", "agent_id": "r.none" }),
    )
    .await;
    // The agent of another runtime, whose id begins alike.
    ends.hub(
        "session.create",
        json!({ "session_id": "s", "agent_id": "ra" }),
    )
    .await;
    assert_eq!(
        ends.words(),
        vec!["created false this runtime has no such agent"; 2]
    );
    let mut unknown = message("m-1", "hello");
    unknown["agent_id"] = json!("r.none");
    ends.hub("user.message", unknown).await;
    assert_eq!(
        ends.words(),
        [
            "started m-1",
            "system: this runtime has no such agent",
            "completed m-1 1"
        ]
    );
    assert!(ends.lines().is_empty());
    // And one that the host refuses after all.
    ends.hub(
        "session.create",
        json!({ "session_id": "s", "agent_id": "r.a" }),
    )
    .await;
    let wire = ends.lines()[0]["session_id"].clone();
    ends.host(
        json!({ "type": "session.refused", "session_id": wire, "reason": "read_only", "message": "full" }),
    ).await;
    assert_eq!(ends.words(), ["created false full"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_by_itself_ends_its_turns_and_is_opened_anew() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    ends.message("m-1", "one").await;
    ends.message("m-2", "two").await;
    ends.host(json!({ "type": "thinking", "session_id": wire, "content": "hm" }))
        .await;
    ends.host(json!({
        "type": "session.closed", "session_id": wire, "reason": "failed", "error": { "message": "out of order" },
    })).await;
    let expected = [
        "started m-1",
        "system: out of order",
        "completed m-1 1",
        "started m-2",
        "completed m-2 1",
    ];
    assert_eq!(ends.words(), expected);
    ends.lines();
    ends.message("m-3", "three").await;
    let text = "system: The session was closed meanwhile. The agent does not remember it.";
    assert_eq!(ends.words(), [text, "started m-3"]);
}

#[tokio::test(start_paused = true)]
async fn an_input_for_the_turn_that_it_does_not_reach_is_a_turn() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    for id in ["m-2", "m-3"] {
        ends.hub("interactive.input", message(id, "more")).await;
        let lines = ends.lines();
        assert_eq!(
            (&lines[0]["mode"], &lines[0]["message_id"]),
            (&json!("steer"), &json!(id))
        );
    }
    ends.host(json!({ "type": "steer.result", "session_id": wire, "message_id": "m-2", "delivered": true })).await;
    ends.host(json!({ "type": "steer.result", "session_id": wire, "message_id": "m-3", "delivered": false })).await;
    let lines = ends.lines();
    assert_eq!((lines.len(), &lines[0]["content"]), (1, &json!("more")));
    assert_ne!(
        lines[0]["message_id"], "m-3",
        "that id stands for the steer"
    );
    ends.end(&wire, &turn).await;
    assert_eq!(
        ends.words(),
        ["started m-1", "completed m-1 0", "started m-3"]
    );
    // Without a turn it is a message as any other.
    let turn = lines[0]["turn_id"].as_str().unwrap();
    ends.end(&wire, turn).await;
    ends.words();
    ends.hub("interactive.input", message("m-4", "again")).await;
    assert_eq!(ends.lines()[0]["mode"], Value::Null);
    assert_eq!(ends.words(), ["started m-4"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_acknowledged_at_once_and_its_end_comes_later() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    ends.words();
    ends.hub("stop.request", json!({ "session_id": "s" })).await;
    assert_eq!(ends.lines()[0]["type"], "stop");
    assert_eq!(
        ends.frames(),
        [(
            "stop.ack".to_owned(),
            json!({ "session_id": "s", "ok": true })
        )]
    );
    ends.host(json!({
        "type": "turn.complete", "session_id": wire, "turn_id": turn, "status": "stopped", "stop_reason": "user",
    })).await;
    assert_eq!(ends.words(), ["completed m-1 0"]);
    ends.hub("stop.request", json!({ "session_id": "unknown" }))
        .await;
    assert_eq!(ends.frames()[0].1["ok"], false);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_twice_runs_once() {
    let mut ends = Ends::new().await;
    let wire = ends.open_with(&["turns", "journal"]).await;
    let turn = ends.message("m-1", "one").await.unwrap();
    assert_eq!(ends.message("m-1", "one").await, None);
    assert_eq!(ends.words(), ["started m-1"]);
    // Another turn than was asked for.
    let begin = json!({
        "type": "turn.begin", "session_id": wire, "turn_id": "t", "message_id": "m-1", "content": "one", "seq": 1,
    });
    ends.host(begin).await;
    ends.host(json!({ "type": "turn.complete", "session_id": wire, "turn_id": "t", "seq": 2 }))
        .await;
    assert_ne!(turn, "t");
    assert_eq!(ends.words(), ["completed m-1 0"]);
    // The journal has it, too.
    ends.message("m-1", "one").await.unwrap();
    ends.host(json!({
        "type": "input.result", "session_id": wire, "turn_id": "t", "message_id": "m-1", "seq": 1, "duplicate": true,
    }))
    .await;
    let words = ends.words();
    assert_eq!(words.last().unwrap(), "completed m-1 1", "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_and_stops_wait_for_a_session_that_is_being_opened() {
    let mut ends = Ends::new().await;
    ends.hub("user.message", message("m-1", "one")).await;
    assert_eq!(ends.words(), ["started m-1"]);
    for (kind, payload) in [
        ("interactive.input", message("m-2", "two")),
        ("stop.request", json!({ "session_id": "s" })),
    ] {
        ends.hub(kind, payload).await;
    }
    assert_eq!(ends.words(), ["stop.ack"]);
    ends.ready(&["turns"]).await;
    let lines = ends.lines();
    let texts = lines.iter().map(|line| (&line["type"], &line["content"]));
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            (&json!("user.input"), &json!("one")),
            (&json!("user.input"), &json!("two")),
            (&json!("stop"), &Value::Null),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_is_closed_and_goes_on_by_the_agents_id() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    ends.lines();
    ends.at(120_000).await;
    assert!(ends.lines().is_empty(), "it works");
    ends.host(json!({
        "type": "turn.complete", "session_id": wire, "turn_id": turn, "native_session_id": "n-1",
    }))
    .await;
    ends.words();
    ends.at(179_999).await;
    assert!(ends.lines().is_empty());
    ends.at(180_000).await;
    assert_eq!(ends.lines()[0]["type"], "session.close");
    assert!(ends.words().is_empty(), "for the hub nothing has happened");
    ends.hub(
        "native.sessions.list",
        json!({ "agent_id": "r.a", "request_id": "q" }),
    )
    .await;
    let listed = ends.frames().remove(0).1;
    let known = json!([{ "session_id": "n-1", "first_prompt": "one", "message_count": 1 }]);
    assert_eq!(
        (&listed["request_id"], &listed["sessions"]),
        (&json!("q"), &known)
    );
    ends.hub(
        "native.sessions.list",
        json!({ "agent_id": "r.b", "request_id": "q" }),
    )
    .await;
    assert_eq!(ends.frames().remove(0).1["sessions"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn events_of_a_closed_session_are_not_shown_in_the_next_one() {
    let mut ends = Ends::new().await;
    let before = ends.open_with(&["turns", "journal"]).await;
    ends.bridge.close("s");
    ends.settle().await;
    ends.hub("user.message", message("m-1", "one")).await;
    let now = ends.ready(&["turns", "journal"]).await;
    assert_eq!(ends.words(), ["started m-1"]);
    for (id, content) in [(before, "late"), (now, "new")] {
        ends.host(json!({
            "type": "output", "session_id": id, "channel": "system", "content": content, "seq": 1,
        }))
        .await;
    }
    assert_eq!(ends.words(), ["system: new"]);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_open_are_bounded_and_those_that_rest_make_room() {
    let mut ends = Ends::new().await;
    for number in 0..MAX_SESSIONS {
        let id = format!("s-{number}");
        ends.bridge.at(Duration::from_millis(number as u64));
        ends.hub(
            "session.create",
            json!({ "session_id": id, "agent_id": "r.a" }),
        )
        .await;
        ends.ready(&["turns"]).await;
    }
    ends.hub(
        "session.create",
        json!({ "session_id": "one-more", "agent_id": "r.a" }),
    )
    .await;
    let lines = ends.lines();
    assert_eq!(
        (&lines[0]["type"], &lines[1]["type"]),
        (&json!("session.close"), &json!("session.start"))
    );
    assert!(
        !ends.bridge.sessions.contains_key("s-0"),
        "it was idle for the longest time"
    );
    assert_eq!(ends.bridge.sessions.len(), MAX_SESSIONS);
}

#[tokio::test(start_paused = true)]
async fn an_administrators_limits_hold_and_are_acknowledged() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let security = json!({ "disallowed_tools": ["Bash"] });
    let limits = json!({ "max_sessions": 1, "max_output_bytes": 4, "idle_timeout": "1s" });
    ends.hub(
        "agent.config_update",
        json!({ "agent_id": "r.a", "security": security, "limits": limits }),
    )
    .await;
    assert_eq!(
        ends.frames().remove(0).1,
        json!({ "agent_id": "r.a", "ok": true })
    );
    assert_eq!(
        ends.lines()[0]["denied_tools"],
        json!(["Bash"]),
        "of sessions that are open, too"
    );
    let turn = ends.message("m-1", "one").await.unwrap();
    ends.output(&wire, &turn, "four").await;
    ends.output(&wire, &turn, "five!").await;
    ends.output(&wire, &turn, "six").await;
    assert_eq!(ends.lines()[0]["type"], "stop");
    let expected = [
        "started m-1",
        "stdout: four",
        "system: the turn is stopped: its output is longer than 4 bytes",
    ];
    assert_eq!(ends.words(), expected);
    ends.hub(
        "session.create",
        json!({ "session_id": "t", "agent_id": "r.a" }),
    )
    .await;
    assert_eq!(
        ends.words(),
        ["created false too many sessions work at the same time"]
    );
    ends.end(&wire, &turn).await;
    ends.at(1000).await;
    assert_eq!(ends.lines()[0]["type"], "session.close");
    ends.hub(
        "session.create",
        json!({ "session_id": "t", "agent_id": "r.a" }),
    )
    .await;
    assert_eq!(ends.lines()[0]["denied_tools"], json!(["Bash"]));
    let update = json!({ "agent_id": "r.none", "security": { "permission_mode": "skip" } });
    ends.words();
    ends.hub("agent.config_update", update).await;
    assert_eq!(ends.frames().remove(0).1["ok"], false);
}

#[tokio::test(start_paused = true)]
async fn files_go_both_ways_and_refused_ones_say_why() {
    let mut ends = Ends::new().await;
    let file = |name: &str, data: &str| {
        let metadata =
            json!({ "file_id": "f", "name": name, "mime_type": "text/plain", "size": 3 });
        json!({ "session_id": "s", "metadata": metadata, "data": data })
    };
    ends.hub("file.upload", file("a.txt", "YWJj")).await;
    assert!(
        ends.words()[0]
            .starts_with("system: a.txt was not given to the agent: send a message first")
    );
    let wire = ends.open().await;
    ends.hub("file.upload", file("../a.txt", "YWJj")).await;
    let line = ends.lines().remove(0);
    assert_eq!(line["file_name"], "a.txt");
    let path = line["file_path"].as_str().unwrap();
    assert_eq!(read_file(path.as_ref()).unwrap(), b"abc");
    ends.hub("file.upload", file("b.txt", "not base64")).await;
    assert_eq!(
        ends.words(),
        ["system: b.txt was not given to the agent: it is not whole"]
    );
    let output = json!({ "type": "file.output", "session_id": wire, "file_path": path, "file_name": "a.txt" });
    ends.host(output).await;
    let (kind, sent) = ends.frames().remove(0);
    assert_eq!(
        (kind.as_str(), &sent["data"], &sent["metadata"]["size"]),
        ("file.available", &json!("YWJj"), &json!(3))
    );
    ends.host(json!({ "type": "file.output", "session_id": wire, "file_path": "/none/none" }))
        .await;
    assert!(ends.words()[0].starts_with("system: none was not sent: "));
    ends.bridge.close("s");
    assert!(
        read_file(path.as_ref()).is_err(),
        "it is removed with its session"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_cannot_speak_as_a_person() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    for channel in ["history_user", "file", "system"] {
        ends.host(json!({
            "type": "output", "session_id": wire, "turn_id": turn, "content": channel, "channel": channel,
        })).await;
    }
    assert_eq!(
        ends.words(),
        ["started m-1", "stdout: history_userfile", "system: system"]
    );
}
