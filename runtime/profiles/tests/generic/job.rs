//! `generic-job`: a run a turn.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, printed, program},
    witness::Witness,
};

/// A job that is a shell script.
fn script(script: &str, more: &Value) -> Adapter {
    let mut config = json!({ "command": "sh", "args": ["-c", script] });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let mut adapter = Adapter::start("generic-job", &config);
    adapter.open("s");
    adapter
}

#[test]
fn the_input_goes_in_and_output_and_exit_code_come_out() {
    let mut adapter = script("cat; echo careful >&2; exit 0", &json!({}));
    for input in ["hello\nö", "", &"x".repeat(300_000)] {
        let turn = adapter.send("s", input);
        assert_eq!(
            (turn.text() == input, turn.on("stderr").as_str()),
            (true, "careful\n")
        );
        assert_eq!(
            (turn.status(), &turn.end["exit_code"]),
            ("completed", &json!(0))
        );
    }
    adapter.end();
    let mut adapter = script("echo half; echo 'no luck' >&2; exit 3", &json!({}));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category(), &turn.end["exit_code"]),
        ("failed", "process_exit", &json!(3))
    );
    assert_eq!(
        (turn.error(), turn.text().as_str()),
        ("sh ended: exit status 3: no luck", "half\n")
    );
    adapter.end();
}

#[test]
fn a_file_is_told_of_by_its_path() {
    let mut adapter = script("cat", &json!({}));
    adapter.say(
        &json!({ "type": "file.input", "session_id": "s", "file_path": "/a/b", "file_mime_type": "text/x" }),
    );
    assert_eq!(
        adapter.send("s", "look").text(),
        "[File uploaded: b (text/x)] Path: /a/b\nlook"
    );
    assert_eq!(adapter.send("s", "again").text(), "again");
    adapter.end();
}

#[test]
fn an_input_goes_in_as_an_argument_or_in_a_file() {
    let args = json!(["-c", "cat; printf '%s|' \"$@\"", "sh", "a", "{{input}}"]);
    let mut adapter = Adapter::start(
        "generic-job",
        &json!({ "command": "sh", "args": args, "input": "argument", "answer": { "format": "text" } }),
    );
    adapter.open("s");
    assert_eq!(
        adapter.send("s", "b $(c)\n\"d\" 'e'").text(),
        "a|b $(c)\n\"d\" 'e'|",
        "no shell reads it"
    );
    let turn = adapter.send("s", "--help");
    assert!(
        turn.error().contains("may take it for an option"),
        "{}",
        turn.error()
    );
    assert_eq!(
        adapter.send("s", &"x".repeat(200_000)).category(),
        "oversize"
    );
    adapter.end();

    let text = "cat; stat -c %a '{{input_file}}'; cat '{{input_file}}'; echo '{{input_file}}' >&2";
    let mut adapter = script(text, &json!({ "input": "file" }));
    for input in ["hello\nö".to_owned(), "x".repeat(300_000)] {
        let turn = adapter.send("s", &input);
        assert!(turn.text() == format!("600\n{input}"));
        let path = turn.on("stderr");
        assert!(
            path.contains("/input-") && !Path::new(path.trim()).exists(),
            "{path}"
        );
    }
    adapter.begin("s", "x");
    adapter.stop("s");
    adapter.finish("s");
    // The end checks that no file is left.
    adapter.end();
}

#[test]
fn an_answer_is_read_by_its_pointers() {
    let keys = json!({
        "text": "/text", "cost_usd": "/cost", "artifacts": "/files", "summary": "/title", "result": "/data",
        "usage": { "input_tokens": "/tokens/in", "output_tokens": "/tokens/out" },
    });
    let with = |format: &str| {
        let mut answer = keys.clone();
        answer["format"] = json!(format);
        json!({ "answer": answer, "estimate_usage": true })
    };
    let document = r#"{"text":"hi","cost":0.5,"files":["a"],"title":"done","data":7,"tokens":{"in":12,"out":3}}"#;
    let mut adapter = script(
        &format!("cat >/dev/null; echo careful >&2; echo '{document}'"),
        &with("json"),
    );
    let turn = adapter.send("s", "x");
    assert_eq!(
        (
            turn.text().as_str(),
            turn.on("stderr").as_str(),
            turn.status()
        ),
        ("hi", "careful\n", "completed")
    );
    assert_eq!(
        turn.end["usage"],
        json!({ "input_tokens": 12, "output_tokens": 3, "cost_usd": 0.5, "scope": "turn" }),
        "what is known is not estimated"
    );
    assert_eq!(
        (
            &turn.end["artifacts"],
            &turn.end["summary"],
            &turn.end["result"]
        ),
        (&json!(["a"]), &json!("done"), &json!(7))
    );
    adapter.end();

    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let lines = format!(
        "echo '{{\"text\":\"one \"}}'; while ! [ -e '{}' ]; do sleep 0.02; done; printf '%s' '{document}'",
        gate.display()
    );
    let mut adapter = script(&lines, &with("jsonl"));
    adapter.begin("s", "x");
    assert_eq!(adapter.wait_for("s", "output")["content"], "one ");
    fs::write(&gate, "").unwrap();
    let turn = adapter.finish("s");
    assert_eq!(
        (turn.text().as_str(), &turn.end["usage"]["input_tokens"]),
        ("hi", &json!(12))
    );
    adapter.end();
}

#[test]
fn output_that_is_no_answer_fails_the_turn_and_is_shown() {
    let answer = json!({ "answer": { "format": "json", "text": "/a" } });
    let mut adapter = script("echo Loading", &answer);
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category(), turn.text().as_str()),
        ("failed", "other", "Loading\n")
    );
    assert_eq!(
        turn.error(),
        "sh printed no valid JSON at line 1, column 1 (expected value): Loading\n"
    );
    adapter.end();
    let mut adapter = script("echo half; exit 3", &answer);
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.category(), turn.text().as_str()),
        ("process_exit", "half\n"),
        "its exit says more"
    );
    adapter.end();
    let mut adapter = script("printf '{'; echo ready >&2; exec sleep 300", &answer);
    adapter.begin("s", "x");
    adapter.wait_for("s", "output");
    adapter.stop("s");
    let turn = adapter.finish("s");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("stopped", "{"),
        "what was held is shown"
    );
    adapter.end();
}

#[test]
fn usage_is_estimated_as_a_last_resort() {
    let mut adapter = script("cat; printf 12345 >&2", &json!({ "estimate_usage": true }));
    let usage = |tokens: u64| json!({ "input_tokens": tokens, "output_tokens": tokens, "scope": "turn", "estimated": true });
    assert_eq!(adapter.send("s", &"x".repeat(40)).end["usage"], usage(10));
    assert_eq!(adapter.send("s", "12345").end["usage"], usage(2));
    adapter.end();
    let mut adapter = script("cat", &json!({}));
    assert!(adapter.send("s", "x").end.get("usage").is_none());
    adapter.end();
}

#[test]
fn output_comes_before_the_end_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let text = format!(
        "printf one; while ! [ -e '{}' ]; do sleep 0.02; done; printf two",
        gate.display()
    );
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
    let text = format!(
        "trap '' TERM; exec 3>'{}'; sleep 300 & setsid sleep 300 & wait; sleep 300",
        held.display()
    );
    let mut adapter = script(&text, &json!({ "max_runtime": "300ms" }));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "timeout"));
    assert!(turn.error().contains("300 ms"), "{}", turn.error());
    witness.gone();
    adapter.end();
}

#[test]
fn a_stop_ends_the_run_and_the_next_one_is_served() {
    let mut adapter = script(
        "read word; echo $word; [ $word = go ] || exec sleep 300",
        &json!({}),
    );
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
    let ready = adapter.open_with(
        "s",
        json!({ "cwd": folder.path(), "env": { "B": "3" }, "model": "m" }),
    );
    assert_eq!(ready["options_applied"], json!(["cwd", "env"]));
    let cwd = fs::canonicalize(folder.path()).unwrap();
    assert_eq!(
        adapter.send("s", "").text(),
        format!("{}\n1 3\n", cwd.display())
    );
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
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", category),
            "{}",
            turn.error()
        );
        adapter.end();
    }
    let (mut command, _folder) = program("generic-job", &json!({ "command": "/nowhere/job" }));
    command.arg("--diagnose");
    let (text, code) = printed(command);
    assert!(
        text.contains("no program /nowhere/job") && code == Some(1),
        "{text}"
    );
}
