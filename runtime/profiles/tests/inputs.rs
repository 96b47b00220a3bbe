//! Inputs of agents in older systems, and their place in a host: each input has one, or is refused
//! by name.

#![allow(
    clippy::unwrap_used,
    reason = "these are tests, their helper functions too"
)]

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Place of an input.
#[derive(Debug, Clone, Copy)]
enum Home {
    /// A field of `session.start`.
    Start(&'static str),
    /// A field of another message to the adapter.
    Message(&'static str, &'static str),
    /// A field of a message from the adapter.
    Answer(&'static str, &'static str),
    /// A key of the agent in the configuration.
    Agent(&'static str),
    /// A key of the agent's sandbox.
    Sandbox(&'static str),
    /// A key of the profile's object, and the profile.
    Profile(&'static str, &'static str),
}

use Home::{Agent, Answer, Message, Profile, Sandbox, Start};

/// The inputs of a run in a batch.
const BATCH: [(&str, &[Home]); 23] = [
    ("Adapter", &[Agent("profile")]),
    (
        "Persona",
        &[Profile("claude-code", "agent"), Start("variables")],
    ),
    (
        "WorkspacePath",
        &[Start("cwd"), Profile("codex", "work_dir")],
    ),
    ("Prompt", &[Message("user.input", "content")]),
    (
        "SystemPrompt",
        &[
            Start("system_prompt"),
            Profile("gemini-cli", "system_prompt"),
        ],
    ),
    (
        "Timeout",
        &[
            Profile("claude-code", "turn_timeout"),
            Profile("generic-job", "max_runtime"),
        ],
    ),
    ("Env", &[Start("env"), Agent("env")]),
    // Of those that take none each refuses it; opencode, kilo and a server's template have it.
    (
        "Temperature",
        &[Start("temperature"), Profile("generic-http", "body")],
    ),
    (
        "AllowedTools",
        &[
            Start("allowed_tools"),
            Profile("claude-code", "allowed_tools"),
        ],
    ),
    (
        "DenyTools",
        &[
            Start("denied_tools"),
            Profile("claude-code", "disallowed_tools"),
        ],
    ),
    (
        "OutputFormat",
        &[
            Profile("gemini-cli", "transport"),
            Profile("generic-job", "answer"),
        ],
    ),
    ("Debug", &[Start("extra_args"), Answer("log", "stream")]),
    ("Model", &[Start("model"), Profile("pi", "model")]),
    (
        "SandboxEnabled",
        &[Agent("sandbox"), Profile("claude-code", "sandbox")],
    ),
    (
        "AllowedDomains",
        &[
            Start("allowed_domains"),
            Agent("allowed_domains"),
            Profile("claude-code", "allowed_domains"),
        ],
    ),
    ("EnvPassthrough", &[Agent("env_passthrough")]),
    ("SandboxBackend", &[Sandbox("backend")]),
    ("DockerImage", &[Sandbox("image")]),
    (
        "SkillCommandsDir",
        &[Profile("claude-code", "commands_dir")],
    ),
    (
        "ResolvedSkills",
        &[Start("skills"), Profile("kilo-code", "skills")],
    ),
    (
        "MaxConcurrentAgents",
        &[
            Start("variables"),
            Profile("claude-code", "prompt_template"),
        ],
    ),
    (
        "ContractPrompt",
        &[Start("variables"), Profile("codex", "prompt_template")],
    ),
    (
        "OnStreamEvent",
        &[Start("extensions"), Answer("tool.start", "tool")],
    ),
];

/// The inputs of an agent that is woken.
const WAKE: [(&str, &[Home]); 13] = [
    ("runId", &[Start("run_id")]),
    ("agent.id", &[Start("agent_id")]),
    ("agent.companyId, agent.name", &[Start("variables")]),
    ("agent.adapterType", &[Agent("profile")]),
    (
        "agent.adapterConfig",
        &[Agent("claude_code"), Agent("codex")],
    ),
    (
        "runtime.sessionId",
        &[Message("Resume", "native_session_id")],
    ),
    (
        "runtime.sessionParams",
        &[
            Message("Resume", "params"),
            Answer("turn.complete", "session_params"),
        ],
    ),
    (
        "runtime.sessionDisplayId",
        &[Answer("session.info", "display_id")],
    ),
    ("runtime.taskKey", &[Start("task_id")]),
    ("config", &[Agent("claude_code")]),
    ("context", &[Start("variables")]),
    (
        "onLog, onMeta",
        &[Answer("log", "stream"), Answer("log", "content")],
    ),
    ("authToken", &[Start("env"), Agent("env_passthrough")]),
];

/// The inputs of a session in a swarm.
const SWARM: [(&str, &[Home]); 14] = [
    ("prompt", &[Message("user.input", "content")]),
    ("systemPrompt", &[Start("system_prompt")]),
    ("model", &[Start("model")]),
    ("role", &[Start("role")]),
    ("agentId", &[Start("agent_id")]),
    ("taskId", &[Start("task_id")]),
    ("apiUrl", &[Start("variables"), Start("env")]),
    ("apiKey", &[Start("variables"), Start("env")]),
    ("cwd", &[Start("cwd")]),
    ("resumeSessionId", &[Start("resume")]),
    ("iteration", &[Start("iteration")]),
    ("logFile", &[Answer("log", "content")]),
    ("additionalArgs", &[Start("extra_args")]),
    ("env", &[Start("env")]),
];

fn json(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    serde_json::from_str(
        &fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    )
    .unwrap()
}

#[test]
fn every_input_has_a_home() {
    let to_adapter = json("../../protocol/schema/host-to-adapter.schema.json");
    let to_host = json("../../protocol/schema/adapter-to-host.schema.json");
    let config = json("../host/schema/config.schema.json");
    for (input, homes) in BATCH.iter().chain(&WAKE).chain(&SWARM) {
        for home in *homes {
            let (schema, name, member) = match *home {
                Start(field) => (&to_adapter, "session.start", field),
                Message(message, field) => (&to_adapter, message, field),
                Answer(message, field) => (&to_host, message, field),
                Agent(key) => (&config, "agent", key),
                Sandbox(key) => (&config, "SandboxKeys", key),
                Profile(profile, key) => (&config, profile, key),
            };
            assert!(has(schema, name, member), "{input}: there is no {home:?}");
        }
    }
}

/// Returns true if a type of a schema, or a message of it, has a member.
fn has(schema: &Value, name: &str, member: &str) -> bool {
    let mut messages = schema["oneOf"].as_array().into_iter().flatten();
    let message = messages.find(|message| message["properties"]["type"]["const"] == name);
    message.unwrap_or(&schema["$defs"][name])["properties"]
        .get(member)
        .is_some()
}
