//! Options that a session may set, checked before the adapter receives any of them ([ext.7]).

mod modes;

use std::path::Path;

use serde_json::Value;
use trunkline_protocol::{Json, Resume, SessionStart, SessionUpdate};
use trunkline_sandbox::resolve_guarded;

use self::modes::Ladder;
use crate::{
    agent::work_dir,
    config::{AgentConfig, SessionOption},
    error::UpdateError,
    files::Pinned,
};

/// Refuses an option that would widen the configuration, by name. Returns the working directory
/// that the session chose, if there is one: resolved once, so that files come from the same
/// directory that is checked here.
pub(crate) fn open(
    config: &AgentConfig,
    start: &SessionStart,
) -> Result<Option<Pinned>, SessionOption> {
    use SessionOption as O;
    // Every field is named, so that a new one is decided on.
    let SessionStart {
        protocol: _,
        extensions: _,
        max_line: _,
        resume,
        agent_id: _,
        user_id: _,
        task_id: _,
        run_id: _,
        role: _,
        iteration: _,
        variables: _,
        cwd,
        add_dirs,
        exchange_dir: _,
        model: _,
        reasoning_effort: _,
        temperature: _,
        system_prompt: _,
        system_prompt_mode: _,
        mode,
        permission_mode,
        allowed_tools,
        denied_tools: _,
        allowed_domains,
        max_turns: _,
        max_cost_usd: _,
        max_tokens: _,
        turn_timeout_ms: _,
        inactivity_timeout_ms: _,
        output_schema: _,
        mcp_servers,
        skills,
        env,
        extra_args,
    } = start;
    let cwd = cwd.as_ref().map(|cwd| Pinned::new(Path::new(cwd)));
    let allowed_cwd = match &cwd {
        Some(Ok(cwd)) => is_allowed_dir(config, cwd),
        Some(Err(_)) => false,
        None => true,
    };
    let allowed_dir = |dir: &String| config.allows_dir(Path::new(dir));
    let allowed_domain = |domain: &String| match &config.allowed_domains {
        Some(allowed) => allowed.contains(domain),
        None => true,
    };
    let ladder = Ladder::from_config(config);
    refuse(
        config,
        [
            (
                O::Cwd,
                allowed_cwd && (cwd.is_some() || allowed_kept(resume.as_ref(), allowed_dir)),
            ),
            (O::AddDirs, add_dirs.iter().flatten().all(allowed_dir)),
            (O::Mode, ladder.holds(mode.as_deref())),
            (O::PermissionMode, ladder.holds(permission_mode.as_deref())),
            (O::AllowedTools, allowed_tools.is_none()),
            (
                O::AllowedDomains,
                allowed_domains.iter().flatten().all(allowed_domain),
            ),
            (O::McpServers, mcp_servers.as_ref().is_none_or(is_empty)),
            (O::Skills, skills.as_ref().is_none_or(is_empty)),
            (O::Env, env.iter().flatten().next().is_none()),
            (O::ExtraArgs, extra_args.iter().flatten().next().is_none()),
        ],
    )?;
    Ok(cwd.and_then(Result::ok))
}

/// Limit for an `output_schema`, in bytes.
pub(crate) const MAX_OUTPUT_SCHEMA_BYTES: usize = 64 * 1024;

/// Returns true for a JSON object of a bounded size, or none.
pub(crate) fn is_output_schema(schema: Option<&Json>) -> bool {
    schema.is_none_or(|schema| {
        let text = schema.get();
        text.starts_with('{') && text.len() <= MAX_OUTPUT_SCHEMA_BYTES
    })
}

/// Returns true if the session may work in the directory of a resume's parameters. A built-in
/// adapter continues in the conversation's directory if the session names none, so the parameters
/// that a hub returns count as naming one.
fn allowed_kept(resume: Option<&Resume>, allowed_dir: impl Fn(&String) -> bool) -> bool {
    // Read as the adapter reads it: of a duplicate member the last one counts.
    let kept = resume.and_then(|resume| resume.params.as_ref()?.to::<Value>().ok());
    let cwd = kept
        .as_ref()
        .and_then(|kept| kept.get("cwd")?.as_str())
        .map(str::to_owned);
    // One that is not a directory is not gone on in.
    cwd.is_none_or(|cwd| !Path::new(&cwd).is_dir() || allowed_dir(&cwd))
}

/// Refuses a change that would widen the configuration; names the option.
pub(crate) fn update(config: &AgentConfig, update: &SessionUpdate) -> Result<(), SessionOption> {
    use SessionOption as O;
    let SessionUpdate {
        model: _,
        reasoning_effort: _,
        mode,
        permission_mode,
        allowed_tools,
        denied_tools: _,
        options,
    } = update;
    let ladder = Ladder::from_config(config);
    refuse(
        config,
        [
            (O::Mode, ladder.holds(mode.as_deref())),
            (O::PermissionMode, ladder.holds(permission_mode.as_deref())),
            (O::AllowedTools, allowed_tools.is_none()),
            (O::Options, options.iter().flatten().next().is_none()),
        ],
    )
}

/// Refuses the first option whose value is not harmless, and which sessions may not set to any value.
fn refuse<const N: usize>(
    config: &AgentConfig,
    options: [(SessionOption, bool); N],
) -> Result<(), SessionOption> {
    let widens =
        |(option, harmless): &(SessionOption, bool)| !harmless && !config.session_may.has(*option);
    options
        .into_iter()
        .find(widens)
        .map_or(Ok(()), |(option, _)| Err(option))
}

/// Returns true if it is empty: `null`, `[]` or `{}`.
fn is_empty(json: &Json) -> bool {
    json.to::<serde_json::Value>()
        .is_ok_and(|value| match value {
            serde_json::Value::Null => true,
            serde_json::Value::Array(items) => items.is_empty(),
            serde_json::Value::Object(members) => members.is_empty(),
            _ => false,
        })
}

impl AgentConfig {
    /// Checks that a change of a session's settings widens nothing of this configuration ([ext.7]).
    ///
    /// # Errors
    /// [`UpdateError::WouldWiden`], which names the option.
    pub fn check_update(&self, change: &SessionUpdate) -> Result<(), UpdateError> {
        update(self, change).map_err(UpdateError::WouldWiden)
    }

    /// Returns true if every session may work in a folder: it exists, and is in `work_dir` or one
    /// of `allowed_dirs`, with links resolved. None of these may lead through a link that a sandboxed
    /// agent can change. Reads the disk.
    pub fn allows_dir(&self, dir: &Path) -> bool {
        Pinned::new(dir).is_ok_and(|dir| is_allowed_dir(self, &dir))
    }
}

fn is_allowed_dir(config: &AgentConfig, dir: &Pinned) -> bool {
    let dir = dir.real();
    if !dir.is_dir() {
        return false;
    }
    let work_dir = work_dir(config);
    let mut allowed = config
        .allowed_dirs
        .iter()
        .chain(&work_dir)
        .filter_map(|root| resolve_guarded(root));
    allowed.any(|root| dir.starts_with(root))
}

#[cfg(test)]
mod tests;
