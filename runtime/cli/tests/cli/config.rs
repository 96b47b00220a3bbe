use std::os::unix::fs::PermissionsExt;

use super::Home;

#[test]
fn a_misspelt_key_names_the_nearest() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "a", "profile": "external", "exernal": { "command": "x" } } ] }"#,
    );
    home.run(["run", "hello"])
        .must_end_with(2)
        .must_say("trunkline.json")
        .must_say("did you mean `external`?");
}

#[test]
fn a_named_file_must_exist() {
    Home::new()
        .run(["--config", "nowhere.json", "agents"])
        .must_end_with(2)
        .must_say("nowhere.json")
        .must_say("next:");
}

#[test]
fn the_environment_names_the_file() {
    let home = Home::new();
    let path = home.file(
        "other.json",
        r#"{ "agents": [ { "id": "mine", "profile": "echo" } ] }"#,
    );
    let output = home
        .command(["agents", "--json"])
        .env("TRUNKLINE_CONFIG", path)
        .output()
        .unwrap();
    let agents: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(agents[0]["id"], "mine");
}

#[test]
fn an_unknown_agent_is_code_2_and_names_those_there_are() {
    Home::new()
        .run(["run", "--agent", "claude", "hello"])
        .must_end_with(2)
        .must_say("claude")
        .must_say("agents: echo; also by name: claude-code, ");
}

#[test]
fn a_built_in_adapter_is_an_agent_by_its_name_where_none_has_it() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "mine", "external": { "command": "/nowhere" } } ] }"#,
    );
    assert_eq!(
        home.run(["run", "--agent", "echo", "hello"])
            .must_end_with(0)
            .stdout
            .trim(),
        "hello"
    );
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "echo", "external": { "command": "/nowhere" } } ] }"#,
    );
    home.run(["run", "--agent", "echo", "hello"])
        .must_end_with(3);
}

#[test]
fn an_agent_and_an_adapter_exclude_each_other() {
    Home::new()
        .run(["run", "--agent", "echo", "--adapter", "cat", "hello"])
        .must_end_with(2);
}

#[test]
fn a_profiles_own_env_reaches_the_program_that_it_wraps() {
    let home = Home::new();
    home.file("key", "of-a-file\n");
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "job", "job": {
            "command": "sh", "args": ["-c", "printf '%s %s %s %s' \"$A\" \"$B\" \"$C\" \"$ADAPTER_CONFIG\""],
            "env": { "A": "text", "B": { "from_file": "key" }, "C": { "from_env": "OF_HOST" } } } } ] }"#,
    );
    let output = home
        .command(["run", "x"])
        .env("OF_HOST", "of-the-host")
        .output()
        .unwrap();
    let ran = super::Ran::from_output(output);
    assert_eq!(
        ran.must_end_with(0).stdout.trim(),
        "text of-a-file of-the-host"
    );
    // Without a value the agent does not start, and names the missing one.
    home.run(["run", "x"]).must_end_with(3).must_say("OF_HOST");
}

#[test]
fn what_a_built_in_adapter_would_refuse_is_refused_with_its_place_before_anything_starts() {
    for (own, said) in [
        (
            r#""codex": { "modle": "m" }"#,
            "agents[0].codex.modle: unknown key; did you mean `model`?",
        ),
        (
            r#""codex": { "turn_timeout": "1m", "permission": {} }"#,
            "agents[0].codex.permission: unknown key; it belongs in the agent itself",
        ),
        (
            r#""pi": { "args": "hunter2" }"#,
            "agents[0].pi.args: expected an array, found a string",
        ),
        (r#""cli": {}"#, "agents[0].cli.command: it is missing"),
        (
            r#""profile": "generic-job""#,
            "agents[0].job.command: it is missing",
        ),
        (
            r#""cli": { "command": "x", "spawn_policy": "hunter2" }"#,
            r#"agents[0].cli.spawn_policy: it is not "per-session" or "persistent""#,
        ),
        (
            r#""cli": { "command": "x", "spawn_policy": "persistant" }"#,
            r#"it is not "per-session" or "persistent"; did you mean `persistent`?"#,
        ),
        (
            r#""http": { "base_url": "http://x/", "headers": { "X-Key": ["hunter2"] } }"#,
            "agents[0].http.headers: the header x-key: the value is neither a string nor",
        ),
        (
            r#""http": { "base_url": "http://x/", "headers": { "X-Key": { "from_env": "A", "prefix": 4711 } } }"#,
            "agents[0].http.headers: the header x-key: expected a string, found a number",
        ),
        (
            r#""mock": { "turns": [{ "steps": [{ "otput": "x" }] }] }"#,
            "did you mean `output`?",
        ),
        (
            r#""profile": "acp", "config": { "command": 1 }"#,
            "agents[0].config.command: expected a string, found a number",
        ),
        (
            r#""claude_code": { "env": { "LEVEL": 4711 } }"#,
            "agents[0].claude_code.env.LEVEL: expected a string, ",
        ),
        (
            r#""claude_code": { "enw": {} }"#,
            "agents[0].claude_code.enw: unknown key; did you mean `env`?",
        ),
    ] {
        let home = Home::new();
        home.file(
            "trunkline.json",
            &format!(r#"{{ "agents": [{{ "id": "a", {own} }}] }}"#),
        );
        for command in [
            &["config", "check"][..],
            &["run", "hello"],
            &["serve"],
            &["chat"],
        ] {
            let ran = home.run(command);
            ran.must_end_with(2)
                .must_say(said)
                .must_say("trunkline.json");
            assert!(
                !ran.stderr.contains("hunter2") && !ran.stderr.contains("4711"),
                "{}",
                ran.stderr
            );
        }
    }
}

#[test]
fn the_keys_of_a_journal_are_checked_by_place_and_shown() {
    let home = Home::new();
    let check = |runtime: &str| {
        let agents = r#"[ { "id": "a", "profile": "echo" } ]"#;
        home.file(
            "trunkline.json",
            &format!(r#"{{ "agents": {agents}, "runtime": {runtime} }}"#),
        );
        home.run(["config", "check", "--json"])
    };
    for (runtime, said) in [
        (
            r#"{ "journal_sync": "sometimes" }"#,
            [
                "runtime.journal_sync",
                r#"`sometimes` is not "normal" or "full""#,
            ],
        ),
        (
            r#"{ "journal_max_age": "a while" }"#,
            ["runtime.journal_max_age", "`a while` is not a duration"],
        ),
        (
            r#"{ "journal_max_bytes": -1 }"#,
            [
                "runtime.journal_max_bytes",
                "-1 is not a whole number of at least 0",
            ],
        ),
        (
            r#"{ "journal_max_sessions": "ten" }"#,
            ["runtime.journal_max_sessions", "a whole number"],
        ),
        (
            r#"{ "journal_max_size": 1 }"#,
            [
                "runtime.journal_max_size",
                "did you mean `journal_max_age`?",
            ],
        ),
    ] {
        let checked = check(runtime);
        checked.must_end_with(2).must_say(said[0]).must_say(said[1]);
    }
    let checked = check(
        r#"{ "journal": "kept", "journal_sync": "full", "journal_max_age": 60, "journal_max_sessions": 3 }"#,
    );
    let folder = home.path().join("kept");
    assert_eq!(
        checked.must_end_with(0).json_lines()[0]["journal"],
        serde_json::json!({"folder": folder, "sync": "full", "max_age_s": 60.0, "max_bytes": null, "max_sessions": 3}),
    );
}

#[test]
fn a_journal_sync_without_a_journal_is_refused() {
    Home::new()
        .run(["serve", "--journal-sync", "full"])
        .must_end_with(2)
        .must_say("without a journal");
}

#[test]
fn a_configuration_is_created_with_what_is_installed_and_extended() {
    let home = Home::new();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = home.file("bin/codex", "#!/bin/sh\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let init = |arguments: &[&str]| {
        let output = home
            .command(["config", "init"].iter().chain(arguments))
            .env("PATH", &bin)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, shown) = init(&[]);
    assert_eq!(code, Some(0));
    assert!(
        shown.starts_with("wrote trunkline.json: codex\n"),
        "{shown}"
    );
    assert_eq!(init(&[]).0, Some(2), "a file that exists stays");
    assert_eq!(init(&["--force"]).0, Some(0));

    home.run(["config", "add", "codex"])
        .must_end_with(2)
        .must_say("--id");
    home.run(["config", "add", "generic-job"])
        .must_end_with(2)
        .must_say("job.command");
    let file = home.path().join("trunkline.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    home.run([
        "config",
        "add",
        "generic-job",
        "--id",
        "count",
        "-c",
        "command=wc",
    ])
    .must_end_with(0);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let expected = serde_json::json!({ "agents": [
        { "id": "codex", "profile": "codex" },
        { "id": "count", "profile": "generic-job", "job": { "command": "wc" } },
    ] });
    assert_eq!(written, expected);
    let ran = home.run(["run", "--agent", "count", "a b c"]);
    let words: Vec<_> = ran.must_end_with(0).stdout.split_whitespace().collect();
    assert_eq!(words, ["0", "3", "5"]);
    let ran = home.run(["config", "check"]);
    assert!(ran.must_end_with(0).stdout.contains("codex, count"));
}

/// A wrong value and each source of it, and the part of the message that names the source.
#[test]
fn a_wrong_value_names_its_source() {
    let home = Home::new();
    home.file(
        "bad.json",
        r#"{ "agents": [{ "id": "a", "profile": "codex", "codex": { "modle": "m" } }] }"#,
    );
    home.file("broken.json", "{");
    home.file(
        "job.json",
        r#"{ "agents": [{ "id": "a", "profile": "generic-job" }] }"#,
    );
    let from = |variable: &str, value: &str, arguments: &[&str], named: &str| {
        let mut command = home.command(arguments);
        command.env(variable, value);
        super::Ran::from_output(command.output().unwrap())
            .must_end_with(2)
            .must_say(named);
    };
    for (file, cause) in [
        ("bad.json", "agents[0].codex.modle"),
        ("broken.json", "line 1"),
        ("none.json", "No such file"),
    ] {
        let source = format!("{file} (from TRUNKLINE_CONFIG): ");
        from("TRUNKLINE_CONFIG", file, &["run", "hi"], &source);
        from("TRUNKLINE_CONFIG", file, &["run", "hi"], cause);
        home.run(["--config", file, "run", "hi"])
            .must_end_with(2)
            .must_say(&format!("{file}: "));
    }
    from(
        "TRUNKLINE_AGENT",
        "no",
        &["run", "hi"],
        "failed to use TRUNKLINE_AGENT: ",
    );
    from(
        "TRUNKLINE_STATE",
        "/dev/null/x",
        &["token", "list"],
        "TRUNKLINE_STATE",
    );
    let run = |file: &str, key: &str| home.run(["--config", file, "run", "-c", key, "hi"]);
    run("job.json", "bogus=1")
        .must_end_with(2)
        .must_say("failed to set bogus by -c");
    run("job.json", "args=1")
        .must_end_with(2)
        .must_say("args by -c");
    run("bad.json", "turn_timeout=1s")
        .must_end_with(2)
        .must_say("bad.json: agents[0].codex.modle");
    // The command line completes an entry of the file.
    let ran = run("job.json", "command=cat");
    assert_eq!(ran.must_end_with(0).stdout.trim(), "hi");
}

#[test]
fn a_warning_is_a_note_for_a_user() {
    let home = Home::new();
    let mut command = home.command(["run", "hi"]);
    command.env("XDG_STATE_HOME", "/proc/none");
    let ran = super::Ran::from_output(command.output().unwrap());
    ran.must_end_with(0)
        .must_say(" note: a child was not recorded")
        .must_say("folder: /proc/none");
    assert!(!ran.stderr.contains("WARN"), "{}", ran.stderr);
}
