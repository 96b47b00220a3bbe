//! Start of `claude`: pure, so that command lines are tested as tables.

use std::ffi::OsStr;
use std::path::Path;

use trunkline_sdk::Error;

use super::config::{ClaudeCode, PromptMode};
use crate::agent::{
    launch::Launch,
    options::Options,
    system_prompt::Carrier,
    version::{FirstVersions, Version},
};
use crate::agents;

/// Conversation to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumePoint<'a> {
    /// A new one of this id.
    New(&'a str),
    /// The conversation of this id.
    Resume(&'a str),
    /// A copy of the conversation of this id, up to a message or whole.
    Fork(&'a str, Option<&'a str>),
}

/// Input files.
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    pub(super) mcp: Option<&'a Path>,
    pub(super) prompt: Option<&'a Carrier>,
    /// A folder with skills, commands and agents.
    pub(super) folder: Option<&'a Path>,
    /// Settings that hold the configured ones.
    pub(super) settings: Option<&'a Path>,
    /// Name of the agent to be.
    pub(super) agent: Option<&'a str>,
}

/// Variables that keep it from doing more than it is asked, unless they are set already.
///
/// A broken stream is retried and then reported as an error. Without the third, Claude repeats the
/// request without streaming, repeats its output and reports the turn as a success.
const QUIET: &[(&str, &str)] = &[
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"),
];

/// Without this a turn may end before the sub-agents and commands that it has started.
const FOREGROUND: (&str, &str) = ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1");

/// The tool that keeps a to-do list.
const TODO: &str = "TodoWrite";

/// Effort of the model's thinking.
const EFFORT: &str = "CLAUDE_CODE_EFFORT_LEVEL";

/// Variables by which it takes itself for a child of another Claude.
const HIDDEN: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
];

/// Options that not every version has, by the program itself: some are not in its `--help`.
fn since() -> FirstVersions<'static> {
    agents::built_in("claude-code").since()
}

/// Since when an input that comes during a turn is taken into it.
pub(super) const STEERS: Version = Version(2, 1, 205);

/// Returns true if this version copies a conversation up to a message.
pub(super) fn forks(version: Option<Version>) -> bool {
    since().has("--fork-session", version)
}

/// Returns the command line. `is_set` returns true if a variable is in this process's environment.
///
/// # Errors
/// The options widen the configuration, or this version cannot receive them.
pub(super) fn launch(
    settings: &ClaudeCode,
    options: &Options,
    version: Option<Version>,
    begin: ResumePoint<'_>,
    files: &Files<'_>,
    is_set: impl Fn(&str) -> bool,
) -> Result<Launch, Error> {
    without_bypass(settings, &options.args)?;
    let mut launch = options
        .launch()
        .args([
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
        ])
        .args(["--permission-prompt-tool", "stdio"]);
    if since().has("--include-partial-messages", version) {
        launch = launch.arg("--include-partial-messages");
    }
    launch = match begin {
        ResumePoint::New(id) => launch.option("--session-id", Some(id)),
        ResumePoint::Resume(id) => launch.option("--resume", Some(id)),
        ResumePoint::Fork(id, message) => {
            since().need("--fork-session", "`fork`", version)?;
            let launch = launch.option("--resume", Some(id)).arg("--fork-session");
            launch.option("--resume-session-at", message)
        }
    };
    launch = launch
        .option(
            "--model",
            options
                .model
                .as_deref()
                .filter(|model| !model.starts_with('-')),
        )
        .option("--fallback-model", Some(&settings.fallback_model));
    launch = match permission_mode(settings, options)? {
        Mode::Dangerous => launch.arg("--dangerously-skip-permissions"),
        Mode::Of(mode) => launch.option("--permission-mode", mode),
    };
    if let Some(turns) = least(settings.max_turns, options.max_turns) {
        launch = launch.arg("--max-turns").arg(turns.to_string());
    }
    if let Some(budget) = budget(settings, options) {
        since().need("--max-budget-usd", "`max_cost_usd`", version)?;
        launch = launch.arg("--max-budget-usd").arg(budget.to_string());
    }
    if let Some(schema) = &options.output_schema {
        since().need("--json-schema", "`output_schema`", version)?;
        launch = launch.option("--json-schema", Some(schema));
    }
    if let Some(prompt) = files.prompt {
        launch = launch.args(system_prompt(settings, options, prompt, version)?);
    }
    if let Some(file) = files.settings {
        since().need("sandbox.failIfUnavailable", "`sandbox`", version)?;
        launch = launch.arg("--settings").arg(file);
    } else if !settings.settings.is_empty() {
        since().need("--settings", "`settings`", version)?;
        launch = launch.option("--settings", Some(&settings.settings));
    }
    launch = launch.option("--agent", files.agent);
    if let Some(sources) = &settings.setting_sources {
        since().need("--setting-sources", "`setting_sources`", version)?;
        launch = launch.arg("--setting-sources").arg(sources.join(","));
    }
    if settings.strict_mcp_config || settings.project_mcp || options.allowed_domains.is_some() {
        launch = launch.arg("--strict-mcp-config");
    }
    if let Some(file) = files.mcp {
        launch = launch.arg("--mcp-config").arg(file);
    }
    if let Some(tools) = built_in(options.allowed_tools.as_deref()) {
        since().need("--tools", "`allowed_tools`", version)?;
        launch = launch.arg("--tools").arg(tools.join(","));
    }
    launch = listed(
        launch,
        "--allowedTools",
        settings.allowed_tools.iter().map(OsStr::new),
    );
    launch = listed(
        launch,
        "--disallowedTools",
        denied(settings, options).map(OsStr::new),
    );
    let folders = settings
        .add_dirs
        .iter()
        .chain(&options.add_dirs)
        .map(OsStr::new);
    let folders = folders.chain(files.folder.map(Path::as_os_str));
    launch = listed(launch, "--add-dir", folders);
    Ok(environment(launch, settings, options, is_set))
}

fn environment(
    mut launch: Launch,
    settings: &ClaudeCode,
    options: &Options,
    is_set: impl Fn(&str) -> bool,
) -> Launch {
    let foreground = (!settings.background_tasks).then_some(&FOREGROUND);
    for (name, value) in QUIET.iter().chain(foreground) {
        if !options.env.contains_key(*name) && !is_set(name) {
            launch = launch.env(name, value);
        }
    }
    if let Some(effort) = effort(settings, options)
        && !options.env.contains_key(EFFORT)
    {
        launch = launch.env(EFFORT, effort);
    }
    HIDDEN
        .iter()
        .fold(launch, |launch, name| launch.without(name))
}

/// The reasoning effort that is asked for, else the configured one.
pub(super) fn effort<'a>(settings: &'a ClaudeCode, options: &'a Options) -> Option<&'a str> {
    let asked = options.reasoning_effort.as_deref();
    asked
        .or(Some(settings.reasoning_effort.as_str()))
        .filter(|effort| !effort.is_empty())
}

/// A list-valued option and its values; none that would be read as an option.
fn listed<'v>(launch: Launch, name: &str, values: impl Iterator<Item = &'v OsStr>) -> Launch {
    let mut values = values
        .filter(|value| !value.is_empty() && !value.as_encoded_bytes().starts_with(b"-"))
        .peekable();
    if values.peek().is_none() {
        return launch;
    }
    launch.arg(name).args(values)
}

fn least(configured: u64, asked: Option<u64>) -> Option<u64> {
    [Some(configured), asked]
        .into_iter()
        .flatten()
        .filter(|turns| *turns > 0)
        .min()
}

fn budget(settings: &ClaudeCode, options: &Options) -> Option<f64> {
    let amounts = [Some(settings.max_budget_usd), options.max_cost_usd]
        .into_iter()
        .flatten();
    amounts
        .filter(|amount| *amount > 0.0 && amount.is_finite())
        .min_by(f64::total_cmp)
}

fn system_prompt(
    settings: &ClaudeCode,
    options: &Options,
    prompt: &Carrier,
    version: Option<Version>,
) -> Result<[String; 2], Error> {
    let replaces =
        options.replaces_system_prompt || settings.system_prompt_mode == PromptMode::Replace;
    let (text, file) = if replaces {
        ("--system-prompt", "--system-prompt-file")
    } else {
        ("--append-system-prompt", "--append-system-prompt-file")
    };
    if matches!(prompt, Carrier::File(_)) {
        since().need(file, "a system prompt of this length", version)?;
    }
    Ok(prompt.arguments(text, file))
}

/// Permission mode of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode<'a> {
    /// Not at all.
    Dangerous,
    /// This mode; `None`: the one in its settings.
    Of(Option<&'a str>),
}

/// The mode of a session: its `permission_mode`, its `mode`, or the configured one. A session
/// cannot ask for the mode that asks for nothing; [ext.7].
pub(super) fn permission_mode<'a>(
    settings: &'a ClaudeCode,
    options: &'a Options,
) -> Result<Mode<'a>, Error> {
    match options
        .permission_mode
        .as_deref()
        .or(options.mode.as_deref())
    {
        None if settings.is_dangerous() => Ok(Mode::Dangerous),
        None => settings
            .permission_mode()
            .map(|mode| known_mode(mode, settings))
            .transpose()
            .map(Mode::Of),
        Some(asked) => match known_mode(asked, settings)? {
            "bypassPermissions" => Ok(Mode::Dangerous),
            mode => Ok(Mode::Of(Some(mode))),
        },
    }
}

/// Returns Claude's name of a mode.
///
/// # Errors
/// `refused` for an unknown mode, or one that the configuration does not permit.
pub(super) fn known_mode(mode: &str, settings: &ClaudeCode) -> Result<&'static str, Error> {
    match mode {
        "default" | "manual" | "ask" => Ok("default"),
        "plan" => Ok("plan"),
        "acceptEdits" | "accept-edits" => Ok("acceptEdits"),
        "dontAsk" | "dont-ask" => Ok("dontAsk"),
        "auto" => Ok("auto"),
        "bypassPermissions" | "bypass" if settings.is_dangerous() => Ok("bypassPermissions"),
        "bypassPermissions" | "bypass" => Err(Error::refused(
            "a mode that asks for nothing must be configured: `\"dangerous\": true` in `claude_code`",
        )),
        other => Err(Error::refused(format!(
            "claude has no permission mode {:?}; there are default, plan, acceptEdits, dontAsk and auto",
            trunkline_sdk::preview::cut(other, 64)
        ))),
    }
}

/// Arguments of configuration and session do not bring in what `dangerous` is for.
fn without_bypass(settings: &ClaudeCode, args: &[String]) -> Result<(), Error> {
    let is_bypass = |arg: &String| {
        arg.contains("dangerously-skip-permissions") || arg.contains("bypassPermissions")
    };
    if args.iter().any(is_bypass) && !settings.is_dangerous() {
        Err(Error::refused(
            "an argument skips permissions; that must be configured: `\"dangerous\": true` in `claude_code`",
        ))
    } else {
        Ok(())
    }
}

/// Tools that never run: the configuration's, the session's, and those that would leave the domains
/// that a session names.
pub(super) fn denied<'a>(
    settings: &'a ClaudeCode,
    options: &'a Options,
) -> impl Iterator<Item = &'a str> {
    let listed = || {
        settings
            .disallowed_tools
            .iter()
            .chain(options.denied_tools.iter().flatten())
    };
    let more = [
        (TODO, settings.deny_todo_write),
        ("WebFetch", options.allowed_domains.is_some()),
        ("WebSearch", options.allowed_domains.is_some()),
    ];
    let more = more
        .into_iter()
        .filter(move |(tool, is_denied)| *is_denied && listed().all(|name| name != tool));
    listed()
        .map(String::as_str)
        .chain(more.map(|(tool, _)| tool))
}

/// The names of a session's `allowed_tools`, without their patterns: what may be used at all.
pub(super) fn built_in(allowed: Option<&[String]>) -> Option<Vec<&str>> {
    let names = allowed?
        .iter()
        .map(|tool| tool.split('(').next().unwrap_or_default().trim());
    let mut names: Vec<_> = names
        .filter(|name| !name.is_empty() && !name.starts_with('-') && !name.contains(','))
        .collect();
    names.dedup();
    Some(names)
}

#[cfg(test)]
mod tests;
