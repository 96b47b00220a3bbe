//! `trunkline profiles`: the built-in adapters.

use std::io::Write;

use clap::Args;
use serde_json::json;
use trunkline_profiles::PROFILES;

use super::table;
use crate::{exit, fault::Done};

/// Lists the built-in adapters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline profiles
  trunkline profiles --json

An agent of the configuration picks one by `\"profile\": \"NAME\"`;
`trunkline adapter NAME` runs it by hand.")]
pub(crate) struct Profiles {
    /// As one JSON array
    #[arg(long)]
    json: bool,
}

impl Profiles {
    pub(super) fn run(self) -> Done {
        let mut out = anstream::stdout().lock();
        if self.json {
            let list: Vec<_> = PROFILES
                .iter()
                .map(|profile| json!({ "name": profile.name, "description": profile.description }))
                .collect();
            writeln!(out, "{}", json!(list))?;
            return Ok(exit::OK);
        }
        let mut list = table::of(&["name", "what it is for"]);
        for profile in PROFILES {
            list.add_row([profile.name, profile.description]);
        }
        out.write_all(table::lines(&list).as_bytes())?;
        Ok(exit::OK)
    }
}
