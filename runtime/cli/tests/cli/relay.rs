use serde_json::{Value, json};

use super::{Home, journal::Serving};

#[test]
fn a_hub_drives_the_agents_over_stdin_and_stdout() {
    let home = Home::new();
    let mut host = Serving::spawn(&mut home.command(["serve"]));
    host.say(&json!({"type": "session.start", "session_id": "a"}));
    host.say(&json!({"type": "user.input", "session_id": "a", "content": "hello"}));
    let (output, _) = host.hear().unwrap();
    assert_eq!(
        (&output["type"], &output["content"]),
        (&"output".into(), &"hello".into())
    );
    assert_eq!(host.hear().unwrap().0["type"], "turn.complete");
    host.end();
}

#[test]
fn a_hub_that_knows_the_core_only_sees_tools_where_it_wants_them_as_output() {
    for (args, wanted) in [(&["serve"][..], 0), (&["serve", "--tools-as-output"], 2)] {
        let home = Home::new();
        let mut host = Serving::spawn(&mut home.command(args));
        host.say(&json!({"type": "session.start", "session_id": "a"}));
        host.say(&json!({"type": "user.input", "session_id": "a", "content": "/tool ls"}));
        let id = &host.until("permission.request")["request_id"];
        host.say(&json!({"type": "permission.response", "session_id": "a", "request_id": id, "approved": true}));
        let heard = std::iter::from_fn(|| Some(host.hear()?.0));
        let tools: Vec<Value> = heard
            .take_while(|message| message["type"] != "turn.complete")
            .filter(|message| message["channel"] == "tool")
            .map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(tools.len(), wanted, "{tools:?}");
        host.end();
    }
}

#[test]
fn the_agent_of_the_command_line_serves_sessions_that_name_none() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "one", "profile": "echo" }, { "id": "two", "profile": "mock" }], "default_agent": "one" }"#,
    );
    let start = json!({"type": "session.start", "session_id": "a", "protocol": 1, "extensions": ["options"]});
    let mut named = start.clone();
    named["agent_id"] = json!("one");
    for (args, ready, name) in [
        (&["serve"][..], &start, "echo"),
        (&["serve", "--agent", "two"], &start, "mock"),
        (&["serve", "--agent", "two"], &named, "echo"),
    ] {
        let mut host = Serving::spawn(&mut home.command(args));
        host.say(ready);
        host.say(&json!({"type": "user.input", "session_id": "a", "content": "hello"}));
        let info = host.until("session.info");
        assert_eq!(info["adapter"]["name"], name, "{args:?} {ready}");
        host.end();
    }
}
