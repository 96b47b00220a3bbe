//! What an action acts on, in the readings that the two lists are tried on.

use serde_json::Value;

use super::Action;
use super::command_line;
use super::glob::Separator;

/// The longest resource that is judged, in bytes; a longer one is never allowed by a glob.
const MAX_RESOURCE: usize = 64 * 1024;

/// The members of a tool's input that say what it acts on, as the agents name them.
const INPUT_RESOURCES: [&str; 7] =
    ["command", "cmd", "file_path", "filePath", "path", "notebook_path", "url"];

/// One action, made ready for matching.
pub(super) struct Subject<'a> {
    /// The tool's name in lower case.
    pub(super) tool: String,
    /// How `/` counts in its resources.
    pub(super) separator: Separator,
    resources: Vec<Resource<'a>>,
    too_long: bool,
}

struct Resource<'a> {
    text: &'a str,
    /// The part below the working directory, where `text` is a path in it.
    below_work_dir: Option<&'a str>,
}

impl<'a> Subject<'a> {
    pub(super) fn of(action: &Action<'a>) -> Self {
        let mut texts: Vec<&'a str> = action.resource.into_iter().filter(|text| !text.is_empty()).collect();
        let mut has_command = false;
        for key in INPUT_RESOURCES {
            let Some(value) = action.input.and_then(|input| input.get(key)) else { continue };
            has_command |= matches!(key, "command" | "cmd");
            if let Value::String(text) = value
                && !text.is_empty()
                && !texts.contains(&text.as_str())
            {
                texts.push(text);
            }
        }
        let is_command = has_command || command_line::is_run_by(action.tool);
        let work_dir = action.work_dir.and_then(|dir| dir.to_str()).filter(|_| !is_command);
        let too_long = texts.iter().any(|text| text.len() > MAX_RESOURCE);
        texts.retain(|text| text.len() <= MAX_RESOURCE);
        let resources = texts
            .into_iter()
            .map(|text| Resource { text, below_work_dir: work_dir.and_then(|dir| below(dir, text)) })
            .collect();
        let separator = if is_command { Separator::None } else { Separator::Slash };
        Self { tool: action.tool.to_ascii_lowercase(), separator, resources, too_long }
    }

    /// Whether there is a resource and all of it can be looked at.
    pub(super) fn is_judgeable(&self) -> bool {
        !self.too_long && !self.resources.is_empty()
    }

    /// Whether a glob of an allow list must not match: shell syntax in a command line, `..` in a path, control
    /// characters in either.
    pub(super) fn is_risky(&self) -> bool {
        self.resources.iter().any(|resource| match self.separator {
            Separator::None => command_line::has_operators(resource.text),
            Separator::Slash => {
                resource.text.split(['/', '\\']).any(|component| component == "..")
                    || resource.text.contains(char::is_control)
            }
        })
    }

    /// Whether each resource matches, as written or below the working directory.
    pub(super) fn all_resources(&self, matches: impl Fn(&str) -> bool) -> bool {
        self.resources
            .iter()
            .all(|resource| matches(resource.text) || resource.below_work_dir.is_some_and(&matches))
    }

    /// Whether any reading of any resource matches. `with_slash` says that the pattern names folders; one that does
    /// not is tried on each component too.
    pub(super) fn denial_readings(&self, with_slash: bool, mut matches: impl FnMut(&str) -> bool) -> bool {
        self.resources.iter().any(|resource| match self.separator {
            Separator::None => command_line::any_reading(resource.text, &mut matches),
            Separator::Slash => {
                let folded = fold(resource.text);
                matches(resource.text)
                    || resource.below_work_dir.is_some_and(|text| matches(text) || matches(&fold(text)))
                    || matches(&folded)
                    || (!with_slash && folded.split('/').any(&mut matches))
            }
        })
    }
}

/// The part of `path` below `dir`, both taken as written.
fn below<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?.strip_prefix('/')?;
    (!rest.is_empty()).then_some(rest)
}

/// The path without `.`, `//` and, where something stands before them, `..`.
fn fold(path: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." if components.last().is_some_and(|last| *last != "..") => {
                components.pop();
            }
            // Above the root is the root.
            ".." if path.starts_with('/') => {}
            other => components.push(other),
        }
    }
    let joined = components.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_removes_detours() {
        assert_eq!(fold("/a/./b//c/../d"), "/a/b/d");
        assert_eq!(fold("a/../../b"), "../b");
        assert_eq!(fold("/../etc"), "/etc");
    }

    #[test]
    fn below_needs_a_whole_component() {
        assert_eq!(below("/w", "/w/a"), Some("a"));
        assert_eq!(below("/w/", "/w/a"), Some("a"));
        assert_eq!(below("/w", "/wide/a"), None);
        assert_eq!(below("/", "/etc"), Some("etc"));
    }
}
