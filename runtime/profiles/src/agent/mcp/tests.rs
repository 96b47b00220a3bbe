use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::agents::McpVariables;

/// Reads one value.
fn read(servers: &[Value]) -> (Vec<McpServer>, Vec<String>) {
    parse_values(servers, &Default::default(), McpVariables::Braced)
}

fn parse(servers: &Value) -> (Vec<McpServer>, Vec<String>) {
    read(std::slice::from_ref(servers))
}

/// Returns one server of each kind.
fn three() -> Vec<McpServer> {
    let (servers, warnings) = parse(&json!({
        "files": {"command": "files-server", "args": ["--root", "/x"], "env": {"TOKEN": "env-secret"}},
        "hub": {"type": "http", "url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer hub-secret", "X-Agent-ID": "a1"}},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
    }));
    assert_eq!(warnings, [""; 0]);
    servers
}

fn names(servers: &[McpServer]) -> Vec<&str> {
    servers.iter().map(|server| server.name.as_str()).collect()
}

#[test]
fn each_form_is_read() {
    let stdio = json!({"command": "x"});
    for (value, expected) in [
        (json!(null), &[][..]),
        (json!({"a": stdio}), &["a"]),
        (
            json!({"mcpServers": {"a": stdio, "b": {"url": "http://x"}}}),
            &["a", "b"],
        ),
        (
            json!({"mcp_servers": [{"name": "a", "command": "x"}]}),
            &["a"],
        ),
        (
            json!([{"name": "a", "command": ["x", "y"], "environment": {"K": "v"}}, {"name": "b", "type": "remote", "url": "https://x"}]),
            &["a", "b"],
        ),
        (
            json!([{"name": "a", "command": "x", "args": [], "env": [{"name": "K", "value": "v"}]}]),
            &["a"],
        ),
        (
            json!({"a": {"httpUrl": "http://x"}, "b": {"command": "x", "disabled": true}, "c": {"command": "x", "enabled": false}}),
            &["a"],
        ),
        (
            json!([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]),
            &["a"],
        ),
    ] {
        let (servers, warnings) = parse(&value);
        assert_eq!(
            (names(&servers).as_slice(), warnings.as_slice()),
            (expected, &[][..]),
            "{value}"
        );
    }
}

#[test]
fn a_session_s_server_stands_for_the_configuration_s_of_its_name() {
    let configured = json!({"a": {"command": "x"}, "b": {"command": "x"}});
    let (servers, _) = read(&[configured, json!([{"name": "a", "command": "y"}])]);
    let commands: Vec<_> = servers
        .iter()
        .map(|server| match &server.transport {
            Transport::Stdio { command, .. } => (server.name.as_str(), command.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(commands, [("b", "x"), ("a", "y")]);
}

#[test]
fn what_is_wrong_is_told_without_values_and_the_others_stay() {
    for bad in [
        json!(7),
        json!({}),
        json!({"command": ""}),
        json!({"command": 7}),
        json!({"command": "x", "args": "y"}),
        json!({"command": "x", "args": [7]}),
        json!({"command": "x", "env": "s3cret"}),
        json!({"command": "x", "env": {"K": ["s3cret"]}}),
        json!({"command": "x", "env": {"A=B": "s3cret"}}),
        json!({"command": "x\0"}),
        json!({"type": "http"}),
        json!({"type": "carrier-pigeon", "url": "http://s3cret"}),
        json!({"type": "stdio", "url": "http://s3cret"}),
        json!({"url": "file:///s3cret"}),
        json!({"url": "http://x", "headers": {"bad name": "s3cret"}}),
        json!({"url": "http://x", "headers": {"X": "s3cret\r\nY: z"}}),
    ] {
        let (servers, warnings) = parse(&json!({"bad": bad, "good": {"command": "x"}}));
        assert_eq!(
            (names(&servers), warnings.len()),
            (vec!["good"], 1),
            "{bad}"
        );
        assert!(
            warnings[0].contains("bad") && !warnings[0].contains("s3cret"),
            "{warnings:?}"
        );
    }
    for name in ["", "a b", "a/b", &"x".repeat(65)] {
        let (servers, warnings) = parse(&json!({name: {"command": "x"}}));
        assert_eq!((servers.len(), warnings.len()), (0, 1), "{name}");
    }
    assert_eq!(parse(&json!("x")).1.len(), 1);
}

#[test]
fn secret_headers_and_variables_are_hidden_from_now_on() {
    let (servers, _) = parse(
        &json!({"a": {"url": "http://x", "headers": {"Authorization": "Bearer very-own-header-value", "X-Agent-ID": "plain-agent-identity"}}, "b": {"command": "x", "env": {"THE_TOKEN": "very-own-token-value"}}}),
    );
    assert_eq!(servers.len(), 2);
    let shown =
        trunkline_redact::text("very-own-header-value plain-agent-identity very-own-token-value");
    assert!(
        !shown.contains("own-") && shown.contains("plain-agent-identity"),
        "{shown}"
    );
    let whole = trunkline_redact::text("sent Bearer very-own-header-value");
    assert!(!whole.contains("header-value"), "{whole}");
}

#[test]
fn claude_s_file_is_private_and_has_its_shape() {
    let config = claude_config(&three());
    assert_eq!(
        config,
        json!({"mcpServers": {
            "files": {"type": "stdio", "command": "files-server", "args": ["--root", "/x"], "env": {"TOKEN": "env-secret"}},
            "hub": {"type": "http", "url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer hub-secret", "X-Agent-ID": "a1"}},
            "old": {"type": "sse", "url": "http://127.0.0.1:1/sse", "headers": {}},
        }})
    );
    let file = private_file(&config).unwrap();
    let path = file.path().to_owned();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap(),
        config
    );
    drop(file);
    assert!(!path.exists());
}

#[test]
fn copilot_s_file_holds_nothing_that_it_would_replace() {
    let (servers, _) = parse(&json!({
        "files": {"command": "x", "args": ["$HOME", "plain"], "env": {"A_TOKEN": "a${0}b"}},
        "web": {"type": "http", "url": "https://x/$1", "headers": {"X-A": "plain"}},
    }));
    let (config, variables) = copilot_config(&servers);
    let servers = &config["mcpServers"];
    assert_eq!(servers["files"]["tools"], json!(["*"]));
    assert_eq!(
        (&servers["files"]["command"], &servers["files"]["args"][1]),
        (&json!("x"), &json!("plain"))
    );
    assert_eq!(servers["web"]["headers"]["X-A"], "plain");
    // Each is put back from the environment, once.
    for (written, text) in [
        (&servers["files"]["args"][0], "$HOME"),
        (&servers["files"]["env"]["A_TOKEN"], "a${0}b"),
        (&servers["web"]["url"], "https://x/$1"),
    ] {
        let name = written
            .as_str()
            .unwrap()
            .strip_prefix("${")
            .unwrap()
            .strip_suffix('}')
            .unwrap();
        assert_eq!(variables[name], text);
    }
    assert_eq!(variables.len(), 3);
    assert_eq!(copilot_config(&[]).0, json!({"mcpServers": {}}));
}

#[test]
fn codex_takes_a_table() {
    let (config, warnings) = codex_config(&three());
    assert_eq!(
        Value::Object(config),
        json!({
            "files": {"command": "files-server", "args": ["--root", "/x"], "env": {"TOKEN": "env-secret"}},
            "hub": {"url": "https://hub.example/mcp", "http_headers": {"Authorization": "Bearer hub-secret", "X-Agent-ID": "a1"}},
        })
    );
    assert_eq!(warnings, ["MCP server old: codex reaches none over sse"]);
}

#[test]
fn codex_s_arguments_hold_no_secret() {
    let overrides = codex_overrides(&three());
    assert_eq!(
        overrides.args,
        [
            "-c",
            r#"mcp_servers.files.command="files-server""#,
            "-c",
            r#"mcp_servers.files.args=["--root","/x"]"#,
            "-c",
            r#"mcp_servers.files.env_vars=["TOKEN"]"#,
            "-c",
            r#"mcp_servers.hub.url="https://hub.example/mcp""#,
            "-c",
            r#"mcp_servers.hub.env_http_headers={"Authorization"="TRUNKLINE_MCP_HUB_AUTHORIZATION","X-Agent-ID"="TRUNKLINE_MCP_HUB_X_AGENT_ID"}"#,
        ]
    );
    let env: Vec<_> = overrides
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(
        env,
        [
            ("TOKEN", "env-secret"),
            ("TRUNKLINE_MCP_HUB_AUTHORIZATION", "Bearer hub-secret"),
            ("TRUNKLINE_MCP_HUB_X_AGENT_ID", "a1"),
        ]
    );
    assert_eq!(overrides.warnings.len(), 1);
    assert!(!format!("{overrides:?} {:?}", three()).contains("secret"));
}

#[test]
fn two_servers_that_want_one_variable_differently_are_told() {
    let (servers, _) = parse(&json!([
        {"name": "a", "command": "x", "env": {"K": "1"}},
        {"name": "b", "command": "x", "env": {"K": "2"}},
        {"name": "c", "command": "x", "env": {"K": "1"}},
    ]));
    let overrides = codex_overrides(&servers);
    assert_eq!(
        overrides.warnings,
        ["MCP server b: another server has a variable of the same name"]
    );
    assert!(
        overrides
            .args
            .iter()
            .any(|arg| arg.starts_with("mcp_servers.c."))
    );
}

#[test]
fn toml_strings_are_escaped() {
    let (servers, _) = parse(&json!({"a": {"command": "q\"b\\n\n\u{7f}ü"}}));
    assert_eq!(
        codex_overrides(&servers).args[1],
        r#"mcp_servers.a.command="q\"b\\n\u000A\u007Fü""#
    );
}

#[test]
fn acp_agents_get_what_they_reach() {
    let (all, warnings) = acp_servers(
        &three(),
        AcpTransports {
            http: true,
            sse: true,
        },
    );
    assert_eq!(
        Value::from(all),
        json!([
            {"name": "files", "command": "files-server", "args": ["--root", "/x"], "env": [{"name": "TOKEN", "value": "env-secret"}]},
            {"type": "http", "name": "hub", "url": "https://hub.example/mcp", "headers": [{"name": "Authorization", "value": "Bearer hub-secret"}, {"name": "X-Agent-ID", "value": "a1"}]},
            {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []},
        ])
    );
    assert_eq!(warnings, [""; 0]);
    let (some, warnings) = acp_servers(&three(), AcpTransports::default());
    assert_eq!((some.len(), warnings.len()), (1, 2));
}

#[test]
fn the_configuration_of_opencode_has_its_shape() {
    assert_eq!(
        opencode_config(&three()),
        json!({"mcp": {
            "files": {"type": "local", "command": ["files-server", "--root", "/x"], "environment": {"TOKEN": "env-secret"}, "enabled": true},
            "hub": {"type": "remote", "url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer hub-secret", "X-Agent-ID": "a1"}, "enabled": true},
            "old": {"type": "remote", "url": "http://127.0.0.1:1/sse", "headers": {}, "enabled": true},
        }})
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC*|http://x".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(
                "mcpServers|name|command|args|env|url|headers|type|value|[a-z]{1,3}",
                inner,
                0..4
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_taken(value in any_json()) {
        let (servers, _) = parse(&value);
        claude_config(&servers);
        codex_config(&servers);
        codex_overrides(&servers);
        acp_servers(&servers, AcpTransports::default());
    }
}

/// Variables in each member, for each agent: put in, or left to the agent that puts them in itself.
#[test]
fn each_agent_gets_the_values_of_variables() {
    let env = BTreeMap::from([
        ("MCP_BASE".to_owned(), "https://mcp.example".to_owned()),
        ("MCP_API_TOKEN".to_owned(), "t0ken".to_owned()),
    ]);
    let servers = json!({"mcpServers": {
        "remote": {"type": "http", "url": "${MCP_BASE}/mcp", "headers": {"Authorization": "Bearer ${MCP_API_TOKEN}"}},
        "other": {"serverUrl": "${NONE:-https://d}/mcp"},
        "program": {"command": "${BIN:-run}", "args": ["--base", "$MCP_BASE"], "env": {"TOKEN": "${env:MCP_API_TOKEN}"}},
        "unset": {"command": "x", "env": {"TOKEN": "${NO_SUCH_VARIABLE}"}},
    }});
    for file in crate::agents::all() {
        let (parsed, warnings) =
            parse_values(std::slice::from_ref(&servers), &env, file.mcp_variables);
        let by_name = |name: &str| parsed.iter().find(|server| server.name == name);
        let transport = |name: &str| by_name(name).map(|server| server.transport.clone());
        let http = |url: &str, token: &str| Transport::Http {
            url: url.to_owned(),
            headers: [("Authorization".to_owned(), Secret::new(token))].into(),
        };
        let name = &file.name;
        if file.mcp_variables == McpVariables::LeftToAgent {
            let expected = http("${MCP_BASE}/mcp", "Bearer ${MCP_API_TOKEN}");
            assert_eq!(transport("remote"), Some(expected), "{name}");
            assert!(
                warnings.is_empty() && parsed.len() == 4,
                "{name}: {warnings:?}"
            );
            continue;
        }
        let expected = http("https://mcp.example/mcp", "Bearer t0ken");
        assert_eq!(transport("remote"), Some(expected), "{name}");
        let expected = Transport::Http {
            url: "https://d/mcp".to_owned(),
            headers: BTreeMap::new(),
        };
        assert_eq!(transport("other"), Some(expected), "{name}");
        let base = match file.mcp_variables {
            McpVariables::Bare => "https://mcp.example",
            _ => "$MCP_BASE",
        };
        let expected = Transport::Stdio {
            command: "run".to_owned(),
            args: vec!["--base".to_owned(), base.to_owned()],
            env: [("TOKEN".to_owned(), Secret::new("t0ken"))].into(),
        };
        assert_eq!(transport("program"), Some(expected), "{name}");
        assert_eq!(by_name("unset"), None, "{name}");
        let [warning] = warnings.as_slice() else {
            panic!("{name}: {warnings:?}")
        };
        for part in ["MCP server unset:", "NO_SUCH_VARIABLE", "env_passthrough"] {
            assert!(warning.contains(part), "{name}: {warning}");
        }
    }
}
