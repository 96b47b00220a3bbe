//! The file as a whole, and its `runtime` section.

use std::path::Path;

use serde_json::Value;

use super::agent::AgentConfig;
use super::confinement::Confinement;
use super::error::{ConfigError, Problem};
use super::limits::{Limits, Restart, Timeouts, memory, none_if_zero, sessions};
use super::quantity::shown;
use super::read_agent::{AGENT_KEYS, read_agent, read_permission};
use super::reader::{Field, Reader, nearest};
use super::{Buffers, Config, json};
use crate::policy::Policy;

pub(super) const ROOT_KEYS: &[&str] = &["agents", "default_agent", "runtime", "hub", "$schema"];

pub(super) const RUNTIME_KEYS: &[&str] = &[
    // The whole host.
    "max_sessions",
    "state_dir",
    "policy",
    "spool_dir",
    "usage_log",
    "mailbox",
    "mailboxes",
    "backlog",
    "spool",
    "spools",
    "session_files",
    "host_files",
    // Every agent that does not set its own.
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
    "max_turn_output",
    "restart",
    "permission",
    "containment",
    "resources",
    "sandbox",
    // Amurg's names.
    "default_timeout",
    "max_output_bytes",
    // Amurg's, without meaning here.
    "id",
    "org_id",
    "idle_timeout",
    "log_level",
    "file_storage_path",
    "allow_remote_permission_skip",
];

/// How many agents an error names.
const MOST_IDS: usize = 50;

/// What the `runtime` section says for every agent.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) timeouts: Timeouts,
    pub(super) limits: Limits,
    pub(super) restart: Restart,
    pub(super) permission: Policy,
    pub(super) confinement: Confinement,
}

/// What is the same while a file is read.
pub(super) struct Context<'a> {
    /// Relative paths are meant from here.
    pub(super) folder: &'a Path,
    /// The ids of all agents, as far as they can be read.
    pub(super) agents: Vec<String>,
    pub(super) notices: Vec<String>,
}

impl Context<'_> {
    /// Notes a key that has no effect, if it is there.
    pub(super) fn unused(&mut self, reader: &Reader<'_>, key: &'static str, why: &str) {
        if let Some(field) = reader.get(key) {
            self.notices.push(format!("`{}` has no effect: {why}", field.at()));
        }
    }
}

pub(super) fn parse(text: &[u8], folder: &Path) -> Result<Config, ConfigError> {
    let value = json::read(text)?;
    let mut context = Context { folder, agents: ids(&value), notices: Vec::new() };
    let elsewhere = [("`runtime`", RUNTIME_KEYS), ("an agent in `agents`", AGENT_KEYS)];
    let root = Field::whole(&value).object(ROOT_KEYS, &elsewhere)?;
    if let Some(hub) = root.get("hub") {
        // Not walked: it is another program's.
        context.notices.push(format!("`{}` has no effect: this host is driven by its embedder", hub.at()));
    }
    let mut config = Config::new(Vec::new());
    let mut shared = Shared::default();
    if let Some(field) = root.get("runtime") {
        read_runtime(&field, &mut config, &mut shared, &mut context)?;
    }
    config.agents = read_agents(&root.require("agents")?, &shared, &mut context)?;
    if let Some(field) = root.get("default_agent") {
        config.default_agent = Some(known_agent(&field, &config.agents)?);
    }
    config.notices = context.notices;
    Ok(config)
}

pub(super) fn syntax_error(error: &serde_json::Error) -> ConfigError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    ConfigError::new("", Problem::Syntax { line, column, message })
}

fn read_runtime(
    field: &Field<'_>,
    config: &mut Config,
    shared: &mut Shared,
    context: &mut Context<'_>,
) -> Result<(), ConfigError> {
    let elsewhere = [("the top level", ROOT_KEYS), ("an agent in `agents`", AGENT_KEYS)];
    let runtime = field.object(RUNTIME_KEYS, &elsewhere)?;
    let folder = context.folder;
    runtime.set("max_sessions", &mut config.max_sessions, sessions)?;
    runtime.set("state_dir", &mut config.state_dir, |f| f.path_from(folder).map(Some))?;
    runtime.set("policy", &mut config.policy, |f| f.path_from(folder).map(Some))?;
    runtime.set("spool_dir", &mut config.spool_dir, |f| f.path_from(folder).map(Some))?;
    runtime.set("usage_log", &mut config.usage_log, Field::boolean)?;
    read_buffers(&runtime, &mut config.buffers)?;

    for (amurg, ours) in [("default_timeout", "turn_timeout"), ("max_output_bytes", "max_turn_output")] {
        if let (Some(field), Some(_)) = (runtime.get(amurg), runtime.get(ours)) {
            return Err(
                field.invalid(format!("it is Amurg's name of `{ours}`, which is there too; keep one"))
            );
        }
    }
    runtime.set("default_timeout", &mut shared.timeouts.turn, Field::optional_duration)?;
    runtime.set("max_output_bytes", &mut shared.limits.max_turn_output, |f| f.size(0).map(none_if_zero))?;
    shared.timeouts.read(&runtime)?;
    shared.limits.read(&runtime)?;
    shared.restart.read(&runtime)?;
    shared.confinement.read(&runtime, folder)?;
    if let Some(field) = runtime.get("permission") {
        shared.permission = read_permission(&field, &shared.permission)?;
    }

    context.unused(&runtime, "id", "a host has no identity of its own");
    context.unused(&runtime, "org_id", "a host has no identity of its own");
    context.unused(&runtime, "idle_timeout", "a turn ends by `turn.complete`; see `inactivity_timeout`");
    context.unused(&runtime, "log_level", "what is logged is set when the program is started");
    context.unused(&runtime, "file_storage_path", "files are kept below `state_dir`");
    context.unused(
        &runtime,
        "allow_remote_permission_skip",
        "what a session may set is said for each agent, by `session_may`",
    );
    Ok(())
}

/// The ids of a file's agents, for errors: what is no id is passed over.
fn ids(file: &Value) -> Vec<String> {
    let agents = file.get("agents").and_then(Value::as_array).into_iter().flatten();
    let ids = agents.filter_map(|agent| agent.get("id").and_then(Value::as_str));
    ids.take(MOST_IDS).map(shown).collect()
}

fn read_buffers(runtime: &Reader<'_>, buffers: &mut Buffers) -> Result<(), ConfigError> {
    runtime.set("mailbox", &mut buffers.mailbox, |f| memory(f, 0))?;
    runtime.set("mailboxes", &mut buffers.mailboxes, |f| memory(f, 0))?;
    runtime.set("backlog", &mut buffers.backlog, |f| memory(f, 1))?;
    runtime.set("spool", &mut buffers.spool, |f| f.size(0))?;
    runtime.set("spools", &mut buffers.spools, |f| f.size(0))?;
    runtime.set("session_files", &mut buffers.session_files, |f| f.size(0))?;
    runtime.set("host_files", &mut buffers.host_files, |f| f.size(0))
}

fn read_agents(
    field: &Field<'_>,
    shared: &Shared,
    context: &mut Context<'_>,
) -> Result<Vec<AgentConfig>, ConfigError> {
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.invalid("it is empty; a host needs an agent"));
    }
    let mut agents: Vec<AgentConfig> = Vec::with_capacity(items.len());
    for item in &items {
        let agent = read_agent(item, shared, context)?;
        if let Some(first) = agents.iter().position(|known| known.id == agent.id) {
            let at = format!("{}.id", item.at());
            return Err(ConfigError::invalid(at, format!("agents[{first}] has the id `{}` too", agent.id)));
        }
        agents.push(agent);
    }
    Ok(agents)
}

fn known_agent(field: &Field<'_>, agents: &[AgentConfig]) -> Result<String, ConfigError> {
    let id = field.string()?;
    if agents.iter().any(|agent| agent.id == id) {
        return Ok(id);
    }
    let ids: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    let hint = match nearest(&id, &ids) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", ids.join(", ")),
    };
    Err(field.invalid(format!("no agent has this id; {hint}")))
}
