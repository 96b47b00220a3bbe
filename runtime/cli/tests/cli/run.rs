use super::{Home, python_echo};

#[test]
fn the_answer_alone_is_on_stdout() {
    let ran = Home::new().run(["run", "hello"]);
    ran.must_end_with(0);
    assert_eq!(ran.stdout, "hello\n");
}

#[test]
fn nothing_of_an_answer_is_lost_that_is_more_than_waits_in_memory() {
    let ran = Home::new().run(["run", "/burst 400 20000"]);
    ran.must_end_with(0);
    assert_eq!(ran.stdout.trim_end().len(), 400 * 20_000);
}

#[test]
fn an_adapter_of_the_command_line_answers() {
    let ran = Home::new().run(["run", "--adapter", &python_echo(), "hello"]);
    ran.must_end_with(0);
    assert_eq!(ran.stdout, "hello\n");
}

/// Applies `output_schema`, and answers with data unless the input is `none`.
const DATA_ADAPTER: &str = r#"
for kind, message in messages():
    if kind == "session.start":
        fields = message["output_schema"]["required"]
        say("session.ready", protocol=1, extensions=["turns", "options"], options_applied=["output_schema"])
    elif kind == "user.input":
        turn = message["turn_id"]
        say("output", turn_id=turn, content="I count.\n")
        result = {} if message["content"] == "none" else {"result": {field: 2 for field in fields}}
        say("turn.complete", turn_id=turn, **result)
"#;

#[test]
fn an_answer_in_the_form_of_a_schema_is_the_result_on_stdout() {
    let home = Home::new();
    let adapter = home.adapter(DATA_ADAPTER);
    home.file(
        "schema.json",
        r#"{"type": "object", "required": ["files"]}"#,
    );
    let run = |adapter: &str, more: &[&str]| {
        let options = ["run", "--adapter", adapter, "--output-schema"];
        home.run([&options[..], more].concat())
    };
    let ran = run(&adapter, &["schema.json", "count"]);
    ran.must_end_with(0).must_say("I count.");
    assert_eq!(ran.stdout, "{\"files\": 2}\n");
    let ran = run(&adapter, &["schema.json", "--json", "count"]);
    let lines = ran.must_end_with(0).json_lines();
    assert_eq!(lines.last().unwrap()["result"]["files"], 2);
    let none = run(&adapter, &["schema.json", "none"]);
    none.must_end_with(1)
        .must_say("the agent gave no data for --output-schema");
    assert_eq!(none.stdout, "");
    run(&python_echo(), &["schema.json", "count"])
        .must_end_with(2)
        .must_say("omit --output-schema, which this adapter does not support");
    home.file("list.json", "[]");
    for file in ["list.json", "missing.json"] {
        run(&adapter, &[file, "count"])
            .must_end_with(2)
            .must_say(&format!("failed to read the JSON Schema {file}: "))
            .must_say("name a file that contains a JSON object");
    }
}

#[test]
fn messages_of_no_session_are_named_when_the_turn_fails() {
    let home = Home::new();
    let adapter = home.adapter(
        "for kind, message in messages():\n    if kind == 'user.input':\n        session = 'nope'\n        say('output', content='lost')\n",
    );
    home.run(["run", "--adapter", &adapter, "--timeout", "1s", "hello"])
        .must_end_with(1)
        .must_say("`session_id` of its messages: 1 named no open session; --wire-log FILE");
}

#[test]
fn the_prompt_is_read_from_a_piped_stdin() {
    for arguments in [&["run", "-"][..], &["run"]] {
        let ran = Home::new().run_with_stdin(arguments, "two\nlines\n");
        ran.must_end_with(0);
        assert_eq!(ran.stdout, "two\nlines\n");
    }
}

#[test]
fn no_prompt_is_wrong_usage() {
    Home::new()
        .run(["run"])
        .must_end_with(2)
        .must_say("the prompt is missing")
        .must_say("next:");
}

#[test]
fn json_is_one_object_a_line_and_the_end_is_last() {
    let ran = Home::new().run(["run", "--json", "hello"]);
    ran.must_end_with(0);
    let lines = ran.json_lines();
    let output = lines.iter().find(|line| line["type"] == "output").unwrap();
    assert_eq!(
        (&output["content"], &output["turn"]),
        (&"hello".into(), &1.into())
    );
    for line in &lines {
        let time = line["time"].as_str().unwrap();
        // As in an entry of a journal: with milliseconds.
        assert_eq!(time.len(), "2026-03-01T12:00:00.250Z".len(), "{line}");
        humantime::parse_rfc3339(time).unwrap();
    }
    let end = lines.last().unwrap().as_object().unwrap();
    assert_eq!(end["type"], "end");
    assert_eq!(end["cause"], "complete");
    assert_eq!(end["status"], "completed");
    assert_eq!(end["delivered"], "yes");
    for member in ["exit", "usage", "error", "stderr_tail"] {
        assert!(end.contains_key(member), "{member} is missing");
    }
}

/// Reports usage by a message of its own, and then at the end of the second turn.
const COUNTING: &str = r#"
for kind, message in messages():
    if kind == "session.start":
        say("session.ready", protocol=1, extensions=["usage"])
    elif kind == "user.input":
        say("usage", input_tokens=10, output_tokens=2)
        say("turn.complete", **({"usage": {"input_tokens": 7}} if message["content"] == "both" else {}))
"#;

#[test]
fn the_end_has_the_usage_that_came_before_it() {
    let home = Home::new();
    let adapter = home.adapter(COUNTING);
    for (prompt, input_tokens) in [("hello", 10), ("both", 7)] {
        let ran = home.run(["run", "--json", "--adapter", &adapter, prompt]);
        ran.must_end_with(0);
        assert_eq!(
            ran.json_lines().last().unwrap()["usage"]["input_tokens"],
            input_tokens,
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_permission_is_denied_without_a_terminal() {
    let home = Home::new();
    let ran = home.run(["run", "/tool bash"]);
    ran.must_end_with(0)
        .must_say("denied: bash")
        .must_say("no terminal for the question")
        .must_say("--allow bash");
    assert_eq!(ran.stdout, "denied bash\n");

    let lines = home.run(["run", "--json", "/tool bash"]).json_lines();
    let answer = lines
        .iter()
        .find(|line| line["type"] == "permission.response")
        .unwrap();
    assert_eq!(answer["approved"], false);
}

#[test]
fn a_permission_that_the_configuration_allows_is_not_asked() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "e", "profile": "echo", "permission": { "allow": ["bash"] } } ] }"#,
    );
    let ran = home.run(["run", "/tool bash"]);
    ran.must_end_with(0);
    assert_eq!(ran.stdout, "ran bash\n");
}

#[test]
fn a_failed_turn_is_code_1_and_says_why() {
    let ran = Home::new().run(["run", "/fail out of luck"]);
    ran.must_end_with(1).must_say("out of luck");
    assert_eq!(ran.stdout, "");
}

#[test]
fn an_adapter_that_is_not_there_is_code_3_and_tells_the_path() {
    let home = Home::new();
    let mut command = home.command(["run", "--adapter", "no-such-adapter --x", "hello"]);
    let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("no-such-adapter") && stderr.contains("/usr/bin:/bin"),
        "{stderr}"
    );
}

#[test]
fn an_adapter_that_ends_at_once_is_code_3() {
    Home::new()
        .run([
            "run",
            "--adapter",
            "sh -c 'echo broken >&2; exit 1'",
            "hello",
        ])
        .must_end_with(3)
        .must_say("broken")
        .must_say("by hand");
}

#[test]
fn a_status_of_2_leads_to_the_configuration() {
    let home = Home::new();
    let ran = home.run(["run", "--adapter", "sh -c 'exit 2'", "hello"]);
    ran.must_end_with(3).must_say("-c config.KEY=VALUE");
    assert!(!ran.stderr.contains("run by hand"), "{}", ran.stderr);
    let external = r#"{ "command": "sh", "args": ["-c", "exit 2"] }"#;
    home.file(
        "trunkline.json",
        &format!(r#"{{ "agents": [ {{ "id": "a", "external": {external} }} ] }}"#),
    );
    home.run(["run", "hello"])
        .must_end_with(3)
        .must_say("correct `config` in the agent's entry");
}

#[test]
fn a_program_that_is_missing_in_the_agents_folder_is_to_be_named_whole() {
    let home = Home::new();
    let ran = home.run(["run", "--adapter", "./no-such", "hello"]);
    ran.must_end_with(3).must_say("no such file");
    assert!(!ran.stderr.contains("next:"), "{}", ran.stderr);
    std::fs::create_dir(home.path().join("sub")).unwrap();
    home.run(["run", "--cwd", "sub", "--adapter", "./no-such", "hello"])
        .must_end_with(3)
        .must_say("use an absolute path for the program");
}

#[test]
fn a_question_without_a_terminal_is_not_a_denial() {
    let home = Home::new();
    let asks =
        r#"{"type":"input.request","session_id":"%s","request_id":"q","prompt":"Which branch?"}"#;
    let ends = r#"{"type":"turn.complete","session_id":"%s"}"#;
    let ready =
        r#"{"type":"session.ready","session_id":"%s","protocol":1,"extensions":["questions"]}"#;
    let script = format!(
        r#"while read -r line; do
            id=$(printf %s "$line" | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
            case $line in
                *session.start*) printf '{ready}\n' "$id";;
                *user.input*) printf '{asks}\n' "$id";;
                *input.response*) printf '{ends}\n' "$id";;
            esac
        done"#
    );
    home.file("asks.sh", &script);
    home.run(["run", "--adapter", "sh asks.sh", "hello"])
        .must_end_with(0)
        .must_say("not answered: Which branch?")
        .must_say("trunkline serve");
}

#[test]
fn init_is_a_command_of_the_suite() {
    Home::new()
        .run(["init"])
        .must_end_with(2)
        .must_say("`trunkline-conformance init`");
}

#[test]
fn everything_is_allowed_by_a_flag_and_not_by_a_default() {
    Home::new()
        .run(["run", "-c", "permission.default=allow", "x"])
        .must_end_with(2)
        .must_say("--allow '*'");
}

#[test]
fn who_looks_at_a_configured_agent_that_does_not_start_is_the_doctor() {
    let home = Home::new();
    let config = r#"{ "agents": [ { "id": "a", "external": { "command": "no-such-adapter" } } ] }"#;
    home.file("trunkline.json", config);
    home.file("my config.json", config);
    home.run(["run", "hello"])
        .must_end_with(3)
        .must_say("next: `trunkline doctor a --start` shows the problem");
    home.run(["run", "--config", "my config.json", "hello"])
        .must_end_with(3)
        .must_say("next: `trunkline --config 'my config.json' doctor a --start` shows the problem");
}

#[test]
fn an_open_quote_is_wrong_usage() {
    Home::new()
        .run(["run", "--adapter", "python3 'x", "hello"])
        .must_end_with(2)
        .must_say("a quote is not closed");
}

#[test]
fn a_file_of_the_agent_is_saved() {
    let home = Home::new();
    home.file("report.txt", "mine");
    home.run(["run", "--save", ".", "/file report.txt"])
        .must_end_with(0)
        .must_say("report-1.txt");
    assert_eq!(
        std::fs::read_to_string(home.path().join("report.txt")).unwrap(),
        "mine"
    );
    assert!(home.path().join("report-1.txt").metadata().unwrap().len() > 0);
}

#[test]
fn a_file_above_the_folder_is_given_as_the_user_means_it() {
    let home = Home::new();
    home.file("notes.txt", "mine");
    let own = home
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    home.run(["run", "--file", &format!("../{own}/notes.txt"), "hello"])
        .must_end_with(0);
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage() {
    Home::new()
        .run(["run", "--file", "nothing.txt", "hello"])
        .must_end_with(2)
        .must_say("nothing.txt");
}

#[test]
fn a_file_that_is_too_large_names_the_option_that_lets_it_through() {
    let home = Home::new();
    // Without contents: more than all files of a session may have.
    std::fs::File::create(home.path().join("big"))
        .unwrap()
        .set_len((512 << 20) + 1)
        .unwrap();
    let ran = home.run(["run", "--file", "big", "hello"]);
    ran.must_end_with(2)
        .must_say("`max_file_bytes`")
        .must_say("-c max_file_bytes=513MiB");
    let ran = home.run_with_stdin(
        ["chat"],
        "/file big
",
    );
    ran.must_end_with(0)
        .must_say("`max_file_bytes`")
        .must_say("-c max_file_bytes=513MiB");
    std::fs::File::create(home.path().join("big"))
        .unwrap()
        .set_len((10 << 20) + 1)
        .unwrap();
    let ran = home.run(["run", "--file", "big", "hello"]);
    ran.must_end_with(2).must_say("-c max_file_bytes=11MiB");
    home.run([
        "run",
        "-c",
        "max_file_bytes=11MiB",
        "--file",
        "big",
        "hello",
    ])
    .must_end_with(0);
}

#[test]
fn a_configuration_that_an_adapter_of_the_command_line_leaves_out_is_told() {
    let home = Home::new();
    home.file("some.json", r#"{"runtime": {"max_file_bytes": 1}}"#);
    let adapter = python_echo();
    for more in [&[][..], &["-c", "max_file_bytes=2"]] {
        let arguments = [
            &[
                "--config",
                "some.json",
                "run",
                "--adapter",
                &adapter,
                "hello",
            ],
            more,
        ]
        .concat();
        let ran = home.run(arguments);
        ran.must_end_with(0)
            .must_say("--adapter ignores all of some.json");
        assert_eq!(
            ran.stderr.matches("ignores all of").count(),
            1,
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_folder_or_a_source_file_is_no_adapter() {
    let home = Home::new();
    home.file(
        "main.go",
        "package main
",
    );
    std::fs::create_dir(home.path().join("adapter")).unwrap();
    home.run(["run", "--adapter", "./adapter", "hello"])
        .must_end_with(3)
        .must_say("name the program in it");
    home.run(["run", "--adapter", "./main.go", "hello"])
        .must_end_with(3)
        .must_say("if it is source, build it");
    let ran = home.run_with_stdin(
        ["chat", "--adapter", "./adapter"],
        "hello
",
    );
    ran.must_end_with(3)
        .must_say("./adapter is a folder")
        .must_say("name the program in it");
}

#[test]
fn a_folder_for_files_is_made_or_refused_before_the_turn() {
    let home = Home::new();
    home.run(["run", "--save", "new/folder", "/file report.txt"])
        .must_end_with(0)
        .must_say("saved as");
    assert!(
        home.path()
            .join("new/folder/report.txt")
            .metadata()
            .unwrap()
            .len()
            > 0
    );
    home.file("taken", "a file");
    let ran = home.run(["run", "--save", "taken/folder", "/file report.txt"]);
    ran.must_end_with(2)
        .must_say("failed to create the folder taken/folder")
        .must_say("--save");
    assert!(
        !ran.stderr.contains("report.txt"),
        "no turn began: {}",
        ran.stderr
    );
}

#[test]
fn a_file_that_is_lost_is_code_1() {
    let home = Home::new();
    home.file(
        "adapter.py",
        "import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'user.input':
        path = os.path.join(os.environ['TMPDIR'], 'report.txt')
        open(path, 'w').close()
        os.rmdir('out')
        for told in {'type': 'file.output', 'file_path': path}, {'type': 'turn.complete'}:
            print(json.dumps(told | {'session_id': message['session_id']}), flush=True)
",
    );
    home.run([
        "run",
        "--save",
        "out",
        "--adapter",
        "python3 adapter.py",
        "hello",
    ])
    .must_end_with(1)
    .must_say("failed to save the file in out");
}

#[test]
fn a_pattern_that_is_none_is_named_with_the_reason() {
    Home::new()
        .run(["run", "--allow", "Bash(", "hello"])
        .must_end_with(2)
        .must_say("for '--allow <PATTERN>': `(` has no `)` at the end");
}

#[test]
fn a_signal_that_ended_the_adapter_reads_as_english() {
    let home = Home::new();
    let ran = home.run([
        "run",
        "--adapter",
        "sh -c 'read start; read input; kill -9 $$'",
        "hi",
    ]);
    ran.must_end_with(3)
        .must_say("the adapter's process was killed by signal 9");
}
