//! The requests that we send, as JSON. The tests compare each with the official types of the
//! protocol, which a build without tests does not compile.

use std::path::Path;

use serde_json::{Value, json};

use super::initialize::VERSION;

/// Returns `initialize`: our identity, and that we serve terminals and questions, and show notices.
/// Files only if the configuration allows it, since an agent that is offered them no longer uses
/// its own tools.
pub(crate) fn initialize(client_files: bool) -> Value {
    json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {
            "fs": { "readTextFile": client_files, "writeTextFile": client_files },
            "terminal": true,
            "elicitation": { "form": {}, "url": {} },
            "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
        },
        "clientInfo": { "name": "trunkline", "title": "Trunkline", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// `authenticate` by a method that the agent named.
pub(crate) fn authenticate(method: &str) -> Value {
    json!({ "methodId": method })
}

/// `session/new` in a directory.
pub(crate) fn new_session(cwd: &Path, mcp_servers: &[Value]) -> Value {
    json!({ "cwd": cwd.to_string_lossy(), "mcpServers": mcp_servers })
}

/// `session/load` or `session/resume`.
pub(crate) fn earlier_session(id: &str, cwd: &Path, mcp_servers: &[Value]) -> Value {
    json!({ "sessionId": id, "cwd": cwd.to_string_lossy(), "mcpServers": mcp_servers })
}

/// `session/list`: the page behind `cursor`.
pub(crate) fn list_sessions(cwd: Option<&str>, cursor: Option<&str>) -> Value {
    let given = [("cwd", cwd), ("cursor", cursor)];
    given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), json!(value?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::ProtocolVersion;
    use agent_client_protocol_schema::v1::{
        AuthenticateRequest, BooleanConfigOptionCapabilities, ClientCapabilities,
        ClientSessionCapabilities, CompactionCapabilities, ElicitationCapabilities,
        ElicitationFormCapabilities, ElicitationUrlCapabilities, FileSystemCapabilities,
        Implementation, InitializeRequest, ListSessionsRequest, LoadSessionRequest, McpServer,
        McpServerStdio, NewSessionRequest, NoticeCapabilities, ResumeSessionRequest,
        SessionConfigOptionsCapabilities,
    };
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;

    /// Ours, read by the official type, is what the official type makes of the same values.
    #[track_caller]
    fn same<T: Serialize + DeserializeOwned>(ours: &Value, official: &T) {
        let read: T = serde_json::from_value(ours.clone()).expect("the official type reads it");
        assert_eq!(json!(read), json!(official));
        // Nothing of ours is unknown to it.
        let official = json!(official);
        assert_within(ours, &official);
    }

    #[track_caller]
    fn assert_within(ours: &Value, official: &Value) {
        match (ours, official) {
            (Value::Object(ours), Value::Object(official)) => {
                for (name, value) in ours {
                    assert_within(
                        value,
                        official
                            .get(name)
                            .unwrap_or_else(|| panic!("unknown: {name}")),
                    );
                }
            }
            (ours, official) => assert_eq!(ours, official),
        }
    }

    fn servers() -> (Vec<Value>, Vec<McpServer>) {
        let stdio = McpServer::Stdio(
            McpServerStdio::new("notes", "/bin/notes").args(vec!["-q".to_owned()]),
        );
        (vec![json!(stdio)], vec![stdio])
    }

    #[test]
    fn each_request_is_what_the_official_types_make() {
        let info = Implementation::new("trunkline", env!("CARGO_PKG_VERSION"))
            .title("Trunkline".to_owned());
        for files in [false, true] {
            let capabilities = ClientCapabilities::new()
                .fs(FileSystemCapabilities::new()
                    .read_text_file(files)
                    .write_text_file(files))
                .terminal(true)
                .elicitation(
                    ElicitationCapabilities::new()
                        .form(ElicitationFormCapabilities::new())
                        .url(ElicitationUrlCapabilities::new()),
                )
                .session(
                    ClientSessionCapabilities::new()
                        .notices(NoticeCapabilities::new())
                        .compaction(CompactionCapabilities::new())
                        .config_options(
                            SessionConfigOptionsCapabilities::new()
                                .boolean(BooleanConfigOptionCapabilities::new()),
                        ),
                );
            let official = InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(capabilities)
                .client_info(info.clone());
            same(&initialize(files), &official);
        }

        same(
            &authenticate("api-key"),
            &AuthenticateRequest::new("api-key"),
        );

        let (ours, official) = servers();
        let cwd = Path::new("/work space");
        same(
            &new_session(cwd, &ours),
            &NewSessionRequest::new(cwd).mcp_servers(official.clone()),
        );
        let earlier = earlier_session("s-1", cwd, &ours);
        same(
            &earlier,
            &LoadSessionRequest::new("s-1", cwd).mcp_servers(official.clone()),
        );
        same(
            &earlier,
            &ResumeSessionRequest::new("s-1", cwd).mcp_servers(official),
        );

        same(&list_sessions(None, None), &ListSessionsRequest::new());
        let page = ListSessionsRequest::new()
            .cwd(Path::new("/w").to_owned())
            .cursor("2".to_owned());
        same(&list_sessions(Some("/w"), Some("2")), &page);
    }
}
