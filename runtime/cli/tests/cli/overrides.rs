//! Options of the agent on the command line, for `run` and `chat` alike.

use std::{io::Write, os::unix::fs::PermissionsExt};

use super::{Home, Ran, python_echo};

/// Applies `model` and `mode`, and answers each input by the options of its session and by what it runs in.
const ADAPTER: &str = r#"
import json, os, sys
starts = {}
for line in sys.stdin:
    message = json.loads(line)
    session = message["session_id"]
    if message["type"] == "session.start":
        starts[session] = message
        print(json.dumps({"type": "session.ready", "session_id": session, "protocol": 1, "extensions": ["options"],
                          "options_applied": ["model", "mode"]}), flush=True)
    elif message["type"] == "user.input":
        start = starts[session]
        told = [start.get("model"), start.get("mode"), os.environ.get("TOLD"), os.path.basename(os.getcwd()), sys.argv[1:]]
        print(json.dumps({"type": "output", "session_id": session, "content": json.dumps(told)}), flush=True)
        print(json.dumps({"type": "turn.complete", "session_id": session}), flush=True)
"#;

/// The same request by `run` and by `chat`.
fn both(home: &Home, arguments: &[&str]) -> [Ran; 2] {
    let run = ["run"]
        .into_iter()
        .chain(arguments.iter().copied())
        .chain(["hi"]);
    let chat = ["chat"].into_iter().chain(arguments.iter().copied());
    [home.run(run), home.run_with_stdin(chat, "hi\n")]
}

fn adapter(home: &Home) -> String {
    let path = home.file("adapter.py", ADAPTER);
    shell_words::join(["python3", path.to_str().unwrap()])
}

#[test]
fn an_adapter_gets_what_the_command_line_says() {
    let home = Home::new();
    let adapter = adapter(&home);
    std::fs::create_dir(home.path().join("work")).unwrap();
    home.file(
        "trunkline.json",
        &serde_json::json!({ "agents": [{ "id": "mine", "external": {
            "command": "python3", "args": [home.path().join("adapter.py")],
        } }] })
        .to_string(),
    );
    for target in [["--adapter", &adapter], ["--agent", "mine"]] {
        let flags = [
            "--model",
            "m",
            "--mode",
            "plan",
            "--env",
            "TOLD=x=y",
            "--cwd",
            "work",
            "--timeout",
            "1m",
        ];
        for ran in both(&home, &[&target[..], &flags].concat()) {
            ran.must_end_with(0);
            assert_eq!(
                ran.stdout, "[\"m\", \"plan\", \"x=y\", \"work\", []]\n",
                "{target:?}"
            );
        }
    }
    let ran = home.run([
        "run",
        "--agent",
        "mine",
        "-c",
        "env={\"TOLD\": \"set\"}",
        "hi",
    ]);
    assert_eq!(
        ran.must_end_with(0).stdout,
        "[null, null, \"set\", \"".to_owned() + &base(&home) + "\", []]\n"
    );
}

fn base(home: &Home) -> String {
    home.path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn what_an_adapter_does_not_apply_is_refused_by_its_name() {
    let home = Home::new();
    let adapter = adapter(&home);
    for ran in both(
        &home,
        &[
            "--adapter",
            &adapter,
            "--model",
            "m",
            "--max-turns",
            "3",
            "--add-dir",
            ".",
        ],
    ) {
        ran.must_end_with(2)
            .must_say("next: omit --add-dir, --max-turns, which this adapter does not support");
        assert_eq!(ran.stdout, "");
    }
    // These know no options at all, or none of these.
    for (target, flag) in [
        (["--adapter", &python_echo()], "--model"),
        (["--agent", "echo"], "--system-prompt"),
    ] {
        for ran in both(
            &home,
            &[&target[..], &["-c", "start_timeout=2s", flag, "x"]].concat(),
        ) {
            ran.must_end_with(2).must_say(&format!("omit {flag}"));
            assert_eq!(ran.stdout, "");
        }
    }
}

#[test]
fn a_built_in_agent_is_started_with_what_the_command_line_says() {
    let home = Home::new();
    let program = home.file("agent", "#!/bin/sh\necho \"$@\" > told\nexit 1\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("command={}", program.display());
    let flags = [
        "--agent",
        "claude-code",
        "-c",
        &command,
        "--model",
        "m1",
        "--permission-mode",
        "plan",
    ];
    let ran = home.run(["run"].iter().chain(&flags).chain(&[
        "--system-prompt",
        "Be brief",
        "--max-turns",
        "3",
        "hi",
    ]));
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    let told = std::fs::read_to_string(home.path().join("told")).unwrap();
    for word in ["--model m1", "--permission-mode plan", "--max-turns 3"] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
}

#[test]
fn a_wrong_key_is_named_with_the_one_that_was_meant() {
    let home = Home::new();
    for ran in both(&home, &["--agent", "codex", "-c", "aproval_mode=untrusted"]) {
        ran.must_end_with(2)
            .must_say("did you mean `approval_mode`?");
    }
    for ran in both(
        &home,
        &["--adapter", &python_echo(), "-c", "turn_timeout=soon"],
    ) {
        ran.must_end_with(2)
            .must_say("failed to set turn_timeout by -c");
    }
    home.run(["run", "-c", "novalue", "hi"])
        .must_end_with(2)
        .must_say("expected KEY=VALUE");
}

#[test]
fn permissions_and_time_are_the_hosts() {
    let home = Home::new();
    for ran in both(&home, &["--allow", "bash"]) {
        ran.must_end_with(0);
    }
    assert_eq!(
        home.run(["run", "--allow", "bash", "/tool bash"]).stdout,
        "ran bash\n"
    );
    assert_eq!(
        home.run(["run", "--allow", "*", "--deny", "bash", "/tool bash"])
            .stdout,
        "denied bash\n"
    );
    assert_eq!(
        home.run(["run", "-c", "permission.allow=[\"bash\"]", "/tool bash"])
            .stdout,
        "ran bash\n"
    );
    home.run(["run", "--timeout", "300ms", "/sleep 60"])
        .must_end_with(1)
        .must_say("turn_timeout");
    home.run(["run", "--cwd", "nowhere", "hi"])
        .must_end_with(2)
        .must_say("--cwd nowhere: no such folder");
    home.run([
        "run",
        "--adapter",
        &python_echo(),
        "--env",
        "NO_SUCH_VARIABLE_HERE",
        "hi",
    ])
    .must_end_with(2)
    .must_say("`--env NO_SUCH_VARIABLE_HERE=VALUE` sets it");
}

#[test]
fn a_refusal_is_told_whenever_the_person_writes() {
    let home = Home::new();
    let adapter = adapter(&home);
    // An empty line asks nothing: the refusal is met between inputs. Any other line may meet it on its way.
    for line in ["\n", "hi\n"] {
        let mut command = home.command(["chat", "--adapter", &adapter, "--max-turns", "3"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        while child.try_wait().unwrap().is_none() && stdin.write_all(line.as_bytes()).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let ran = Ran::from_output(child.wait_with_output().unwrap());
        ran.must_end_with(2)
            .must_say("next: omit --max-turns, which this adapter does not support");
        assert_eq!(
            ran.stderr.matches("does not enforce max_turns").count(),
            1,
            "{}",
            ran.stderr
        );
    }
}
