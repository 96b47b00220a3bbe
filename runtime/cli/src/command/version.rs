//! `trunkline version`: the build of this program.

use clap::Args;
use serde_json::json;
use trunkline_protocol::PROTOCOL;

use super::{print_json, print_line};
use crate::error::CommandResult;

/// Commit of the build, if known.
const COMMIT: Option<&str> = option_env!("TRUNKLINE_COMMIT");

/// Prints the version, the commit, and the built-in adapters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline version
  trunkline version --json | jq -r .commit")]
pub(crate) struct VersionArgs {
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

impl VersionArgs {
    pub(super) fn run(self) -> CommandResult {
        let version = env!("CARGO_PKG_VERSION");
        let build = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        let adapters: Vec<_> = trunkline_profiles::PROFILES
            .iter()
            .map(|profile| profile.name)
            .collect();
        if self.json {
            let facts = json!({
                "name": "trunkline",
                "version": version,
                "commit": COMMIT,
                "build": build,
                "protocol": PROTOCOL,
                "adapters": adapters,
            });
            return print_json(&facts);
        }
        let commit = COMMIT.unwrap_or("unknown commit");
        let adapters = adapters.join(", ");
        print_line(format_args!(
            "trunkline {version} ({commit}, {build})\nprotocol {PROTOCOL}\nbuilt-in adapters: {adapters}"
        ))
    }
}
