use super::{Home, python_echo};

#[test]
fn several_turns_are_one_conversation() {
    let ran = Home::new().run_with_stdin(["chat"], "one\n\n/help\ntwo\n/quit\nthree\n");
    ran.must_end_with(0).must_say("/file PATH");
    assert_eq!(ran.stdout, "one\ntwo\n");
}

#[test]
fn the_end_of_stdin_leaves() {
    let ran = Home::new().run_with_stdin(["chat", "--adapter", &python_echo()], "hello\n");
    ran.must_end_with(0);
    assert_eq!(ran.stdout, "hello\n");
}

#[test]
fn a_command_of_the_agent_reaches_it() {
    let ran = Home::new().run_with_stdin(["chat"], "/tool bash\n//help\n");
    ran.must_end_with(0).must_say("denied: bash");
    assert_eq!(ran.stdout, "denied bash\n/help\n");
}

#[test]
fn a_lost_context_is_told() {
    let home = Home::new();
    let adapter = home.adapter(
        r#"
for kind, message in messages():
    if kind == "user.input":
        if message["content"] == "crash": os._exit(7)
        say("output", content="hi")
        say("turn.complete")
"#,
    );
    let ran = home.run_with_stdin(["chat", "--adapter", &adapter], "one\ncrash\ntwo\n");
    ran.must_end_with(0)
        .must_say("exit status 7")
        .must_say("has lost this conversation");
    assert_eq!(ran.stdout, "hi\nhi\n");
}

#[test]
fn a_file_that_is_not_there_ends_nothing() {
    let ran = Home::new().run_with_stdin(["chat"], "/file nothing.txt\nhello\n");
    ran.must_end_with(0)
        .must_say("failed to attach nothing.txt");
    assert_eq!(ran.stdout, "hello\n");
}

/// Applies `model` and `mode` in a live session, has a command, and counts sessions.
const LIVE: &str = r#"
options, started = {}, 0
for kind, message in messages():
    if kind == "session.start":
        started += 1
        options[session] = {"model": "small", "mode": "ask"}
        say("session.ready", protocol=1, extensions=["options", "usage"], options_applied=["model"],
            models=[{"id": "small", "label": "Small one"}, {"id": "large"}], modes=[{"id": "yolo"}],
            commands=[{"name": "review", "description": "Reviews the changes", "hint": "a path"}], **options[session])
    elif kind == "session.update":
        options[session].update({k: message[k] for k in ("model", "mode") if k in message and message[k] != "huge"})
        say("session.info", **options[session])
    elif kind == "user.input":
        say("output", content=json.dumps([started, options[session]["model"], options[session]["mode"], message["content"]]))
        say("turn.complete", usage={"input_tokens": 10, "cost_usd": 0.5})
"#;

fn live(home: &Home, input: &str) -> super::Ran {
    let adapter = home.adapter(LIVE);
    let ran = home.run_with_stdin(["chat", "--adapter", &adapter], input);
    ran.must_end_with(0);
    ran
}

#[test]
fn model_and_mode_are_changed_between_turns() {
    let home = Home::new();
    let ran = live(
        &home,
        "one\n/model large\n/mode yolo\ntwo\n/model huge\n/model\n/help\n/review x\n",
    );
    assert_eq!(
        ran.stdout,
        "[1, \"small\", \"ask\", \"one\"]\n[1, \"large\", \"yolo\", \"two\"]\n[1, \"large\", \"yolo\", \"/review x\"]\n"
    );
    ran.must_say("✓ model large")
        .must_say("✓ mode yolo")
        .must_say("! model large, not huge");
    ran.must_say("Small one")
        .must_say("/review")
        .must_say("a path · Reviews the changes");
}

#[test]
fn a_change_that_the_adapter_does_not_know_is_told() {
    let ran = Home::new().run_with_stdin(["chat", "--agent", "echo"], "one\n/model large\ntwo\n");
    assert_eq!(ran.must_end_with(0).stdout, "one\ntwo\n");
    assert!(
        ran.stderr.contains("not changed") || ran.stderr.contains("does not report its new model"),
        "{}",
        ran.stderr
    );
}

#[test]
fn usage_is_summed_up_and_a_new_conversation_is_another_session() {
    let home = Home::new();
    let ran = live(
        &home,
        "one\ntwo\n/usage\n/new\nthree\n/export talk.md\n/export talk.md\n",
    );
    ran.must_say("2 turns")
        .must_say("20 tokens in · $1.0000")
        .must_say("a new conversation");
    assert!(
        ran.stdout.contains("[2, \"small\", \"ask\", \"three\"]"),
        "{}",
        ran.stdout
    );
    let talk = std::fs::read_to_string(home.path().join("talk.md")).unwrap();
    assert!(
        talk.contains("## You\n\nthree\n") && !talk.contains("one"),
        "{talk}"
    );
    assert_eq!(
        ran.stderr.matches("failed to write talk.md").count(),
        1,
        "{}",
        ran.stderr
    );
}

#[test]
fn a_line_goes_on_after_a_backslash() {
    let ran = Home::new().run_with_stdin(["chat"], "one\\\ntwo\\\nthree\nfour\\");
    assert_eq!(ran.must_end_with(0).stdout, "one\ntwo\nthree\nfour\n");
}
