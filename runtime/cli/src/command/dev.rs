//! `trunkline dev`: commands for authors of adapters and hosts.

use clap::{Args, Subcommand};

use super::{schema::SchemaArgs, wire::WireArgs};
use crate::error::CommandResult;

/// Shows and replays wire logs, and prints JSON Schemas
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline dev wire show wire.log
  trunkline dev wire replay wire.log -- python3 my_adapter.py
  trunkline dev schema config > trunkline.schema.json

`trunkline adapter NAME` runs a built-in adapter on stdin and stdout, as a host does.")]
pub(crate) struct DevArgs {
    #[command(subcommand)]
    action: DevAction,
}

#[derive(Debug, Subcommand)]
enum DevAction {
    Wire(WireArgs),
    Schema(SchemaArgs),
}

impl DevArgs {
    pub(super) fn run(self) -> CommandResult {
        match self.action {
            DevAction::Wire(command) => command.run(),
            DevAction::Schema(command) => command.run(),
        }
    }
}
