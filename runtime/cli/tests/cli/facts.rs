//! Facts about the program and the machine: version, completions, manual pages, logs, installed
//! agents.

use std::os::unix::fs::PermissionsExt;

use super::Home;

/// A folder of programs, and nothing else in `PATH` but what shells need.
pub(super) fn with_programs(home: &Home, programs: &[(&str, &str)]) -> String {
    let folder = home.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, script) in programs {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:/usr/bin:/bin", folder.display())
}

#[test]
fn the_version_is_told_to_people_and_programs() {
    let home = Home::new();
    assert!(
        home.run(["version"])
            .must_end_with(0)
            .stdout
            .contains(env!("CARGO_PKG_VERSION"))
    );
    let facts = &home.run(["version", "--json"]).json_lines()[0];
    assert_eq!(
        (&facts["version"], &facts["protocol"]),
        (&env!("CARGO_PKG_VERSION").into(), &1.into())
    );
    assert!(
        facts["adapters"]
            .as_array()
            .unwrap()
            .contains(&"codex".into())
    );
    assert!(facts.as_object().unwrap().contains_key("commit"));
}

#[test]
fn shells_get_completions_and_people_get_pages() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(["completions", shell]);
        let script = &script.must_end_with(0).stdout;
        assert!(script.contains("TRUNKLINE_COMPLETE"), "{shell}");
    }
    home.run(["man", "pages/man1"]).must_end_with(0);
    let page = std::fs::read_to_string(home.path().join("pages/man1/trunkline-run.1")).unwrap();
    assert!(
        page.contains(".TH") && page.contains("system\\-prompt"),
        "{page}"
    );
    home.run(["man", "/proc/none"])
        .must_end_with(1)
        .must_say("/proc/none");
}

#[test]
fn a_check_of_the_configuration_is_told_to_programs() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "e", "echo": {} } ], "hub": 1 }"#,
    );
    let facts = &home
        .run(["config", "check", "--json"])
        .must_end_with(0)
        .json_lines()[0];
    assert_eq!(
        (&facts["agents"], &facts["default"]),
        (&serde_json::json!(["e"]), &"e".into())
    );
    assert!(
        facts["notices"][0].as_str().unwrap().contains("`hub`"),
        "{facts}"
    );
}

#[test]
fn logs_go_to_a_file_as_json_without_secrets() {
    let home = Home::new();
    let arguments = [
        "-vv",
        "--log-file",
        "log",
        "--log-format",
        "json",
        "run",
        "hi",
    ];
    let ran = home.run(arguments);
    ran.must_end_with(0);
    assert!(!ran.stderr.contains("DEBUG"), "{}", ran.stderr);
    let log = home.path().join("log");
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let read = || std::fs::read_to_string(&log).unwrap();
    let first: serde_json::Value = serde_json::from_str(read().lines().next().unwrap()).unwrap();
    for member in ["time", "level", "target"] {
        assert!(first[member].is_string(), "{first}");
    }
    let lines = read().lines().count();
    home.run(["-vv", "--log-file", "log", "run", "hi"])
        .must_end_with(0);
    assert!(read().lines().count() > lines, "the second run adds to it");
    home.run(["--log-file", "no/such/log", "run", "hi"])
        .must_end_with(2)
        .must_say("no/such/log");
}

#[test]
fn a_name_that_is_nearly_an_agents_is_corrected() {
    let home = Home::new();
    for arguments in [
        &["run", "--agent", "codx", "hi"][..],
        &["chat", "--agent", "codx"],
        &["doctor", "codx"],
        &["adapter", "codx"],
        &["agents", "profiles", "codx"],
    ] {
        home.run(arguments)
            .must_end_with(2)
            .must_say("did you mean `codex`?");
    }
}

#[test]
fn an_agent_that_is_not_installed_is_code_3_with_the_command_that_installs_it() {
    let home = Home::new();
    let path = with_programs(&home, &[]);
    for (arguments, said) in [
        (
            &["run", "--agent", "codex", "hi"][..],
            "next: install it by `npm install -g @openai/codex`",
        ),
        (
            &["run", "--json", "--agent", "opencode", "hi"],
            "next: install it by `npm install -g opencode-ai`",
        ),
        (
            &["chat", "--agent", "claude-code"],
            "`claude` is not installed",
        ),
        (
            &["chat", "--agent", "claude-code"],
            "npm install -g @anthropic-ai/claude-code",
        ),
        (
            &["chat", "--adapter", "no-such-adapter"],
            "`no-such-adapter` is not installed",
        ),
        (
            &["chat", "--agent", "codex", "-c", "command=/no/such/codex"],
            "the program /no/such/codex does not exist",
        ),
    ] {
        let ran =
            super::Ran::from_output(home.command(arguments).env("PATH", &path).output().unwrap());
        ran.must_end_with(3).must_say(said);
        assert!(!ran.stderr.contains("/help"), "no prompt: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("next:").count(), 1, "{}", ran.stderr);
    }
    let ran = super::Ran::from_output(
        home.command(["doctor", "pi"])
            .env("PATH", &path)
            .output()
            .unwrap(),
    );
    assert!(
        ran.must_end_with(1)
            .stdout
            .contains("npm install -g @mariozechner/pi-coding-agent"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_failed_login_names_the_command_that_logs_in() {
    let home = Home::new();
    let agent = r#"
case "$*" in
*--version*) echo 2.1.329;;
*) echo '{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key · Please run /login","session_id":"s"}';;
esac"#;
    let path = with_programs(&home, &[("claude", agent)]);
    let ran = super::Ran::from_output(
        home.command(["run", "--agent", "claude-code", "hi"])
            .env("PATH", &path)
            .output()
            .unwrap(),
    );
    ran.must_end_with(1)
        .must_say("next: log in with `claude`, then `/login`");
    for said in [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "~/.claude/.credentials.json",
    ] {
        ran.must_say(said);
    }
}

#[test]
fn doctor_lists_every_agent_that_is_here() {
    let home = Home::new();
    let gemini = "case $1 in --version) echo 0.61.0;; esac";
    let path = with_programs(&home, &[("gemini", gemini)]);
    let doctor = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command
            .env("PATH", &path)
            .env("GEMINI_API_KEY", "not-to-be-shown");
        super::Ran::from_output(command.output().unwrap())
    };
    let ran = doctor(&["doctor", "--all", "--json"]);
    let all = ran.must_end_with(0).json_lines().remove(0);
    let of = |name: &str| {
        all.as_array()
            .unwrap()
            .iter()
            .find(|here| here["agent"] == name)
            .unwrap()
    };
    let wrapped = trunkline_profiles::PROFILES
        .iter()
        .filter(|profile| profile.wrapped().is_some());
    assert_eq!(all.as_array().unwrap().len(), wrapped.count());
    assert!(
        of("goose")["next"]
            .as_str()
            .unwrap()
            .contains("download_cli.sh")
    );
    assert_eq!(
        (&of("codex")["installed"], &of("codex")["next"]),
        (&false.into(), &"npm install -g @openai/codex".into())
    );
    let gemini = of("gemini-cli");
    assert!(
        gemini["path"].as_str().unwrap().ends_with("bin/gemini"),
        "{gemini}"
    );
    assert!(
        gemini["version"].as_str().unwrap().contains("0.61.0"),
        "{gemini}"
    );
    assert!(
        gemini["credentials"]
            .as_str()
            .unwrap()
            .contains("GEMINI_API_KEY"),
        "{gemini}"
    );
    let ran = doctor(&["doctor", "--all"]);
    assert!(
        ran.must_end_with(0).stdout.contains("not installed") && ran.stdout.contains("0.61.0"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("not-to-be-shown"), "{}", ran.stdout);
}

/// A `claude` that writes the names of its variables to `names` and its key to stderr, and ends.
const TELLS_NAMES: &str = r#"
env | cut -d= -f1 | sort -u > "$HOME/names"
echo "my key is $ANTHROPIC_API_KEY" >&2
exit 7"#;

/// The names that `claude` got by this entry of the configuration, and the output.
fn given(entry: Option<&str>, set: &[(&str, &str)]) -> (Vec<String>, super::Ran) {
    let home = Home::new();
    let path = with_programs(&home, &[("claude", TELLS_NAMES)]);
    if let Some(entry) = entry {
        home.file(
            "trunkline.json",
            &format!(r#"{{ "agents": [{{ "id": "claude-code", {entry} }}] }}"#),
        );
    }
    let mut command = home.command(["run", "--agent", "claude-code", "hi"]);
    let ran = super::Ran::from_output(
        command
            .env("PATH", &path)
            .envs(set.iter().copied())
            .output()
            .unwrap(),
    );
    let names = std::fs::read_to_string(home.path().join("names")).unwrap_or_default();
    (names.lines().map(str::to_owned).collect(), ran)
}

#[test]
fn an_exported_key_reaches_the_agent_of_its_profile_alone_and_is_hidden() {
    let keys = [
        ("ANTHROPIC_API_KEY", "sk-canary-0123456789"),
        ("OPENAI_API_KEY", "sk-canary-9876543210"),
    ];
    let got = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let (names, ran) = given(None, &keys);
    assert!(
        got(&names, "ANTHROPIC_API_KEY") && !got(&names, "OPENAI_API_KEY"),
        "{names:?} {}",
        ran.stderr
    );
    ran.must_end_with(1).must_say("my key is [REDACTED");
    assert!(
        !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );

    for entry in [
        r#""profile": "claude-code", "pass_credentials": false"#,
        // An entry that names one itself gets only that one.
        r#""claude_code": { "env": { "CLAUDE_CODE_OAUTH_TOKEN": "of-the-entry" } }"#,
        r#""profile": "claude-code", "env_passthrough": ["ANTHROPIC_AUTH_TOKEN"]"#,
    ] {
        let (names, ran) = given(Some(entry), &keys);
        assert!(
            got(&names, "HOME") && !got(&names, "ANTHROPIC_API_KEY"),
            "{entry}: {names:?} {}",
            ran.stderr
        );
    }
    let folder = [("CLAUDE_CONFIG_DIR", "/tmp"), ("CODEX_HOME", "/tmp")];
    for (entry, passes) in [
        (r#""profile": "claude-code""#, true),
        (
            r#""profile": "claude-code", "env_passthrough": ["ANTHROPIC_API_KEY"]"#,
            true,
        ),
        (
            r#""profile": "claude-code", "pass_credentials": false"#,
            false,
        ),
    ] {
        let (names, _) = given(Some(entry), &folder);
        assert_eq!(
            got(&names, "CLAUDE_CONFIG_DIR"),
            passes,
            "{entry}: {names:?}"
        );
        assert!(!got(&names, "CODEX_HOME"), "{names:?}");
    }
    let named = r#""profile": "claude-code", "pass_credentials": false, "env_passthrough": ["ANTHROPIC_API_KEY"]"#;
    assert!(got(&given(Some(named), &keys).0, "ANTHROPIC_API_KEY"));
}

#[test]
fn proxies_and_certificates_of_the_host_reach_the_agent_and_their_password_is_hidden() {
    let proxy = "http://me:hunter-canary@proxy.example:3128";
    let host = [
        ("HTTPS_PROXY", proxy),
        ("no_proxy", "intern.example"),
        ("NODE_EXTRA_CA_CERTS", "/etc/company.pem"),
        ("OTHER_PROXY", proxy),
        ("ANTHROPIC_API_KEY", proxy),
    ];
    let got = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let network = ["HTTPS_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS"];
    for entry in [
        None,
        Some(r#""profile": "claude-code", "pass_credentials": false"#),
    ] {
        let (names, ran) = given(entry, &host);
        for name in network {
            assert!(got(&names, name), "{name}: {names:?} {}", ran.stderr);
        }
        assert!(!got(&names, "OTHER_PROXY"), "{names:?}");
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{} {}",
            ran.stdout,
            ran.stderr
        );
    }
    let own = r#""claude_code": { "env": { "HTTPS_PROXY": "" } }"#;
    let (names, _) = given(Some(own), &host);
    assert!(
        got(&names, "no_proxy"),
        "the entry names another one: {names:?}"
    );
}

#[test]
fn doctor_says_which_credentials_are_used_and_which_are_kept() {
    let home = Home::new();
    let claude =
        r#"case "$*" in *--version*) echo 2.1.329;; *) echo '{"loggedIn":false}'; exit 1;; esac"#;
    let path = with_programs(&home, &[("claude", claude)]);
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    home.file(".claude/.credentials.json", "{}");
    let doctor = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command
            .env("PATH", &path)
            .env("CLAUDE_CONFIG_DIR", home.path().join(".claude"))
            .env("ANTHROPIC_API_KEY", "sk-canary-0123456789");
        super::Ran::from_output(command.output().unwrap())
    };
    for arguments in [
        &["doctor", "claude-code"][..],
        &["doctor", "claude-code", "--json"],
    ] {
        let ran = doctor(arguments);
        for said in [
            "ANTHROPIC_API_KEY from the environment",
            "~/.claude/.credentials.json",
            "CLAUDE_CONFIG_DIR, from the host's environment",
        ] {
            assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
        }
        assert!(!ran.stdout.contains("canary"), "{}", ran.stdout);
    }
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "c", "profile": "claude-code", "pass_credentials": false }] }"#,
    );
    let ran = doctor(&["doctor", "c"]);
    assert!(
        !ran.stdout.contains("ANTHROPIC_API_KEY from"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("credentials.kept"), "{}", ran.stdout);
    let kept = "the host has ANTHROPIC_API_KEY, CLAUDE_CONFIG_DIR";
    assert!(ran.stdout.contains(kept), "{}", ran.stdout);
}

/// A `claude` that writes its arguments to `args`, and ends.
const TELLS_ARGUMENTS: &str =
    r#"case "$*" in *--version*) echo 2.1.329;; *) echo "$*" > "$HOME/args"; exit 7;; esac"#;

/// What `claude` got by this configuration, these variables and this command line.
fn asked(config: &str, set: &[(&str, &str)], arguments: &[&str]) -> (String, super::Ran) {
    let home = Home::new();
    let path = with_programs(&home, &[("claude", TELLS_ARGUMENTS)]);
    home.file("trunkline.json", config);
    let mut command = home.command(arguments);
    let ran = super::Ran::from_output(
        command
            .env("PATH", &path)
            .envs(set.iter().copied())
            .output()
            .unwrap(),
    );
    (
        std::fs::read_to_string(home.path().join("args")).unwrap_or_default(),
        ran,
    )
}

#[test]
fn the_environment_names_the_agent_where_the_command_line_does_not() {
    let config = r#"{ "agents": [{ "id": "e", "profile": "echo" }, { "id": "c", "profile": "claude-code" }],
        "default_agent": "e" }"#;
    let (args, _) = asked(config, &[("TRUNKLINE_AGENT", "c")], &["run", "hi"]);
    assert!(args.contains("--output-format"), "{args}");
    let (args, ran) = asked(
        config,
        &[("TRUNKLINE_AGENT", "c")],
        &["run", "--agent", "e", "hi"],
    );
    assert_eq!(
        (args.as_str(), ran.must_end_with(0).stdout.trim()),
        ("", "hi")
    );
    let (_, ran) = asked(config, &[("TRUNKLINE_AGENT", " ")], &["run", "hi"]);
    ran.must_end_with(0);
    let (_, ran) = asked(
        config,
        &[("TRUNKLINE_AGENT", "no-such-agent")],
        &["run", "hi"],
    );
    ran.must_end_with(2)
        .must_say("failed to use TRUNKLINE_AGENT: unknown agent \"no-such-agent\"")
        .must_say("unset TRUNKLINE_AGENT");
    let (_, ran) = asked(config, &[("TRUNKLINE_AGENT", "c")], &["agents"]);
    assert!(
        ran.must_end_with(0).stdout.contains("c *"),
        "{}",
        ran.stdout
    );

    let (_, ran) = asked(config, &[("TRUNKLINE_AGENT", "codex")], &["doctor", "e"]);
    assert!(ran.stdout.contains("choice.agent"), "{}", ran.stdout);
    let (_, ran) = asked(
        config,
        &[("TRUNKLINE_AGENT", "no-such-agent")],
        &["doctor", "e"],
    );
    assert!(ran.stdout.contains("choice.unknown"), "{}", ran.stdout);
}

#[test]
fn the_environment_names_the_model_where_the_command_line_does_not() {
    let with = |model: &str| {
        format!(
            r#"{{ "agents": [{{ "id": "c", "profile": "claude-code", "claude_code": {{ {model} }} }}] }}"#
        )
    };
    let set = [("TRUNKLINE_MODEL", "of-variable")];
    for (config, set, options, model) in [
        (with(""), &set[..], &[][..], "--model of-variable"),
        (
            with(r#""model": "of-file""#),
            &set,
            &[],
            "--model of-variable",
        ),
        (with(r#""model": "of-file""#), &[], &[], "--model of-file"),
        (
            with(""),
            &set,
            &["--model", "of-option"],
            "--model of-option",
        ),
        (with(""), &set, &["-c", "model=of-key"], "--model of-key"),
    ] {
        let (args, ran) = asked(&config, set, &[&["run", "hi"], options].concat());
        assert!(
            args.contains(model),
            "{config} {set:?} {options:?}: {args} {}",
            ran.stderr
        );
    }
    let (_, ran) = asked(
        r#"{ "agents": [{ "id": "e", "profile": "echo" }] }"#,
        &set,
        &["run", "hi"],
    );
    ran.must_end_with(0)
        .must_say("TRUNKLINE_MODEL has no effect");

    // The agent's own variable passes where its configuration names no model.
    let own = [("ANTHROPIC_MODEL", "own")];
    for (entry, passes) in [
        (r#""profile": "claude-code""#, true),
        (r#""claude_code": { "model": "m" }"#, false),
    ] {
        let (names, ran) = given(Some(entry), &own);
        let passed = names.iter().any(|name| name == "ANTHROPIC_MODEL");
        assert_eq!(passed, passes, "{entry}: {names:?} {}", ran.stderr);
    }
    let (_, ran) = asked(&with(""), &[own[0], set[0]], &["doctor", "c"]);
    assert!(
        ran.stdout.contains("ANTHROPIC_MODEL from the environment"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("TRUNKLINE_MODEL selects of-variable"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_start_is_logged_with_names_and_without_values() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [{ "id": "a", "external": { "command": "sh",
            "args": ["-c", "exit 3", "--token=canary-0123456789"], "env": { "PLAIN": "canary-in-a-variable" } } }] }"#,
    );
    home.run(["-vv", "--log-file", "log", "run", "hi"]);
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("starts a child"))
        .unwrap();
    for said in [
        "-c exit 3",
        "PLAIN",
        "PATH",
        &*home.path().to_string_lossy(),
    ] {
        assert!(line.contains(said), "{said}: {line}");
    }
    assert!(!log.contains("canary"), "{log}");
}
