use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use serde_json::Value;

use super::Home;

#[test]
fn a_hub_drives_the_agents_over_stdin_and_stdout() {
    let home = Home::new();
    let mut child = home.command(["serve"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();

    writeln!(stdin, r#"{{"type":"session.start","session_id":"a"}}"#).unwrap();
    writeln!(stdin, r#"{{"type":"user.input","session_id":"a","content":"hello"}}"#).unwrap();
    let output = next();
    assert_eq!((&output["type"], &output["content"]), (&"output".into(), &"hello".into()));
    assert_eq!(next()["type"], "turn.complete");

    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
