//! `trunkline adapter`: runs a built-in adapter as this process.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::anyhow;
use clap::Args;
use trunkline_host::config::Config;

use crate::{error::CliError, target};

/// Runs a built-in adapter on stdin and stdout, as a host starts it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline adapter echo                speaks the protocol on stdin and stdout
  trunkline adapter echo --describe     says what it is and can, as JSON
  trunkline adapter echo --diagnose     checks what it needs, as JSON

Its configuration is the JSON file that ADAPTER_CONFIG names, if any.
`trunkline profiles` lists the names.")]
pub(crate) struct Adapter {
    /// The adapter's name
    name: String,

    /// What the adapter itself understands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

impl Adapter {
    pub(super) fn run(self, config: Option<&Path>) -> Result<ExitCode, CliError> {
        trunkline_profiles::run(&self.name, self.arguments)
            .ok_or_else(|| unknown(&self.name, config))
    }
}

/// That there is no such adapter. An agent may have been meant, so those are named, too, as far as they can be read.
fn unknown(name: &str, file: Option<&Path>) -> CliError {
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
        "no built-in adapter is called {name:?}; {near}built in: {profiles}; agents: {agents}"
    ));
    if is_agent {
        error.next(format!(
            "{name} is an agent: `trunkline run --agent {name}` talks to it"
        ))
    } else {
        error.next("`trunkline profiles` says what each is for")
    }
}
