use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use serde_json::Value;

use super::Home;

#[test]
fn a_hub_drives_the_agents_over_stdin_and_stdout() {
    let home = Home::new();
    let mut child = home
        .command(["serve"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();

    writeln!(stdin, r#"{{"type":"session.start","session_id":"a"}}"#).unwrap();
    writeln!(
        stdin,
        r#"{{"type":"user.input","session_id":"a","content":"hello"}}"#
    )
    .unwrap();
    let output = next();
    assert_eq!(
        (&output["type"], &output["content"]),
        (&"output".into(), &"hello".into())
    );
    assert_eq!(next()["type"], "turn.complete");

    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hub_that_knows_the_core_only_sees_tools_where_it_wants_them_as_output() {
    for (args, wanted) in [(&["serve"][..], 0), (&["serve", "--tools-as-output"], 2)] {
        let home = Home::new();
        let mut child = home.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        writeln!(stdin, r#"{{"type":"session.start","session_id":"a"}}"#).unwrap();
        writeln!(
            stdin,
            r#"{{"type":"user.input","session_id":"a","content":"/tool ls"}}"#
        )
        .unwrap();
        let request = messages
            .find(|message| message["type"] == "permission.request")
            .unwrap();
        let id = &request["request_id"];
        let answer = format!(
            r#"{{"type":"permission.response","session_id":"a","request_id":{id},"approved":true}}"#
        );
        writeln!(stdin, "{answer}").unwrap();
        let tools = messages
            .by_ref()
            .take_while(|message| message["type"] != "turn.complete");
        let tools: Vec<Value> = tools
            .filter(|message| message["channel"] == "tool")
            .map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(tools.len(), wanted, "{tools:?}");
        drop(stdin);
        messages.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_agent_of_the_command_line_serves_sessions_that_name_none() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "one", "profile": "echo" }, { "id": "two", "profile": "mock" }], "default_agent": "one" }"#,
    );
    let start =
        r#"{"type":"session.start","session_id":"a","protocol":1,"extensions":["options"]}"#;
    let named = r#"{"type":"session.start","session_id":"b","protocol":1,"extensions":["options"],"agent_id":"one"}"#;
    for (args, ready, name) in [
        (&["serve"][..], start, "echo"),
        (&["serve", "--agent", "two"], start, "mock"),
        (&["serve", "--agent", "two"], named, "echo"),
    ] {
        let mut child = home.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{ready}").unwrap();
        let id = &serde_json::from_str::<Value>(ready).unwrap()["session_id"];
        writeln!(
            stdin,
            r#"{{"type":"user.input","session_id":{id},"content":"hello"}}"#
        )
        .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut infos = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let info = infos
            .find(|message| message["type"] == "session.info")
            .unwrap();
        assert_eq!(info["adapter"]["name"], name, "{args:?} {ready}");
        drop(stdin);
        infos.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
