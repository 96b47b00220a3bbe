//! `trunkline adapter`: runs a built-in adapter as this process.

use std::{ffi::OsString, process::ExitCode};

use anyhow::anyhow;
use clap::Args;
use trunkline_profiles::PROFILES;

use crate::fault::Fault;

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
    pub(super) fn run(self) -> Result<ExitCode, Fault> {
        trunkline_profiles::run(&self.name, self.arguments).ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
            Fault::usage(anyhow!(
                "no built-in adapter is called {:?}; there are: {}",
                self.name,
                names.join(", ")
            ))
            .next("`trunkline profiles` says what each is for")
        })
    }
}
