use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::Home;

pub(super) const MANIFEST: &str = "\
adapters:
  claude: { binary: claude, mode: headless, output_format: json, default_permissions: { allowed_tools: [Read], deny: [] } }
  mine: { binary: ./mine }
personas:
  reviewer: { adapter: claude, model: opus, temperature: 0.2 }
  worker: { adapter: MINE }
";

#[test]
fn a_manifest_becomes_a_configuration_that_loads() {
    let home = Home::new();
    home.file("wave.yaml", MANIFEST);
    let ran = home.run(["config", "import", "wave.yaml"]);
    ran.must_end_with(0)
        .must_say("persona reviewer: `temperature` is omitted")
        .must_say("persona worker: `MINE` is not a built-in adapter");
    let config: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&config["agents"][0]["id"], &config["agents"][1]["id"]),
        (&"reviewer".into(), &"worker".into())
    );

    home.run([
        "config",
        "import",
        "wave.yaml",
        "--output",
        "trunkline.json",
    ])
    .must_end_with(0);
    let ran = home.run(["config", "check"]);
    assert!(
        ran.must_end_with(0)
            .stdout
            .contains("2 agents: reviewer, worker; the default is reviewer"),
        "{}",
        ran.stdout
    );
    let ran = home.run_with_stdin(["config", "import", "-"], MANIFEST);
    assert_eq!(
        ran.must_end_with(0).stdout,
        std::fs::read_to_string(home.path().join("trunkline.json")).unwrap()
    );
}

#[test]
fn a_manifest_names_files_and_not_what_waits_for_somebody() {
    let home = Home::new();
    for name in ["-", "/dev/stdin", "/dev/tty", "."] {
        home.file(
            "wave.yaml",
            &format!("personas: {{ p: {{ adapter: claude, system_prompt_file: '{name}' }} }}"),
        );
        let ran = home.run_with_stdin(["config", "import", "wave.yaml"], "from stdin");
        ran.must_end_with(0)
            .must_say(&format!("`system_prompt_file` {name} cannot be read"));
        assert!(!ran.stdout.contains("from stdin"), "{}", ran.stdout);
    }
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let home = Home::new();
    home.file("wave.yaml", MANIFEST);
    let out = home.file("out.json", "mine");
    home.run(["config", "import", "wave.yaml", "--output", "out.json"])
        .must_end_with(2)
        .must_say("--force");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine");
    home.run([
        "config",
        "import",
        "wave.yaml",
        "--output",
        "out.json",
        "--force",
    ])
    .must_end_with(0);
    assert!(std::fs::read_to_string(&out).unwrap().contains("reviewer"));
    assert_eq!(
        std::fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        2,
        "nothing is left beside it"
    );
    // A link is replaced, not followed.
    let target = home.file("target", "kept");
    std::os::unix::fs::symlink(&target, home.path().join("link")).unwrap();
    home.run(["config", "import", "wave.yaml", "--output", "link"])
        .must_end_with(2);
    home.run([
        "config",
        "import",
        "wave.yaml",
        "--output",
        "link",
        "--force",
    ])
    .must_end_with(0);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
}

#[test]
fn what_is_no_manifest_is_code_2() {
    let home = Home::new();
    home.file("bad.yaml", "personas: { p: {} }");
    home.run(["config", "import", "bad.yaml"])
        .must_end_with(2)
        .must_say("personas.p.adapter: it is missing");
    home.file("none.yaml", "a: [");
    home.run(["config", "import", "none.yaml"])
        .must_end_with(2)
        .must_say("none.yaml");
    home.run(["config", "import", "nowhere.yaml"])
        .must_end_with(1)
        .must_say("next: use the path of a manifest");
    home.run(["--config", "nowhere.json", "config", "check"])
        .must_end_with(2)
        .must_say("next: set --config to an existing, readable file");
}

#[test]
fn a_check_tells_what_has_no_effect_and_what_is_wrong() {
    let home = Home::new();
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/samples/amurg-runtime.json"
    );
    home.run(["config", "check", sample])
        .must_end_with(0)
        .must_say("`hub` has no effect")
        .must_say("runtime.org_id");
    home.run(["config", "import", sample])
        .must_end_with(0)
        .must_say("already a configuration");
    let bad = home.file(
        "bad.json",
        r#"{ "agents": [{ "id": "a", "profile": "clod" }] }"#,
    );
    home.run([
        std::ffi::OsStr::new("config"),
        "check".as_ref(),
        bad.as_ref(),
    ])
    .must_end_with(2)
    .must_say("`clod` is not a profile")
    .must_say("claude-code")
    .must_say("agents: a");
}

#[test]
fn a_file_of_amurgs_with_every_profile_passes_the_check_of_each_adapter() {
    let home = Home::new();
    home.file(
        "amurg.json",
        r#"{
          "hub": { "url": "ws://hub.example.org/ws/runtime", "token": "t" },
          "runtime": { "id": "r", "max_sessions": 0, "default_timeout": ".5h", "comment": 1 },
          "agents": [
            { "id": "c", "name": "", "profile": "claude-code", "cli": { "command": "x" },
              "claude_code": { "transport": "tmux", "permission_mode": "skip", "system_prompt": "s", "note": 1 } },
            { "id": "p", "profile": "github-copilot", "copilot": { "max_autopilot_continues": 4 },
              "security": { "permission_mode": "skip", "denied_paths": ["shell(rm *)"], "disallowed_tools": ["url"] } },
            { "id": "x", "profile": "codex", "security": { "permission_mode": "strict" },
              "codex": { "full_auto": true, "sandbox_mode": "danger-full-access", "additional_dirs": ["/d"] } },
            { "id": "g", "profile": "gemini-cli",
              "gemini": { "approval_mode": "yolo", "include_directories": ["/d"], "sandbox": true } },
            { "id": "k", "profile": "kilo-code", "security": { "permission_mode": "skip" },
              "kilo": { "provider": "p", "mode": "code", "timeout": 9 } },
            { "id": "e", "profile": "generic-cli", "cli": { "command": "cat", "spawn_policy": "persistent" } },
            { "id": "j", "profile": "generic-job", "job": { "command": "date", "max_runtime": ".5s" } },
            { "id": "h", "profile": "generic-http", "http": { "base_url": "http://127.0.0.1:1", "timeout": "0s" } },
            { "id": "o", "profile": "external", "external": { "command": "x" } }
          ]
        }"#,
    );
    let ran = home.run(["config", "check", "amurg.json"]);
    ran.must_end_with(0)
        .must_say("`runtime.comment` has no effect: nothing reads it")
        .must_say("`agents[0].cli` has no effect")
        .must_say("`agents[0].claude_code.note` has no effect: nothing reads it")
        .must_say(
            "`agents[0].claude_code.permission_mode`: every tool of this agent runs without asking",
        )
        .must_say(
            "`agents[4].security.permission_mode`: every tool of this agent runs without asking",
        );
    assert!(
        ran.stdout.contains("9 agents: c, p, x, g, k, e, j, h, o"),
        "{}",
        ran.stdout
    );
}
