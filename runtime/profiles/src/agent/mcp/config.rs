//! Servers as JSON in the shapes that the agents' configurations have.

use std::{collections::BTreeMap, io};

use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use super::{McpServer, Secret, Transport};
use crate::agent::private_file;

/// The file for claude's `--mcp-config`.
pub(crate) fn claude_config(servers: &[McpServer]) -> Value {
    json!({"mcpServers": by_name(servers, |transport| match transport {
        Transport::Stdio { command, args, env } => json!({"type": "stdio", "command": command, "args": args, "env": map(env)}),
        Transport::Http { url, headers } => json!({"type": "http", "url": url, "headers": map(headers)}),
        Transport::Sse { url, headers } => json!({"type": "sse", "url": url, "headers": map(headers)}),
    })})
}

/// Returns the servers for the configuration of opencode and kilo.
pub(crate) fn opencode_config(servers: &[McpServer]) -> Value {
    json!({"mcp": by_name(servers, |transport| match transport {
        Transport::Stdio { command, args, env } => {
            let command: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({"type": "local", "command": command, "environment": map(env), "enabled": true})
        }
        Transport::Http { url, headers } | Transport::Sse { url, headers } =>
            json!({"type": "remote", "url": url, "headers": map(headers), "enabled": true}),
    })})
}

/// Transports besides programs that an ACP agent declared.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AcpTransports {
    /// Streamable HTTP.
    pub(crate) http: bool,
    /// HTTP with server-sent events.
    pub(crate) sse: bool,
}

/// The `mcpServers` of ACP's `session/new` and `session/load`, and what is wrong with those that
/// are left out.
pub(crate) fn acp_servers(
    servers: &[McpServer],
    reached: AcpTransports,
) -> (Vec<Value>, Vec<String>) {
    let mut written = Vec::new();
    let mut warnings = Vec::new();
    for McpServer { name, transport } in servers {
        match transport {
            Transport::Stdio { command, args, env } => {
                written.push(
                    json!({"name": name, "command": command, "args": args, "env": list(env)}),
                );
            }
            Transport::Http { url, headers } if reached.http => {
                written.push(
                    json!({"type": "http", "name": name, "url": url, "headers": list(headers)}),
                );
            }
            Transport::Sse { url, headers } if reached.sse => {
                written.push(
                    json!({"type": "sse", "name": name, "url": url, "headers": list(headers)}),
                );
            }
            Transport::Http { .. } => warnings.push(format!(
                "MCP server {name}: the agent reaches none over http"
            )),
            Transport::Sse { .. } => warnings.push(format!(
                "MCP server {name}: the agent reaches none over sse"
            )),
        }
    }
    (written, warnings)
}

/// A configuration in a file that only this user can read, in the private folder for temporary
/// files; dropping it removes it.
pub(crate) fn private_file(config: &Value) -> io::Result<NamedTempFile> {
    private_file::write("mcp-", ".json", &config.to_string())
}

fn by_name(servers: &[McpServer], write: impl Fn(&Transport) -> Value) -> Map<String, Value> {
    servers
        .iter()
        .map(|server| (server.name.clone(), write(&server.transport)))
        .collect()
}

pub(super) fn map(pairs: &BTreeMap<String, Secret>) -> Map<String, Value> {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.reveal())))
        .collect()
}

fn list(pairs: &BTreeMap<String, Secret>) -> Vec<Value> {
    pairs
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value.reveal()}))
        .collect()
}
