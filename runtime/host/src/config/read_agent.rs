//! One entry of `agents`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agent::{AgentConfig, Command, OnAdapterExit, Unenforced};
use super::env_value::EnvValue;
use super::error::ConfigError;
use super::limits::{none_if_zero, sessions};
use super::profile::Profile;
use super::quantity::shown;
use super::read_file::{Context, RUNTIME_KEYS, Shared};
use super::reader::{Field, Reader, nearest};
use super::session_may::SessionMay;
use crate::policy::{Pattern, Policy, Unmatched};

pub(super) const AGENT_KEYS: &[&str] = &[
    "id",
    "name",
    "profile",
    "description",
    "config",
    "extensions",
    "inherit_env",
    "env",
    "env_passthrough",
    "containment",
    "resources",
    "sandbox",
    "on_adapter_exit",
    "permission",
    "start_timeout",
    "turn_timeout",
    "inactivity_timeout",
    "stop_timeout",
    "permission_timeout",
    "shutdown",
    "max_line",
    "stderr_tail",
    "max_file_bytes",
    "queued_inputs",
    "outbox",
    "max_sessions",
    "max_turn_output",
    "restart",
    "file_roots",
    "allowed_dirs",
    "allowed_domains",
    "unenforced",
    "session_may",
    "allow_session_override",
    "sdk",
    // One for each profile.
    "external",
    "echo",
    "replay",
    "mock",
    "cli",
    "job",
    "http",
    "claude_code",
    "copilot",
    "codex",
    "kilo",
    "gemini",
    "opencode",
    "pi",
    "acp",
    // Amurg's.
    "tags",
    "limits",
    "security",
];

const COMMAND_KEYS: &[&str] = &["command", "args", "work_dir", "env"];
const PLACE_KEYS: &[&str] = &["from_env", "from_file"];
const PERMISSION_KEYS: &[&str] = &["default", "allow", "deny"];
const AMURG_LIMIT_KEYS: &[&str] = &["max_sessions", "session_timeout", "max_output_bytes", "idle_timeout"];
const AMURG_SECURITY_KEYS: &[&str] =
    &["allowed_paths", "denied_paths", "allowed_tools", "permission_mode", "cwd", "env_whitelist"];

/// The names of the extensions ([ext.5]).
const EXTENSIONS: &[&str] =
    &["turns", "events", "usage", "resume", "options", "questions", "flow", "control"];

/// The longest id of an agent, in bytes.
const MAX_ID: usize = 256;

pub(super) fn read_agent(
    field: &Field<'_>,
    shared: &Shared,
    context: &mut Context<'_>,
) -> Result<AgentConfig, ConfigError> {
    let agent = field.object(AGENT_KEYS, &[("`external`", COMMAND_KEYS), ("`runtime`", RUNTIME_KEYS)])?;
    let id = read_id(&agent.require("id")?)?;
    let profile = read_profile(&agent, context)?;
    let (command, config) = read_program(&agent, &profile, context.folder)?;
    let built_in = profile != Profile::External;

    let mut read = AgentConfig::new(id, profile, command);
    read.config = config;
    read.sdk = built_in;
    read.timeouts = shared.timeouts.clone();
    read.limits = shared.limits.clone();
    read.restart = shared.restart;
    read.permission = shared.permission.clone();

    agent.set("name", &mut read.name, Field::filled_string)?;
    agent.set("description", &mut read.description, |f| f.string().map(Some))?;
    agent.set("extensions", &mut read.extensions, |f| read_extensions(f).map(Some))?;
    agent.set("inherit_env", &mut read.inherit_env, Field::boolean)?;
    agent.set("env_passthrough", &mut read.env_passthrough, read_names)?;
    agent.set("on_adapter_exit", &mut read.on_adapter_exit, |f| {
        f.word(&[("restart", OnAdapterExit::Restart), ("close", OnAdapterExit::Close)])
    })?;
    agent.set("unenforced", &mut read.unenforced, |f| {
        f.word(&[("refuse", Unenforced::Refuse), ("allow", Unenforced::Allow)])
    })?;
    read.session_may = read_session_may(&agent)?;
    agent.set("sdk", &mut read.sdk, Field::boolean)?;
    agent.set("file_roots", &mut read.file_roots, |f| f.paths_from(context.folder))?;
    agent.set("allowed_dirs", &mut read.allowed_dirs, |f| f.paths_from(context.folder))?;
    agent.set("allowed_domains", &mut read.allowed_domains, |f| f.strings().map(Some))?;
    let mut confinement = shared.confinement.clone();
    confinement.read(&agent, context.folder)?;
    confinement.agree(&mut read.allowed_domains, &agent.place_of("allowed_domains"))?;
    (read.containment, read.resources) = (confinement.containment, confinement.resources);
    read.sandbox = confinement.sandbox;
    if let Some(field) = agent.get("permission") {
        read.permission = read_permission(&field, &read.permission)?;
    }
    // Amurg's names first, so that ours have the last word.
    read_amurg(&agent, &mut read, context)?;
    agent.set("max_sessions", &mut read.limits.max_sessions, sessions)?;
    read.timeouts.read(&agent)?;
    read.limits.read(&agent)?;
    read.restart.read(&agent)?;
    Ok(read)
}

/// `session_may`, or its older key, which is all or nothing.
fn read_session_may(agent: &Reader<'_>) -> Result<SessionMay, ConfigError> {
    match (agent.get("session_may"), agent.get("allow_session_override")) {
        (Some(_), Some(older)) => Err(older.invalid("`session_may` says the same; keep one")),
        (Some(field), None) => SessionMay::read(&field),
        (None, Some(older)) => Ok(if older.boolean()? { SessionMay::All } else { SessionMay::NONE }),
        (None, None) => Ok(SessionMay::NONE),
    }
}

fn read_id(field: &Field<'_>) -> Result<String, ConfigError> {
    let id = field.filled_string()?;
    if id.len() > MAX_ID {
        return Err(field.invalid(format!("it is longer than {MAX_ID} bytes")));
    }
    if id.chars().any(char::is_control) {
        return Err(field.invalid("it has a control character"));
    }
    Ok(id)
}

/// The profile by name; without one, that of the only profile's object that is there. An object of another profile
/// is refused: it would be ignored.
fn read_profile(agent: &Reader<'_>, context: &Context<'_>) -> Result<Profile, ConfigError> {
    let present: Vec<(Field<'_>, &'static str)> =
        Profile::keys().filter_map(|key| Some((agent.get(key)?, key))).collect();
    let profile = match (agent.get("profile"), present.as_slice()) {
        (Some(field), _) => {
            let name = field.str()?;
            Profile::of_name(name).ok_or_else(|| field.invalid(no_profile(name, &context.agents)))?
        }
        (None, [(_, key)]) => return Ok(Profile::of_key(key).unwrap_or(Profile::External)),
        (None, _) => agent.require("profile").map(|_| Profile::External)?,
    };
    match present.iter().find(|(_, key)| Some(*key) != profile.key()) {
        None => Ok(profile),
        Some((field, key)) => {
            let reads = profile.key().unwrap_or_default();
            Err(field.invalid(format!("an agent of profile `{profile}` reads `{reads}`, not `{key}`")))
        }
    }
}

/// That a name is no profile: which there are, and which agents, since one may have been meant.
fn no_profile(name: &str, agents: &[String]) -> String {
    let what = if agents.iter().any(|id| id == name) { "an agent, and no profile" } else { "no profile" };
    let near = Profile::nearest(name).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let (shown, profiles) = (shown(name), Profile::names().join(", "));
    format!("`{shown}` is {what}; {near}profiles: {profiles}; agents: {}", agents.join(", "))
}

/// What is started, and what it gets as its configuration.
fn read_program(
    agent: &Reader<'_>,
    profile: &Profile,
    folder: &Path,
) -> Result<(Command, Option<Value>), ConfigError> {
    let config = agent.get("config").map(|field| read_object(&field)).transpose()?;
    let mut env = BTreeMap::new();
    agent.set("env", &mut env, |f| read_env(f, folder))?;
    match profile {
        Profile::External => {
            let external = agent.require("external")?;
            let mut command = read_command(&external, folder)?;
            if let (Some(field), false) = (agent.get("env"), command.env.is_empty()) {
                return Err(field.invalid("`external.env` says the same; keep one"));
            }
            command.env.append(&mut env);
            Ok((command, config))
        }
        Profile::BuiltIn(_) => {
            let own = profile.key().and_then(|key| agent.get(key));
            let Some(field) = own else { return Ok((Command { env, ..Command::default() }, config)) };
            if config.is_some() {
                let key = profile.key().unwrap_or_default();
                let reason =
                    format!("an agent of profile `{profile}` has its configuration in `{key}`; keep one");
                return Err(ConfigError::invalid(agent.place_of("config"), reason));
            }
            let mut object = read_object(&field)?;
            // The adapter checks its own keys when it starts. Two we share: `work_dir` says where files may be, and
            // `env` may name places, which the host alone reads. The adapter finds the variables in its environment,
            // and its file holds no secret.
            let work_dir =
                object.get("work_dir").and_then(Value::as_str).map(PathBuf::from).unwrap_or_default();
            let own_env = field.member("env").map(|f| read_env(&f, folder)).transpose()?.unwrap_or_default();
            if let (Some(field), false) = (agent.get("env"), own_env.is_empty()) {
                let key = profile.key().unwrap_or_default();
                return Err(field.invalid(format!("`{key}.env` says the same; keep one")));
            }
            if let Some(members) = object.as_object_mut() {
                members.remove("env");
            }
            env.extend(own_env);
            Ok((Command { work_dir, env, ..Command::default() }, Some(object)))
        }
    }
}

fn read_object(field: &Field<'_>) -> Result<Value, ConfigError> {
    field.any_object().cloned()
}

fn read_command(field: &Field<'_>, folder: &Path) -> Result<Command, ConfigError> {
    let external = field.object(COMMAND_KEYS, &[("the agent itself", AGENT_KEYS)])?;
    let mut command = Command::new(external.require("command")?.filled_string()?);
    external.set("args", &mut command.args, Field::strings)?;
    external.set("work_dir", &mut command.work_dir, |f| f.string().map(PathBuf::from))?;
    external.set("env", &mut command.env, |f| read_env(f, folder))?;
    Ok(command)
}

fn read_env(field: &Field<'_>, folder: &Path) -> Result<BTreeMap<String, EnvValue>, ConfigError> {
    let mut env = BTreeMap::new();
    for (name, value) in field.members()? {
        if !is_variable(name) {
            return Err(field.invalid(format!("`{}` is no name of a variable", shown(name))));
        }
        env.insert(name.to_owned(), read_value(&value, folder)?);
    }
    Ok(env)
}

/// Reads a text, `{"from_env": "NAME"}` or `{"from_file": "PATH"}`.
fn read_value(field: &Field<'_>, folder: &Path) -> Result<EnvValue, ConfigError> {
    if field.value().is_string() {
        return field.string().map(EnvValue::Text);
    }
    let expected = "a string, {\"from_env\": \"NAME\"} or {\"from_file\": \"PATH\"}";
    let place = field.object_or(expected, PLACE_KEYS, &[])?;
    match (place.get("from_env"), place.get("from_file")) {
        (Some(variable), None) => match variable.string()? {
            name if is_variable(&name) => Ok(EnvValue::FromEnv(name)),
            name => Err(variable.invalid(format!("`{}` is no name of a variable", shown(&name)))),
        },
        (None, Some(file)) => file.path_from(folder).map(EnvValue::FromFile),
        _ => Err(field.invalid("name one place, `from_env` or `from_file`")),
    }
}

/// Reads the lists over those of `base`: denials add up, an allow list and a default replace.
pub(super) fn read_permission(field: &Field<'_>, base: &Policy) -> Result<Policy, ConfigError> {
    let permission = field.object(PERMISSION_KEYS, &[])?;
    let (mut allow, mut deny, mut unmatched) =
        (base.allow().to_vec(), base.deny().to_vec(), base.unmatched());
    permission.set("default", &mut unmatched, |f| match f.value().as_str() {
        Some("allow") => {
            Err(f.invalid("approval is never a default; to allow everything write \"allow\": [\"*\"]"))
        }
        _ => f.word(&[("ask", Unmatched::Ask), ("deny", Unmatched::Deny)]),
    })?;
    permission.set("allow", &mut allow, read_patterns)?;
    if let Some(field) = permission.get("deny") {
        deny.extend(read_patterns(&field)?);
    }
    Ok(Policy::from_patterns(unmatched, allow, deny))
}

fn read_patterns(field: &Field<'_>) -> Result<Vec<Pattern>, ConfigError> {
    let pattern = |item: &Field<'_>| item.str()?.parse::<Pattern>().map_err(|e| item.invalid(e.reason()));
    field.items()?.iter().map(pattern).collect()
}

fn read_extensions(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let extension = |item: &Field<'_>| {
        let name = item.string()?;
        if EXTENSIONS.contains(&name.as_str()) {
            return Ok(name);
        }
        let hint = match nearest(&name, EXTENSIONS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", EXTENSIONS.join(", ")),
        };
        Err(item.invalid(format!("`{}` is no extension; {hint}", shown(&name))))
    };
    field.items()?.iter().map(extension).collect()
}

fn read_names(field: &Field<'_>) -> Result<Vec<String>, ConfigError> {
    let name = |item: &Field<'_>| {
        let name = item.string()?;
        if is_variable(&name) { Ok(name) } else { Err(item.invalid("it is no name of a variable")) }
    };
    field.items()?.iter().map(name).collect()
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Amurg's own sections of an agent. What has a meaning here applies; what restricts and is not applied is told.
fn read_amurg(
    agent: &Reader<'_>,
    read: &mut AgentConfig,
    context: &mut Context<'_>,
) -> Result<(), ConfigError> {
    context.unused(agent, "tags", "an agent has a `description`");
    if let Some(field) = agent.get("limits") {
        let limits = field.object(AMURG_LIMIT_KEYS, &[("the agent itself", AGENT_KEYS)])?;
        limits.set("max_sessions", &mut read.limits.max_sessions, sessions)?;
        limits.set("max_output_bytes", &mut read.limits.max_turn_output, |f| f.size(0).map(none_if_zero))?;
        context.unused(&limits, "session_timeout", "a session lives until it is closed; see `turn_timeout`");
        context.unused(&limits, "idle_timeout", "a turn ends by `turn.complete`; see `inactivity_timeout`");
    }
    if let Some(field) = agent.get("security") {
        let security = field.object(AMURG_SECURITY_KEYS, &[])?;
        if let Some(field) = security.get("env_whitelist") {
            read.env_passthrough.extend(read_names(&field)?);
        }
        if let Some(field) = security.get("cwd")
            && read.command.work_dir.as_os_str().is_empty()
        {
            read.command.work_dir = PathBuf::from(field.string()?);
        }
        let paths = "what a process may touch is not bounded by a list of paths; use a sandbox";
        context.unused(&security, "allowed_paths", paths);
        context.unused(&security, "denied_paths", paths);
        context.unused(&security, "allowed_tools", "what is approved without asking is `permission.allow`");
        context.unused(&security, "permission_mode", "it belongs in the object of the agent's profile");
    }
    Ok(())
}
