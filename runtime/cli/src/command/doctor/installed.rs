//! Finds the program of an agent: its own, or the one that a built-in adapter wraps.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::anyhow;
use trunkline_host::config::{AgentConfig, Profile};
use trunkline_host::process::ChildSpec;

use super::environment;
use super::isolation;
use super::program::{self, ProgramSearch};
use crate::advice;
use crate::error::CliError;
use crate::overrides::knows;
use crate::target::ChosenHost;

/// Finds the program. Returns `None` if that is unknown from outside: the adapter wraps none, or a
/// sandbox has files of its own.
pub(crate) fn find_program(
    agent: &AgentConfig,
    spec: &ChildSpec,
) -> Option<(OsString, ProgramSearch)> {
    if agent.sandbox.is_some() {
        return None;
    }
    let program = match agent.profile {
        Profile::External => spec.program.clone(),
        Profile::BuiltIn(_) => agent_program(agent)?.into(),
    };
    let found = program::search_program(
        &program,
        &environment::search_path(&environment::of_process(spec)),
        &program::work_dir(spec),
    );
    Some((program, found))
}

/// Returns the program that a built-in adapter runs.
pub(crate) fn agent_program(agent: &AgentConfig) -> Option<&str> {
    configured_program(agent).or_else(|| advice::wrapped_by(agent).map(|wrapped| wrapped.program))
}

/// Returns the program that an entry names instead of the wrapped agent's own.
pub(crate) fn configured_program(agent: &AgentConfig) -> Option<&str> {
    let named = agent.config.as_ref()?.get("command")?.as_str()?;
    (!named.is_empty() && knows(&agent.profile, "command")).then_some(named)
}

/// Finds a program as the process of an agent does.
///
/// # Errors
/// The program is missing; with the command that installs it.
pub(crate) fn locate_program(
    agent: &AgentConfig,
    spec: &ChildSpec,
    program: &OsStr,
) -> Result<PathBuf, CliError> {
    if let Some(image) = isolation::container_image(agent) {
        let error = anyhow!(
            "{} runs in the image {image}, in which no login can be run",
            agent.id
        );
        return Err(CliError::not_started(error)
            .next("add a variable with its key to `env` or `env_passthrough`"));
    }
    let path = environment::search_path(&environment::of_process(spec));
    match program::search_program(program, &path, &program::work_dir(spec)) {
        ProgramSearch::At(at) => Ok(at),
        ProgramSearch::Nowhere => Err(not_installed(agent, spec, program)),
        found => {
            let check = program::report_search(program, &found, &path);
            let error = CliError::not_started(anyhow!(check.message));
            Err(error.next(check.hint.unwrap_or_default()))
        }
    }
}

/// Checks that the program of an agent exists, before anything is started.
///
/// # Errors
/// The program is missing; with the command that installs it.
pub(crate) fn must_be_here(chosen: &ChosenHost) -> Result<(), CliError> {
    let agent = &chosen.agent;
    let Some(Ok(spec)) = chosen.host.child_spec(&agent.id) else {
        return Ok(());
    };
    let Some((program, ProgramSearch::Nowhere)) = find_program(agent, &spec) else {
        return Ok(());
    };
    Err(not_installed(agent, &spec, &program))
}

fn not_installed(agent: &AgentConfig, spec: &ChildSpec, program: &OsStr) -> CliError {
    let name = program.to_string_lossy();
    let is_path = program.as_bytes().contains(&b'/');
    if is_path && program::work_dir(spec).join(program).is_dir() {
        return CliError::not_started(anyhow!("{name} is a folder")).next("name the program in it");
    }
    let (problem, next) = if is_path {
        (
            anyhow!("the program {name} does not exist"),
            "correct the path; a relative path starts at the working directory",
        )
    } else {
        (
            anyhow!("`{name}` is not installed: not found in PATH"),
            "install it, or use its full path",
        )
    };
    let install = advice::wrapped_by(agent).map(|wrapped| wrapped.install());
    CliError::not_started(problem).next(install.as_deref().unwrap_or(next))
}
