//! Amurg's runtime files: a file that its programs accept loads here with the same meaning, or a
//! note names the difference.

use std::{path::Path, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use trunkline_host::config::{AgentConfig, Config};

/// Returns a file with the keys that Amurg's own reader requires.
fn whole(agents: &Value, runtime: &Value) -> String {
    json!({
        "hub": { "url": "ws://hub.example.org/ws/runtime", "token": "t-of-hub", "tls_skip_verify": false },
        "runtime": runtime,
        "agents": agents,
    })
    .to_string()
}

fn load(text: &str) -> Config {
    Config::parse(text.as_bytes(), Path::new("/conf"))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// An agent of a whole file, and the notes that name it.
#[track_caller]
fn agent(entry: &Value) -> (AgentConfig, Vec<String>) {
    let mut entry = entry.clone();
    entry["id"] = "a".into();
    let config = load(&whole(&json!([entry]), &json!({ "id": "r" })));
    let notices = config
        .notices
        .iter()
        .filter(|notice| notice.contains("`agents[0]"));
    let notices = notices.cloned().collect();
    (
        config.agents.into_iter().next().expect("one agent"),
        notices,
    )
}

#[track_caller]
fn own(profile: &str, key: &str, own: &Value, security: &Value) -> (Value, Vec<String>) {
    let entry = json!({ "profile": profile, (key): own, "security": security });
    let (agent, notices) = agent(&entry);
    (agent.config.unwrap_or_default(), notices)
}

const UNASKED: &str = "every tool of this agent runs without asking; use a sandbox";

#[test]
fn the_words_of_a_profiles_object_mean_what_they_mean_there() {
    let nothing = || json!({});
    for (profile, key, said, security, expected, notes) in [
        // Its transports, of which one has no end of a turn.
        (
            "claude-code",
            "claude_code",
            json!({ "transport": "stream-json" }),
            nothing(),
            nothing(),
            &[][..],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "transport": "tmux", "model": "m" }),
            nothing(),
            json!({ "model": "m" }),
            &[
                "`agents[0].claude_code.transport` has no effect: a terminal has no mark for the end of a turn",
            ],
        ),
        // Its modes, by the object and by `security`, which has the last word.
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "skip" }),
            nothing(),
            json!({ "permission_mode": "dangerously-skip-permissions" }),
            &[UNASKED],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "bypassPermissions" }),
            nothing(),
            json!({ "permission_mode": "dangerously-skip-permissions" }),
            &[UNASKED],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "dangerously-skip-permissions" }),
            nothing(),
            json!({ "permission_mode": "dangerously-skip-permissions" }),
            &[UNASKED],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "strict" }),
            nothing(),
            json!({ "permission_mode": "default" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "auto" }),
            nothing(),
            json!({ "permission_mode": "" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "default" }),
            nothing(),
            json!({ "permission_mode": "default" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "permission_mode": "skip", "dangerous": true }),
            json!({ "permission_mode": "strict" }),
            json!({ "permission_mode": "default" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            nothing(),
            json!({ "permission_mode": "acceptEdits" }),
            json!({ "permission_mode": "acceptEdits" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            nothing(),
            json!({ "permission_mode": "plan" }),
            json!({ "permission_mode": "plan" }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            nothing(),
            json!({ "permission_mode": "bypassPermissions" }),
            json!({ "permission_mode": "dangerously-skip-permissions" }),
            &[UNASKED],
        ),
        (
            "claude-code",
            "claude_code",
            nothing(),
            json!({ "permission_mode": "" }),
            nothing(),
            &[],
        ),
        (
            "github-copilot",
            "copilot",
            json!({ "max_autopilot_continues": 3 }),
            json!({ "permission_mode": "skip" }),
            json!({ "max_autopilot_continues": 3, "dangerous": true }),
            &[UNASKED],
        ),
        (
            "github-copilot",
            "copilot",
            nothing(),
            json!({ "permission_mode": "strict" }),
            nothing(),
            &["has no mode `strict`"],
        ),
        (
            "codex",
            "codex",
            json!({ "approval_mode": "skip" }),
            nothing(),
            json!({ "approval_mode": "never" }),
            &[UNASKED],
        ),
        (
            "codex",
            "codex",
            json!({ "approval_mode": "never" }),
            json!({ "permission_mode": "strict" }),
            json!({ "approval_mode": "untrusted" }),
            &[],
        ),
        (
            "codex",
            "codex",
            nothing(),
            json!({ "permission_mode": "auto" }),
            json!({ "approval_mode": "on-request" }),
            &[],
        ),
        (
            "codex",
            "codex",
            nothing(),
            json!({ "permission_mode": "plan" }),
            nothing(),
            &["has no mode `plan`"],
        ),
        (
            "codex",
            "codex",
            json!({ "approval_mode": "untrusted", "full_auto": true }),
            nothing(),
            json!({ "approval_mode": "untrusted" }),
            &[],
        ),
        (
            "codex",
            "codex",
            json!({ "sandbox_mode": "danger-full-access" }),
            nothing(),
            json!({ "sandbox_mode": "danger-full-access", "dangerous_full_access": true, "approval_mode": "on-request" }),
            &["this agent's commands run without Codex's sandbox"],
        ),
        (
            "gemini-cli",
            "gemini",
            json!({ "approval_mode": "yolo" }),
            nothing(),
            json!({ "approval_mode": "yolo", "dangerous": true }),
            &[UNASKED],
        ),
        (
            "gemini-cli",
            "gemini",
            json!({ "approval_mode": "auto_edit" }),
            nothing(),
            json!({ "approval_mode": "auto_edit" }),
            &[],
        ),
        (
            "gemini-cli",
            "gemini",
            nothing(),
            json!({ "permission_mode": "auto" }),
            json!({ "approval_mode": "auto_edit" }),
            &[],
        ),
        (
            "gemini-cli",
            "gemini",
            nothing(),
            json!({ "permission_mode": "skip" }),
            json!({ "approval_mode": "yolo", "dangerous": true }),
            &[UNASKED],
        ),
        (
            "kilo-code",
            "kilo",
            json!({ "mode": "code" }),
            nothing(),
            json!({ "mode": "code" }),
            &["`agents[0].kilo`: this agent asks before its tools run"],
        ),
        (
            "kilo-code",
            "kilo",
            nothing(),
            json!({ "permission_mode": "skip" }),
            json!({ "dangerous": true }),
            &[UNASKED],
        ),
        // The lists of tools.
        (
            "claude-code",
            "claude_code",
            json!({ "allowed_tools": ["Bash"], "disallowed_tools": ["WebFetch"] }),
            json!({ "allowed_tools": ["Read"], "disallowed_tools": ["WebFetch", "Write"] }),
            json!({ "allowed_tools": ["Read"], "disallowed_tools": ["WebFetch", "Write"] }),
            &[],
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "allowed_tools": ["Bash"] }),
            json!({ "allowed_tools": [] }),
            json!({ "allowed_tools": ["Bash"] }),
            &[],
        ),
        (
            "github-copilot",
            "copilot",
            json!({ "denied_tools": ["shell"] }),
            json!({ "allowed_tools": ["write"], "disallowed_tools": ["url"], "denied_paths": ["shell(rm *)"] }),
            json!({ "denied_tools": ["shell", "url", "shell(rm *)"], "allowed_tools": ["write"] }),
            &[],
        ),
        (
            "codex",
            "codex",
            nothing(),
            json!({ "allowed_tools": ["x"], "disallowed_tools": ["y"] }),
            nothing(),
            &["`permission.allow`", "`permission.deny`"],
        ),
        // A prompt that takes the place of Claude's own.
        (
            "claude-code",
            "claude_code",
            json!({ "system_prompt": "Be brief." }),
            nothing(),
            json!({ "system_prompt": "Be brief.", "system_prompt_mode": "replace" }),
            &[],
        ),
        // Durations as Go writes them, of which 0 is the default.
        (
            "generic-job",
            "job",
            json!({ "command": "x", "max_runtime": ".5s" }),
            nothing(),
            json!({ "command": "x", "max_runtime": "500ms" }),
            &[],
        ),
        (
            "generic-job",
            "job",
            json!({ "command": "x", "max_runtime": 0 }),
            nothing(),
            json!({ "command": "x" }),
            &[],
        ),
        (
            "generic-http",
            "http",
            json!({ "base_url": "http://h", "timeout": "0s" }),
            nothing(),
            json!({ "base_url": "http://h", "max_runtime": "60s" }),
            &[],
        ),
        // Less than 0 is the default, too.
        (
            "generic-job",
            "job",
            json!({ "command": "x", "max_runtime": "-5s" }),
            nothing(),
            json!({ "command": "x" }),
            &[],
        ),
        (
            "generic-http",
            "http",
            json!({ "base_url": "http://h", "timeout": -1 }),
            nothing(),
            json!({ "base_url": "http://h", "max_runtime": "60s" }),
            &[],
        ),
        // The time for the whole answer. A key of ours has the last word.
        (
            "generic-http",
            "http",
            json!({ "base_url": "http://h", "timeout": "2s" }),
            nothing(),
            json!({ "base_url": "http://h", "timeout": "2s", "max_runtime": "2s" }),
            &[],
        ),
        (
            "generic-http",
            "http",
            json!({ "base_url": "http://h", "timeout": "2s", "max_runtime": "1h" }),
            nothing(),
            json!({ "base_url": "http://h", "timeout": "2s", "max_runtime": "1h" }),
            &[],
        ),
        // Keys in any case.
        (
            "claude-code",
            "Claude_Code",
            json!({ "Model": "m", "MAX_TURNS": 3, "model_": 1 }),
            nothing(),
            json!({ "model_": 1, "model": "m", "max_turns": 3 }),
            &[],
        ),
        // Null is absent.
        (
            "codex",
            "codex",
            json!({ "model": null, "profile": "p" }),
            nothing(),
            json!({ "profile": "p" }),
            &[],
        ),
    ] {
        let case = format!("{profile} {said} {security}");
        let (read, notices) = own(profile, key, &said, &security);
        assert_eq!(read, expected, "{case}");
        assert_eq!(notices.len(), notes.len(), "{case}: {notices:?}");
        for (notice, note) in notices.iter().zip(notes) {
            assert!(notice.contains(note), "{case}: {notice}");
        }
    }
}

#[test]
fn a_working_directory_of_security_has_the_last_word() {
    for (profile, key, said) in [
        (
            "external",
            "external",
            json!({ "command": "x", "work_dir": "/profile" }),
        ),
        (
            "claude-code",
            "claude_code",
            json!({ "work_dir": "/profile" }),
        ),
        ("generic-cli", "cli", json!({ "command": "x" })),
        ("generic-http", "http", json!({ "base_url": "http://h" })),
    ] {
        let (read, _) =
            agent(&json!({ "profile": profile, (key): said, "security": { "cwd": "/security" } }));
        assert_eq!(
            read.command.work_dir,
            PathBuf::from("/security"),
            "{profile}"
        );
        let own = read
            .config
            .as_ref()
            .and_then(|config| config.get("work_dir"));
        assert_eq!(own.is_some(), profile == "claude-code", "{profile}");
        assert!(own.is_none_or(|own| own == "/security"), "{profile}");
    }
    let (read, _) = agent(
        &json!({ "profile": "codex", "codex": { "work_dir": "/p" }, "security": { "cwd": "" } }),
    );
    assert_eq!(read.command.work_dir, PathBuf::from("/p"));
}

#[test]
fn what_nothing_reads_is_noted_and_not_refused() {
    let text = json!({
        "hub": { "url": "ws://h", "token": "t", "anything": 1 },
        "comment": "of the operator",
        "runtime": { "id": "r", "color": "red" },
        "agents": [{
            "id": "a", "name": "", "profile": "external", "version": 2,
            "external": { "command": "x", "shell": true },
            "cli": { "command": "y" },
            "limits": { "cores": 1 },
            "security": { "seccomp": [] },
        }],
    });
    let config = load(&text.to_string());
    assert_eq!(config.agents[0].name, "a", "an empty name is none");
    for place in [
        "comment",
        "runtime.color",
        "agents[0].version",
        "agents[0].external.shell",
        "agents[0].cli",
        "agents[0].limits.cores",
        "agents[0].security.seccomp",
    ] {
        let named = config
            .notices
            .iter()
            .filter(|notice| notice.starts_with(&format!("`{place}` has no effect: ")));
        assert_eq!(named.count(), 1, "{place}: {:?}", config.notices);
    }
    // A slip in what restricts an agent is an error all the same.
    for (key, meant) in [
        ("sandbx", "sandbox"),
        ("permision", "permission"),
        ("resource", "resources"),
    ] {
        let agents = json!([{ "id": "a", "profile": "codex", (key): {} }]);
        let refused =
            Config::parse(whole(&agents, &json!({})).as_bytes(), Path::new("/")).expect_err(key);
        let refused = refused.to_string();
        assert!(
            refused.ends_with(&format!(
                "agents[0].{key}: unknown key; did you mean `{meant}`?"
            )),
            "{refused}"
        );
    }
    // Without a hub it is a file of ours.
    for text in [
        json!({ "comment": "", "agents": [{ "id": "a", "profile": "echo" }] }),
        json!({ "agents": [{ "id": "a", "profile": "echo", "cli": {} }] }),
    ] {
        assert!(
            Config::parse(text.to_string().as_bytes(), Path::new("/")).is_err(),
            "{text}"
        );
    }
}

#[test]
fn a_key_that_an_adapter_does_not_know_is_noted() {
    let check = |_: &str, config: &Value| {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Known {
            #[serde(rename = "model")]
            _model: Option<String>,
        }
        serde_path_to_error::deserialize::<_, Known>(config).map(drop)
    };
    let agents = json!([{ "id": "a", "profile": "codex", "codex": { "comment": 1, "model": "m", "modl": "n" } }]);
    let config = Config::parse_checked(
        whole(&agents, &json!({})).as_bytes(),
        Path::new("/"),
        &check,
    )
    .expect("it loads");
    assert_eq!(config.agents[0].config, Some(json!({ "model": "m" })));
    for key in ["comment", "modl"] {
        let note = format!("`agents[0].codex.{key}` has no effect: nothing reads it");
        assert!(config.notices.contains(&note), "{:?}", config.notices);
    }
    let agents = json!([{ "id": "a", "profile": "codex", "codex": { "model": 1 } }]);
    assert!(
        Config::parse_checked(
            whole(&agents, &json!({})).as_bytes(),
            Path::new("/"),
            &check
        )
        .is_err()
    );
}

#[test]
fn a_zero_is_the_default_of_amurg() {
    let zeros = json!({
        "id": "r", "max_sessions": 0, "default_timeout": 0, "max_output_bytes": 0, "idle_timeout": "0s", "max_file_bytes": 0,
    });
    let limits = json!({ "max_sessions": 0, "max_output_bytes": 0, "session_timeout": 0, "idle_timeout": 0 });
    let agents = json!([{ "id": "a", "profile": "codex", "limits": limits }]);
    for runtime in [zeros, json!({ "id": "r" })] {
        let config = load(&whole(&agents, &runtime));
        let agent = &config.agents[0];
        assert_eq!(config.max_sessions, Some(10), "{runtime}");
        assert_eq!(
            agent.timeouts.turn,
            Some(Duration::from_secs(30 * 60)),
            "{runtime}"
        );
        assert_eq!(agent.limits.max_turn_output, Some(10 << 20), "{runtime}");
        assert_eq!(
            (agent.limits.max_file_bytes, agent.limits.max_sessions),
            (10 << 20, None),
            "{runtime}"
        );
    }
    let config = load(&whole(
        &agents,
        &json!({ "max_output_bytes": 5, "max_sessions": 3, "max_file_bytes": 4 }),
    ));
    let agent = &config.agents[0];
    assert_eq!(
        (config.max_sessions, agent.limits.max_turn_output),
        (Some(3), Some(5))
    );
    assert_eq!(agent.limits.max_file_bytes, 4);
    let ours = load(&whole(&agents, &json!({ "max_turn_output": 0 })));
    assert_eq!(
        ours.agents[0].limits.max_turn_output, None,
        "our own key says so"
    );
    let no_hub = Config::parse(
        json!({ "agents": agents }).to_string().as_bytes(),
        Path::new("/"),
    )
    .expect("it loads");
    assert_eq!(
        (no_hub.max_sessions, no_hub.agents[0].limits.max_turn_output),
        (None, None)
    );
}

#[test]
fn security_means_the_same_without_a_hub() {
    let text = json!({ "agents": [
        { "id": "a", "profile": "claude-code", "security": { "permission_mode": "skip", "disallowed_tools": ["Bash"] } },
        { "id": "b", "profile": "codex", "config": { "model": "m" }, "security": { "permission_mode": "strict" } },
        { "id": "c", "external": { "command": "x" }, "security": { "permission_mode": "plan", "allowed_tools": ["Read"] } },
    ] });
    let config = load(&text.to_string());
    let configs: Vec<_> = config
        .agents
        .iter()
        .map(|agent| agent.config.clone())
        .collect();
    let claude =
        json!({ "permission_mode": "dangerously-skip-permissions", "disallowed_tools": ["Bash"] });
    assert_eq!(
        configs,
        [
            Some(claude),
            Some(json!({ "model": "m", "approval_mode": "untrusted" })),
            None
        ]
    );
    assert_eq!(config.notices.len(), 3, "{:?}", config.notices);
    assert!(config.notices[0].contains(UNASKED));
    let wrong = json!({ "agents": [{ "id": "a", "profile": "codex", "security": { "permission_mode": "skipp" } }] });
    let refused = Config::parse(wrong.to_string().as_bytes(), Path::new("/"))
        .expect_err("no such mode")
        .to_string();
    assert!(
        refused.contains(
            "agents[0].security.permission_mode: `skipp` is not a mode; there are skip, "
        ),
        "{refused}"
    );
}

#[test]
fn every_kind_of_agent_that_amurg_publishes_loads_at_once() {
    // The shape of its sample of a deployment: each profile once, with the keys that the sample shows.
    let agents = json!([
        { "id": "c", "name": "C", "profile": "claude-code", "tags": { "env": "t" }, "claude_code": {
            "work_dir": "/w", "model": "sonnet", "transport": "stream-json",
            "permission_mode": "dangerously-skip-permissions", "max_turns": 9, "system_prompt": "Be kind." } },
        { "id": "p", "name": "P", "profile": "github-copilot", "security": { "permission_mode": "skip" }, "copilot": {
            "work_dir": "/w", "model": "m", "max_autopilot_continues": 4, "allowed_tools": ["shell(ls *)"], "denied_tools": ["shell(dd *)"] } },
        { "id": "x", "name": "X", "profile": "codex", "codex": {
            "work_dir": "/w", "model": "m", "approval_mode": "on-request", "sandbox_mode": "workspace-write", "full_auto": true,
            "additional_dirs": ["/d"] } },
        { "id": "g", "name": "G", "profile": "gemini-cli", "gemini": {
            "work_dir": "/w", "model": "m", "approval_mode": "auto_edit", "include_directories": ["/d", "/e"] } },
        { "id": "k", "name": "K", "profile": "kilo-code", "security": { "permission_mode": "skip" }, "kilo": {
            "work_dir": "/w", "model": "p/m", "provider": "p", "mode": "code", "system_prompt": "Be kind." } },
        { "id": "e", "name": "E", "profile": "generic-cli", "cli": { "command": "cat", "spawn_policy": "per-session" } },
        { "id": "j", "name": "J", "profile": "generic-job", "job": { "command": "date", "max_runtime": "9s" } },
        { "id": "h", "name": "H", "profile": "generic-http", "http": { "base_url": "https://h.example.org/post", "method": "POST", "timeout": "9s" } },
        { "id": "o", "name": "O", "profile": "external", "external": { "command": "/opt/o", "args": ["--mode", "chat"], "work_dir": "/w", "env": { "L": "debug" } } },
    ]);
    let runtime = json!({
        "id": "r", "max_sessions": 10, "default_timeout": "30m", "max_output_bytes": 10485760, "idle_timeout": "30s", "log_level": "info",
    });
    let config = load(&whole(&agents, &runtime));
    assert_eq!(config.agents.len(), 9);
    let config_of = |id: &str| {
        config
            .agent(id)
            .and_then(|agent| agent.config.clone())
            .unwrap_or_default()
    };
    for (id, key, value) in [
        (
            "c",
            "permission_mode",
            json!("dangerously-skip-permissions"),
        ),
        ("c", "max_turns", json!(9)),
        ("p", "dangerous", json!(true)),
        ("x", "approval_mode", json!("on-request")),
        ("g", "approval_mode", json!("auto_edit")),
        ("k", "dangerous", json!(true)),
        ("e", "spawn_policy", json!("per-session")),
        ("j", "max_runtime", json!("9s")),
        ("h", "timeout", json!("9s")),
    ] {
        assert_eq!(config_of(id)[key], value, "{id}.{key}");
    }
    assert_eq!(
        config_of("x").get("full_auto"),
        None,
        "it says no more than the two modes"
    );
    let unasked = config
        .notices
        .iter()
        .filter(|notice| notice.contains(UNASKED))
        .count();
    assert_eq!(unasked, 3, "who asks no one is named: {:?}", config.notices);
    let differs = |words: &str| config.notices.iter().any(|notice| notice.contains(words));
    assert!(
        differs("with Amurg, in the home folder") && differs("with Amurg, all of them"),
        "{:?}",
        config.notices
    );
    assert!(
        config
            .notices
            .iter()
            .all(|notice| !notice.contains("t-of-hub"))
    );
}

#[test]
fn keys_are_read_in_any_case_and_durations_below_zero_are_the_default() {
    let text = json!({
        "Hub": { "URL": "wss://hub.example.org/ws/runtime", "Token": "t-of-hub" },
        "RUNTIME": { "ID": "r", "Org_ID": "o", "Max_Sessions": 3, "default_timeout": "-1s", "idle_timeout": -1 },
        "Agents": [{
            "ID": "a", "Name": "A", "Profile": "external", "ENV_passthrough": ["X"],
            "External": { "Command": "x", "ARGS": ["y"] },
            "Limits": { "MAX_sessions": 2, "session_timeout": "-1h" },
            "Security": { "CWD": "/w" },
        }],
    });
    let config = load(&text.to_string());
    let agent = &config.agents[0];
    assert_eq!((&*agent.id, &*agent.name), ("a", "A"));
    assert_eq!(agent.command.args, ["y"]);
    assert_eq!(agent.command.work_dir, PathBuf::from("/w"));
    assert_eq!(
        (config.max_sessions, agent.limits.max_sessions),
        (Some(3), Some(2))
    );
    assert_eq!(agent.timeouts.turn, Some(Duration::from_secs(30 * 60)));
    // Of two forms the known one counts, and the other one is noted.
    let agents = json!([{ "id": "a", "ID": "b", "profile": "echo" }]);
    let config = load(&whole(&agents, &json!({})));
    assert_eq!(config.agents[0].id, "a");
    assert!(
        config
            .notices
            .iter()
            .any(|note| note.starts_with("`agents[0].ID`"))
    );
    // A file of ours has one form, and no duration below zero.
    for file in [
        json!({ "agents": [{ "ID": "a", "profile": "echo" }] }),
        json!({ "agents": [{ "id": "a", "profile": "echo", "turn_timeout": "-1s" }] }),
    ] {
        let read = Config::parse(file.to_string().as_bytes(), Path::new("/"));
        assert!(read.is_err(), "{file}");
    }
}

#[test]
fn the_hub_and_the_runtime_of_a_file_are_kept_for_what_connects_to_it() {
    let agents = json!([{ "id": "a", "profile": "echo" }]);
    let config = load(&whole(&agents, &json!({ "id": "r", "org_id": "o" })));
    let hub = config.amurg_hub.clone().expect("a hub");
    assert_eq!(
        (hub.url.as_deref(), hub.token.as_deref()),
        (Some("ws://hub.example.org/ws/runtime"), Some("t-of-hub"))
    );
    assert_eq!(
        (hub.runtime_id.as_deref(), hub.org.as_deref()),
        (Some("r"), Some("o"))
    );
    assert!(hub.notices.is_empty(), "{:?}", hub.notices);
    assert!(!format!("{config:?}").contains("t-of-hub"));
    let text = json!({
        "hub": { "url": "", "token": 1, "tls_skip_verify": true, "reconnect_interval": "2s", "send_buffer_size": 0 },
        "agents": agents,
    });
    let hub = load(&text.to_string()).amurg_hub.expect("a hub");
    assert_eq!((hub.url, hub.token, hub.runtime_id), (None, None, None));
    let notes: Vec<_> = hub
        .notices
        .iter()
        .map(|note| note.split(' ').next())
        .collect();
    assert_eq!(
        notes,
        [
            Some("`hub.tls_skip_verify`"),
            Some("`hub.reconnect_interval`")
        ]
    );
    let ours = json!({ "agents": agents }).to_string();
    assert_eq!(load(&ours).amurg_hub, None);
}

#[test]
fn a_mode_that_asks_for_nothing_is_noted_without_a_hub() {
    for (mode, notes) in [
        ("dangerously-skip-permissions", 1),
        ("bypassPermissions", 1),
        ("plan", 0),
    ] {
        for key in ["claude_code", "config"] {
            let agents = json!([{ "id": "a", "profile": "claude-code", (key): { "permission_mode": mode } }]);
            let config = load(&json!({ "agents": agents }).to_string());
            let place = format!("`agents[0].{key}.permission_mode`: {UNASKED}");
            let named = config.notices.iter().filter(|note| **note == place);
            assert_eq!(named.count(), notes, "{key} {mode}: {:?}", config.notices);
        }
    }
}
