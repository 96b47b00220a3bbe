//! MCP servers of a session, by an extension of pi: by itself it has none.

use tempfile::NamedTempFile;
use trunkline_sdk::Error;

use crate::agent::launch::Launch;
use crate::agent::mcp::{McpServer, Transport, claude_config, private_file};
use crate::agent::private_file::write;

/// The extension: it starts the servers, and registers their tools.
const EXTENSION: &str = include_str!("mcp_extension.mjs");

/// Variable that names the file with the servers.
const CONFIG: &str = "TRUNKLINE_MCP_CONFIG";

/// The private files of a session with servers. Dropping it removes them.
#[derive(Debug)]
pub(super) struct McpExtension {
    extension: NamedTempFile,
    servers: NamedTempFile,
}

impl McpExtension {
    /// Writes the files; `None` without servers. The texts name servers that are left out.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn new(servers: Vec<McpServer>) -> Result<(Option<Self>, Vec<String>), Error> {
        let (left_out, servers): (Vec<_>, Vec<_>) = servers
            .into_iter()
            .partition(|server| matches!(server.transport, Transport::Sse { .. }));
        let left_out = left_out
            .iter()
            .map(|server| format!("MCP server {}: pi reaches none over sse", server.name));
        let left_out = left_out.collect();
        if servers.is_empty() {
            return Ok((None, left_out));
        }
        let failed = |error| Error::other(format!("failed to write the MCP servers: {error}"));
        let files = Self {
            extension: write("mcp-", ".mjs", EXTENSION).map_err(failed)?,
            servers: private_file(&claude_config(&servers)).map_err(failed)?,
        };
        Ok((Some(files), left_out))
    }

    /// Adds the extension to a start of pi.
    pub(super) fn add_to(&self, launch: Launch) -> Launch {
        launch
            .arg("--extension")
            .arg(self.extension.path())
            .env(CONFIG, self.servers.path())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::{Value, json};
    use trunkline_testing::has_program;

    use super::*;

    fn server(name: &str, transport: Transport) -> McpServer {
        McpServer {
            name: name.to_owned(),
            transport,
        }
    }

    #[test]
    fn a_session_without_servers_has_no_extension_and_sse_is_left_out() {
        let sse = Transport::Sse {
            url: "http://a.test/sse".to_owned(),
            headers: [].into(),
        };
        let (none, left_out) = McpExtension::new(vec![server("old", sse)]).unwrap();
        assert!(
            none.is_none() && left_out.concat().contains("old"),
            "{left_out:?}"
        );
        assert!(McpExtension::new(Vec::new()).unwrap().0.is_none());
    }

    /// Loads the extension as pi does, calls each tool, and prints what came of it. Beside it is a
    /// server over HTTP.
    const HARNESS: &str = r#"
import { createServer } from "node:http";
import { writeFileSync, readFileSync } from "node:fs";
const http = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const { id, method, params } = JSON.parse(body);
  if (id === undefined) return response.writeHead(202).end();
  if (method !== "initialize" && request.headers["mcp-session-id"] !== "s1") return response.writeHead(404).end();
  const result = { initialize: {}, "tools/list": { tools: [{ name: "add", inputSchema: { type: "object" } }] } }[method]
    ?? { content: [{ type: "text", text: `${request.headers.key}: ${params.arguments.a + 1}` }] };
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result });
  if (method === "tools/list") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    return response.end(`event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\ndata: ${answer}\n\n`);
  }
  response.writeHead(200, { "content-type": "application/json", "mcp-session-id": "s1" }).end(answer);
}).listen(0, "127.0.0.1", async () => {
  const file = process.env.TRUNKLINE_MCP_CONFIG;
  writeFileSync(file, readFileSync(file, "utf8").replace("PORT", http.address().port));
  const tools = {}, handlers = {};
  const pi = { registerTool: (tool) => (tools[tool.name] = tool), on: (event, handler) => (handlers[event] = handler) };
  await (await import(process.argv[1])).default(pi);
  const call = async (name, params) => {
    try {
      return (await tools[name].execute("1", params)).content[0].text;
    } catch (error) {
      return `failed: ${error.message}`;
    }
  };
  console.log(JSON.stringify({
    names: Object.keys(tools).sort(),
    note: await call("mcp__notes__leave_note", { text: "lapwing" }),
    add: await call("mcp__sums__add", { a: 1 }),
    wrong: await call("mcp__notes__leave_note", {}),
  }));
  handlers.session_shutdown();
  http.close();
});
"#;

    #[test]
    fn the_extension_calls_tools_of_programs_and_over_http() {
        if !has_program("node") || !has_program("python3") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note.txt");
        let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clis/fake_mcp.py");
        let program = |command: &str, args: Vec<String>| Transport::Stdio {
            command: command.to_owned(),
            args,
            env: [].into(),
        };
        let notes = vec![fake.to_owned(), note.display().to_string()];
        let sums = json!({"sums": {"type": "http", "url": "http://127.0.0.1:PORT/mcp", "headers": {"Key": "k"}}});
        let variables = crate::agents::McpVariables::Braced;
        let (mut servers, _) = crate::agent::mcp::parse_values(&[sums], &[].into(), variables);
        servers.push(server("notes", program("python3", notes)));
        servers.push(server("broken", program("no-such-server", Vec::new())));
        let extension = McpExtension::new(servers).unwrap().0.unwrap();
        let ran = Command::new("node")
            .args(["--input-type=module", "-e", HARNESS])
            .arg(extension.extension.path())
            .env(CONFIG, extension.servers.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let result: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        assert_eq!(
            result["names"],
            json!(["mcp__notes__leave_note", "mcp__sums__add"]),
            "{stderr}"
        );
        assert_eq!(
            (&result["note"], &result["add"]),
            (&json!("noted"), &json!("k: 2"))
        );
        assert!(note.exists());
        // The server fails at a call without its argument, and ends.
        assert!(
            result["wrong"]
                .to_string()
                .contains("failed: the server ended"),
            "{result}"
        );
        assert!(stderr.contains("MCP server broken: "), "{stderr}");
    }
}
