//! The real agents, and how each is brought to speak to the fake model.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    hub::Step,
    place::{Credentials, Place},
};

mod acp;

/// When an agent asks for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    ForCommands,
    /// For commands that it takes for dangerous, such as one that deletes a folder.
    ForDangerousCommands,
    ToLeaveItsSandbox,
    /// Whatever is configured to run runs unasked.
    NoOne,
}

impl Asks {
    /// Returns the input that makes the model run a command for which the agent asks, if it asks at
    /// all.
    pub(crate) fn run(self, command: &str) -> String {
        match self {
            Self::ForCommands | Self::NoOne => format!("FAKE:bash:{command};;"),
            Self::ForDangerousCommands => format!("FAKE:bash:{};;", dangerous(command)),
            Self::ToLeaveItsSandbox => format!("FAKE:esc:{command};;"),
        }
    }

    /// The same of two at once.
    pub(crate) fn run_both(self, first: &str, second: &str) -> String {
        match self {
            Self::ForCommands | Self::NoOne => format!("FAKE:two:{first};;{second};;"),
            Self::ForDangerousCommands => {
                format!("FAKE:two:{};;{};;", dangerous(first), dangerous(second))
            }
            Self::ToLeaveItsSandbox => format!("FAKE:esctwo:{first};;{second};;"),
        }
    }
}

fn dangerous(command: &str) -> String {
    format!("{command}; rm -rf no-such-folder")
}

/// An inability of an agent: a scenario, its result instead, and the line of the facts that
/// documents it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cannot {
    pub(crate) scenario: &'static str,
    /// A part of how the scenario then fails.
    pub(crate) shows: &'static str,
    /// A part of a line of the fact sheet.
    pub(crate) line: &'static str,
}

impl Cannot {
    /// States that an agent cannot pass a scenario.
    const fn pass(scenario: &'static str, shows: &'static str, line: &'static str) -> Self {
        Self {
            scenario,
            shows,
            line,
        }
    }
}

/// A row: an agent behind a profile.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) profile: &'static str,
    /// The agent's own program.
    pub(crate) cli: &'static str,
    pub(crate) asks: Asks,
    /// The profile's key and object.
    pub(crate) configuration: fn(&Place) -> Option<(&'static str, Value)>,
    pub(crate) environment: fn(&Place) -> Vec<(&'static str, String)>,
    /// The variables that are credentials.
    pub(crate) secrets: &'static [&'static str],
    /// Writes the agent's own configuration.
    pub(crate) settle: fn(&Place, Credentials) -> Step,
    /// Further members of a `session.start`.
    pub(crate) session: fn() -> Value,
    /// True if text arrives in parts.
    pub(crate) streams: bool,
    /// A model that is not the configured one.
    pub(crate) other_model: &'static str,
    /// A mode that is not the configured one, and a text of a request in it.
    pub(crate) mode: Option<(&'static str, &'static str)>,
    pub(crate) cannot: &'static [Cannot],
}

/// Content of a turn that ended by a deadline.
const TIMEOUT: &str = "\"category\":\"timeout\"";

/// Said by its own documentation; the fact sheet does not speak of it.
const NO_PERMISSIONS: &str = "No permission popups";

/// Said by the fact sheet.
const ASKS_NO_ONE: &str = "asks its caller";

/// Said by the fact sheet.
const NO_STEER: Cannot = Cannot::pass(
    "steer",
    "takes no input",
    "a prompt that runs takes no further input",
);

/// Said by the fact sheet.
const IMAGE_BY_PATH: Cannot = Cannot::pass(
    "image",
    "a request with the image",
    "an image is named by its path",
);

/// Said by the fact sheet: what ends such a turn is `turn_timeout`.
const TRIES_WITHOUT_END: &str = "Retries may last without end (codex, with an unreachable server)";

/// Said by the fact sheet of kilo: what ends such a turn is a deadline.
const HANGS: &str = "session/new succeeds, session/prompt hangs (>60 s offline)";

/// Said by the fact sheet of kilo.
const UNNAMED_FAILURE: &str = "its failure does not mention credentials";

/// The agents of which the fact sheet knows nothing.
pub(crate) const UNDESCRIBED: [&str; 2] = ["opencode", "pi"];

const fn nothing(_: &Place, _: Credentials) -> Step {
    Ok(())
}

fn no_members() -> Value {
    json!({})
}

const CODEX: Agent = Agent {
    name: "codex",
    profile: "codex",
    cli: "codex",
    asks: Asks::ToLeaveItsSandbox,
    configuration: |_| Some(("codex", json!({"retry_timeout": "40s"}))),
    environment: codex,
    secrets: &["FAKE_KEY"],
    settle: codex_home,
    session: no_members,
    streams: true,
    other_model: "gpt-5.2",
    mode: Some(("auto", "workspace-write")),
    cannot: &[],
};

const GEMINI: Agent = Agent {
    name: "gemini-cli",
    profile: "gemini-cli",
    cli: "gemini",
    asks: Asks::ForCommands,
    configuration: |_| Some(("gemini", json!({"model": "gemini-2.5-flash"}))),
    environment: |place| {
        vec![
            ("GOOGLE_GEMINI_BASE_URL", place.model.base()),
            ("GEMINI_API_KEY", "dummy".to_owned()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
        ]
    },
    secrets: &["GEMINI_API_KEY"],
    settle: gemini_home,
    session: no_members,
    streams: true,
    other_model: "gemini-2.5-pro",
    mode: Some(("plan", "Plan Mode")),
    cannot: &[NO_STEER],
};

const COPILOT: Agent = Agent {
    name: "github-copilot",
    profile: "github-copilot",
    cli: "copilot",
    asks: Asks::ForCommands,
    configuration: |_| Some(("copilot", json!({}))),
    environment: |place| {
        vec![
            (
                "COPILOT_PROVIDER_BASE_URL",
                format!("{}/v1", place.model.base()),
            ),
            ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
            ("COPILOT_PROVIDER_API_KEY", "dummy".to_owned()),
            ("COPILOT_MODEL", "gpt-4.1".to_owned()),
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("COPILOT_AUTO_UPDATE", "false".to_owned()),
        ]
    },
    // Without a provider of one's own it wants a login.
    secrets: &[
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
    ],
    settle: nothing,
    session: no_members,
    streams: true,
    other_model: "gpt-5-mini",
    mode: Some(("plan", "plan")),
    cannot: &[NO_STEER],
};

const KILO: Agent = Agent {
    name: "kilo-code",
    profile: "kilo-code",
    cli: "kilo",
    asks: Asks::ForCommands,
    configuration: |_| Some(("kilo", json!({}))),
    environment: kilo,
    secrets: &[],
    settle: |place, credentials| forked_home(place, credentials, "home/.config/kilo/kilo.json"),
    session: no_members,
    streams: true,
    other_model: "fake/other-model",
    mode: Some(("plan", "plan_exit")),
    cannot: &[
        Cannot::pass("no credentials", TIMEOUT, HANGS),
        Cannot::pass("no login", TIMEOUT, HANGS),
        Cannot::pass("no login", "a failure soon", HANGS),
        Cannot::pass("model never there", "an end in time", HANGS),
        NO_STEER,
    ],
};

const OPENCODE: Agent = Agent {
    name: "opencode",
    profile: "opencode",
    cli: "opencode",
    asks: Asks::ForCommands,
    configuration: |_| Some(("opencode", json!({}))),
    environment: opencode,
    secrets: &[],
    settle: |place, credentials| {
        forked_home(place, credentials, "home/.config/opencode/opencode.json")
    },
    session: no_members,
    streams: true,
    other_model: "fake/other-model",
    mode: Some(("plan", "lan mode")),
    cannot: &[
        Cannot::pass("no credentials", "the category auth", UNNAMED_FAILURE),
        Cannot::pass("no login", "the category auth", UNNAMED_FAILURE),
        NO_STEER,
    ],
};

/// Agents run once per turn, which never ask.
const RUN_ONCE: &[Cannot] = &[
    Cannot::pass("allow", "one permission request", ASKS_NO_ONE),
    Cannot::pass("deny", "one permission request", ASKS_NO_ONE),
    Cannot::pass("changed command", "one permission request", ASKS_NO_ONE),
    NO_STEER,
    IMAGE_BY_PATH,
    Cannot::pass("MCP", "policy is never", ASKS_NO_ONE),
    Cannot::pass(
        "mode",
        "No such agent",
        "a mode is a custom agent of the user's own",
    ),
    Cannot::pass(
        "MCP",
        "no such tool",
        "reads MCP servers only from its own settings",
    ),
];

/// The same of kilo and opencode.
const FORKS_ONCE: &[Cannot] = &[
    RUN_ONCE[0],
    RUN_ONCE[1],
    RUN_ONCE[2],
    NO_STEER,
    IMAGE_BY_PATH,
    Cannot::pass("no credentials", "the category auth", UNNAMED_FAILURE),
    Cannot::pass("no login", "the category auth", UNNAMED_FAILURE),
];

/// A configuration with the transport that runs an agent once a turn.
fn once(mut own: Value) -> Value {
    own["transport"] = "json".into();
    own
}

/// Every agent, in the order of the rows.
pub(crate) const AGENTS: &[Agent] = &[
    Agent {
        name: "claude-code",
        profile: "claude-code",
        cli: "claude",
        asks: Asks::ForCommands,
        configuration: |_| Some(("claude_code", json!({"model": "claude-sonnet-4-5"}))),
        environment: claude,
        secrets: &["ANTHROPIC_API_KEY"],
        settle: nothing,
        session: no_members,
        streams: true,
        other_model: "claude-opus-5-5",
        mode: Some(("plan", "Plan mode is active")),
        cannot: &[],
    },
    CODEX,
    Agent {
        name: "codex: exec",
        streams: false,
        asks: Asks::NoOne,
        configuration: |_| {
            Some((
                "codex",
                json!({"transport": "exec", "sandbox_mode": "workspace-write", "retry_timeout": "40s"}),
            ))
        },
        cannot: RUN_ONCE,
        ..CODEX
    },
    GEMINI,
    Agent {
        name: "gemini-cli: json",
        asks: Asks::NoOne,
        configuration: |_| {
            let own =
                json!({"model": "gemini-2.5-flash", "approval_mode": "yolo", "dangerous": true});
            Some(("gemini", once(own)))
        },
        cannot: RUN_ONCE,
        ..GEMINI
    },
    COPILOT,
    Agent {
        name: "github-copilot: json",
        asks: Asks::NoOne,
        configuration: |_| {
            Some((
                "copilot",
                once(json!({"allowed_tools": ["shell", "write", "notes"]})),
            ))
        },
        cannot: RUN_ONCE,
        ..COPILOT
    },
    KILO,
    Agent {
        name: "kilo-code: json",
        streams: false,
        asks: Asks::NoOne,
        configuration: |_| Some(("kilo", once(json!({"dangerous": true})))),
        cannot: FORKS_ONCE,
        ..KILO
    },
    OPENCODE,
    Agent {
        name: "opencode: json",
        streams: false,
        asks: Asks::NoOne,
        configuration: |_| Some(("opencode", once(json!({"dangerous": true})))),
        cannot: FORKS_ONCE,
        ..OPENCODE
    },
    Agent {
        name: "pi",
        profile: "pi",
        cli: "pi",
        asks: Asks::NoOne,
        configuration: |_| Some(("pi", json!({}))),
        environment: |_| {
            vec![
                ("FAKE_KEY", "dummy".to_owned()),
                ("PI_OFFLINE", "1".to_owned()),
            ]
        },
        secrets: &["FAKE_KEY"],
        settle: pi_home,
        session: no_members,
        streams: true,
        other_model: "other-model",
        mode: None,
        cannot: &[
            Cannot::pass("allow", "one permission request", NO_PERMISSIONS),
            Cannot::pass("deny", "one permission request", NO_PERMISSIONS),
            Cannot::pass("changed command", "one permission request", NO_PERMISSIONS),
            Cannot::pass("mode", "a mode to choose", "No plan mode"),
        ],
    },
    acp::CLAUDE,
    acp::CODEX,
    acp::QWEN,
    acp::KIMI,
    acp::VIBE,
    acp::HERMES,
];

fn claude(place: &Place) -> Vec<(&'static str, String)> {
    vec![
        ("ANTHROPIC_BASE_URL", place.model.base()),
        ("ANTHROPIC_API_KEY", "dummy".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "2".to_owned()),
    ]
}

fn codex(place: &Place) -> Vec<(&'static str, String)> {
    let home = place.home().join(".codex").to_string_lossy().into_owned();
    vec![("CODEX_HOME", home), ("FAKE_KEY", "dummy".to_owned())]
}

fn codex_home(place: &Place, credentials: Credentials) -> Step {
    if credentials == Credentials::NoLogin {
        return place.write("home/.codex/config.toml", "");
    }
    let base = place.model.base();
    place.write(
        "home/.codex/config.toml",
        &format!(
            r#"model = "gpt-5.5"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.fake]
name = "fake"
base_url = "{base}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[analytics]
enabled = false
"#
        ),
    )
}

fn gemini_home(place: &Place, _: Credentials) -> Step {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        // More attempts wait for minutes.
        "general": {"enableAutoUpdate": false, "retryFetchErrors": false, "maxAttempts": 2},
        "privacy": {"usageStatisticsEnabled": false},
    });
    place.write("home/.gemini/settings.json", &settings.to_string())
}

fn kilo(_: &Place) -> Vec<(&'static str, String)> {
    let off = [
        "KILO_DISABLE_AUTOUPDATE",
        "KILO_DISABLE_MODELS_FETCH",
        "KILO_DISABLE_DEFAULT_PLUGINS",
        "KILO_DISABLE_LSP_DOWNLOAD",
        "KILO_DISABLE_CODEBASE_INDEXING",
        "KILO_DISABLE_PRESENCE",
        "KILO_DISABLE_SESSION_INGEST",
        "KILO_DISABLE_SHARE",
        "KILO_NO_DAEMON",
    ];
    let off = off.map(|name| (name, "1".to_owned()));
    off.into_iter()
        .chain([("KILO_TELEMETRY_LEVEL", "off".to_owned())])
        .collect()
}

fn opencode(_: &Place) -> Vec<(&'static str, String)> {
    let off = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_SHARE",
    ];
    off.map(|name| (name, "1".to_owned())).to_vec()
}

/// The configuration of kilo and opencode, which have one origin.
fn forked_home(place: &Place, credentials: Credentials, file: &str) -> Step {
    if credentials != Credentials::There {
        return Ok(());
    }
    let settings = json!({
        "autoupdate": false, "share": "disabled", "disabled_providers": ["kilo", "apertis", "opencode"],
        // What a user allows the agent for himself allows nothing here.
        "permission": {"bash": "allow", "edit": "allow"},
        "model": "fake/fake-model", "small_model": "fake/fake-model",
        "provider": {"fake": {
            "npm": "@ai-sdk/openai-compatible", "name": "fake",
            "options": {"baseURL": format!("{}/v1", place.model.base()), "apiKey": "dummy"},
            "models": {"fake-model": {
                "name": "Fake", "tool_call": true, "attachment": true,
                "modalities": {"input": ["text", "image"], "output": ["text"]},
                "limit": {"context": 200_000, "output": 8000}, "cost": {"input": 3, "output": 15},
            }, "other-model": {"name": "Other", "tool_call": true}},
        }},
    });
    place.write(file, &settings.to_string())
}

fn pi_home(place: &Place, credentials: Credentials) -> Step {
    if credentials != Credentials::There {
        return Ok(());
    }
    let models = json!({"providers": {"fake": {
        "baseUrl": format!("{}/v1", place.model.base()), "api": "openai-completions", "apiKey": "FAKE_KEY",
        "models": [
            {"id": "fake-model", "name": "Fake", "contextWindow": 200_000, "maxTokens": 8000, "input": ["text", "image"]},
            {"id": "other-model", "name": "Other", "contextWindow": 200_000, "maxTokens": 8000},
        ],
    }}});
    let settings = json!({"defaultProvider": "fake", "defaultModel": "fake-model"});
    place.write("home/.pi/agent/models.json", &models.to_string())?;
    place.write("home/.pi/agent/settings.json", &settings.to_string())
}

/// The installation of the agents, as `npm install` left it.
///
/// # Panics
/// When `TRUNKLINE_CLIS` does not name one.
pub(crate) fn installation() -> PathBuf {
    let named = std::env::var_os("TRUNKLINE_CLIS")
        .expect("TRUNKLINE_CLIS names the folder of an npm install");
    let modules = Path::new(&named).join("node_modules");
    assert!(
        modules.is_dir(),
        "TRUNKLINE_CLIS has no node_modules: {}",
        modules.display()
    );
    std::path::absolute(modules).expect("it has a path")
}

/// Returns the search path of programs: the installation's first, and its node.
pub(crate) fn search_path() -> OsString {
    let modules = installation();
    let own = [
        modules.join("node/bin"),
        modules.join(".bin"),
        modules.with_file_name("bin"),
    ];
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let usual: Vec<_> = std::env::split_paths(&usual).collect();
    std::env::join_paths(own.into_iter().chain(usual)).expect("no path has a colon")
}

/// Returns the version that an agent prints, if it is installed.
pub(crate) fn version(agent: &Agent) -> Option<String> {
    let home = tempfile::tempdir().ok()?;
    let path = search_path();
    let of_installation = std::env::split_paths(&path)
        .take(3)
        .map(|folder| folder.join(agent.cli));
    let mut command = Command::new(
        of_installation
            .into_iter()
            .find(|program| program.exists())?,
    );
    command
        .arg("--version")
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path());
    let said = command.stdin(Stdio::null()).output().ok()?;
    // One of them prints it on stderr.
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let digits = said
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(digits.trim_end_matches('.').to_owned())
}
