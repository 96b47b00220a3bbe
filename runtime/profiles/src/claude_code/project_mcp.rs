//! The MCP servers of a project: its `.mcp.json` files, joined with those in configuration and
//! session.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde_json::{Map, Value};

/// Name of such a file.
const FILE: &str = ".mcp.json";

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Limit of searched directories.
const MOST: usize = 64;

/// Returns the servers of the files from a directory upwards, the nearest first, joined with the
/// additional ones. An entry of an existing name keeps its members, except those that the other one
/// has; headers and variables are joined one by one. One with a command or an address of its own
/// replaces the other.
///
/// A file that does not belong to this user or root is left out: another user who can write in
/// `/tmp` must not choose what runs.
pub(super) fn joined(from: &Path, said: &[Value], warnings: &mut Vec<String>) -> Vec<Value> {
    let mut servers = Map::new();
    let mut unnamed = Vec::new();
    for folder in from.ancestors().take(MOST) {
        let path = folder.join(FILE);
        match read(&path) {
            Ok(Some(found)) => {
                for (name, server) in by_name(&found, &mut unnamed) {
                    servers.entry(name).or_insert(server);
                }
            }
            Ok(None) => {}
            Err(why) => warnings.push(format!(
                "the MCP servers of {} are left out: {why}",
                path.display()
            )),
        }
    }
    for said in said {
        for (name, server) in by_name(said, &mut unnamed) {
            match servers.get_mut(&name) {
                Some(known) if !is_whole(&server) => join(known, server),
                _ => {
                    servers.insert(name, server);
                }
            }
        }
    }
    unnamed.push(Value::Object(servers));
    unnamed
}

/// The file as JSON; nothing where there is none.
fn read(path: &Path) -> Result<Option<Value>, String> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let text = checked(file)?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|_| "it is not JSON".to_owned())
}

fn checked(file: File) -> Result<String, String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    let mut text = String::new();
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    Ok(text)
}

/// The servers of one value by their names, in each form that such a value has. What has no name is
/// left to who reads them.
fn by_name(servers: &Value, unnamed: &mut Vec<Value>) -> Vec<(String, Value)> {
    let inner = ["mcpServers", "mcp_servers"]
        .iter()
        .find_map(|key| servers.get(*key))
        .unwrap_or(servers);
    match inner {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        Value::Array(elements) => {
            let name = |server: &Value| Some(server.get("name")?.as_str()?.to_owned());
            let (named, others): (Vec<_>, Vec<_>) =
                elements.iter().partition(|server| name(server).is_some());
            unnamed.extend(
                others
                    .into_iter()
                    .map(|server| Value::Array(vec![server.clone()])),
            );
            named
                .into_iter()
                .filter_map(|server| Some((name(server)?, server.clone())))
                .collect()
        }
        other => {
            unnamed.push(other.clone());
            Vec::new()
        }
    }
}

/// Returns true if a server has a command or an address.
fn is_whole(server: &Value) -> bool {
    ["command", "url", "httpUrl", "serverUrl"]
        .iter()
        .any(|key| server.get(*key).is_some())
}

fn join(known: &mut Value, more: Value) {
    let (Value::Object(known), Value::Object(more)) = (known, more) else {
        return;
    };
    for (key, value) in more {
        match (known.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => inner.extend(value),
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_file_stands_and_a_session_adds_its_headers() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let write =
            |path: &Path, value: Value| fs::write(path.join(FILE), value.to_string()).unwrap();
        write(
            root.path(),
            json!({"mcpServers": {"hub": {"type": "http", "url": "https://far"}, "files": {"command": "far"}}}),
        );
        write(
            &inner,
            json!({"mcpServers": {"hub": {"type": "http", "url": "https://near", "headers": {"X-Own": "1"}}}}),
        );
        let said = [
            json!({"hub": {"headers": {"Authorization": "Bearer t", "X-Agent-ID": "a1", "X-Source-Task-Id": "t1"}}}),
            json!([{"name": "more", "command": "m"}]),
        ];
        let mut warnings = Vec::new();
        assert_eq!(
            joined(&inner, &said, &mut warnings),
            [json!({
                "hub": {"type": "http", "url": "https://near", "headers": {
                    "X-Own": "1", "Authorization": "Bearer t", "X-Agent-ID": "a1", "X-Source-Task-Id": "t1"}},
                "files": {"command": "far"},
                "more": {"name": "more", "command": "m"},
            })]
        );
        assert_eq!(warnings, [""; 0]);
        let odd = [json!("x"), json!([{"command": "y"}])];
        let [first, second, _] = &joined(root.path(), &odd, &mut warnings)[..] else {
            panic!("left out")
        };
        assert_eq!((first, second), (&json!("x"), &json!([{"command": "y"}])));
        let whole = [json!({"hub": {"command": "own"}})];
        assert_eq!(
            joined(&inner, &whole, &mut warnings)[0]["hub"],
            json!({"command": "own"})
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_is_reported() {
        let root = tempfile::tempdir().unwrap();
        for (text, why) in [
            ("{", "not JSON"),
            (&*format!("\"{}\"", "x".repeat(1 << 20)), "longer"),
        ] {
            fs::write(root.path().join(FILE), text).unwrap();
            let mut warnings = Vec::new();
            assert_eq!(joined(root.path(), &[], &mut warnings), [json!({})]);
            assert!(
                warnings.len() == 1 && warnings[0].contains(why),
                "{warnings:?}"
            );
        }
        fs::remove_file(root.path().join(FILE)).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.path().join(FILE),
            rustix::fs::Mode::RUSR,
        )
        .unwrap();
        let mut warnings = Vec::new();
        joined(root.path(), &[], &mut warnings);
        assert!(
            warnings.len() == 1 && warnings[0].contains("regular"),
            "{warnings:?}"
        );
    }
}
