//! One-line previews of tool calls.

use serde_json::Value;

use super::{LONGEST, cut, without_escapes};

/// Members of the input that describe a call of any tool, in this order.
const TELLING: &[&str] = &[
    "file_path",
    "filePath",
    "absolute_path",
    "path",
    "url",
    "pattern",
    "command",
    "cmd",
    "query",
    "notebook_path",
    "description",
    "dir_path",
    "prompt",
];

/// Returns a preview of a call in up to [`LONGEST`] characters: the path that it reads, the command
/// that it runs. Just the name if the input does not help; empty without a name.
#[must_use]
pub fn tool_call(tool: &str, input: Option<&Value>) -> Option<String> {
    let tool = tool.trim();
    input
        .and_then(|input| tool_input(tool, input))
        .or_else(|| (!tool.is_empty()).then(|| cut(&display(tool), LONGEST)))
}

/// Returns a preview of a tool's input in up to [`LONGEST`] characters; `None` if no known member
/// describes the call.
#[must_use]
pub fn tool_input(tool: &str, input: &Value) -> Option<String> {
    about(tool.trim(), input).filter(|about| !about.is_empty())
}

fn about(tool: &str, input: &Value) -> Option<String> {
    let keys: &[&str] = match plain(tool).as_str() {
        "read" | "write" | "edit" | "multiedit" | "readfile" | "writefile" | "replace" | "view"
        | "create" | "strreplace" | "strreplaceeditor" | "delete" | "readmanyfiles" | "ls"
        | "listdirectory" | "list" => &[
            "file_path",
            "filePath",
            "absolute_path",
            "path",
            "dir_path",
            "target_file",
            "paths",
            "include",
        ],
        "glob" | "grep" | "search" | "searchfilecontent" | "grepsearch" | "rg" => {
            &["pattern", "query"]
        }
        "bash" | "shell" | "runshellcommand" | "exec" | "execcommand" | "localshell"
        | "powershell" | "terminal" | "commandexecution" | "run" | "writebash" => {
            &["command", "cmd", "script"]
        }
        "task" | "agent" => &["description", "prompt", "name"],
        "webfetch" | "fetch" | "openpage" => &["url", "prompt"],
        "websearch" | "googlewebsearch" => &["query", "queries"],
        "notebookedit" | "notebookread" => &["notebook_path"],
        "todowrite" | "todo" | "writetodos" | "updateplan" | "todolist" => return todos(input),
        "filechange" | "applypatch" | "patch" => return changes(input),
        _ if tool.starts_with("mcp__") || tool.contains('/') => return None,
        _ => TELLING,
    };
    let Value::Object(members) = input else {
        return input.as_str().map(line);
    };
    keys.iter()
        .find_map(|key| members.get(*key).and_then(words))
        .map(|words| line(&words))
}

/// The name without case and signs: `run_shell_command`, `WebFetch`.
fn plain(tool: &str) -> String {
    tool.chars()
        .filter(|char| char.is_alphanumeric())
        .take(64)
        .flat_map(char::to_lowercase)
        .collect()
}

/// The item in progress, else how many are done.
fn todos(input: &Value) -> Option<String> {
    let items = ["todos", "plan", "items"]
        .iter()
        .find_map(|key| input.get(*key)?.as_array())?;
    let status = |item: &Value| {
        item.get("status")
            .and_then(Value::as_str)
            .map(plain)
            .unwrap_or_default()
    };
    let running = items.iter().find(|item| status(item) == "inprogress");
    let text = running.and_then(|item| {
        ["activeForm", "content", "step", "description", "text"]
            .iter()
            .find_map(|key| words(item.get(*key)?))
    });
    if let Some(text) = text {
        return Some(line(&text));
    }
    let done = items
        .iter()
        .filter(|item| {
            status(item) == "completed" || item.get("completed") == Some(&Value::Bool(true))
        })
        .count();
    Some(format!("{done}/{} tasks", items.len()))
}

/// The first path that is changed, and how many more.
fn changes(input: &Value) -> Option<String> {
    let changes = input.get("changes").or_else(|| input.get("fileChanges"));
    let paths: Vec<String> = match changes {
        Some(Value::Array(changes)) => changes
            .iter()
            .filter_map(|change| words(change.get("path")?))
            .collect(),
        Some(Value::Object(changes)) => changes.keys().cloned().collect(),
        _ => {
            let direct = ["file_path", "path"]
                .iter()
                .find_map(|key| words(input.get(*key)?));
            let text = ["patchText", "patch", "input"]
                .iter()
                .find_map(|key| input.get(*key)?.as_str());
            direct
                .or_else(|| text.or(input.as_str()).and_then(patched))
                .into_iter()
                .collect()
        }
    };
    let first = line(paths.first()?);
    Some(match paths.len() {
        1 => first,
        more => format!("{first} and {} more", more - 1),
    })
}

/// The file that a patch names first.
fn patched(patch: &str) -> Option<String> {
    patch.lines().take(100).find_map(|line| {
        let file = line.strip_prefix("*** ")?;
        let (verb, path) = file.split_once(" File: ")?;
        matches!(verb, "Add" | "Update" | "Delete").then(|| path.trim().to_owned())
    })
}

/// A text, or the words of a list: a command as `argv`.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            Some(script(text).unwrap_or(text).to_owned())
        }
        Value::Array(elements) => {
            let words: Vec<_> = elements.iter().take(64).filter_map(Value::as_str).collect();
            // `bash -lc SCRIPT` is the script.
            if let [shell, flag, script] = words[..]
                && shell.ends_with("sh")
                && matches!(flag, "-c" | "-lc")
            {
                return Some(script.to_owned());
            }
            (!words.is_empty()).then(|| words.join(" "))
        }
        _ => None,
    }
}

/// Returns the script of `/bin/bash -lc 'SCRIPT'`, if it contains no quote.
fn script(command: &str) -> Option<&str> {
    let (shell, rest) = command.split_once(' ')?;
    let quoted = rest
        .strip_prefix("-lc ")
        .or_else(|| rest.strip_prefix("-c "))?
        .trim();
    let is_shell = matches!(
        shell.rsplit('/').next(),
        Some("sh" | "bash" | "zsh" | "dash")
    );
    let inner = |quote| {
        quoted
            .strip_prefix(quote)?
            .strip_suffix(quote)
            .filter(|text| !text.contains(quote))
    };
    is_shell.then(|| inner('\'').or_else(|| inner('"')))?
}

/// `mcp__server__tool` as `server: tool`.
fn display(tool: &str) -> String {
    match tool
        .strip_prefix("mcp__")
        .and_then(|name| name.split_once("__"))
    {
        Some((server, name)) if !server.is_empty() && !name.is_empty() => {
            format!("{server}: {name}")
        }
        _ => line(tool),
    }
}

/// Returns the first line with text, cut.
fn line(text: &str) -> String {
    let text = without_escapes(text);
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    cut(line, LONGEST)
}
