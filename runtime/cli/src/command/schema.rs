//! `trunkline schema`: the JSON Schema of the protocol.

use std::io::Write;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;
use trunkline_protocol::schema;

use crate::{exit, fault::Done};

/// Prints the JSON Schema of the protocol's messages
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline schema adapter-to-host > adapter-to-host.json
  trunkline schema                  both directions, as one object of two schemas")]
pub(crate) struct Schema {
    /// The direction [default: both]
    direction: Option<Direction>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Direction {
    /// What a host writes to an adapter's stdin
    HostToAdapter,
    /// What an adapter writes to its stdout
    AdapterToHost,
}

impl Schema {
    pub(super) fn run(self) -> Done {
        let schema = match self.direction {
            Some(Direction::HostToAdapter) => schema::host_to_adapter(),
            Some(Direction::AdapterToHost) => schema::adapter_to_host(),
            None => json!({
                "host-to-adapter": schema::host_to_adapter(),
                "adapter-to-host": schema::adapter_to_host(),
            }),
        };
        let text = serde_json::to_string_pretty(&schema).context("failed to write the schema")?;
        writeln!(std::io::stdout().lock(), "{text}")?;
        Ok(exit::OK)
    }
}
