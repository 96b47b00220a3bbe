//! `trunkline dev schema`: the JSON Schemas of the protocol and of the configuration.

use std::io::Write;

use clap::{Args, ValueEnum};
use trunkline_host::config;
use trunkline_protocol::schema;

use crate::{error::CommandResult, exit};

/// Prints the JSON Schema of the protocol's messages, or of the configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline dev schema adapter-to-host > adapter-to-host.json
  trunkline dev schema                  both directions, as one object with two schemas
  trunkline dev schema config > trunkline.schema.json

Editors complete a configuration that starts with the key \
`\"$schema\": \"./trunkline.schema.json\"`.")]
pub(super) struct SchemaArgs {
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
        let mut stdout = std::io::stdout().lock();
        match self.of {
            Some(SchemaChoice::HostToAdapter) => {
                stdout.write_all(schema::HOST_TO_ADAPTER.as_bytes())?
            }
            Some(SchemaChoice::AdapterToHost) => {
                stdout.write_all(schema::ADAPTER_TO_HOST.as_bytes())?
            }
            Some(SchemaChoice::Config) => stdout.write_all(config::SCHEMA.as_bytes())?,
            None => writeln!(
                stdout,
                "{{\n\"host-to-adapter\": {},\n\"adapter-to-host\": {}\n}}",
                schema::HOST_TO_ADAPTER.trim_end(),
                schema::ADAPTER_TO_HOST.trim_end()
            )?,
        }
        Ok(exit::OK)
    }
}
