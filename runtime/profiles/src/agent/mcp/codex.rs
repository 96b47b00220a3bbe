//! Servers as overrides of Codex's configuration: as JSON for `thread/start`, and as `-c key=value`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{McpServer, Transport, config::map};

/// Returns the reason for which codex cannot use a server.
fn refusal(server: &McpServer) -> Option<&'static str> {
    if !is_name(&server.name) {
        return Some("codex takes letters, digits, `_` and `-` in a name");
    }
    matches!(server.transport, Transport::Sse { .. }).then_some("codex reaches none over sse")
}

/// The `mcp_servers` table as an override of `thread/start`, and what is wrong with the servers
/// that are left out.
pub(crate) fn codex_config(servers: &[McpServer]) -> (Map<String, Value>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut table = Map::new();
    for server in servers {
        let McpServer { name, transport } = server;
        if let Some(why) = refusal(server) {
            warnings.push(format!("MCP server {name}: {why}"));
            continue;
        }
        let written = match transport {
            Transport::Stdio { command, args, env } => {
                json!({"command": command, "args": args, "env": map(env)})
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                json!({"url": url, "http_headers": map(headers)})
            }
        };
        table.insert(name.clone(), written);
    }
    (table, warnings)
}

/// Arguments that hold no secret, and the environment in which they are found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CodexOverrides {
    /// `-c`, `key=value`, and so on.
    pub(crate) args: Vec<String>,
    /// Variables that the arguments refer to by name.
    pub(crate) env: BTreeMap<String, super::Secret>,
    /// Problems of the servers that are left out.
    pub(crate) warnings: Vec<String>,
}

/// The same as arguments of `codex exec`. Values of headers and variables go by environment, and
/// the arguments name them: headers under names of our own, variables of a program under theirs.
pub(crate) fn codex_overrides(servers: &[McpServer]) -> CodexOverrides {
    let mut overrides = CodexOverrides::default();
    for server in servers {
        let McpServer { name, transport } = server;
        let is_another = |(variable, value): (&String, &super::Secret)| {
            let other = overrides.env.get(variable);
            other.is_some_and(|other| other != value)
        };
        let refusal = refusal(server).or_else(|| match transport {
            Transport::Stdio { env, .. } => env
                .iter()
                .any(is_another)
                .then_some("another server has a variable of the same name"),
            Transport::Http { .. } | Transport::Sse { .. } => None,
        });
        if let Some(why) = refusal {
            let warning = format!("MCP server {name}: {why}");
            overrides.warnings.push(warning);
            continue;
        }
        let mut set = |key: &str, value: String| {
            overrides
                .args
                .extend(["-c".to_owned(), format!("mcp_servers.{name}.{key}={value}")]);
        };
        match transport {
            Transport::Stdio { command, args, env } => {
                set("command", quote_toml(command));
                set("args", list(args.iter().map(String::as_str)));
                if !env.is_empty() {
                    set("env_vars", list(env.keys().map(String::as_str)));
                    overrides.env.extend(env.clone());
                }
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                set("url", quote_toml(url));
                if !headers.is_empty() {
                    let variable = |header: &String| {
                        format!("TRUNKLINE_MCP_{}_{}", shouted(name), shouted(header))
                    };
                    let named: Vec<_> = headers
                        .keys()
                        .map(|header| {
                            format!("{}={}", quote_toml(header), quote_toml(&variable(header)))
                        })
                        .collect();
                    set("env_http_headers", format!("{{{}}}", named.join(",")));
                    overrides.env.extend(
                        headers
                            .iter()
                            .map(|(header, value)| (variable(header), value.clone())),
                    );
                }
            }
        }
    }
    overrides
}

/// Returns a text as a TOML string.
pub(crate) fn quote_toml(text: &str) -> String {
    use std::fmt::Write;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            _ if char.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(char))),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// A TOML array of strings.
fn list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let quoted: Vec<_> = texts.map(quote_toml).collect();
    format!("[{}]", quoted.join(","))
}

fn shouted(name: &str) -> String {
    name.chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() {
                char.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    name.chars()
        .all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
}
