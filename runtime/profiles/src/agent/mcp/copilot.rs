//! Servers for copilot's `--additional-mcp-config`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{McpServer, claude_config};

/// The file's content, and variables that it refers to. Copilot puts `$NAME` and `${NAME}` in any
/// text by what the environment holds, once: a text with a `$` therefore goes by a variable of
/// ours.
pub(crate) fn copilot_config(servers: &[McpServer]) -> (Value, BTreeMap<String, String>) {
    let mut config = claude_config(servers);
    let mut variables = BTreeMap::new();
    for server in config["mcpServers"]
        .as_object_mut()
        .into_iter()
        .flat_map(|servers| servers.values_mut())
    {
        by_variable(server, &mut variables);
        server["tools"] = json!(["*"]);
    }
    (config, variables)
}

fn by_variable(value: &mut Value, variables: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) if text.contains('$') => {
            let name = format!("TRUNKLINE_MCP_{}", variables.len());
            let text = std::mem::replace(text, format!("${{{name}}}"));
            variables.insert(name, text);
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| by_variable(element, variables)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| by_variable(member, variables)),
        _ => {}
    }
}
