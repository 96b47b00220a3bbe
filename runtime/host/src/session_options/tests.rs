//! Every known way to switch approvals off, in every profile.

use serde_json::{Value, json};
use trunkline_protocol::{HostBody, HostMessage};

use super::*;
use crate::config::{Profile, SessionMay, agent_facts};

/// The built-in profiles, and a program of one's own.
fn agents() -> Vec<AgentConfig> {
    let built_in = Profile::built_in().map(|(name, _)| AgentConfig::built_in(name, name));
    let agents: Vec<_> = built_in
        .chain([AgentConfig::external("external", "adapter")])
        .collect();
    assert!(agents.len() > 15);
    agents
}

fn body(kind: &str, members: &Value) -> HostBody {
    let mut message = json!({"type": kind, "session_id": "s"});
    message
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    HostMessage::parse(&message.to_string()).unwrap().body
}

fn opened(config: &AgentConfig, members: &Value) -> Result<(), SessionOption> {
    let HostBody::SessionStart(start) = body("session.start", members) else {
        unreachable!()
    };
    open(config, &start).map(|_| ())
}

fn updated(config: &AgentConfig, members: &Value) -> Result<(), SessionOption> {
    let HostBody::SessionUpdate(changes) = body("session.update", members) else {
        unreachable!()
    };
    update(config, &changes)
}

/// Returns options that a session sets only if its operator lists them.
fn bypasses() -> Vec<(SessionOption, Value)> {
    use SessionOption as O;
    let arguments = [
        &["--dangerously-bypass-approvals-and-sandbox"][..],
        &["-c", "approval_policy=never"],
        &["--yolo"],
        &["--approval-mode=yolo"],
        &["--allow-all-tools"],
        &["--allow-all"],
        &["--auto"],
        &["--dangerously-skip-permissions"],
        &["--permission-mode", "bypassPermissions"],
        &["--allowedTools", "Bash"],
        &["--settings", r#"{"permissions":{"allow":["Bash"]}}"#],
        &["--add-dir", "/"],
        &["--mcp-config", "/tmp/mcp.json"],
        &["--quiet"],
    ];
    let variables = [
        "COPILOT_ALLOW_ALL",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_PERMISSION",
        "KILO_CONFIG_CONTENT",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "PATH",
        "HOME",
        "CI",
    ];
    let modes = [
        "bypassPermissions",
        "bypass",
        "acceptEdits",
        "auto",
        "auto_edit",
        "autoEdit",
        "auto-approve",
        "autopilot",
        "https://agentclientprotocol.com/protocol/session-modes#autopilot",
        "allow-all",
        "skip-permissions",
        "dangerously-skip-permissions",
        "dangerous-full-access",
        "danger-full-access",
        "workspace-write",
        "agent-full-access",
        "never",
        "on-failure",
        "yolo",
        "YOLO",
        "unrestricted",
        "a word that no release knows yet",
        " ",
        "--yolo",
    ];
    let mut bypasses = vec![
        (
            O::McpServers,
            json!({"mcp_servers": {"x": {"command": "sh", "args": ["-c", "id"]}}}),
        ),
        (
            O::McpServers,
            json!({"mcp_servers": [{"name": "x", "command": "sh"}]}),
        ),
        (
            O::McpServers,
            json!({"mcp_servers": {"x": {"type": "http", "url": "https://example.org/mcp"}}}),
        ),
        (O::McpServers, json!({"mcp_servers": "/tmp/mcp.json"})),
        (O::Skills, json!({"skills": ["/tmp/skill"]})),
        (O::Skills, json!({"skills": [{"path": "/tmp/skill"}]})),
        (O::AllowedTools, json!({"allowed_tools": ["Bash"]})),
        (O::AllowedTools, json!({"allowed_tools": ["*"]})),
        (O::AddDirs, json!({"add_dirs": ["/"]})),
        (O::AddDirs, json!({"add_dirs": ["/etc"]})),
        (O::AddDirs, json!({"add_dirs": ["."]})),
        (O::Cwd, json!({"cwd": "/"})),
        (O::Cwd, json!({"cwd": "/etc"})),
        (
            O::Cwd,
            json!({"resume": {"params": {"native_session_id": "a", "cwd": "/etc"}}}),
        ),
        (O::Cwd, json!({"cwd": "."})),
        (
            O::AllowedDomains,
            json!({"allowed_domains": ["example.com", "elsewhere.example"]}),
        ),
    ];
    bypasses.extend(arguments.map(|arguments| (O::ExtraArgs, json!({"extra_args": arguments}))));
    bypasses.extend(variables.map(|name| (O::Env, json!({"env": {name: "1"}}))));
    for mode in modes {
        bypasses.push((O::Mode, json!({"mode": mode})));
        bypasses.push((O::PermissionMode, json!({"permission_mode": mode})));
    }
    bypasses
}

#[test]
fn no_session_of_any_profile_widens_unless_its_operator_lists_the_option() {
    for mut agent in agents() {
        agent.allowed_domains = Some(vec!["example.com".to_owned()]);
        for (option, members) in bypasses() {
            let live = matches!(
                option,
                SessionOption::Mode | SessionOption::PermissionMode | SessionOption::AllowedTools
            );
            let others = SessionOption::ALL
                .into_iter()
                .filter(|other| *other != option);
            for (may, expected) in [
                (SessionMay::NONE, Err(option)),
                (SessionMay::listed(others), Err(option)),
                (SessionMay::listed([option]), Ok(())),
                (SessionMay::All, Ok(())),
            ] {
                agent.session_may = may;
                assert_eq!(
                    opened(&agent, &members),
                    expected,
                    "{agent:?} at the start: {members}"
                );
                if live {
                    assert_eq!(
                        updated(&agent, &members),
                        expected,
                        "{agent:?} later: {members}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_directory_that_is_named_twice_counts_as_the_adapter_reads_it() {
    let line = r#"{"type":"session.start","session_id":"s","resume":{"params":{"cwd":"/nowhere","cwd":"/etc"}}}"#;
    let HostBody::SessionStart(start) = HostMessage::parse(line).unwrap().body else {
        unreachable!()
    };
    for agent in agents() {
        assert_eq!(
            open(&agent, &start).map(drop),
            Err(SessionOption::Cwd),
            "{agent:?}"
        );
    }
}

#[test]
fn every_session_may_set_what_is_harmless() {
    let here = tempfile::tempdir().unwrap();
    let inside = here.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    for mut agent in agents() {
        agent.command.work_dir = here.path().to_owned();
        agent.allowed_domains = Some(vec!["example.com".to_owned()]);
        let harmless = json!({
            "resume": {"native_session_id": "n"}, "user_id": "u", "task_id": "t", "run_id": "r", "role": "w", "iteration": 2,
            "variables": {"ticket": "42"}, "cwd": inside, "add_dirs": [here.path()], "model": "m",
            "reasoning_effort": "high", "temperature": 0.2, "system_prompt": "Be brief.",
            "system_prompt_mode": "append", "denied_tools": ["Bash"], "allowed_domains": ["example.com"],
            "max_turns": 3, "max_cost_usd": 1.5, "max_tokens": 9, "turn_timeout_ms": 9,
            "inactivity_timeout_ms": 9, "mode": "plan", "permission_mode": "",
            "mcp_servers": {}, "skills": [], "env": {}, "extra_args": [],
        });
        // Modes have other names for some.
        let mode = match (agent.id.as_str(), agent_facts(&agent.id)) {
            ("codex", _) => "read-only",
            (_, Some(facts)) => facts.asking[0][0].as_str(),
            (_, None) => "plan",
        };
        let mut harmless = harmless;
        harmless["mode"] = json!(mode);
        assert_eq!(opened(&agent, &harmless), Ok(()), "{agent:?}");
        let later = json!({"model": "m", "reasoning_effort": "low", "mode": harmless["mode"], "denied_tools": []});
        assert_eq!(updated(&agent, &later), Ok(()), "{agent:?}");
    }
}

#[test]
fn a_session_chooses_no_mode_that_asks_less_than_the_configured_one() {
    let table = [
        (
            "claude-code",
            "permission_mode",
            "",
            &["plan", "dontAsk", "default", "ask"][..],
            &["acceptEdits"][..],
        ),
        (
            "claude-code",
            "permission_mode",
            "plan",
            &["plan"],
            &["dontAsk", "default", "ask", "acceptEdits"],
        ),
        (
            "claude-code",
            "permission_mode",
            "acceptEdits",
            &["plan", "ask", "acceptEdits"],
            &["auto"],
        ),
        (
            "codex",
            "approval_mode",
            "untrusted",
            &["untrusted"],
            &["read-only", "on-request", "auto"],
        ),
        (
            "codex",
            "approval_mode",
            "never",
            &["never", "on-request", "read-only"],
            &["on-failure", "auto"],
        ),
        (
            "gemini-cli",
            "approval_mode",
            "plan",
            &["PLAN"],
            &["default", "yolo"],
        ),
        (
            "github-copilot",
            "",
            "",
            &["plan", "https://x/modes#agent"],
            &["https://x/modes#autopilot"],
        ),
        ("opencode", "mode", "plan", &["plan"], &["build", "mine"]),
        ("kilo-code", "mode", "mine", &["mine"], &["plan", "code"]),
        (
            "goose",
            "mode",
            "approve",
            &["chat", "approve"],
            &["smart_approve", "auto"],
        ),
        ("openhands", "", "", &["always-ask"], &["llm-approve"]),
        (
            "acp",
            "mode",
            "read-only",
            &["read-only", "plan"],
            &["default", "ask"],
        ),
    ];
    for (profile, key, configured, harmless, wider) in table {
        let mut agent = AgentConfig::built_in("a", profile);
        agent.config = Some(json!({key: configured}));
        for (words, fits) in [(harmless, true), (wider, false)] {
            for word in words {
                for option in [SessionOption::Mode, SessionOption::PermissionMode] {
                    let members = json!({option.name(): word});
                    let expected = if fits { Ok(()) } else { Err(option) };
                    assert_eq!(
                        opened(&agent, &members),
                        expected,
                        "{profile} {configured}: {members}"
                    );
                    assert_eq!(
                        updated(&agent, &members),
                        expected,
                        "{profile} {configured}: {members}"
                    );
                }
            }
        }
    }
}
