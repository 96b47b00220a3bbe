//! What the program says of itself and of the machine: its version, completions, manual pages, logs, installed agents.

use std::os::unix::fs::PermissionsExt;

use super::Home;

/// A folder of programs, and nothing else in `PATH` but what shells need.
fn with_programs(home: &Home, programs: &[(&str, &str)]) -> String {
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
    assert!(home.run(["version"]).must_end_with(0).stdout.contains(env!("CARGO_PKG_VERSION")));
    let facts = &home.run(["version", "--json"]).json_lines()[0];
    assert_eq!((&facts["version"], &facts["protocol"]), (&env!("CARGO_PKG_VERSION").into(), &1.into()));
    assert!(facts["adapters"].as_array().unwrap().contains(&"codex".into()));
    assert!(facts.as_object().unwrap().contains_key("commit"));
}

#[test]
fn shells_get_completions_and_people_get_pages() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = home.run(["completions", shell]).must_end_with(0).stdout.clone();
        assert!(text.contains("permission-mode") && text.contains("doctor"), "{shell}");
    }
    home.run(["man", "pages/man1"]).must_end_with(0);
    let page = std::fs::read_to_string(home.path().join("pages/man1/trunkline-run.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("system\\-prompt"), "{page}");
    home.run(["man", "/proc/none"]).must_end_with(1).must_say("/proc/none");
}

#[test]
fn a_check_of_the_configuration_is_told_to_programs() {
    let home = Home::new();
    home.file("trunkline.json", r#"{ "agents": [ { "id": "e", "echo": {} } ], "hub": 1 }"#);
    let facts = &home.run(["config", "check", "--json"]).must_end_with(0).json_lines()[0];
    assert_eq!((&facts["agents"], &facts["default"]), (&serde_json::json!(["e"]), &"e".into()));
    assert!(facts["notices"][0].as_str().unwrap().contains("`hub`"), "{facts}");
}

#[test]
fn logs_go_to_a_file_as_json_without_secrets() {
    let home = Home::new();
    let arguments = ["-vv", "--log-file", "log", "--log-format", "json", "run", "hi"];
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
    home.run(["-vv", "--log-file", "log", "run", "hi"]).must_end_with(0);
    assert!(read().lines().count() > lines, "the second run adds to it");
    home.run(["--log-file", "no/such/log", "run", "hi"]).must_end_with(2).must_say("no/such/log");
}

#[test]
fn a_name_that_is_nearly_an_agents_is_corrected() {
    let home = Home::new();
    for arguments in [
        &["run", "--agent", "codx", "hi"][..],
        &["chat", "--agent", "codx"],
        &["doctor", "codx"],
        &["adapter", "codx"],
        &["profiles", "codx"],
    ] {
        home.run(arguments).must_end_with(2).must_say("did you mean `codex`?");
    }
}

#[test]
fn an_agent_that_is_not_installed_is_code_3_with_the_command_that_installs_it() {
    let home = Home::new();
    let path = with_programs(&home, &[]);
    for (arguments, said) in [
        (&["run", "--agent", "codex", "hi"][..], "next: `npm install -g @openai/codex`"),
        (&["run", "--json", "--agent", "opencode", "hi"], "next: `npm install -g opencode-ai`"),
        (&["chat", "--agent", "claude-code"], "`claude` is not installed"),
        (&["chat", "--agent", "claude-code"], "npm install -g @anthropic-ai/claude-code"),
        (&["chat", "--adapter", "no-such-adapter"], "`no-such-adapter` is not installed"),
        (&["chat", "--agent", "codex", "-c", "command=/no/such/codex"], "there is no program /no/such/codex"),
    ] {
        let ran = super::Ran::of(home.command(arguments).env("PATH", &path).output().unwrap());
        ran.must_end_with(3).must_say(said);
        assert!(!ran.stderr.contains("/help"), "no prompt: {}", ran.stderr);
    }
    let ran = super::Ran::of(home.command(["doctor", "pi"]).env("PATH", &path).output().unwrap());
    assert!(
        ran.must_end_with(1).stdout.contains("npm install -g @mariozechner/pi-coding-agent"),
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
    let ran = super::Ran::of(
        home.command(["run", "--agent", "claude-code", "hi"]).env("PATH", &path).output().unwrap(),
    );
    ran.must_end_with(1).must_say("next: log in with `claude`, then `/login`");
}

#[test]
fn doctor_lists_every_agent_that_is_here() {
    let home = Home::new();
    let gemini = "case $1 in --version) echo 0.61.0;; esac";
    let path = with_programs(&home, &[("gemini", gemini)]);
    let doctor = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("PATH", &path).env("GEMINI_API_KEY", "not-to-be-shown");
        super::Ran::of(command.output().unwrap())
    };
    let ran = doctor(&["doctor", "--all", "--json"]);
    let all = ran.must_end_with(0).json_lines().remove(0);
    let of = |name: &str| all.as_array().unwrap().iter().find(|here| here["agent"] == name).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 7);
    assert_eq!(
        (&of("codex")["installed"], &of("codex")["next"]),
        (&false.into(), &"npm install -g @openai/codex".into())
    );
    let gemini = of("gemini-cli");
    assert!(gemini["path"].as_str().unwrap().ends_with("bin/gemini"), "{gemini}");
    assert!(gemini["version"].as_str().unwrap().contains("0.61.0"), "{gemini}");
    assert!(gemini["credentials"].as_str().unwrap().contains("GEMINI_API_KEY"), "{gemini}");
    let ran = doctor(&["doctor", "--all"]);
    assert!(
        ran.must_end_with(0).stdout.contains("not installed") && ran.stdout.contains("0.61.0"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("not-to-be-shown"), "{}", ran.stdout);
}
