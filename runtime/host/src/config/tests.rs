//! Whole files, good and bad.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use trunkline_protocol::tool_loop::ToolLoopAction;

use super::document::MAX_FILE;
use super::*;
use crate::policy::{Policy, Unmatched};

#[track_caller]
fn parse(text: &str) -> Config {
    Config::parse(text.as_bytes(), Path::new("/conf")).unwrap()
}

fn discover(
    explicit: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Config, ConfigError> {
    Config::discover(explicit, variable, &|_, _| Ok(()))
}

/// The error as it is shown, without the words that every one begins with.
#[track_caller]
fn error(text: &str) -> String {
    let error = Config::parse(text.as_bytes(), Path::new("/conf"))
        .unwrap_err()
        .to_string();
    error
        .strip_prefix("read the configuration: ")
        .unwrap()
        .to_owned()
}

/// The error of a file with one agent that has these members more.
#[track_caller]
fn agent_error(members: &str) -> String {
    error(&format!(
        r#"{{"agents":[{{"id":"a","external":{{"command":"x"}},{members}}}]}}"#
    ))
}

#[track_caller]
fn agent(members: &str) -> AgentConfig {
    let config = parse(&format!(
        r#"{{"agents":[{{"id":"a","external":{{"command":"x"}},{members}}}]}}"#
    ));
    config.agents.into_iter().next().unwrap()
}

const PUBLISHED: &str = r#"{
  "agents": [
    {"id": "custom-agent", "name": "Custom Agent", "profile": "external",
     "external": {"command": "/usr/local/bin/my-adapter", "args": ["--mode", "jsonl"],
                  "work_dir": "/opt/agents", "env": {"LOG_LEVEL": "debug"}}},
    {"id": "my-agent", "name": "My CLI Agent", "profile": "generic-cli",
     "cli": {"command": "/usr/local/bin/my-agent", "args": ["--interactive", "--no-color"],
             "work_dir": "/home/user/projects", "env": {"AGENT_MODE": "chat"}, "spawn_policy": "per-session"}},
    {"id": "batch-runner", "name": "Batch Runner", "profile": "generic-job",
     "job": {"command": "/usr/local/bin/batch-job", "args": ["--output-json"], "max_runtime": "5m"}},
    {"id": "llm-proxy", "name": "LLM Proxy", "profile": "generic-http",
     "http": {"base_url": "https://api.example.com/v1/chat", "headers": {"Authorization": "Bearer s3cret"}}},
    {"id": "claude", "name": "Claude Code", "profile": "claude-code",
     "claude_code": {"command": "claude", "work_dir": "/home/user/projects", "model": "sonnet", "max_turns": 50}},
    {"id": "copilot", "name": "GitHub Copilot", "profile": "github-copilot", "copilot": {"denied_tools": ["x"]}},
    {"id": "codex", "name": "OpenAI Codex", "profile": "codex", "codex": {"sandbox_mode": "read-only"}},
    {"id": "kilo", "name": "Kilo Code", "profile": "kilo-code", "kilo": {"env": {"KILO_PROVIDER": "x"}}}
  ]
}"#;

#[test]
fn the_published_form_loads() {
    let config = parse(PUBLISHED);
    let first = &config.agents[0];
    assert_eq!(
        (first.id.as_str(), first.name.as_str()),
        ("custom-agent", "Custom Agent")
    );
    assert_eq!(first.profile, Profile::External);
    let expected = Command::new("/usr/local/bin/my-adapter")
        .args(["--mode", "jsonl"])
        .work_dir("/opt/agents")
        .env("LOG_LEVEL", "debug");
    assert_eq!(first.command, expected);
    assert_eq!(first.config, None);

    let claude = config.agent("claude").unwrap();
    assert_eq!(claude.profile, Profile::BuiltIn("claude-code".into()));
    assert_eq!(
        claude.command,
        Command::default().work_dir("/home/user/projects")
    );
    assert_eq!(claude.config.as_ref().unwrap()["max_turns"], json!(50));
    assert_eq!(config.agents.len(), 8);
    assert_eq!(config.first_choice().unwrap().id, "custom-agent");
    assert!(config.notices.is_empty());
}

#[test]
fn what_is_absent_has_its_default() {
    let read = agent(r#""profile": "external""#);
    assert_eq!(read, AgentConfig::external("a", "x"));
    assert_eq!(read.name, "a");
    assert_eq!(read.timeouts.start, Duration::from_secs(120));
    assert_eq!(read.timeouts.turn, Some(Duration::from_secs(1800)));
    assert_eq!(
        (read.timeouts.inactivity, read.timeouts.permission),
        (None, None)
    );
    assert_eq!(read.timeouts.stop, Duration::from_secs(10));
    let seconds = |s| Duration::from_secs(s);
    let shutdown = StopSteps {
        close: seconds(1),
        eof: seconds(5),
        term: seconds(3),
    };
    assert_eq!(read.timeouts.shutdown, shutdown);
    assert_eq!(read.limits.max_line, 16 << 20);
    assert_eq!(read.limits.stderr_tail, 64 << 10);
    assert_eq!(read.limits.max_file_bytes, 10 << 20);
    assert_eq!(
        (read.limits.queued_inputs, read.limits.outbox),
        (64, 64 << 20)
    );
    assert_eq!(
        (read.limits.max_sessions, read.limits.max_turn_output),
        (None, None)
    );
    assert_eq!(
        (read.limits.max_output_rate, read.limits.output_burst),
        (None, 16 << 20)
    );
    assert_eq!(read.limits.max_open_requests, 4096);
    assert_eq!(
        (read.on_adapter_exit, read.unenforced),
        (OnAdapterExit::Restart, Unenforced::Refuse)
    );
    assert_eq!(read.permission, Policy::default());
    assert!(!read.inherit_env && !read.sdk && read.pass_credentials);
    assert_eq!(read.session_may, SessionMay::NONE);
    assert_eq!(read.extensions, None);
}

#[test]
fn every_key_of_an_agent_applies() {
    let read = agent(
        r#""name": "A", "description": "d", "config": {"k": 1}, "extensions": ["turns", "control"],
           "inherit_env": true, "env_passthrough": ["API_KEY"], "pass_credentials": false,
           "on_adapter_exit": "close", "standby": 1,
           "permission": {"default": "deny", "allow": ["Read"], "deny": ["Bash(rm*)"]},
           "start_timeout": "5s", "turn_timeout": 0, "inactivity_timeout": "1h30m", "stop_timeout": 2.5,
           "stall_after": "10m", "ping_after": "20s", "tool_loop": "end",
           "permission_timeout": "10m", "shutdown": {"close": "0", "eof": "1s", "term": "2s"},
           "max_line": "2MiB", "stderr_tail": 1024, "max_file_bytes": "1MB", "queued_inputs": 1,
           "outbox": "1KiB", "max_sessions": 3, "max_turn_output": "5MiB",
           "max_output_rate": "1MiB", "output_burst": "2MiB", "max_open_requests": 16,
           "restart": {"base": "1s", "cap": "1m", "failures": 2, "window": "5m", "retry": "10s"},
           "file_roots": ["/data", "out"], "allowed_dirs": ["/w"], "allowed_domains": ["example.com"],
           "sandbox": {"backend": "bubblewrap"},
           "unenforced": "allow", "session_may": ["env", "mcp_servers", "model"], "network_options": ["title"],
           "sdk": true"#,
    );
    let seconds = Duration::from_secs;
    let mut expected = AgentConfig::external("a", "x");
    expected.name = "A".into();
    expected.description = Some("d".into());
    expected.config = Some(json!({"k": 1}));
    expected.extensions = Some(vec!["turns".into(), "control".into()]);
    expected.inherit_env = true;
    expected.env_passthrough = vec!["API_KEY".into()];
    expected.pass_credentials = false;
    expected.on_adapter_exit = OnAdapterExit::Close;
    expected.standby = true;
    expected.permission = Policy::new(Unmatched::Deny, ["Read"], ["Bash(rm*)"]).unwrap();
    expected.tool_loop = ToolLoopAction::End;
    expected.timeouts = Timeouts {
        start: seconds(5),
        turn: None,
        inactivity: Some(seconds(5400)),
        stall: Some(seconds(600)),
        ping: Some(seconds(20)),
        stop: Duration::from_millis(2500),
        permission: Some(seconds(600)),
        shutdown: StopSteps {
            close: seconds(0),
            eof: seconds(1),
            term: seconds(2),
        },
    };
    expected.limits = Limits {
        max_line: 2 << 20,
        stderr_tail: 1024,
        max_file_bytes: 1_000_000,
        queued_inputs: 1,
        outbox: 1024,
        max_sessions: Some(3),
        max_turn_output: Some(5 << 20),
        max_output_rate: Some(1 << 20),
        output_burst: 2 << 20,
        max_open_requests: 16,
    };
    expected.restart = Restart {
        base: seconds(1),
        cap: seconds(60),
        failures: 2,
        window: seconds(300),
        retry: seconds(10),
    };
    expected.file_roots = vec!["/data".into(), "/conf/out".into()];
    expected.allowed_dirs = vec!["/w".into()];
    expected.allowed_domains = Some(vec!["example.com".into()]);
    let mut sandbox = Sandbox::new(Backend::Bubblewrap);
    sandbox.network = Network::Allow(vec!["example.com".into()]);
    expected.sandbox = Some(sandbox);
    expected.unenforced = Unenforced::Allow;
    expected.session_may = SessionMay::listed([SessionOption::Env, SessionOption::McpServers]);
    expected.network_options = NetworkOptions::listed([NetworkOption::Title]);
    expected.sdk = true;
    assert_eq!(read, expected);
}

#[test]
fn runtime_sets_what_agents_do_not() {
    let config = parse(
        r#"{"runtime": {"max_sessions": 7, "turn_timeout": "1m", "max_file_bytes": 5, "state_dir": "state",
                        "policy": "policy.json", "journal": "journal", "journal_sync": "full",
                        "journal_max_age": "90days", "journal_max_bytes": "1GiB", "journal_max_sessions": 5,
                        "spool_dir": "/spool", "mailbox": "1MiB", "mailboxes": "2MiB", "backlog": "3MiB",
                        "spool": "4GiB", "spools": "5GiB", "session_files": "6MiB", "host_files": "7MiB",
                        "permission": {"default": "deny", "allow": ["Read"], "deny": ["Bash"]}},
            "agents": [{"id": "a", "profile": "echo"},
                       {"id": "b", "profile": "Echo", "turn_timeout": "2m", "max_sessions": 1,
                        "permission": {"default": "ask", "allow": [], "deny": ["Write"]}}],
            "default_agent": "b"}"#,
    );
    assert_eq!(config.max_sessions, Some(7));
    assert_eq!(config.state_dir.as_deref(), Some(Path::new("/conf/state")));
    assert_eq!(config.spool_dir.as_deref(), Some(Path::new("/spool")));
    assert_eq!(
        config.policy.as_deref(),
        Some(Path::new("/conf/policy.json"))
    );
    assert_eq!(config.journal.as_deref(), Some(Path::new("/conf/journal")));
    assert_eq!(config.journal_sync, JournalSync::Full);
    let limits = |max_age, max_bytes, max_sessions| JournalLimits {
        max_age,
        max_bytes,
        max_sessions,
    };
    let days = |days: u64| Some(Duration::from_secs(days * 24 * 60 * 60));
    assert_eq!(
        config.journal_limits,
        limits(days(90), Some(1 << 30), Some(5))
    );
    assert_eq!(
        Config::default().journal_limits,
        limits(days(30), None, None)
    );
    let forever = parse(
        r#"{"runtime": {"journal_max_age": 0, "journal_max_bytes": 0, "journal_max_sessions": 0},
            "agents": [{"id": "a", "profile": "echo"}]}"#,
    );
    assert_eq!(
        (forever.journal_limits, forever.journal_sync),
        (limits(None, None, None), JournalSync::Normal)
    );
    let buffers = Buffers {
        mailbox: 1 << 20,
        mailboxes: 2 << 20,
        backlog: 3 << 20,
        spool: 4 << 30,
        spools: 5 << 30,
        session_files: 6 << 20,
        host_files: 7 << 20,
    };
    assert_eq!(config.buffers, buffers);
    let [a, b] = config.agents.as_slice() else {
        panic!()
    };
    assert_eq!(a.timeouts.turn, Some(Duration::from_secs(60)));
    assert_eq!(b.timeouts.turn, Some(Duration::from_secs(120)));
    assert_eq!((a.limits.max_file_bytes, b.limits.max_file_bytes), (5, 5));
    assert_eq!(
        (a.limits.max_sessions, b.limits.max_sessions),
        (None, Some(1))
    );
    assert_eq!(
        a.permission,
        Policy::new(Unmatched::Deny, ["Read"], ["Bash"]).unwrap()
    );
    assert_eq!(
        b.permission,
        Policy::new(Unmatched::Ask, [""; 0], ["Bash", "Write"]).unwrap()
    );
    assert_eq!(config.first_choice().unwrap().id, "b");
}

#[test]
fn a_whole_amurg_file_loads_and_says_what_it_does_not_use() {
    let config = parse(
        r#"{"hub": {"url": "wss://hub.example.com/ws", "token": "s3cret", "reconnect_interval": "2s"},
            "runtime": {"id": "r1", "org_id": "default", "max_sessions": 10, "default_timeout": "20m",
                        "max_output_bytes": 1048576, "idle_timeout": "30s", "log_level": "info",
                        "file_storage_path": "./amurg-files", "max_file_bytes": 2048,
                        "allow_remote_permission_skip": false},
            "agents": [{"id": "c", "name": "C", "profile": "claude-code", "claude_code": {"model": "sonnet"},
                        "tags": {"team": "x"},
                        "limits": {"max_sessions": 2, "session_timeout": "1h", "max_output_bytes": 5,
                                   "idle_timeout": "30s"},
                        "security": {"allowed_paths": ["/w"], "denied_paths": ["/etc"], "allowed_tools": ["Read"],
                                     "disallowed_tools": ["Bash(rm *)"], "permission_mode": "strict", "cwd": "/w",
                                     "env_whitelist": ["API_KEY"]}}]}"#,
    );
    assert_eq!(config.max_sessions, Some(10));
    let agent = &config.agents[0];
    assert_eq!(agent.timeouts.turn, Some(Duration::from_secs(1200)));
    assert_eq!(agent.timeouts.inactivity, None);
    assert_eq!(agent.limits.max_file_bytes, 2048);
    assert_eq!(
        (agent.limits.max_sessions, agent.limits.max_turn_output),
        (Some(2), Some(5))
    );
    assert_eq!(agent.command.work_dir, Path::new("/w"));
    assert_eq!(agent.env_passthrough, ["API_KEY"]);
    let named: Vec<_> = config
        .notices
        .iter()
        .map(|notice| notice.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(
        named,
        [
            "hub",
            "runtime.id",
            "runtime.org_id",
            "runtime.idle_timeout",
            "runtime.log_level",
            "runtime.file_storage_path",
            "runtime.allow_remote_permission_skip",
            "agents[0].security.denied_paths",
            "agents[0].tags",
            "agents[0].limits.session_timeout",
            "agents[0].limits.idle_timeout",
            "agents[0].security.allowed_paths",
        ]
    );
    let expected = json!({
        "model": "sonnet", "permission_mode": "default", "allowed_tools": ["Read"], "disallowed_tools": ["Bash(rm *)"],
    });
    assert_eq!(agent.config.as_ref(), Some(&expected));
    assert!(
        config
            .notices
            .iter()
            .all(|notice| !notice.contains("s3cret"))
    );
}

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    assert_eq!(
        error(r#"{"agents":[{"id":"a","profile":"echo"},{"id":"b","external":{"comand":"x"}}]}"#),
        "agents[1].external.comand: unknown key; did you mean `command`?"
    );
    assert_eq!(
        error(r#"{"agent":[]}"#),
        "agent: unknown key; did you mean `agents`?"
    );
    assert_eq!(
        agent_error(r#""turn_timout":1"#),
        "agents[0].turn_timout: unknown key; did you mean `turn_timeout`?"
    );
    assert_eq!(
        agent_error(r#""claude":{}"#),
        "agents[0].claude: unknown key; did you mean `claude_code`?"
    );
    assert_eq!(agent_error(r#""zzz":1"#), "agents[0].zzz: unknown key");
    assert_eq!(
        agent_error(r#""shutdown":{"kill":1}"#),
        "agents[0].shutdown.kill: unknown key"
    );
    assert_eq!(
        agent_error(r#""permission":{"alow":[]}"#),
        "agents[0].permission.alow: unknown key; did you mean `allow`?"
    );
}

#[test]
fn misplaced_keys_are_told_where_they_belong() {
    assert_eq!(
        error(r#"{"agents":[],"max_sessions":1}"#),
        "max_sessions: unknown key; it belongs in `runtime`"
    );
    assert_eq!(
        error(r#"{"id":"a"}"#),
        "id: unknown key; it belongs in `runtime`"
    );
    assert_eq!(
        agent_error(r#""command":"x""#),
        "agents[0].command: unknown key; it belongs in `external`"
    );
    assert_eq!(
        agent_error(r#""spool_dir":"x""#),
        "agents[0].spool_dir: unknown key; it belongs in `runtime`"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"a","external":{"command":"x","turn_timeout":1}}]}"#),
        "agents[0].external.turn_timeout: unknown key; it belongs in the agent itself"
    );
}

#[test]
fn wrong_types_are_named() {
    for (text, expected) in [
        ("[]", "expected an object, found an array"),
        (
            r#"{"agents":{}}"#,
            "agents: expected an array, found an object",
        ),
        (
            r#"{"agents":["a"]}"#,
            "agents[0]: expected an object, found a string",
        ),
        (
            r#"{"agents":[{"id":1}]}"#,
            "agents[0].id: expected a string, found a number",
        ),
        (
            r#"{"agents":[{"id":"a","external":{"command":"x","args":["a",1]}}]}"#,
            "agents[0].external.args[1]: expected a string, found a number",
        ),
        (
            r#"{"agents":[{"id":"a","external":{"command":"x","env":{"K":true}}}]}"#,
            "agents[0].external.env.K: expected a string, {\"from_env\": \"NAME\"} or {\"from_file\": \"PATH\"}, found a boolean",
        ),
        (
            r#"{"agents":[{"id":"a","profile":"echo","echo":"x"}]}"#,
            "agents[0].echo: expected an object, found a string",
        ),
        (
            r#"{"runtime":1,"agents":[]}"#,
            "runtime: expected an object, found a number",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    for (members, expected) in [
        (
            r#""turn_timeout":true"#,
            "turn_timeout: expected a duration such as \"30s\" or a number of seconds, found a boolean",
        ),
        (
            r#""outbox":[]"#,
            "outbox: expected a number of bytes or a string such as \"16MiB\", found an array",
        ),
        (
            r#""inherit_env":"yes""#,
            "inherit_env: expected a boolean, found a string",
        ),
        (
            r#""on_adapter_exit":1"#,
            "on_adapter_exit: expected \"restart\" or \"close\", found a number",
        ),
        (
            r#""config":[]"#,
            "config: expected an object, found an array",
        ),
    ] {
        assert_eq!(
            agent_error(members),
            format!("agents[0].{expected}"),
            "{members}"
        );
    }
}

#[test]
fn missing_keys_are_named() {
    assert_eq!(error("{}"), "agents: it is missing");
    assert_eq!(
        error(r#"{"agents":[]}"#),
        "agents: it is empty; a host needs an agent"
    );
    assert_eq!(
        error(r#"{"agents":[{"profile":"echo"}]}"#),
        "agents[0].id: it is missing"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":null}]}"#),
        "agents[0].id: it is missing"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"a"}]}"#),
        "agents[0].profile: it is missing"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"a","profile":"external"}]}"#),
        "agents[0].external: it is missing"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"a","external":{}}]}"#),
        "agents[0].external.command: it is missing"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"a","external":{"command":""}}]}"#),
        "agents[0].external.command: it is empty"
    );
}

#[test]
fn an_unknown_profile_with_a_command_is_a_plain_program() {
    for (members, profile, config) in [
        (
            r#""command":"x","args":["-v"]"#,
            "generic-job",
            json!({ "command": "x", "args": ["-v"] }),
        ),
        (
            r#""job":{"command":"x","max_runtime":"1m"}"#,
            "generic-job",
            json!({ "command": "x", "max_runtime": "1m" }),
        ),
        (
            r#""cli":{"command":"x","sentinel":"END"}"#,
            "generic-cli",
            json!({ "command": "x", "sentinel": "END" }),
        ),
        (
            r#""config":{"command":"x"}"#,
            "generic-job",
            json!({ "command": "x" }),
        ),
    ] {
        let read = parse(&format!(
            r#"{{"agents":[{{"id":"a","profile":"codx",{members}}}]}}"#
        ));
        let agent = &read.agents[0];
        assert_eq!(
            (agent.profile.name(), agent.config.as_ref(), agent.sdk),
            (profile, Some(&config), true)
        );
        let notice = format!(
            "`agents[0].profile`: `codx` is not a built-in profile, so its `command` runs as a plain program, by \
             `{profile}`; did you mean `codex`?"
        );
        assert_eq!(read.notices, [notice]);
    }
    for members in [
        "",
        r#","command":"""#,
        r#","args":["x"],"config":{"command":"x"}"#,
        r#","job":{}"#,
        r#","codex":{"command":"x"}"#,
        r#","external":{"command":"x"}"#,
    ] {
        let refused = error(&format!(
            r#"{{"agents":[{{"id":"a","profile":"codx"{members}}}]}}"#
        ));
        assert!(
            refused.starts_with("agents[0].profile: `codx` is not a profile; "),
            "{members}: {refused}"
        );
    }
    let refused = error(r#"{"agents":[{"id":"a","profile":"codex","command":"x"}]}"#);
    assert!(refused.starts_with("agents[0].command: "), "{refused}");
}

#[test]
fn values_that_cannot_be_are_refused() {
    for (members, expected) in [
        (
            r#""cli":{}, "profile":"external""#,
            "cli: an agent of profile `external` reads `external`, not `cli`",
        ),
        (
            r#""profile":"codex""#,
            "external: an agent of profile `codex` reads `codex`, not `external`",
        ),
        (
            r#""extensions":["turn"]"#,
            "extensions[0]: `turn` is not an extension; did you mean `turns`?",
        ),
        (
            r#""on_adapter_exit":"die""#,
            "on_adapter_exit: `die` is not \"restart\" or \"close\"",
        ),
        (r#""start_timeout":0"#, "start_timeout: it must be above 0"),
        (r#""max_line":"1KiB""#, "max_line: 1024 is below 1048576"),
        (
            r#""queued_inputs":-1"#,
            "queued_inputs: -1 is not a whole number of at least 1",
        ),
        (
            r#""queued_inputs":1.5"#,
            "queued_inputs: 1.5 is not a whole number of at least 1",
        ),
        (
            r#""restart":{"cap":"1ms"}"#,
            "restart: `cap` is below `base`",
        ),
        (
            r#""env_passthrough":["A=B"]"#,
            "env_passthrough[0]: it is not the name of a variable",
        ),
        (
            r#""permission":{"default":"allow"}"#,
            "permission.default: approval is never a default; to allow everything write \"allow\": [\"*\"]",
        ),
        (
            r#""permission":{"deny":["Bash(x"]}"#,
            "permission.deny[0]: `(` has no `)` at the end",
        ),
        (r#""file_roots":[""]"#, "file_roots[0]: it is empty"),
    ] {
        assert_eq!(
            agent_error(members),
            format!("agents[0].{expected}"),
            "{members}"
        );
    }
    assert_eq!(
        agent_error(r#""profile":"claude""#),
        format!(
            "agents[0].profile: `claude` is not a profile; did you mean `claude-code`? profiles: {}; agents: a",
            Profile::names().join(", ")
        )
    );
    assert!(
        agent_error(r#""turn_timeout":"soon""#)
            .starts_with("agents[0].turn_timeout: `soon` is not a duration")
    );
    assert!(agent_error(r#""outbox":"1M""#).starts_with("agents[0].outbox: `1M` is not a size"));
    assert_eq!(
        error(r#"{"agents":[{"id":"a","profile":"echo","echo":{},"config":{}}]}"#),
        "agents[0].config: an agent of profile `echo` has its configuration in `echo`; keep one"
    );
    assert_eq!(
        error(r#"{"runtime":{"turn_timeout":1,"default_timeout":1},"agents":[]}"#),
        "runtime.default_timeout: it is Amurg's name of `turn_timeout`, which is set too; keep one"
    );
}

#[test]
fn ids_are_unique_and_the_default_is_one_of_them() {
    assert_eq!(
        error(r#"{"agents":[{"id":"a","profile":"echo"},{"id":"a","profile":"mock"}]}"#),
        "agents[1].id: agents[0] has the id `a` too"
    );
    assert_eq!(
        error(r#"{"agents":[{"id":"claude","profile":"echo"}],"default_agent":"cluade"}"#),
        "default_agent: no agent has this id; did you mean `claude`?"
    );
}

#[test]
fn syntax_errors_have_line_and_column() {
    assert_eq!(
        error("{\n  \"agents\": [,]\n}"),
        "line 2, column 14: expected value"
    );
    assert_eq!(
        error(" "),
        "line 1, column 1: the file is empty; the least is `{}`"
    );
    assert_eq!(
        error("agents:"),
        "line 1, column 1: expected value; a configuration is a JSON object, which begins with `{`"
    );
    assert!(error(&"[".repeat(1000)).contains("recursion limit"));
}

#[test]
fn null_is_absent_and_a_byte_order_mark_is_skipped() {
    let text = "\u{feff}{\"agents\":[{\"id\":\"a\",\"profile\":\"echo\",\"name\":null,\"turn_timeout\":null}],\"hub\":null}";
    let config = parse(text);
    assert_eq!(config.agents, [AgentConfig::built_in("a", "echo")]);
    assert!(config.notices.is_empty());
}

#[test]
fn debug_shows_no_secrets() {
    let config = parse(
        r#"{"agents":[{"id":"a","external":{"command":"x","env":{"API_KEY":"s3cret"}},"config":{"token":"s3cret"}}]}"#,
    );
    let shown = format!("{config:?}");
    assert!(
        shown.contains("API_KEY") && shown.contains("token") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[test]
fn values_of_variables_may_be_elsewhere() {
    let config = parse(
        r#"{"agents":[{"id":"a","external":{"command":"x","env":{"A":"text","B":{"from_env":"OTHER"},
                        "C":{"from_file":"secrets/c"},"D":{"from_file":"/d"}}}},
                       {"id":"b","profile":"echo","env":{"A":{"from_env":"B"}}},
                       {"id":"c","external":{"command":"x"},"env":{"A":"x"}}]}"#,
    );
    let env = &config.agents[0].command.env;
    assert_eq!(env["A"], EnvValue::Text("text".into()));
    assert_eq!(env["B"], EnvValue::FromEnv("OTHER".into()));
    assert_eq!(env["C"], EnvValue::FromFile("/conf/secrets/c".into()));
    assert_eq!(env["D"], EnvValue::FromFile("/d".into()));
    assert_eq!(
        config.agents[1].command.env["A"],
        EnvValue::FromEnv("B".into())
    );
    assert_eq!(config.agents[2].command, Command::new("x").env("A", "x"));
    for (value, expected) in [
        ("{}", ": name one place, `from_env` or `from_file`"),
        (
            r#"{"from_env":"A","from_file":"b"}"#,
            ": name one place, `from_env` or `from_file`",
        ),
        (
            r#"{"from_flie":"b"}"#,
            ".from_flie: unknown key; did you mean `from_file`?",
        ),
        (
            r#"{"from_env":"A=B"}"#,
            ".from_env: it is not the name of a variable",
        ),
        (r#"{"from_file":""}"#, ".from_file: it is empty"),
        (
            r#"{"from_file":1}"#,
            ".from_file: expected a string, found a number",
        ),
    ] {
        assert_eq!(
            agent_error(&format!(r#""env":{{"K":{value}}}"#)),
            format!("agents[0].env.K{expected}")
        );
    }
    assert_eq!(
        error(
            r#"{"agents":[{"id":"a","external":{"command":"x","env":{"A":"b"}},"env":{"C":"d"}}]}"#
        ),
        "agents[0].env: `external.env` is set too; keep one"
    );
}

#[test]
fn every_profile_has_its_key() {
    for key in Profile::keys() {
        let profile = Profile::of_key(key).unwrap();
        assert_eq!(profile.key(), Some(key));
        assert_eq!(Profile::of_name(profile.name()), Some(profile));
    }
}

#[test]
fn a_file_is_found_read_and_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trunkline.json");
    let nothing = |_: &str| None;
    let missing = discover(Some(&path), nothing).unwrap_err();
    assert_eq!(missing.file(), Some(path.as_path()));
    assert!(matches!(missing.problem(), Problem::Unreadable(_)));

    fs::write(
        &path,
        r#"{"agents":[{"id":"a","profile":"echo","file_roots":["out"]}]}"#,
    )
    .unwrap();
    let config = discover(Some(&path), nothing).unwrap();
    assert_eq!(config.source, Source::Explicit(path.clone()));
    assert_eq!(config.agents[0].file_roots, [folder.path().join("out")]);

    let variable = |name: &str| (name == FILE_VARIABLE).then(|| path.clone().into_os_string());
    assert_eq!(
        discover(None, variable).unwrap().source,
        Source::Environment(path.clone())
    );

    fs::write(&path, r#"{"agentz":[]}"#).unwrap();
    let shown = discover(Some(&path), nothing).unwrap_err().to_string();
    let expected = format!(
        "read the configuration {}: agentz: unknown key; did you mean `agents`?",
        path.display()
    );
    assert_eq!(shown, expected);

    fs::write(&path, vec![b' '; MAX_FILE as usize + 1]).unwrap();
    assert!(matches!(
        Config::read(&path).unwrap_err().problem(),
        Problem::TooLarge { .. }
    ));
}

#[test]
fn the_users_file_is_found_and_its_absence_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    let variable =
        |name: &str| (name == "XDG_CONFIG_HOME").then(|| folder.path().as_os_str().to_owned());
    assert_eq!(discover(None, variable).unwrap(), Config::default());
    assert_eq!(
        Config::default().agents,
        [AgentConfig::built_in("echo", "echo")]
    );

    let path = folder.path().join("trunkline/trunkline.json");
    fs::create_dir(folder.path().join("trunkline")).unwrap();
    fs::write(&path, r#"{"agents":[{"id":"a","profile":"mock"}]}"#).unwrap();
    assert_eq!(
        discover(None, variable).unwrap().source,
        Source::UserDirectory(path)
    );
}

#[test]
fn what_a_session_may_set_is_a_list_or_all() {
    let may = |more: &str| agent(&format!(r#""profile": "external", {more}"#)).session_may;
    assert_eq!(may(r#""session_may": "all""#), SessionMay::All);
    assert_eq!(may(r#""session_may": []"#), SessionMay::NONE);
    assert_eq!(
        may(r#""session_may": ["cwd"]"#),
        SessionMay::listed([SessionOption::Cwd])
    );
    assert_eq!(
        may(r#""allow_session_override": true"#),
        SessionMay::All,
        "the older key"
    );
    assert_eq!(may(r#""allow_session_override": false"#), SessionMay::NONE);
    for (more, why) in [
        (
            r#""session_may": ["evn"]"#,
            "`evn` is not an option of a session; did you mean `env`?",
        ),
        (
            r#""session_may": ["zzzzzzzz"]"#,
            "there are cwd, add_dirs, ",
        ),
        (r#""session_may": "env""#, "`env` is not \"all\""),
        (r#""session_may": true"#, "session_may"),
        (
            r#""session_may": [], "allow_session_override": true"#,
            "keep one",
        ),
    ] {
        let error = agent_error(more);
        assert!(error.contains(why), "{more}: {error}");
    }
}

#[test]
fn what_a_network_may_set_is_a_list_that_names_nothing_of_this_machine() {
    let listed = |more: &str| agent(&format!(r#""profile": "external"{more}"#)).network_options;
    let default = listed("");
    assert_eq!(
        default.names().collect::<Vec<_>>(),
        [
            "model",
            "mode",
            "reasoning_effort",
            "title",
            "output_schema"
        ]
    );
    assert_eq!(
        listed(r#", "network_options": []"#),
        NetworkOptions::listed([]),
        "narrower, too"
    );
    let two = NetworkOptions::listed([NetworkOption::DeniedTools, NetworkOption::Model]);
    assert_eq!(
        listed(r#", "network_options": ["model", "denied_tools"]"#),
        two
    );
    assert!(two.has("model") && !two.has("mode") && !two.has("env"));
    for (more, why) in [
        (r#""network_options": ["modle"]"#, "did you mean `model`?"),
        (
            r#""network_options": ["model", "evn"]"#,
            "`evn` is no option that a network may set; ",
        ),
        (r#""network_options": "all""#, "network_options"),
    ] {
        let error = agent_error(more);
        assert!(error.contains(why), "{more}: {error}");
    }
    // What a host takes of its own hub is more.
    for never in SessionOption::ALL
        .map(SessionOption::name)
        .into_iter()
        .chain(["resume", "variables", "exchange_dir"])
    {
        let read = NetworkOption::ALL
            .into_iter()
            .any(|option| option.name() == never);
        assert_eq!(
            read,
            ["mode", "permission_mode", "allowed_domains"].contains(&never),
            "{never}"
        );
    }
}

#[test]
fn an_empty_file_counts_as_none_unless_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trunkline/trunkline.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "").unwrap();
    let variable = |name: &str| (name == "XDG_CONFIG_HOME").then(|| folder.path().into());
    assert_eq!(discover(None, variable).unwrap().source, Source::BuiltIn);
    assert!(discover(Some(&file), variable).is_err());
    // A FIFO would keep the start waiting for a writer.
    fs::remove_file(&file).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let said = discover(None, variable).unwrap_err().to_string();
    assert!(said.ends_with("it is not a regular file"), "{said}");
}

#[test]
fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    for (text, key) in [
        (
            r#"{"agents": [{"id": "a", "profile": "echo"}], "agents": []}"#,
            "agents",
        ),
        (
            r#"{"agents": [{"id": "a", "profile": "echo", "permission": {"deny": ["Bash"], "deny": []}}]}"#,
            "deny",
        ),
    ] {
        assert!(
            error(text).contains(&format!("the key `{key}` occurs twice; keep one")),
            "{text}"
        );
    }
}

#[test]
fn an_array_is_no_object_and_null_makes_no_key_known() {
    for (members, expected) in [
        (
            r#""shutdown":["1s"]"#,
            "shutdown: expected an object, found an array",
        ),
        (
            r#""permission":[]"#,
            "permission: expected an object, found an array",
        ),
        (
            r#""sandbox":[]"#,
            "sandbox: expected an object or \"none\", found an array",
        ),
        (
            r#""limits":[1]"#,
            "limits: expected an object, found an array",
        ),
        (r#""env":[]"#, "env: expected an object, found an array"),
        (
            r#""turn_timout":null"#,
            "turn_timout: unknown key; did you mean `turn_timeout`?",
        ),
    ] {
        assert_eq!(
            agent_error(members),
            format!("agents[0].{expected}"),
            "{members}"
        );
    }
    assert_eq!(
        error(r#"{"agents":[{"id":"a","external":["x"]}]}"#),
        "agents[0].external: expected an object, found an array"
    );
}

#[test]
fn an_error_shows_no_value_of_another_type() {
    for members in [
        r#""env":"s3cret""#,
        r#""env":{"KEY":["s3cret"]}"#,
        r#""env":{"KEY":{"from_env":"KEY=s3cret"}}"#,
        r#""env_passthrough":["KEY=s3cret"]"#,
        r#""env_passthrough":"s3cret""#,
        r#""config":"s3cret, expected a map""#,
        r#""inherit_env":"s3cret""#,
        r#""restart":"s3cret""#,
        r#""sandbox":"s3cret""#,
        r#""queued_inputs":"s3cret""#,
        r#""permission":{"allow":"s3cret"}"#,
    ] {
        let said = agent_error(members);
        assert!(
            said.starts_with("agents[0].") && !said.contains("s3cret"),
            "{said}"
        );
    }
}

#[test]
fn webhooks_have_names_addresses_and_secrets_from_places() {
    let file = |hooks: &str| {
        format!(r#"{{"agents":[{{"id":"a","external":{{"command":"x"}}}}],"webhooks":{hooks}}}"#)
    };
    let config = parse(&file(
        r#"[{"name":"one","url":"https://x.example/hidden","secret":"hidden"},
            {"name":"two","url":"http://10.0.0.1","secret":{"from_file":"key"},"events":["session","turn.started"],
             "agents":["a"],"insecure":true}]"#,
    ));
    let [one, two] = &config.webhooks[..] else {
        panic!("{:?}", config.webhooks)
    };
    assert_eq!(one.events, ["request", "turn.ended", "session.failed"]);
    assert_eq!((&one.agents, one.is_insecure), (&None, false));
    assert_eq!(two.secret, EnvValue::FromFile("/conf/key".into()));
    assert_eq!(two.events, ["session", "turn.started"]);
    assert!(!format!("{config:?}").contains("hidden"));
    for (hooks, why) in [
        (
            r#"[{"url":"https://x","secret":"s"}]"#,
            "webhooks[0].name: ",
        ),
        (r#"[{"name":"n","secret":"s"}]"#, "webhooks[0].url: "),
        (
            r#"[{"name":"n","url":"https://x"}]"#,
            "webhooks[0].secret: ",
        ),
        (
            r#"[{"name":"n","url":"https://x","secret":"s"},{"name":"n","url":"https://x","secret":"s"}]"#,
            "webhooks[1].name: another webhook has the name `n` too",
        ),
        (
            r#"[{"name":"n","url":"https://x","secret":"s","events":["turn.end"]}]"#,
            "webhooks[0].events[0]: `turn.end` is not an event; did you mean `turn.ended`?",
        ),
        (
            r#"[{"name":"n","url":"https://x","secret":"s","agents":["b"]}]"#,
            "webhooks[0].agents: no agent has this id",
        ),
        (
            r#"[{"name":"n","uri":"https://x","secret":"s"}]"#,
            "webhooks[0].uri: ",
        ),
    ] {
        let error = error(&file(hooks));
        assert!(error.starts_with(why), "{error}");
    }
}
