//! Agents that are described by a file only, and two that the profile `acp` drives by their
//! commands.

use serde_json::json;

use super::{
    Agent, Asks, Cannot, NO_STEER, TRIES_WITHOUT_END, claude, codex, codex_home, no_members,
    nothing,
};
use crate::real::{
    hub::Step,
    place::{Credentials, Place},
};

pub(super) const CLAUDE: Agent = Agent {
    name: "acp: claude-agent-acp",
    profile: "acp",
    cli: "claude-agent-acp",
    asks: Asks::ForCommands,
    configuration: |_| Some(("acp", json!({"command": "claude-agent-acp"}))),
    environment: |place| {
        let mut variables = claude(place);
        variables.push(("ANTHROPIC_MODEL", "claude-sonnet-4-5".to_owned()));
        variables
    },
    secrets: &["ANTHROPIC_API_KEY"],
    settle: nothing,
    session: no_members,
    streams: true,
    other_model: "claude-opus-5-5",
    mode: Some(("plan", "Plan mode is active")),
    cannot: &[NO_STEER],
};

pub(super) const CODEX: Agent = Agent {
    name: "acp: codex-acp",
    profile: "acp",
    cli: "codex-acp",
    asks: Asks::ToLeaveItsSandbox,
    configuration: |_| Some(("acp", json!({"command": "codex-acp"}))),
    environment: codex,
    secrets: &["FAKE_KEY"],
    settle: codex_home,
    // Its default mode lets a model judge, instead of the user.
    session: || json!({"mode": "read-only"}),
    streams: true,
    other_model: "gpt-6-sol",
    mode: Some(("workspace-write", "workspace-write")),
    cannot: &[
        NO_STEER,
        Cannot {
            scenario: "model gone",
            shows: "an end in time",
            line: TRIES_WITHOUT_END,
        },
        Cannot {
            scenario: "model never there",
            shows: "an end in time",
            line: TRIES_WITHOUT_END,
        },
    ],
};

pub(super) const QWEN: Agent = Agent {
    name: "qwen-code",
    profile: "qwen-code",
    cli: "qwen",
    asks: Asks::ForCommands,
    configuration: |_| None,
    environment: |_| vec![("FAKE_KEY", "dummy".to_owned())],
    secrets: &["FAKE_KEY"],
    settle: qwen_home,
    session: no_members,
    streams: true,
    other_model: "other-model",
    mode: Some(("plan", "Plan mode")),
    cannot: &[NO_STEER],
};

/// Said by the fact sheet of kimi.
const IN_SILENCE: &str = "a failure of the model ends the turn well and in silence";

/// The same.
const CUT_LOOKS_WHOLE: &str = "an answer that was cut off looks whole";

pub(super) const KIMI: Agent = Agent {
    name: "kimi-code",
    profile: "kimi-code",
    cli: "kimi",
    asks: Asks::ForCommands,
    configuration: |_| None,
    environment: |_| vec![("KIMI_CODE_NO_AUTO_UPDATE", "1".to_owned())],
    secrets: &[],
    settle: kimi_home,
    session: no_members,
    streams: true,
    other_model: "other-model",
    mode: Some(("plan", "Plan mode")),
    cannot: &[
        NO_STEER,
        Cannot {
            scenario: "429",
            shows: "the category rate_limit",
            line: IN_SILENCE,
        },
        Cannot {
            scenario: "529",
            shows: "the category overloaded",
            line: IN_SILENCE,
        },
        Cannot {
            scenario: "cut",
            shows: "status completed",
            line: CUT_LOOKS_WHOLE,
        },
        Cannot {
            scenario: "cut once",
            shows: "an answer that is whole",
            line: CUT_LOOKS_WHOLE,
        },
    ],
};

/// Said by the fact sheet of vibe.
const REJECTED_FOR_GOOD: &str = "a key that was rejected once is not tried again";

/// The same.
const SAYS_AGAIN: &str = "repeats the text before the cut";

pub(super) const VIBE: Agent = Agent {
    name: "mistral-vibe",
    profile: "mistral-vibe",
    cli: "vibe-acp",
    asks: Asks::ForCommands,
    configuration: |_| None,
    environment: |_| vec![("FAKE_KEY", "dummy".to_owned())],
    secrets: &["FAKE_KEY"],
    settle: vibe_home,
    session: no_members,
    streams: true,
    other_model: "other-model",
    mode: Some(("accept-edits", "FAKE:text")),
    cannot: &[
        NO_STEER,
        Cannot {
            scenario: "401",
            shows: "credential was rejected",
            line: REJECTED_FOR_GOOD,
        },
        Cannot {
            scenario: "cut",
            shows: "partial partial",
            line: SAYS_AGAIN,
        },
    ],
};

/// Said by the fact sheet of hermes.
const PUTS_OFF: &str = "a prompt that comes while a cancelled one ends is put off";

pub(super) const HERMES: Agent = Agent {
    name: "hermes-agent",
    profile: "hermes-agent",
    cli: "hermes-acp",
    asks: Asks::ForDangerousCommands,
    configuration: |_| None,
    environment: |_| vec![("FAKE_KEY", "dummy".to_owned())],
    secrets: &[],
    settle: hermes_home,
    session: no_members,
    streams: true,
    other_model: "custom:other-model",
    mode: Some(("accept_edits", "FAKE:text")),
    cannot: &[
        NO_STEER,
        Cannot {
            scenario: "stop in a tool",
            shows: "Queued for the next turn",
            line: PUTS_OFF,
        },
    ],
};

fn qwen_home(place: &Place, credentials: Credentials) -> Step {
    let base = format!("{}/v1", place.model.base());
    let model = |id| {
        json!({
            "id": id, "envKey": "FAKE_KEY", "baseUrl": base, "generationConfig": {"maxRetries": 1, "modalities": {"image": true}},
        })
    };
    let mut settings = json!({
        "general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},
    });
    if credentials != Credentials::NoLogin {
        settings["security"] = json!({"auth": {"selectedType": "openai"}});
        settings["model"] = json!({"name": "fake-model"});
        settings["modelProviders"] = json!({"openai": [model("fake-model"), model("other-model")]});
    }
    place.write("home/.qwen/settings.json", &settings.to_string())
}

fn kimi_home(place: &Place, credentials: Credentials) -> Step {
    if credentials != Credentials::There {
        return Ok(());
    }
    let base = place.model.base();
    place.write(
        "home/.kimi-code/config.toml",
        &format!(
            r#"default_model = "fake"
[providers.fake]
type = "openai"
base_url = "{base}/v1"
api_key = "dummy"
[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 200000
capabilities = ["image_in"]
[models.other-model]
provider = "fake"
model = "other-model"
max_context_size = 200000
[loop_control]
max_attempts_per_step = 2
"#
        ),
    )
}

fn vibe_home(place: &Place, credentials: Credentials) -> Step {
    if credentials == Credentials::NoLogin {
        return Ok(());
    }
    let base = place.model.base();
    place.write(
        "home/.vibe/config.toml",
        &format!(
            r#"active_model = "fake"
enable_telemetry = false
enable_auto_update = false
enable_update_checks = false
api_retry_max_elapsed_time = 10.0
[[providers]]
name = "fake"
api_base = "{base}/v1"
api_key_env_var = "FAKE_KEY"
[[models]]
name = "fake-model"
provider = "fake"
alias = "fake"
supports_images = true
[[models]]
name = "other-model"
provider = "fake"
alias = "other-model"
"#
        ),
    )
}

fn hermes_home(place: &Place, credentials: Credentials) -> Step {
    if credentials != Credentials::There {
        return Ok(());
    }
    let base = place.model.base();
    place.write(
        "home/.hermes/config.yaml",
        &format!(
            "model:\n  provider: custom\n  default: fake-model\n  base_url: {base}/v1\n  key_env: FAKE_KEY\n  supports_vision: true\nagent:\n  api_max_retries: 1\n"
        ),
    )
}
