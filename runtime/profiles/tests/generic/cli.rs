//! `generic-cli`: a conversation with a program.

use std::fs;

use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, printed, program},
    witness::Witness,
};

/// A program that answers each line, and forgets nothing.
const TALK: &str = r#"
n=0
while read -r line; do
    n=$((n + 1))
    case $line in
    bye) exit 0 ;;
    crash) echo 'no luck' >&2; exit 3 ;;
    hang) echo hanging; sleep 300 ;;
    *) printf '%s: %s\n' $n "$line" ;;
    esac
    echo "<END>"
done
"#;

fn start(script: &str, more: &Value) -> Adapter {
    let mut config = json!({ "command": "sh", "args": ["-c", script] });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    Adapter::start("generic-cli", &config)
}

fn open(script: &str, more: &Value) -> Adapter {
    let mut adapter = start(script, more);
    adapter.open("s");
    adapter
}

#[test]
fn a_sentinel_ends_each_answer_of_one_process() {
    let mut adapter = open(TALK, &json!({ "sentinel": "<END>" }));
    for (number, word) in (1..).zip(["one", "two", "ö <END>"]) {
        let turn = adapter.send("s", word);
        assert_eq!(turn.text(), format!("{number}: {word}\n"));
        assert_eq!(
            (turn.status(), &turn.end["stop_reason"]),
            ("completed", &json!("sentinel"))
        );
    }
    adapter.open("other");
    assert_eq!(
        adapter.send("other", "x").text(),
        "1: x\n",
        "a process for each session"
    );
    adapter.end();
}

#[test]
fn usage_is_estimated_where_it_is_to() {
    let mut adapter = open(
        TALK,
        &json!({ "sentinel": "<END>", "estimate_usage": true }),
    );
    let usage =
        json!({ "input_tokens": 2, "output_tokens": 3, "scope": "turn", "estimated": true });
    assert_eq!(adapter.send("s", "12345").end["usage"], usage);
    adapter.end();
}

#[test]
fn a_prompt_ends_an_answer_and_the_greeting_is_no_turn() {
    let script = r"echo welcome; printf '> '; while read -r line; do printf 'a> b'; sleep 0.01; echo; printf '> '; done";
    let mut adapter = open(script, &json!({ "prompt_pattern": "^> $" }));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.text().as_str(), &turn.end["stop_reason"]),
        ("welcome\n> a> b\n> ", &json!("prompt"))
    );
    let of_turn = turn
        .messages
        .iter()
        .filter(|message| message["turn_id"] == "t1");
    let text: String = of_turn
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(text, "a> b\n> ");
    adapter.end();
    // Some print their prompt on stderr.
    let script = r"printf '> ' >&2; while read -r line; do echo a; printf '> ' >&2; done";
    let mut adapter = open(script, &json!({ "prompt_pattern": "> $" }));
    adapter.send("s", "x");
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.text().as_str(), turn.on("stderr").as_str()),
        ("a\n", "> ")
    );
    adapter.end();
}

#[test]
fn a_late_greeting_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let script = format!(
        "echo welcome; while ! [ -e '{}' ]; do sleep 0.02; done; printf '> '
        while read -r line; do sleep 0.3; echo \"said $line\"; printf '> '; done",
        gate.display()
    );
    let mut adapter = open(&script, &json!({ "prompt_pattern": "^> $" }));
    adapter.begin("s", "one");
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    fs::write(&gate, "").unwrap();
    let turn = adapter.send("s", "two");
    assert!(
        turn.text().ends_with("> said two\n> ") && turn.on("system").is_empty(),
        "{turn:?}"
    );
    adapter.end();
    fs::remove_file(&gate).unwrap();
    let mut adapter = open(
        &script,
        &json!({ "prompt_pattern": "^> $", "start_timeout": "100ms" }),
    );
    assert_eq!(adapter.send("s", "one").category(), "timeout");
    assert_eq!(
        adapter.send("s", "two").category(),
        "timeout",
        "it was started anew"
    );
    adapter.end();
}

#[test]
fn a_program_that_takes_no_input_fails_the_turn_and_is_ended() {
    let witness = Witness::new();
    let script = format!(
        "exec 3>'{}'; exec 0<&-; printf '> '; sleep 300",
        witness.path().display()
    );
    let mut adapter = open(&script, &json!({ "prompt_pattern": "^> $" }));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.error()),
        ("failed", "sh takes no further input and was ended")
    );
    witness.gone();
    adapter.end();
}

#[test]
fn a_file_is_told_of_by_its_path() {
    let mut adapter = open(
        "read -r a; read -r b; echo \"$a|$b\"; echo END; cat",
        &json!({ "sentinel": "END" }),
    );
    adapter.say(
        &json!({ "type": "file.input", "session_id": "s", "file_path": "/a/b", "file_mime_type": "text/x" }),
    );
    assert_eq!(
        adapter.send("s", "look").text(),
        "[File uploaded: b (text/x)] Path: /a/b|look\n"
    );
    adapter.end();
}

#[test]
fn silence_ends_an_answer_where_nothing_else_does() {
    let script = "while read -r line; do printf '%s ' a; sleep 0.1; printf b; done";
    let mut adapter = open(script, &json!({ "idle": "1s" }));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.text().as_str(), &turn.end["stop_reason"]),
        ("a b", &json!("quiet"))
    );
    adapter.end();
    let mut adapter = open("cat >/dev/null", &json!({ "first_output": "100ms" }));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.text().as_str(), &turn.end["stop_reason"]),
        ("", &json!("quiet"))
    );
    adapter.end();
}

#[test]
fn partial_lines_are_shown_while_the_answer_goes_on() {
    let witness = tempfile::tempdir().unwrap();
    let gate = witness.path().join("gate");
    let script = format!(
        "read -r line; printf hal; while ! [ -e '{}' ]; do sleep 0.02; done; printf 'f\\nEND\\n'; cat",
        gate.display()
    );
    let mut adapter = open(&script, &json!({ "sentinel": "END" }));
    adapter.begin("s", "x");
    assert_eq!(adapter.wait_for("s", "output")["content"], "hal");
    std::fs::write(gate, "").unwrap();
    assert_eq!(adapter.finish("s").text(), "f\n");
    adapter.end();
}

#[test]
fn a_command_after_each_input_prints_the_sentinel() {
    let mut adapter = open(
        "exec sh",
        &json!({ "sentinel": "done-4711", "sentinel_command": "echo; echo done-4711" }),
    );
    assert_eq!(adapter.send("s", "a=7").text(), "\n");
    assert_eq!(adapter.send("s", "echo $a").text(), "7\n\n");
    assert_eq!(
        adapter
            .send("s", "head -c 100000 /dev/zero | tr '\\0' y")
            .text(),
        "y".repeat(100_000) + "\n"
    );
    adapter.end();
}

#[test]
fn an_end_fails_the_turn_and_the_next_input_begins_anew() {
    let mut adapter = open(TALK, &json!({ "sentinel": "<END>" }));
    assert_eq!(adapter.send("s", "x").text(), "1: x\n");
    let turn = adapter.send("s", "crash");
    assert_eq!((turn.status(), turn.category()), ("failed", "process_exit"));
    assert_eq!(
        (turn.error(), turn.end["exit_code"].as_i64()),
        ("sh ended: exit status 3: no luck", Some(3))
    );
    assert_eq!(turn.end["stop_reason"], "exit");
    let turn = adapter.send("s", "again");
    assert_eq!(turn.text(), "1: again\n");
    assert!(turn.on("system").contains("does not remember"), "{turn:?}");
    let turn = adapter.send("s", "bye");
    assert_eq!(
        (turn.status(), &turn.end["stop_reason"]),
        ("completed", &json!("exit"))
    );
    adapter.end();
}

#[test]
fn a_stop_interrupts_the_program_and_the_conversation_goes_on() {
    let script = format!("trap 'echo interrupted; echo \"<END>\"' INT\n{TALK}");
    let mut adapter = open(&script, &json!({ "sentinel": "<END>" }));
    adapter.send("s", "one");
    adapter.begin("s", "hang");
    assert_eq!(adapter.wait_for("s", "output")["content"], "hanging\n");
    adapter.stop("s");
    let turn = adapter.finish("s");
    assert_eq!(turn.status(), "stopped");
    let turn = adapter.send("s", "three");
    assert!(turn.text().ends_with("3: three\n"), "{turn:?}");
    adapter.end();
}

#[test]
fn a_closed_sessions_program_is_ended_with_all_of_its_processes() {
    let witness = Witness::new();
    let script = format!(
        "trap '' TERM INT HUP; exec 3>'{}'; setsid sleep 300 & {TALK}",
        witness.path().display()
    );
    let mut adapter = open(&script, &json!({ "sentinel": "<END>" }));
    adapter.send("s", "x");
    adapter.say(&json!({ "type": "session.close", "session_id": "s" }));
    witness.gone();
    adapter.end();
}

#[test]
fn one_process_serves_all_sessions_where_it_is_to() {
    let mut adapter = start(
        TALK,
        &json!({ "sentinel": "<END>", "spawn_policy": "persistent" }),
    );
    let ready = adapter.open_with("a", json!({ "cwd": "/" }));
    assert_eq!(
        ready["options_applied"],
        json!([]),
        "one session does not move the others"
    );
    adapter.open("b");
    adapter.begin("a", "one");
    adapter.begin("b", "two");
    let a = adapter.finish("a").text();
    let b = adapter.finish("b").text();
    assert!(
        (a.as_str(), b.as_str()) == ("1: one\n", "2: two\n")
            || (a.as_str(), b.as_str()) == ("2: one\n", "1: two\n"),
        "{a:?} {b:?}"
    );
    assert_eq!(adapter.send("a", "x").text(), "3: x\n");
    adapter.end();
}

#[test]
fn what_comes_late_belongs_to_no_turn() {
    let script = "while read -r line; do echo $line; echo END; (sleep 0.2; echo late) & done";
    let mut adapter = open(script, &json!({ "sentinel": "END" }));
    assert_eq!(adapter.send("s", "one").text(), "one\n");
    let late = adapter.wait_for("s", "output");
    assert_eq!(
        (&late["content"], &late["turn_id"]),
        (&json!("late\n"), &Value::Null)
    );
    assert_eq!(adapter.send("s", "two").text(), "two\n");
    adapter.end();
}

#[test]
fn a_terminal_is_the_programs_own() {
    let script = r#"
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && tty=yes
while read -r line; do
    case $line in
    size) stty size ;;
    exit) exit 3 ;;
    control) sh -c 'echo controlled > /dev/tty' ;;
    *) echo "$tty $TERM ${#line}" ;;
    esac
    echo END
done
"#;
    let more = json!({ "sentinel": "END", "pty": true, "columns": 99, "rows": 33 });
    let mut adapter = open(script, &more);
    assert_eq!(
        adapter.send("s", "hello").text(),
        "yes dumb 5\n",
        "nothing is echoed"
    );
    assert_eq!(
        adapter.send("s", &"x".repeat(9000)).text(),
        "yes dumb 9000\n"
    );
    assert_eq!(adapter.send("s", "size").text(), "33 99\n");
    assert_eq!(adapter.send("s", "control").text(), "controlled\n");
    let turn = adapter.send("s", "exit");
    assert_eq!(
        (turn.category(), turn.error()),
        ("process_exit", "sh ended: exit status 3")
    );
    adapter.end();
    let mut adapter = Adapter::start(
        "generic-cli",
        &json!({ "command": "no-such-program", "pty": true }),
    );
    adapter.open("s");
    assert_eq!(adapter.send("s", "x").category(), "not_installed");
    adapter.end();
}

#[test]
fn a_stop_is_control_c_on_a_terminal() {
    let witness = Witness::new();
    let script = format!(
        "trap 'echo interrupted; echo END' INT; exec 3>'{}'; while :; do read -r line || continue; [ \"$line\" = hang ] && {{ echo ok; sleep 300; }}; echo $line; echo END; done",
        witness.path().display()
    );
    let mut adapter = open(&script, &json!({ "sentinel": "END", "pty": true }));
    adapter.begin("s", "hang");
    assert_eq!(adapter.wait_for("s", "output")["content"], "ok\n");
    adapter.stop("s");
    let turn = adapter.finish("s");
    assert_eq!(turn.status(), "stopped");
    assert!(turn.text().starts_with("interrupted\n"), "{turn:?}");
    assert!(adapter.send("s", "next").text().contains("next"));
    adapter.say(&json!({ "type": "session.close", "session_id": "s" }));
    witness.gone();
    adapter.end();
}

#[test]
fn it_says_what_it_is_and_what_is_missing() {
    let flag = |config: &Value, flag: &str| {
        let (mut command, _folder) = program("generic-cli", config);
        command.arg(flag);
        let (text, code) = printed(command);
        (
            serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text)),
            code,
        )
    };
    let (said, _) = flag(&json!({ "command": "sh" }), "--describe");
    assert_eq!(said["capabilities"]["turn_completion"], false);
    assert_eq!(
        said["config_schema"]["properties"]["newlines"]["default"],
        "keep"
    );
    let (said, _) = flag(&json!({ "command": "sh", "sentinel": "END" }), "--describe");
    assert_eq!(said["capabilities"]["turn_completion"], true);
    let (report, code) = flag(&json!({ "command": "sh" }), "--diagnose");
    assert_eq!((report["status"].as_str(), code), (Some("pass"), Some(0)));
    let (report, code) = flag(
        &json!({ "command": "no-such-program", "work_dir": "/nowhere" }),
        "--diagnose",
    );
    assert_eq!((report["status"].as_str(), code), (Some("fail"), Some(1)));
    let (text, code) = flag(&json!({ "command": "sh", "prompt_pattern": "(" }), "");
    assert!(
        text.to_string().contains("prompt_pattern") && code == Some(2),
        "{text}"
    );
}
