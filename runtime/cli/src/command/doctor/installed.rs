//! Whether the program of an agent is here: its own, or the one that a built-in adapter wraps.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::anyhow;
use trunkline_host::config::{AgentConfig, Profile};
use trunkline_host::process::ChildSpec;

use super::environment;
use super::program::{self, Found};
use crate::advice;
use crate::error::CliError;
use crate::overrides::knows;
use crate::target::Chosen;

/// The program, and where it was found; `None` where that cannot be told from outside: it wraps none, or a sandbox has
/// files of its own.
pub(crate) fn find(agent: &AgentConfig, spec: &ChildSpec) -> Option<(OsString, Found)> {
    if agent.sandbox.is_some() {
        return None;
    }
    let program = match agent.profile {
        Profile::External => spec.program.clone(),
        Profile::BuiltIn(_) => {
            let named = agent
                .config
                .as_ref()
                .and_then(|config| config.get("command")?.as_str());
            let named = named.filter(|named| !named.is_empty() && knows(&agent.profile, "command"));
            named
                .or_else(|| advice::of(agent).map(|wrapped| wrapped.program))?
                .into()
        }
    };
    let found = program::find(
        &program,
        &environment::search_path(&environment::of(spec)),
        &program::work_dir(spec),
    );
    Some((program, found))
}

/// That the program of an agent is nowhere, before anything is started.
///
/// # Errors
/// Names the program, and how it is installed.
pub(crate) fn must_be_here(chosen: &Chosen) -> Result<(), CliError> {
    let agent = &chosen.agent;
    let Some(Ok(spec)) = chosen.host.child_spec(&agent.id) else {
        return Ok(());
    };
    let Some((program, Found::Nowhere)) = find(agent, &spec) else {
        return Ok(());
    };
    let name = program.to_string_lossy();
    let place = program::work_dir(&spec).join(&program);
    if program.as_bytes().contains(&b'/') && place.is_dir() {
        return Err(
            CliError::not_started(anyhow!("{name} is a folder")).next("name the program in it")
        );
    }
    let fault = CliError::not_started(if program.as_bytes().contains(&b'/') {
        anyhow!("there is no program {name}")
    } else {
        anyhow!("`{name}` is not installed: it is in no folder of PATH")
    });
    Err(match advice::of(agent) {
        Some(wrapped) => fault.next(wrapped.install()),
        None => fault.next("install it, or name it by its full path"),
    })
}
