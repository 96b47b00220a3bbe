//! Manifests and what they come to.

use std::path::Path;

use trunkline_host::config;

use super::*;

#[track_caller]
fn imported(text: &str) -> (Value, Vec<String>) {
    let prompt = |path: &Path| match path.to_str() {
        Some("prompts/navigator.md") => Ok("Look around.\n".to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let imported = import_manifest(text, &prompt).unwrap();
    config::Config::parse(imported.0.to_string().as_bytes(), Path::new("/conf")).unwrap();
    imported
}

#[track_caller]
fn error(text: &str) -> String {
    import_manifest(text, &|_| Ok(String::new())).unwrap_err()
}

#[test]
fn the_published_form_becomes_an_agent() {
    // The published manifest's keys, for an adapter that is built in and for one that is not.
    let (config, notes) = imported(
        r#"
adapters:
  claude:
    binary: claude
    mode: headless
    output_format: json
    default_permissions:
      allowed_tools: ["Read", "Edit", "Bash(git log*)"]
      deny: ["Read(**/.env)"]
  ownllm:
    binary: ownllm
    mode: headless
    output_format: json
    default_permissions:
      allowed_tools: ["Read"]
      deny: []

personas:
  writer:
    adapter: Claude
    model: own-model-v2
    temperature: 0.3
  plain:
    adapter: ownllm
    model: own-model-v1
"#,
    );
    assert_eq!(
        config,
        json!({ "agents": [
            { "id": "plain", "profile": "generic-job", "job": { "command": "ownllm" },
              "permission": { "default": "deny", "allow": ["Read"] } },
            { "id": "writer", "profile": "claude-code",
              "claude_code": { "model": "own-model-v2", "allowed_tools": ["Read", "Edit", "Bash(git log*)"],
                               "disallowed_tools": ["Read(**/.env)"] },
              "permission": { "default": "deny", "allow": ["Read", "Edit", "Bash(git log*)"], "deny": ["Read(**/.env)"] } },
        ] })
    );
    let told = |text: &str| {
        assert!(
            notes.iter().any(|note| note.starts_with(text)),
            "{text}: {notes:?}"
        )
    };
    told("persona plain: `ownllm` is not a built-in adapter");
    told("persona plain: `model` is omitted");
    told("persona writer: `temperature` is omitted");
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn defaults_of_a_manifest_hold_where_a_persona_says_nothing() {
    let (config, notes) = imported(
        "adapters: { claude: { default_model: opus } }\n\
         personas: { p: { adapter: claude }, q: { adapter: claude, model: haiku } }\n\
         runtime: { stall_timeout: 30m }",
    );
    assert_eq!(
        config,
        json!({ "agents": [
            { "id": "p", "profile": "claude-code", "claude_code": { "model": "opus" } },
            { "id": "q", "profile": "claude-code", "claude_code": { "model": "haiku" } },
        ], "runtime": { "inactivity_timeout": "30m" } })
    );
    assert_eq!(notes, [""; 0]);
    let (_, notes) = imported("adapters: { claude: {} }\nruntime: { stall_timeout: 30 }");
    assert!(notes.concat().contains("has no unit"), "{notes:?}");
}

#[test]
fn adapters_are_found_by_name_or_by_binary_whatever_their_case() {
    for (adapter, binary, profile, key, command) in [
        ("CLAUDE", "claude", "claude-code", "claude_code", None),
        (
            "fast",
            "/opt/bin/claude",
            "claude-code",
            "claude_code",
            Some("/opt/bin/claude"),
        ),
        (
            "Codex",
            "codex-nightly",
            "codex",
            "codex",
            Some("codex-nightly"),
        ),
        ("gemini", "gemini", "gemini-cli", "gemini", None),
        ("copilot", "copilot", "github-copilot", "copilot", None),
        ("kilo", "kilo", "kilo-code", "kilo", None),
        ("OpenCode", "opencode", "opencode", "opencode", None),
        ("qwen", "qwen", "qwen-code", "acp", None),
        ("vibe", "vibe-acp", "mistral-vibe", "acp", None),
        ("goose", "goose", "goose", "acp", None),
        ("pi", "pi", "pi", "pi", None),
        ("browser", "browse", "generic-job", "job", Some("browse")),
    ] {
        let text = format!(
            "adapters: {{ {adapter}: {{ binary: {binary} }} }}\npersonas: {{ p: {{ adapter: {adapter} }} }}"
        );
        let (config, _) = imported(&text);
        let agent = &config["agents"][0];
        assert_eq!(agent["profile"], profile, "{adapter}");
        assert_eq!(
            agent[key].get("command").and_then(Value::as_str),
            command,
            "{adapter}"
        );
        assert_eq!(
            agent.get("permission"),
            None,
            "nothing is approved that was not allowed"
        );
    }
}

#[test]
fn a_personas_permissions_stand_over_its_adapters() {
    let (config, _) = imported(
        "adapters: { claude: { default_permissions: { allowed_tools: [Read, Bash], deny: [Write] } } }\n\
         personas: { p: { adapter: claude, permissions: { allowed_tools: [Read], deny: [\"Bash(rm*)\"] } } }",
    );
    let expected = json!({ "default": "deny", "allow": ["Read"], "deny": ["Write", "Bash(rm*)"] });
    assert_eq!(config["agents"][0]["permission"], expected);
}

#[test]
fn domains_that_no_sandbox_would_hold_are_told_and_not_written() {
    for runtime in [
        "",
        "runtime: { sandbox: { enabled: false, backend: bubblewrap } }\n",
    ] {
        let (config, notes) = imported(&format!(
            "personas:\n  p: {{ adapter: claude, sandbox: {{ allowed_domains: [example.org] }} }}\n{runtime}"
        ));
        assert_eq!(config["agents"][0].get("allowed_domains"), None);
        let told = "persona p: `allowed_domains` has no effect without a sandbox: add a `sandbox` and the domains";
        assert!(notes.iter().any(|note| note == told), "{notes:?}");
    }
}

#[test]
fn what_else_has_a_home_finds_it_and_the_rest_is_told() {
    let (config, notes) = imported(
        "apiVersion: v1\nkind: WaveManifest\nmetadata: { name: x }\nskill_mounts: []\n\
         personas:\n  navigator:\n    adapter: claude\n    description: Looks around\n    hooks: {}\n    \
         system_prompt_file: prompts/navigator.md\n    sandbox: { allowed_domains: [example.org] }\n  \
         lost: { adapter: codex, system_prompt_file: nowhere.md }\n\
         runtime:\n  default_timeout_minutes: 20\n  workspace_root: .wave\n  sandbox:\n    enabled: true\n    \
         backend: bubblewrap\n    default_allowed_domains: [example.org]\n    env_passthrough: [API_KEY]\n",
    );
    let agent = config["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["id"] == "navigator")
        .unwrap();
    assert_eq!(agent["description"], "Looks around");
    assert_eq!(agent["claude_code"]["system_prompt"], "Look around.\n");
    assert_eq!(agent["allowed_domains"], json!(["example.org"]));
    assert_eq!(agent["env_passthrough"], json!(["API_KEY"]));
    let sandbox = json!({ "backend": "bubblewrap", "network": { "allow": ["example.org"] } });
    assert_eq!(
        config["runtime"],
        json!({ "turn_timeout": "20m", "sandbox": sandbox })
    );
    for expected in [
        "`skill_mounts` has no equivalent",
        "`personas.navigator.hooks` has no equivalent",
        "`runtime.workspace_root` has no equivalent",
        "persona lost: `system_prompt_file` nowhere.md cannot be read: entity not found",
    ] {
        assert!(
            notes.iter().any(|note| note == expected),
            "{expected}: {notes:?}"
        );
    }
}

#[test]
fn without_personas_each_adapter_becomes_an_agent() {
    let (config, notes) = imported("adapters: { claude: {}, codex: {} }");
    assert_eq!(
        config,
        json!({ "agents": [{ "id": "claude", "profile": "claude-code" }, { "id": "codex", "profile": "codex" }] })
    );
    assert_eq!(
        notes,
        ["the manifest has no personas: each adapter becomes an agent"]
    );
}

#[test]
fn a_runtime_file_stays_as_it_is() {
    let text = r#"{ "hub": { "url": "x" }, "agents": [{ "id": "a", "profile": "echo" }] }"#;
    let (config, notes) = imported(text);
    assert_eq!(config, serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(notes.len(), 1);
}

#[test]
fn what_is_no_manifest_is_told_with_its_place() {
    assert_eq!(error("{}"), "it has neither `personas` nor `adapters`");
    assert_eq!(error("- a"), "expected an object, found an array");
    assert_eq!(
        error("personas: { p: {} }"),
        "personas.p.adapter: it is missing"
    );
    assert_eq!(
        error("personas: { p: { adapter: [] } }"),
        "personas.p.adapter: expected a string, found an array"
    );
    assert_eq!(
        error("adapters: { a: { default_permissions: { deny: [1] } } }"),
        "adapters.a.default_permissions.deny[0]: expected a string, found a number"
    );
    let pattern =
        error("personas: { p: { adapter: claude, permissions: { deny: [\"Bash(x\"] } } }");
    assert!(
        pattern.starts_with("personas.p: failed to understand the pattern `Bash(x`: "),
        "{pattern}"
    );
    assert!(error("a: [").contains("line"), "{}", error("a: ["));
}

#[test]
fn a_manifest_that_unfolds_without_end_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    assert!(import_manifest(&bomb, &|_| Ok(String::new())).is_err());
    assert!(import_manifest(&"[".repeat(100_000), &|_| Ok(String::new())).is_err());
}
