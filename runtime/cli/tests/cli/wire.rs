//! The wire log, as the program writes it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    Home, Ran,
    journal::{Serving, configure_claude},
    python_echo,
};

/// Repeats what it was started with and asked, on every way out.
const TELLER: &str = r#"
said = []
for kind, message in messages():
    if kind == "session.start":
        said.extend((message.get("env") or {}).values())
        for server in (message.get("mcp_servers") or {}).values():
            said.extend((server.get("headers") or {}).values())
        say("session.ready", protocol=1, extensions=["options", "questions"],
            options_applied=["env", "mcp_servers"])
    elif kind == "user.input":
        say("input.request", request_id="q", prompt="?", fields=[{"id": "pin", "kind": "secret"}])
    elif kind == "input.response":
        said.append(message["values"]["pin"])
        for text in said:
            print("noise " + text, flush=True)
            print("stderr " + text, file=sys.stderr, flush=True)
            say("output", content=text)
        say("turn.complete")
"#;

/// Each record of a log.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The kinds of records, each once where it repeats, but for stderr.
fn kinds(records: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<_> = records
        .iter()
        .map(|record| record["ev"].as_str().unwrap())
        .collect();
    kinds.retain(|kind| *kind != "stderr");
    kinds.dedup();
    kinds
}

fn types(records: &[Value]) -> Vec<String> {
    let lines = records.iter().filter_map(|record| record["line"].as_str());
    let messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| Some(message["type"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn a_run_writes_every_line_between_the_host_and_its_adapter() {
    let home = Home::new();
    let ran = home.run([
        "run",
        "--adapter",
        &python_echo(),
        "--wire-log",
        "wire.log",
        "hello",
    ]);
    assert_eq!(ran.must_end_with(0).stdout, "hello\n");
    let path = home.path().join("wire.log");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let records = records(&path);
    assert_eq!(kinds(&records).first(), Some(&"header"));
    assert_eq!(records[0]["complete"], true);
    assert_eq!(
        (&records[1]["ev"], &records[1]["agent"]),
        (&json!("started"), &json!("adapter"))
    );
    assert_eq!(records.last().unwrap()["ev"], "exited");
    let types = types(&records);
    let at = |name: &str| {
        types
            .iter()
            .position(|kind| kind == name)
            .unwrap_or_else(|| panic!("{types:?}"))
    };
    assert!(
        at("session.start") < at("user.input") && at("user.input") < at("turn.complete"),
        "{types:?}"
    );
    assert!(at("output") < at("turn.complete"));
    let input = records.iter().find(|record| {
        record["line"]
            .as_str()
            .is_some_and(|line| line.contains("hello"))
    });
    assert!(
        input.unwrap()["line"].as_str().unwrap().ends_with('\n'),
        "a message of the host has its LF"
    );
}

/// An agent's program: it prints a line that is not its protocol, and plays recordings of the real one.
const CLAUDE: &str =
    r#"case "$*" in *--version*) ;; *) echo "loading $PLAIN";; esac; exec "$FAKE_CLI" "$@""#;

#[test]
fn the_log_has_both_directions_between_an_adapter_and_the_agent_that_it_wraps() {
    let home = Home::new();
    let secret = "an-ordinary-value-4711";
    if !configure_claude(&home, CLAUDE, json!({ "PLAIN": secret })) {
        return;
    }
    home.run(["run", "--wire-log", "wire.log", "FAKE:text"])
        .must_end_with(0);
    let records = records(&home.path().join("wire.log"));
    let lines = |kind: &str| -> Vec<String> {
        let records = records.iter().filter(|record| record["ev"] == kind);
        records
            .map(|record| {
                assert_eq!(record["agent_process"], 1, "{record}");
                record["line"].as_str().unwrap_or_default().to_owned()
            })
            .collect()
    };
    let to = lines("to_agent");
    let from = lines("from_agent");
    assert!(
        to.iter().any(|line| line.contains("FAKE:text")) && from[0].starts_with("loading "),
        "{to:?} {from:?}"
    );
    let is_result = |line: &String| line.contains(r#""type":"result""#);
    assert!(from.iter().any(is_result), "{from:?}");
    let shown = home.run(["dev", "wire", "show", "wire.log"]);
    let shown = &shown.must_end_with(0).stdout;
    assert!(
        shown.contains("⇒              agent process 1 {")
            && shown.contains("⇐              agent process 1 loading"),
        "{shown}"
    );
    let json = home.run(["dev", "wire", "show", "wire.log", "--json"]);
    let json = &json.must_end_with(0).stdout;
    assert!(json.contains(r#""ev":"from_agent""#), "{json}");
}

#[test]
fn chat_serve_and_demo_write_one_too_and_a_configuration_asks_for_it() {
    let home = Home::new();
    home.run_with_stdin(["chat", "--wire-log", "chat.log"], "hi\n")
        .must_end_with(0);
    let mut host = Serving::spawn(&mut home.command(["serve", "--wire-log", "serve.log"]));
    host.say(&json!({"type": "session.start", "session_id": "a"}));
    host.say(&json!({"type": "user.input", "session_id": "a", "content": "hi"}));
    host.until("turn.complete");
    host.end();
    home.run([
        "demo",
        "--sessions",
        "3",
        "--turns",
        "2",
        "--wire-log",
        "demo.log",
    ])
    .must_end_with(0);
    let config = json!({"agents": [{"id": "echo", "profile": "echo"}],
        "runtime": {"wire_log": "from-config.log", "wire_log_content": "head"}});
    home.file("trunkline.json", &config.to_string());
    home.run(["run", "a private word"]).must_end_with(0);
    for name in ["chat.log", "serve.log", "demo.log", "from-config.log"] {
        let records = records(&home.path().join(name));
        let types = types(&records);
        assert!(
            types.iter().any(|kind| kind == "user.input"),
            "{name}: {types:?}"
        );
        assert!(kinds(&records).contains(&"exited"), "{name}");
    }
    let text = fs::read_to_string(home.path().join("from-config.log")).unwrap();
    assert!(
        !text.contains("private") && text.contains("\"content\":\"head\""),
        "{text}"
    );
    let ran = home.run(["agents"]);
    ran.must_end_with(0);
    assert!(
        !home.path().join("from-config.log.1").exists(),
        "a command that runs no agent begins no log"
    );
}

#[test]
fn what_a_session_is_given_in_secret_is_nowhere_in_the_log() {
    let home = Home::new();
    let adapter = home.adapter(TELLER);
    let arguments = [
        "serve",
        "--adapter",
        &adapter,
        "--session-may",
        "env,mcp_servers",
        "--wire-log",
        "wire.log",
    ];
    let mut child = home
        .command(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout = child.stdout.take().unwrap();
    let secrets = [
        "env-secret-0123456",
        "plain-value-345678",
        "header-secret-5678",
        "pin-secret-9abcdef",
    ];
    let mut say = |message: &Value| writeln!(stdin, "{message}").unwrap();
    say(
        &json!({"type": "session.start", "session_id": "s", "protocol": 1,
        "extensions": ["options", "questions"], "env": {"API_TOKEN": secrets[0], "THING": secrets[1]},
        "mcp_servers": {"m": {"url": "http://localhost", "headers": {"X-Key": secrets[2]}}}}),
    );
    say(&json!({"type": "user.input", "session_id": "s", "content": "go"}));
    let mut answered = String::new();
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match message["type"].as_str().unwrap() {
            "input.request" => say(&json!({"type": "input.response", "session_id": "s",
                "request_id": message["request_id"], "values": {"pin": secrets[3]}})),
            "output" => answered.push_str(message["content"].as_str().unwrap()),
            "turn.complete" => break,
            _ => {}
        }
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = fs::read_to_string(home.path().join("wire.log")).unwrap();
    for secret in secrets {
        assert!(
            answered.contains(secret),
            "{secret} was answered: {answered}"
        );
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert!(text.contains("[REDACTED:"), "{text}");
}

#[test]
fn a_file_that_cannot_be_written_delays_no_turn_and_is_said() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_trunkline");
    // No file may grow beyond 1 KiB: the header fits, and little more.
    let limited = format!(
        "trap '' XFSZ; ulimit -f 1; exec '{program}' demo --sessions 5 --turns 20 --wire-log wire.log"
    );
    let mut command = Command::new("bash");
    command
        .args(["-c", &limited])
        .current_dir(home.path())
        .env("HOME", home.path())
        .stdin(Stdio::null());
    let ran = Ran::from_output(command.output().unwrap());
    ran.must_end_with(0)
        .must_say("lines are missing from the wire log");
    ran.must_say("File too large");
}

#[test]
fn what_is_no_log_is_left_alone_and_an_error_says_what_to_do() {
    let home = Home::new();
    home.file("notes.txt", "mine");
    let ran = home.run(["run", "--wire-log", "notes.txt", "hello"]);
    ran.must_end_with(2)
        .must_say("notes.txt exists and is not a wire log")
        .must_say("name another file");
    assert_eq!(
        fs::read_to_string(home.path().join("notes.txt")).unwrap(),
        "mine"
    );
    home.run(["run", "--wire-log", "nowhere/wire.log", "hello"])
        .must_end_with(2)
        .must_say("No such file");
}

/// Says what is not a message, then answers.
const NOISY: &str = r#"
for kind, message in messages():
    if kind == "user.input":
        print("loading \\x1b[31mmodel", flush=True)
        say("bogus")
        print("careful", file=sys.stderr, flush=True)
        say("output", content="so be it")
        say("turn.complete")
"#;

#[test]
fn show_prints_each_message_and_why_a_line_is_none() {
    let home = Home::new();
    let adapter = home.adapter(NOISY);
    home.run([
        "run",
        "--adapter",
        &adapter,
        "--wire-log",
        "wire.log",
        "hello",
    ])
    .must_end_with(0);
    let shown = home.run(["dev", "wire", "show", "wire.log"]);
    let text = &shown.must_end_with(0).stdout;
    for part in [
        "user.input \"hello\"",
        "not understood: not a JSON object loading ",
        "not understood: unknown type \"bogus\" bogus",
        "output \"so be it\"",
        "careful",
        "exited with status 0",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(
        !text.contains('\u{1b}'),
        "no colours without a terminal, and none of the adapter's: {text}"
    );

    let printed = home
        .run(["dev", "wire", "show", "wire.log", "--json"])
        .json_lines();
    let bogus = printed
        .iter()
        .find(|line| line["message"]["type"] == "bogus")
        .unwrap();
    assert_eq!(bogus["not_understood"], "unknown type \"bogus\"");
    let input = printed
        .iter()
        .find(|line| line["message"]["type"] == "user.input")
        .unwrap();
    assert!(input["time"].as_str().unwrap().ends_with('Z') && input["ev"] == "host");
    let session = input["session"].as_str().unwrap();
    let of_session = home.run(["dev", "wire", "show", "wire.log", "--session", session]);
    assert!(of_session.stdout.contains("so be it") && !of_session.stdout.contains("loading"));
    let of_none = home.run(["dev", "wire", "show", "wire.log", "--session", "other"]);
    assert!(!of_none.stdout.contains("so be it") && of_none.stdout.contains("exited"));
}

#[test]
fn a_killed_host_leaves_a_log_that_can_be_read_and_followed() {
    let home = Home::new();
    let mut host = Serving::spawn(&mut home.command(["serve", "--wire-log", "wire.log"]));
    host.say(&json!({"type": "session.start", "session_id": "a"}));
    host.say(&json!({"type": "user.input", "session_id": "a", "content": "first"}));
    host.until("turn.complete");
    let path = home.path().join("wire.log");
    let mut follow = home
        .command(["dev", "wire", "show", "wire.log", "--follow", "--json"])
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(follow.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(followed.any(|line| line.contains("turn.complete")));
    host.say(&json!({"type": "user.input", "session_id": "a", "content": "second"}));
    assert!(followed.any(|line| line.contains("second")), "it goes on");
    assert!(followed.any(|line| line.contains("turn.complete")));
    host.kill();
    // A new log begins in its place.
    home.run(["run", "--wire-log", "wire.log", "third"])
        .must_end_with(0);
    assert!(
        followed.any(|line| line.contains("third")),
        "into the next file, too"
    );
    follow.kill().unwrap();
    follow.wait().unwrap();

    let killed = home.path().join("wire.log.1");
    let shown = home.run(["dev", "wire", "show", "wire.log.1"]);
    assert!(shown.must_end_with(0).stdout.contains("second") && !shown.stdout.contains("exited"));
    let whole = fs::read(&killed).unwrap();
    fs::write(&killed, &whole[..whole.len() - 9]).unwrap();
    let shown = home.run(["dev", "wire", "show", "wire.log.1"]);
    assert!(
        shown
            .must_end_with(0)
            .stdout
            .contains("is not a record: it is cut"),
        "{}",
        shown.stdout
    );
    assert!(path.exists());
    home.run(["dev", "wire", "show", "nowhere"])
        .must_end_with(2)
        .must_say("nowhere");
}

#[test]
fn a_replay_against_the_same_adapter_shows_no_difference_and_against_another_what_is_different() {
    let home = Home::new();
    let echo = python_echo();
    let mut serve = home
        .command(["serve", "--adapter", &echo, "--wire-log", "wire.log"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = serve.stdin.take().unwrap();
    let mut say = |message: Value| writeln!(stdin, "{message}").unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    for session in ["a", "b"] {
        say(json!({"type": "session.start", "session_id": session}));
        say(json!({"type": "user.input", "session_id": session, "content": "/tool ls"}));
        // The id of the request is another one each time.
        let request = lines
            .find(|line| line.contains("permission.request"))
            .unwrap();
        let request: Value = serde_json::from_str(&request).unwrap();
        say(
            json!({"type": "permission.response", "session_id": session, "request_id": request["request_id"],
            "approved": true}),
        );
        assert!(lines.any(|line| line.contains("turn.complete")));
        say(json!({"type": "user.input", "session_id": session, "content": "hello"}));
        assert!(lines.any(|line| line.contains("turn.complete")));
    }
    drop(stdin);
    assert_eq!(serve.wait().unwrap().code(), Some(0));

    let replay = |file: &str, more: &[&str], adapter: &[&str]| {
        let arguments = ["dev", "wire", "replay", file]
            .into_iter()
            .chain(more.iter().copied())
            .chain(["--"]);
        home.run(arguments.chain(adapter.iter().copied()))
    };
    let words = shell_words::split(&echo).unwrap();
    let same: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = replay("wire.log", &[], &same);
    assert!(
        ran.must_end_with(0).stdout.starts_with("the same: "),
        "{}",
        ran.stdout
    );

    let ran = replay(
        "wire.log",
        &["--deadline", "0.2"],
        &["sh", "-c", "cat >/dev/null"],
    );
    assert!(
        ran.must_end_with(1)
            .stdout
            .contains("is missing\n  then  {"),
        "{}",
        ran.stdout
    );
    replay("wire.log", &[], &["/nowhere/adapter"]).must_end_with(3);

    // With one line cut, that session is left out.
    let path = home.path().join("wire.log");
    let mut records = records(&path);
    let cut = records
        .iter_mut()
        .find(|it| it["ev"] == "host" && it["session"].is_string())
        .unwrap();
    let session = cut["session"].as_str().unwrap().to_owned();
    cut["omitted"] = json!(7);
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    home.file("cut.log", &text);
    replay("cut.log", &[], &same)
        .must_end_with(2)
        .must_say("incomplete")
        .must_say("--partial");
    let ran = replay("cut.log", &["--partial"], &same);
    assert!(
        ran.must_end_with(0)
            .stdout
            .contains("1 session was omitted"),
        "{session}: {}",
        ran.stdout
    );
}

#[test]
fn chat_with_debug_shows_a_line_that_is_not_understood_and_why() {
    let home = Home::new();
    let adapter = home.adapter(NOISY);
    let arguments = [
        "chat",
        "--adapter",
        &adapter,
        "--debug",
        "--wire-log",
        "wire.log",
    ];
    let ran = home.run_with_stdin(arguments, "hello\n");
    ran.must_end_with(0)
        .must_say("not understood: not a JSON object")
        .must_say("loading");
    ran.must_say("not understood: unknown type")
        .must_say("careful");
    assert!(
        types(&records(&home.path().join("wire.log"))).contains(&"bogus".to_owned()),
        "the log has it, too"
    );
    let calm = home.run_with_stdin(["chat", "--adapter", &adapter], "hello\n");
    assert!(
        !calm.must_end_with(0).stderr.contains("loading"),
        "{}",
        calm.stderr
    );
}
