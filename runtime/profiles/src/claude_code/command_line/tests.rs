use serde_json::json;
use trunkline_sdk::protocol::SystemPromptMode;
use trunkline_sdk::{Json, SessionStart};

use super::*;

const ID: &str = "11111111-2222-4333-8444-555555555555";
const ALWAYS: &str = "-p --input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio";

fn settings(text: serde_json::Value) -> ClaudeCode {
    serde_json::from_value(text).unwrap()
}

fn try_line(
    configured: serde_json::Value,
    start: SessionStart,
    version: Option<Version>,
    begin: ResumePoint<'_>,
    files: &Files<'_>,
) -> Result<Launch, Error> {
    let settings = settings(configured);
    let options = Options::new(&settings.common(), start).unwrap();
    launch(&settings, &options, version, begin, files, |name| {
        name == "DISABLE_AUTOUPDATER"
    })
}

/// The arguments after those that are always there.
fn line(configured: serde_json::Value, start: SessionStart) -> String {
    let launch = try_line(
        configured,
        start,
        None,
        ResumePoint::New(ID),
        &Files::default(),
    )
    .unwrap();
    let args: Vec<_> = launch
        .args
        .iter()
        .map(|arg| arg.to_string_lossy())
        .collect();
    let args = args.join(" ");
    let rest = args
        .split_once(&format!(
            "{ALWAYS} --include-partial-messages --session-id {ID}"
        ))
        .unwrap();
    format!("{}{}", rest.0, rest.1).trim().to_owned()
}

fn some(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn options_become_arguments() {
    let none = SessionStart::default;
    for (configured, start, expected) in [
        (json!({}), none(), ""),
        (
            json!({"model": "sonnet", "args": ["--bare"]}),
            none(),
            "--bare  --model sonnet",
        ),
        (
            json!({"model": "sonnet", "model_aliases": {"fast": "haiku"}}),
            SessionStart {
                model: Some("fast".into()),
                ..none()
            },
            "--model haiku",
        ),
        (
            json!({"permission_mode": "plan"}),
            none(),
            "--permission-mode plan",
        ),
        (
            json!({"permission_mode": "plan"}),
            SessionStart {
                permission_mode: Some("ask".into()),
                ..none()
            },
            "--permission-mode default",
        ),
        (
            json!({}),
            SessionStart {
                mode: Some("acceptEdits".into()),
                ..none()
            },
            "--permission-mode acceptEdits",
        ),
        (
            json!({"max_turns": 9}),
            SessionStart {
                max_turns: Some(3),
                ..none()
            },
            "--max-turns 3",
        ),
        (
            json!({"max_turns": 3}),
            SessionStart {
                max_turns: Some(9),
                ..none()
            },
            "--max-turns 3",
        ),
        (
            json!({"max_budget_usd": 2.5}),
            none(),
            "--max-budget-usd 2.5",
        ),
        (
            json!({"max_budget_usd": 2.5}),
            SessionStart {
                max_cost_usd: Some(0.25),
                ..none()
            },
            "--max-budget-usd 0.25",
        ),
        (
            json!({"allowed_tools": ["Bash(git *)", "Read", "--evil"], "disallowed_tools": ["Write"]}),
            SessionStart {
                denied_tools: some(&["WebFetch"]),
                ..none()
            },
            "--allowedTools Bash(git *) Read --disallowedTools Write WebFetch",
        ),
        (
            json!({"deny_todo_write": true}),
            none(),
            "--disallowedTools TodoWrite",
        ),
        (
            json!({"deny_todo_write": true, "disallowed_tools": ["TodoWrite", "Write"]}),
            none(),
            "--disallowedTools TodoWrite Write",
        ),
        (
            json!({"sandbox": true, "disallowed_tools": ["WebFetch"]}),
            SessionStart {
                allowed_domains: some(&["a.org"]),
                ..none()
            },
            "--strict-mcp-config --disallowedTools WebFetch WebSearch",
        ),
        (
            json!({}),
            SessionStart {
                allowed_tools: some(&["Bash(git *)", "Read"]),
                ..none()
            },
            "--tools Bash,Read",
        ),
        (
            json!({"add_dirs": ["/srv/lib"]}),
            SessionStart {
                add_dirs: some(&["/srv/more"]),
                ..none()
            },
            "--add-dir /srv/lib /srv/more",
        ),
        (
            json!({"strict_mcp_config": true, "setting_sources": ["user", "local"], "settings": "/s.json",
                "fallback_model": "haiku"}),
            none(),
            "--fallback-model haiku --settings /s.json --setting-sources user,local --strict-mcp-config",
        ),
        (json!({"project_mcp": true}), none(), "--strict-mcp-config"),
        (
            json!({}),
            SessionStart {
                output_schema: Json::from_serialize(&json!({"type": "object"})).ok(),
                ..none()
            },
            r#"--json-schema {"type":"object"}"#,
        ),
        (
            json!({"dangerous": true}),
            none(),
            "--dangerously-skip-permissions",
        ),
        (
            json!({"permission_mode": "dangerously-skip-permissions"}),
            none(),
            "--dangerously-skip-permissions",
        ),
        (
            json!({"dangerous": true}),
            SessionStart {
                permission_mode: Some("plan".into()),
                ..none()
            },
            "--permission-mode plan",
        ),
    ] {
        assert_eq!(line(configured.clone(), start), expected, "{configured}");
    }
}

#[test]
fn a_resumed_session_names_its_id_and_old_versions_get_no_new_options() {
    let at = |version, configured, begin| {
        let start = SessionStart::default();
        let launch = try_line(configured, start, Some(version), begin, &Files::default()).unwrap();
        launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let partial = "--include-partial-messages";
    let sources = json!({"setting_sources": ["user"]});
    for version in [Version(1, 0, 122), Version(2, 1, 197)] {
        assert_eq!(
            at(version, sources.clone(), ResumePoint::Resume(ID)),
            format!("{ALWAYS} {partial} --resume {ID} --setting-sources user")
        );
    }
    assert_eq!(
        at(Version(1, 0, 108), json!({}), ResumePoint::New(ID)),
        format!("{ALWAYS} --session-id {ID}")
    );
}

#[test]
fn what_an_old_version_cannot_keep_to_is_told() {
    let none = SessionStart::default;
    for (configured, start, wanted, last, first) in [
        (
            json!({"max_budget_usd": 1.0}),
            none(),
            "`max_cost_usd`",
            Version(2, 0, 29),
            Version(2, 0, 30),
        ),
        (
            json!({"setting_sources": ["user"]}),
            none(),
            "`setting_sources`",
            Version(1, 0, 120),
            Version(1, 0, 122),
        ),
        (
            json!({}),
            SessionStart {
                allowed_tools: some(&["Read"]),
                ..none()
            },
            "`allowed_tools`",
            Version(2, 0, 30),
            Version(2, 0, 31),
        ),
    ] {
        let at = |version| {
            try_line(
                configured.clone(),
                start.clone(),
                Some(version),
                ResumePoint::New(ID),
                &Files::default(),
            )
        };
        assert!(at(first).is_ok(), "{wanted}");
        let error = at(last).unwrap_err().to_string();
        let expected = format!("claude {last} is too old for {wanted}: version {first}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn what_skips_permissions_must_be_configured() {
    let refused = |configured, start| {
        let error = try_line(
            configured,
            start,
            None,
            ResumePoint::New(ID),
            &Files::default(),
        )
        .unwrap_err();
        assert_eq!(error.status(), trunkline_sdk::Status::Refused);
        error.to_string()
    };
    let start = SessionStart::default;
    let mode = |mode: &str| SessionStart {
        permission_mode: Some(mode.into()),
        ..start()
    };
    assert!(refused(json!({}), mode("bypassPermissions")).contains("dangerous"));
    assert!(
        refused(json!({"permission_mode": "bypassPermissions"}), start()).contains("dangerous")
    );
    assert!(refused(json!({}), mode("yolo")).contains("no permission mode \"yolo\""));
    for args in [
        &["--dangerously-skip-permissions"][..],
        &["--permission-mode=bypassPermissions"],
    ] {
        let start = SessionStart {
            extra_args: some(args),
            ..start()
        };
        assert!(refused(json!({}), start).contains("dangerous"));
    }
}

#[test]
fn files_and_prompts_have_their_options() {
    let mcp = Path::new("/tmp/mcp.json");
    let skills = Path::new("/tmp/skills");
    for (mode, length, expected) in [
        (None, 3, "--append-system-prompt ppp"),
        (Some(SystemPromptMode::Replace), 3, "--system-prompt ppp"),
        (None, 200_000, "--append-system-prompt-file "),
        (
            Some(SystemPromptMode::Replace),
            200_000,
            "--system-prompt-file ",
        ),
    ] {
        let prompt = Carrier::for_prompt(&"p".repeat(length)).unwrap();
        let files = Files {
            mcp: Some(mcp),
            prompt: Some(&prompt),
            folder: Some(skills),
            ..Files::default()
        };
        let start = SessionStart {
            system_prompt_mode: mode,
            ..SessionStart::default()
        };
        let launch =
            try_line(json!({}), start.clone(), None, ResumePoint::New(ID), &files).unwrap();
        let args: Vec<_> = launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy())
            .collect();
        let args = args.join(" ");
        assert!(args.contains(expected), "{args}");
        assert!(
            args.contains("--mcp-config /tmp/mcp.json") && args.contains("--add-dir /tmp/skills"),
            "{args}"
        );
        assert!(args.len() < 100_000);
        // Only what is appended is long since taken in two ways.
        let old = try_line(
            json!({}),
            start,
            Some(Version(2, 0, 31)),
            ResumePoint::New(ID),
            &files,
        );
        assert_eq!(old.is_err(), length > 100_000 && mode.is_none());
    }
}

#[test]
fn the_environment_keeps_it_quiet_and_hides_another_claude() {
    let configured = json!({"reasoning_effort": "low", "env": {"CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "0"}});
    let start = SessionStart {
        reasoning_effort: Some("high".into()),
        ..SessionStart::default()
    };
    let launch = try_line(
        configured,
        start,
        None,
        ResumePoint::New(ID),
        &Files::default(),
    )
    .unwrap();
    let env: Vec<_> = launch
        .env
        .iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    assert_eq!(
        env,
        [
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
            "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK=0",
            "CLAUDE_CODE_EFFORT_LEVEL=high",
        ]
    );
    assert!(launch.without.iter().any(|name| name == "CLAUDECODE"));
    let start = SessionStart::default();
    let launch = try_line(
        json!({"background_tasks": true}),
        start,
        None,
        ResumePoint::New(ID),
        &Files::default(),
    );
    assert!(
        !launch
            .unwrap()
            .env
            .keys()
            .any(|name| name == "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS")
    );
}

#[test]
fn each_mode_of_the_schema_is_known() {
    for mode in super::super::config::PERMISSION_MODES {
        let configured = json!({"permission_mode": mode, "dangerous": true});
        let settings: ClaudeCode = serde_json::from_value(configured).unwrap();
        let options = Options::configured(&settings.common());
        assert!(permission_mode(&settings, &options).is_ok(), "{mode}");
    }
}

#[test]
fn a_schema_needs_an_object_of_a_bounded_length_and_a_recent_version() {
    let start = |schema: &str| SessionStart {
        output_schema: Json::from_serialize(
            &serde_json::from_str::<serde_json::Value>(schema).unwrap(),
        )
        .ok(),
        ..SessionStart::default()
    };
    let options = |schema: &str| Options::new(&settings(json!({})).common(), start(schema));
    assert!(options("{}").is_ok());
    let long = format!("{{\"title\":\"{}\"}}", "x".repeat(64 * 1024));
    for (schema, message) in [
        ("[]", "must be an object"),
        ("null", "must be an object"),
        (long.as_str(), "has 65548 bytes; at most 65536"),
    ] {
        let error = options(schema).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
    let old = try_line(
        json!({}),
        start("{}"),
        Some(Version(2, 0, 44)),
        ResumePoint::New(ID),
        &Files::default(),
    );
    let error = old.err().unwrap().to_string();
    assert!(error.contains("too old for `output_schema`"), "{error}");
}
