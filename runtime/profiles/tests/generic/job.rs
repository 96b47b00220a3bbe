//! `generic-job`: a run a turn.

use std::fs;

use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, printed, program},
    witness::Witness,
};

/// A job that is a shell script.
fn script(script: &str, more: &Value) -> Adapter {
    let mut config = json!({ "command": "sh", "args": ["-c", script] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut adapter = Adapter::start("generic-job", &config);
    adapter.open("s");
    adapter
}

#[test]
fn the_input_goes_in_and_output_and_exit_code_come_out() {
    let mut adapter = script("cat; echo careful >&2; exit 0", &json!({}));
    for input in ["hello\nö", "", &"x".repeat(300_000)] {
        let turn = adapter.send("s", input);
        assert_eq!((turn.text() == input, turn.on("stderr").as_str()), (true, "careful\n"));
        assert_eq!((turn.status(), &turn.end["exit_code"]), ("completed", &json!(0)));
    }
    adapter.end();
    let mut adapter = script("echo half; echo 'no luck' >&2; exit 3", &json!({}));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category(), &turn.end["exit_code"]),
        ("failed", "process_exit", &json!(3))
    );
    assert_eq!((turn.error(), turn.text().as_str()), ("sh ended: exit status 3: no luck", "half\n"));
    adapter.end();
}

#[test]
fn a_file_is_told_of_by_its_path() {
    let mut adapter = script("cat", &json!({}));
    adapter.say(
        &json!({ "type": "file.input", "session_id": "s", "file_path": "/a/b", "file_mime_type": "text/x" }),
    );
    assert_eq!(adapter.send("s", "look").text(), "[File uploaded: b (text/x)] Path: /a/b\nlook");
    assert_eq!(adapter.send("s", "again").text(), "again");
    adapter.end();
}

#[test]
fn output_comes_before_the_end_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let text = format!("printf one; while ! [ -e '{}' ]; do sleep 0.02; done; printf two", gate.display());
    let mut adapter = script(&text, &json!({}));
    adapter.begin("s", "x");
    assert_eq!(adapter.wait_for("s", "output")["content"], "one");
    fs::write(&gate, "").unwrap();
    assert_eq!(adapter.finish("s").text(), "two");
    adapter.end();
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_of_its_processes() {
    let witness = Witness::new();
    let held = witness.path();
    let text =
        format!("trap '' TERM; exec 3>'{}'; sleep 300 & setsid sleep 300 & wait; sleep 300", held.display());
    let mut adapter = script(&text, &json!({ "max_runtime": "300ms" }));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "timeout"));
    assert!(turn.error().contains("300ms"), "{}", turn.error());
    witness.gone();
    adapter.end();
}

#[test]
fn a_stop_ends_the_run_and_the_next_one_is_served() {
    let mut adapter = script("read word; echo $word; [ $word = go ] || exec sleep 300", &json!({}));
    adapter.begin("s", "wait\n");
    adapter.wait_for("s", "output");
    adapter.begin("s", "go\n");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    assert_eq!(adapter.finish("s").text(), "go\n");
    adapter.end();
}

#[test]
fn directory_and_variables_are_the_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({ "command": "sh", "args": ["-c", "pwd; echo $A $B"], "work_dir": "/", "env": { "A": "1", "B": "2" } });
    let mut adapter = Adapter::start("generic-job", &config);
    let ready = adapter.open_with("s", json!({ "cwd": folder.path(), "env": { "B": "3" }, "model": "m" }));
    assert_eq!(ready["options_applied"], json!(["cwd", "env"]));
    let cwd = fs::canonicalize(folder.path()).unwrap();
    assert_eq!(adapter.send("s", "").text(), format!("{}\n1 3\n", cwd.display()));
    adapter.open("t");
    assert_eq!(adapter.send("t", "").text(), "/\n1 2\n");
    adapter.end();
}

#[test]
fn what_does_not_start_is_told() {
    for (command, category) in [("/nowhere/job", "not_installed"), ("", "not_installed")] {
        let mut adapter = Adapter::start("generic-job", &json!({ "command": command }));
        adapter.open("s");
        let turn = adapter.send("s", "x");
        assert_eq!((turn.status(), turn.category()), ("failed", category), "{}", turn.error());
        adapter.end();
    }
    let (mut command, _folder) = program("generic-job", &json!({ "command": "/nowhere/job" }));
    command.arg("--diagnose");
    let (text, code) = printed(command);
    assert!(text.contains("no program /nowhere/job") && code == Some(1), "{text}");
}
