//! `trunkline adapter`: runs a built-in adapter in this process.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::anyhow;
use clap::Args;
use trunkline_host::config::Config;

use crate::{error::CliError, target};

/// Runs a built-in adapter on stdin and stdout, as a host does
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline adapter echo                speaks the protocol on stdin and stdout
  trunkline adapter echo --describe     prints its description as JSON
  trunkline adapter echo --diagnose     prints checks of its requirements as JSON

ADAPTER_CONFIG names the JSON file of its configuration, if any. \
`trunkline agents profiles` lists the names.")]
pub(crate) struct AdapterArgs {
    /// Name of the adapter
    name: String,

    /// Arguments of the adapter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

impl AdapterArgs {
    pub(super) fn run(self, config: Option<&Path>) -> Result<ExitCode, CliError> {
        trunkline_profiles::run(&self.name, self.arguments)
            .ok_or_else(|| unknown_adapter(&self.name, config))
    }
}

/// Returns the error for an unknown adapter. It also lists the agents if they are readable, because
/// one may be meant.
fn unknown_adapter(name: &str, file: Option<&Path>) -> CliError {
    let config = target::read(file, target::UNCHECKED).ok();
    let agents = config
        .as_ref()
        .map_or_else(|| "unknown".to_owned(), target::agent_names);
    let is_agent = config
        .as_ref()
        .is_some_and(|config| config.agent(name).is_some());
    let profiles = target::profile_names();
    let near = target::did_you_mean(name, &Config::new(Vec::new()));
    let error = CliError::usage(anyhow!(
        "unknown built-in adapter {name:?}; {near}built in: {profiles}; agents: {agents}"
    ));
    if is_agent {
        error.next(format!(
            "{name} is an agent: start it by `trunkline run --agent {name}`"
        ))
    } else {
        error.next("`trunkline agents profiles` describes them")
    }
}
