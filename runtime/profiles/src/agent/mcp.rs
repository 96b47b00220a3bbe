//! MCP servers of a session, as each agent takes them (census rows J01 to J06).

mod codex;
mod config;
mod copilot;
mod expand;
mod parse;
mod secret;

use std::collections::BTreeMap;

pub(crate) use self::codex::{codex_config, codex_overrides, quote_toml};
pub(crate) use self::config::{
    AcpTransports, acp_servers, claude_config, opencode_config, private_file,
};
pub(crate) use self::copilot::copilot_config;
pub(crate) use self::parse::{parse, parse_values};
pub(crate) use self::secret::Secret;

/// A server that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpServer {
    /// What its tools are named after.
    pub(crate) name: String,
    /// How it is reached.
    pub(crate) transport: Transport,
}

/// How a server is reached. The values of variables and headers are secrets, and hidden in `Debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A program that the agent starts.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its further environment.
        env: BTreeMap<String, Secret>,
    },
    /// Streamable HTTP.
    Http {
        /// Where it is.
        url: String,
        /// What each request carries.
        headers: BTreeMap<String, Secret>,
    },
    /// HTTP with server-sent events, the older form.
    Sse {
        /// Where it is.
        url: String,
        /// What each request carries.
        headers: BTreeMap<String, Secret>,
    },
}

#[cfg(test)]
mod tests;
