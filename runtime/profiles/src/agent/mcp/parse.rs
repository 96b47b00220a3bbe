//! Reads servers from `session.start.mcp_servers` or the configuration, in each form that is about.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trunkline_redact::SecretInputs;

use super::expand::expand;
use super::{McpServer, Secret, Transport};
use crate::agent::options::Options;
use crate::agent::variables;
use crate::agents::McpVariables;

/// The most servers of a session.
const MOST: usize = 128;

/// The longest text in a server, in bytes.
pub(super) const LONGEST: usize = 64 * 1024;

/// The servers of a session, as [`parse_values`] reads them.
pub(crate) fn parse(options: &Options, variables: McpVariables) -> (Vec<McpServer>, Vec<String>) {
    parse_values(&options.mcp_servers, &options.env, variables)
}

/// Returns the servers, and the problems of those that are left out: the turn continues without
/// them (census row J06).
///
/// Variables that a server names are replaced from the environment of the agent's entry, unless the
/// agent does that itself. The configuration's come first, then the session's; of two of one name
/// the later is used. Accepted are a map from names to servers, a list of servers with `name`, and
/// either inside `mcpServers` or `mcp_servers`. Environment and headers are maps, or lists of
/// `{name, value}`.
pub(crate) fn parse_values(
    servers: &[Value],
    env: &BTreeMap<String, String>,
    variables: McpVariables,
) -> (Vec<McpServer>, Vec<String>) {
    let mut parsed = Vec::new();
    let mut warnings = Vec::new();
    for servers in servers {
        // The agent's messages about its servers are shown, too. A session's secrets are held by
        // its options.
        SecretInputs::default().json(servers).register();
        let read = |name: Option<&str>, value: &Value| server(name, value, env, variables);
        add(servers, read, &mut parsed, &mut warnings);
    }
    (parsed, warnings)
}

fn add(
    servers: &Value,
    read: impl Fn(Option<&str>, &Value) -> Result<Option<McpServer>, String>,
    parsed: &mut Vec<McpServer>,
    warnings: &mut Vec<String>,
) {
    let mut take = |name: Option<&str>, value: &Value| match read(name, value) {
        _ if parsed.len() >= MOST => {}
        Ok(Some(server)) => {
            parsed.retain(|known| known.name != server.name);
            parsed.push(server);
        }
        Ok(None) => {}
        Err(why) => warnings.push(why),
    };
    let inner = ["mcpServers", "mcp_servers"]
        .iter()
        .find_map(|key| servers.get(*key))
        .unwrap_or(servers);
    match inner {
        Value::Null => {}
        Value::Array(elements) => elements.iter().for_each(|element| take(None, element)),
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| take(Some(name), value)),
        _ => warnings.push(
            "MCP servers are a map from names to servers, or a list: they are neither".to_owned(),
        ),
    }
}

/// A server; nothing where it is switched off.
fn server(
    name: Option<&str>,
    value: &Value,
    env: &BTreeMap<String, String>,
    variables: McpVariables,
) -> Result<Option<McpServer>, String> {
    let Some(members) = value.as_object() else {
        return Err(format!(
            "MCP server {:?}: it is not an object",
            shown(name.unwrap_or("without name"))
        ));
    };
    let given = members.get("name").and_then(Value::as_str);
    let name = name.or(given).unwrap_or_default().trim();
    if !is_name(name) {
        return Err(format!(
            "MCP server {:?}: its name must be 1 to 64 letters, digits, `_`, `-` or `.`",
            shown(name)
        ));
    }
    let is = |key: &str| members.get(key).and_then(Value::as_bool);
    if is("disabled") == Some(true) || is("enabled") == Some(false) {
        return Ok(None);
    }
    let refused = |why: String| format!("MCP server {name}: {why}");
    let is_left = variables == McpVariables::LeftToAgent;
    let members = if is_left {
        Cow::Borrowed(members)
    } else {
        let value = |name: &str| variables::value(env, name);
        let members = expand(members, variables == McpVariables::Bare, &value).map_err(refused)?;
        let named = json!({ name: &members });
        SecretInputs::default().json(&named).register();
        Cow::Owned(members)
    };
    let transport = transport(&members, is_left).map_err(|why| refused(why.to_owned()))?;
    Ok(Some(McpServer {
        name: name.to_owned(),
        transport,
    }))
}

fn transport(
    members: &Map<String, Value>,
    may_name_variables: bool,
) -> Result<Transport, &'static str> {
    let text = |key: &str| {
        members
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.trim().is_empty())
    };
    let kind = text("type")
        .or_else(|| text("transport"))
        .map(str::to_ascii_lowercase);
    let url = text("url")
        .or_else(|| text("httpUrl"))
        .or_else(|| text("serverUrl"));
    let is_sse = kind.as_deref() == Some("sse");
    let is_http = matches!(
        kind.as_deref(),
        Some("http" | "sse" | "remote" | "streamable-http" | "streamable_http" | "streamablehttp")
    );
    match (kind.as_deref(), url) {
        (kind, Some(url)) if kind.is_none() || is_http => {
            let is_variable = may_name_variables && url.starts_with("${");
            if !(is_variable || url.starts_with("http://") || url.starts_with("https://"))
                || url.contains(char::is_control)
            {
                return Err("its url is not an http or https URL");
            }
            let headers = pairs(
                members
                    .get("headers")
                    .or_else(|| members.get("http_headers")),
            )?;
            if headers
                .iter()
                .any(|(name, value)| !is_header(name, value.reveal()))
            {
                return Err("a header's name or value cannot be sent");
            }
            let url = bounded(url)?;
            Ok(if is_sse {
                Transport::Sse { url, headers }
            } else {
                Transport::Http { url, headers }
            })
        }
        (None | Some("stdio" | "local"), None) => {
            let (command, args) = command(members)?;
            let env = pairs(members.get("env").or_else(|| members.get("environment")))?;
            if env
                .keys()
                .any(|name| name.is_empty() || name.contains(['=', '\0']))
            {
                return Err("a variable's name cannot be set");
            }
            Ok(Transport::Stdio { command, args, env })
        }
        (Some(_), None) if is_http => Err("its url is missing"),
        (Some("stdio" | "local"), Some(_)) => Err("it has a url and yet is of type stdio"),
        _ => Err("its type is none of stdio, http and sse"),
    }
}

/// `command` and `args`, or all of it in `command` as a list.
fn command(members: &Map<String, Value>) -> Result<(String, Vec<String>), &'static str> {
    let args = match members.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => texts(value).ok_or("its args are not a list of texts")?,
    };
    match members.get("command") {
        Some(Value::String(command)) if !command.trim().is_empty() => Ok((bounded(command)?, args)),
        Some(list @ Value::Array(_)) => {
            let mut words = texts(list)
                .filter(|words| !words.is_empty())
                .ok_or("its command is not a list of texts")?;
            let program = words.remove(0);
            words.extend(args);
            Ok((program, words))
        }
        Some(_) => Err("its command is not text"),
        None => Err("it has neither a command nor a url"),
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |element: &Value| {
        element
            .as_str()
            .filter(|text| !text.contains('\0') && text.len() <= LONGEST)
            .map(str::to_owned)
    };
    value.as_array()?.iter().map(text).collect()
}

/// A map from names to texts, or a list of `{name, value}`; numbers and truth values as their texts.
fn pairs(value: Option<&Value>) -> Result<BTreeMap<String, Secret>, &'static str> {
    const WRONG: &str = "its environment or headers are not a map of texts";
    let text = |value: &Value| match value {
        Value::String(text) if !text.contains('\0') && text.len() <= LONGEST => {
            Ok(Secret::new(text))
        }
        Value::Number(_) | Value::Bool(_) => Ok(Secret::new(value.to_string())),
        _ => Err(WRONG),
    };
    let pairs: BTreeMap<String, Secret> = match value {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(members)) => {
            let pair = |(name, value): (&String, &Value)| Ok((name.clone(), text(value)?));
            members.iter().map(pair).collect::<Result<_, &str>>()?
        }
        Some(Value::Array(elements)) => {
            let pair = |element: &Value| {
                let name = element.get("name").and_then(Value::as_str).ok_or(WRONG)?;
                Ok((name.to_owned(), text(element.get("value").ok_or(WRONG)?)?))
            };
            elements.iter().map(pair).collect::<Result<_, &str>>()?
        }
        Some(_) => return Err(WRONG),
    };
    Ok(pairs)
}

fn bounded(text: &str) -> Result<String, &'static str> {
    if text.len() > LONGEST || text.contains('\0') {
        Err("a text is too long or holds a NUL")
    } else {
        Ok(text.to_owned())
    }
}

fn is_header(name: &str, value: &str) -> bool {
    let is_token = |char: char| char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char);
    !name.is_empty() && name.chars().all(is_token) && !value.contains(['\r', '\n'])
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.'))
}

fn shown(name: &str) -> String {
    trunkline_sdk::preview::cut(name, 64)
}
