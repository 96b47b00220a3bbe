use super::{Home, python_echo};

#[track_caller]
fn check(arguments: &[&str]) {
    let ran = Home::new().run(arguments);
    ran.must_end_with(0);
    let lines = ran.json_lines();
    assert_eq!(lines.len(), 1);
    let report = &lines[0];
    assert_eq!(
        (&report["sessions"], &report["turns"]),
        (&50.into(), &100.into())
    );
    assert_eq!(
        (&report["cross_talk"], &report["unanswered"]),
        (&0.into(), &0.into())
    );
    assert_eq!(report["processes"], 1);
    for number in [
        "turns_per_s",
        "p50_us",
        "p99_us",
        "bytes_in",
        "bytes_out",
        "rss_per_session_bytes",
    ] {
        assert!(report[number].is_number(), "{number}: {report}");
    }
    assert!(
        report["bytes_in"].as_u64() > Some(0) && report["bytes_out"].as_u64() > Some(0),
        "{report}"
    );
}

#[test]
fn sessions_of_the_built_in_echo_do_not_meet() {
    check(&["demo", "--sessions", "50", "--turns", "2", "--json"]);
}

#[test]
fn sessions_of_another_adapter_do_not_meet() {
    check(&[
        "demo",
        "--adapter",
        &python_echo(),
        "--sessions",
        "50",
        "--turns",
        "2",
        "--json",
    ]);
}

/// Answers an input with `answer` if there is one, else with the input's own text. `FIRST` and
/// `NEXT` are the answers to the first input and to each later one.
const ANSWERING: &str = r#"
import json, sys
answer = FIRST
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        base = {"session_id": message["session_id"], "turn_id": message.get("turn_id")}
        print(json.dumps({"type": "output", "content": answer or message["content"], **base}))
        print(json.dumps({"type": "turn.complete", **base}), flush=True)
        answer = NEXT
"#;

fn answering(first: &str, next: &str) -> String {
    ANSWERING.replace("FIRST", first).replace("NEXT", next)
}

/// Answers only the first input.
const SILENT: &str = r#"
import json, os, sys
answered = 0
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        answered += 1
        if answered > 1: os._exit(3)
        print(json.dumps({"type": "output", "session_id": message["session_id"], "content": message["content"]}))
        print(json.dumps({"type": "turn.complete", "session_id": message["session_id"]}), flush=True)
"#;

#[track_caller]
fn check_caught(adapter: &str, fault: &str) {
    let home = Home::new();
    let path = home.file("adapter.py", adapter);
    let adapter = shell_words::join(["python3", path.to_str().unwrap()]);
    let ran = home.run([
        "demo",
        "--adapter",
        &adapter,
        "--sessions",
        "4",
        "--turns",
        "2",
        "--json",
    ]);
    ran.must_end_with(1);
    assert!(
        ran.json_lines()[0][fault].as_u64() > Some(0),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_adapter_that_mixes_sessions_up_is_caught() {
    check_caught(&answering("None", "message['content']"), "cross_talk");
}

#[test]
fn an_adapter_that_does_not_answer_is_caught() {
    check_caught(SILENT, "unanswered");
}

#[test]
fn an_adapter_that_does_not_start_is_code_3() {
    Home::new()
        .run(["demo", "--adapter", "false", "--sessions", "2"])
        .must_end_with(3)
        .must_say("did not answer")
        .must_say("`trunkline chat --adapter false --debug`");
    let ran = Home::new().run(["demo", "--adapter", "no-such-adapter"]);
    ran.must_end_with(3)
        .must_say("`no-such-adapter` is not installed");
}

#[test]
fn an_adapter_whose_answers_cannot_be_checked_is_caught() {
    check_caught(&answering("None", "'something else'"), "unchecked");
}

#[test]
fn an_adapter_that_does_not_repeat_its_input_is_refused_before_the_load() {
    let home = Home::new();
    let path = home.file("adapter.py", &answering("'hi'", "'something else'"));
    let adapter = shell_words::join(["python3", path.to_str().unwrap()]);
    let ran = home.run(["demo", "--adapter", &adapter, "--json"]);
    ran.must_end_with(1);
    ran.must_say("cannot match answers to sessions");
    ran.must_say("examples/python/echo.py");
}
