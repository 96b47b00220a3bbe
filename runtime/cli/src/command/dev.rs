//! `trunkline dev`: commands for authors of adapters and hosts.

use clap::Subcommand;

use super::{schema::SchemaArgs, wire::WireCommand};
use crate::error::CommandResult;

/// Shows and replays wire logs, and prints JSON Schemas
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  trunkline dev wire show wire.log
  trunkline dev wire replay wire.log -- python3 my_adapter.py
  trunkline dev schema config > trunkline.schema.json

`trunkline adapter NAME` runs a built-in adapter on stdin and stdout, as a host does.")]
pub(crate) enum DevCommand {
    #[command(subcommand)]
    Wire(WireCommand),
    Schema(SchemaArgs),
}

impl DevCommand {
    pub(super) fn run(self) -> CommandResult {
        match self {
            Self::Wire(command) => command.run(),
            Self::Schema(command) => command.run(),
        }
    }
}
