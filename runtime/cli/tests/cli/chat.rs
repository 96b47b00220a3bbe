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
    let path = home.file(
        "adapter.py",
        r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        if message["content"] == "crash": os._exit(7)
        base = {"session_id": message["session_id"]}
        print(json.dumps({"type": "output", "content": "hi", **base}))
        print(json.dumps({"type": "turn.complete", **base}), flush=True)
"#,
    );
    let adapter = shell_words::join(["python3", path.to_str().unwrap()]);
    let ran = home.run_with_stdin(["chat", "--adapter", &adapter], "one\ncrash\ntwo\n");
    ran.must_end_with(0).must_say("exit status 7").must_say("has forgotten this conversation");
    assert_eq!(ran.stdout, "hi\nhi\n");
}

#[test]
fn a_file_that_is_not_there_ends_nothing() {
    let ran = Home::new().run_with_stdin(["chat"], "/file nothing.txt\nhello\n");
    ran.must_end_with(0).must_say("failed to give nothing.txt");
    assert_eq!(ran.stdout, "hello\n");
}
