//! MCP servers of a session, as each agent takes them (census rows J01 to J06).

mod codex;
mod config;
mod copilot;
mod expand;
mod parse;

use std::{collections::BTreeMap, fmt};

pub(crate) use self::codex::{codex_config, codex_overrides, quote_toml};
pub(crate) use self::config::{
    AcpTransports, acp_servers, claude_config, opencode_config, private_file,
};
pub(crate) use self::copilot::copilot_config;
pub(crate) use self::parse::{parse, parse_values};

/// A server that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct McpServer {
    /// Prefix of its tools' names.
    pub(crate) name: String,
    /// Transport to the server.
    pub(crate) transport: Transport,
}

/// Transport to a server. The values of variables and headers are secrets, and hidden in `Debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A program that the agent starts.
    Stdio {
        /// The program.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Additional environment.
        env: BTreeMap<String, Secret>,
    },
    /// Streamable HTTP.
    Http {
        /// Address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, Secret>,
    },
    /// HTTP with server-sent events, the older form.
    Sse {
        /// Address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, Secret>,
    },
}

#[cfg(test)]
mod tests;

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for the place that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}
