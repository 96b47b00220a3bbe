//! `trunkline dev schema`: the JSON Schemas of the protocol and of the configuration.

use clap::{Args, ValueEnum};
use trunkline_host::config;
use trunkline_protocol::schema;

use super::print_text;
use crate::error::CommandResult;

/// Prints the JSON Schema of the protocol's messages, or of the configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline dev schema adapter-to-host > adapter-to-host.json
  trunkline dev schema                  both directions, as one object with two schemas
  trunkline dev schema config > trunkline.schema.json

Editors complete a configuration that starts with the key \
`\"$schema\": \"./trunkline.schema.json\"`.")]
pub(crate) struct SchemaArgs {
    /// Schema to print [default: both directions of the protocol]
    #[arg(value_name = "WHAT")]
    of: Option<SchemaChoice>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SchemaChoice {
    /// Messages from a host to an adapter's stdin
    HostToAdapter,
    /// Messages from an adapter's stdout to a host
    AdapterToHost,
    /// The configuration file
    Config,
}

impl SchemaArgs {
    pub(super) fn run(self) -> CommandResult {
        match self.of {
            Some(SchemaChoice::HostToAdapter) => print_text(schema::HOST_TO_ADAPTER),
            Some(SchemaChoice::AdapterToHost) => print_text(schema::ADAPTER_TO_HOST),
            Some(SchemaChoice::Config) => print_text(config::SCHEMA),
            None => print_text(format_args!(
                "{{\n\"host-to-adapter\": {},\n\"adapter-to-host\": {}\n}}\n",
                schema::HOST_TO_ADAPTER.trim_end(),
                schema::ADAPTER_TO_HOST.trim_end()
            )),
        }
    }
}
