//! The target of an action, in the readings that the two lists are tried on.

use serde_json::Value;

use super::command_line;
use super::glob::{Glob, Separator};
use super::names::MAX_PATHS;
use super::words;
use super::{Action, FoundNames, PathQuery};

/// The most of what an action acts on, in bytes; what is beyond is not judged, so no glob allows the action.
const MAX_RESOURCE: usize = 64 * 1024;

/// Members of a tool's input that name its target, as the agents call them: commands, paths,
/// addresses.
const INPUT_RESOURCES: [&str; 9] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "filepath",
    "path",
    "notebook_path",
    "url",
    "uri",
];

/// An action, prepared for matching.
pub(super) struct Subject<'a> {
    /// The tool's name in lower case.
    pub(super) tool: String,
    /// Meaning of `/` in the tool's target.
    pub(super) separator: Separator,
    resources: Vec<Resource<'a>>,
    /// The directories below which relative patterns of a deny list are meant, folded.
    dirs: Vec<String>,
    /// True if a part cannot be judged: it is too long, or its form is unknown.
    is_unclear: bool,
}

enum Resource<'a> {
    /// A command line, and its plain words joined by spaces, if it consists only of these.
    Line {
        text: &'a str,
        words: Option<String>,
    },
    /// A command given as words, and the line of them, if a shell reads the same words in it.
    Words {
        words: Vec<&'a str>,
        line: Option<String>,
    },
    /// A path or an address.
    Place {
        text: &'a str,
        /// The part below the working directory, where `text` is a path in it.
        below_work_dir: Option<&'a str>,
        /// Names of the path, if they were looked up.
        names: Option<PlaceNames<'a>>,
    },
}

/// The names of a path, in the forms that globs are tried on.
struct PlaceNames<'a> {
    /// True if no link leads away from the path as it is written.
    is_as_written: bool,
    /// The target: absolute, and below the working directory by its forms.
    target: Vec<String>,
    others: &'a [String],
}

/// Targets that an action names, before they are classified.
#[derive(Default)]
struct Named<'a> {
    texts: Vec<&'a str>,
    commands: Vec<Vec<&'a str>>,
    paths: Vec<&'a str>,
    has_command: bool,
    is_unclear: bool,
}

impl<'a> Named<'a> {
    fn by(action: &Action<'a>) -> Self {
        let mut named = Self {
            paths: action.paths.to_vec(),
            ..Self::default()
        };
        named.add(action.resource.unwrap_or_default());
        match action.input {
            None | Some(Value::Null) => {}
            Some(Value::Object(input)) => {
                for key in INPUT_RESOURCES {
                    match input.get(key) {
                        None | Some(Value::Null) => {}
                        Some(value) => named.read(matches!(key, "command" | "cmd"), value),
                    }
                }
            }
            Some(_) => named.is_unclear = true,
        }
        named
    }

    fn read(&mut self, is_command: bool, value: &'a Value) {
        self.has_command |= is_command;
        let strings =
            |items: &'a Vec<Value>| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        match (value, value.as_array().and_then(strings)) {
            (Value::String(text), _) => self.add(text),
            (_, Some(words)) if is_command => self.commands.push(words),
            (_, Some(texts)) => texts.into_iter().for_each(|text| self.add(text)),
            (_, None) => self.is_unclear = true,
        }
    }

    fn add(&mut self, text: &'a str) {
        // Most often the input repeats the resource.
        if !text.is_empty() && self.texts.first() != Some(&text) {
            self.texts.push(text);
        }
    }

    /// Drops what is beyond [`MAX_RESOURCE`].
    fn bound(&mut self) {
        let mut left = MAX_RESOURCE;
        let mut fits = |bytes: usize| {
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            self.is_unclear |= !fits;
            fits
        };
        self.texts.retain(|text| fits(text.len() + 1));
        self.commands
            .retain(|words| fits(words.iter().map(|word| word.len() + 1).sum()));
        self.paths.retain(|path| fits(path.len() + 1));
    }
}

impl<'a> Subject<'a> {
    pub(super) fn from_action(action: &Action<'a>) -> Self {
        let mut named = Named::by(action);
        named.bound();
        let Named {
            texts,
            commands,
            paths,
            has_command,
            is_unclear,
        } = named;
        let is_command = has_command || command_line::is_run_by(action.tool);
        let work_dir = action.work_dir.and_then(|dir| dir.to_str());
        // PowerShell has a syntax of its own.
        let read =
            |line: &str| words::read(line).filter(|_| !command_line::is_powershell(action.tool));

        let line = |text| Resource::Line {
            text,
            words: read(text).map(|words| words.join(" ")),
        };
        let dirs: Vec<_> = action
            .work_dir
            .iter()
            .chain(action.deny_dirs)
            .filter_map(|dir| dir.to_str().map(fold))
            .collect();
        // A link that was put into the place of the directory leads to none of these.
        let real_dir = action.names.and_then(|found| found.work_dir.as_deref());
        let real_dir = real_dir.filter(|real| dirs.iter().any(|dir| dir == real));
        let place = |text| {
            let below_work_dir = work_dir.and_then(|dir| below(dir, text));
            let names =
                |found| PlaceNames::new(text, below_work_dir, work_dir.zip(real_dir), found);
            Resource::Place {
                text,
                below_work_dir,
                names: action.names.map(names),
            }
        };
        let command = |words: Vec<&'a str>| {
            let line = words.join(" ");
            let line = read(&line)
                .is_some_and(|read| read == words)
                .then_some(line);
            Resource::Words { words, line }
        };
        let texts = texts
            .into_iter()
            .map(|text| if is_command { line(text) } else { place(text) });
        let commands = commands.into_iter().map(command);
        let resources: Vec<_> = texts
            .chain(commands)
            .chain(paths.into_iter().map(place))
            .collect();
        let is_unresolved = |resource: &Resource<'_>| matches!(resource, Resource::Place { names: Some(names), .. } if names.target.is_empty());
        Self {
            tool: action.tool.to_ascii_lowercase(),
            separator: if is_command {
                Separator::None
            } else {
                Separator::Slash
            },
            is_unclear: is_unclear || resources.iter().any(is_unresolved),
            resources,
            dirs,
        }
    }

    /// The paths and addresses that the action acts on.
    fn places(&self) -> impl Iterator<Item = &'a str> {
        self.resources.iter().filter_map(|resource| match resource {
            Resource::Place { text, .. } => Some(*text),
            Resource::Line { .. } | Resource::Words { .. } => None,
        })
    }

    pub(super) fn has_places(&self) -> bool {
        self.places().next().is_some()
    }

    /// The question for the names of the paths.
    pub(super) fn query(&self, action: &Action<'_>) -> PathQuery {
        let mut query = PathQuery::default();
        for dir in action.work_dir.iter().chain(action.deny_dirs) {
            if !query.dirs.iter().any(|known| known == dir) {
                query.dirs.push(dir.to_path_buf());
            }
        }
        for path in self.places() {
            if query.paths.len() < MAX_PATHS && !query.paths.iter().any(|known| known == path) {
                query.paths.push(path.to_owned());
            }
        }
        query
    }

    /// Returns true if there is a resource and all of it can be judged.
    pub(super) fn is_judgeable(&self) -> bool {
        !self.is_unclear && !self.resources.is_empty()
    }

    /// Returns true if the glob of an allow list matches every target of the action.
    pub(super) fn is_allowed_by(&self, glob: &Glob) -> bool {
        self.is_judgeable()
            && self
                .resources
                .iter()
                .all(|resource| resource.is_allowed_by(glob))
    }

    /// Returns true if the glob of a deny list matches a reading of any target of the action.
    pub(super) fn is_denied_by(&self, glob: &Glob) -> bool {
        self.resources
            .iter()
            .any(|resource| resource.is_denied_by(glob, &self.dirs))
    }
}

impl Resource<'_> {
    /// Without a wildcard a glob is just this text. With one it matches plain words only, both as
    /// they were written and as they are read; and a path only where it does not climb.
    fn is_allowed_by(&self, glob: &Glob) -> bool {
        let is_exact = !glob.has_wildcard();
        match self {
            Self::Line { text, words } => {
                let matches = |text: &str| glob.matches(text, Separator::None);
                matches(text) && (is_exact || words.as_deref().is_some_and(matches))
            }
            Self::Words { line, .. } => line
                .as_deref()
                .is_some_and(|line| glob.matches(line, Separator::None)),
            Self::Place {
                text,
                below_work_dir,
                names,
            } => {
                let matches = |text: &str| glob.matches(text, Separator::Slash);
                let matches_target = |names: &PlaceNames<'_>| {
                    glob.is_over_addresses()
                        || (names.is_as_written && (is_exact || is_normal(text)))
                        || names.target.iter().any(|form| matches(form))
                };
                (is_exact || !is_risky(text))
                    && (matches(text) || below_work_dir.is_some_and(matches))
                    && names.as_ref().is_none_or(matches_target)
            }
        }
    }

    /// A glob without `/` is tried on each component of a path too.
    fn is_denied_by(&self, glob: &Glob, dirs: &[String]) -> bool {
        let mut matches_line = |text: &str| glob.matches(text, Separator::None);
        match self {
            Self::Line { text, words } => {
                command_line::any_reading(text, &mut matches_line)
                    || words
                        .as_deref()
                        .is_some_and(|words| command_line::any_reading(words, &mut matches_line))
            }
            Self::Words { words, .. } => {
                let line = words.join(" ");
                let mut lines = words.iter().copied().chain([line.as_str()]);
                lines.any(|line| command_line::any_reading(line, &mut matches_line))
            }
            Self::Place {
                text,
                below_work_dir,
                names,
            } => {
                let matches = |text: &str| glob.matches(text, Separator::Slash);
                let below_any =
                    |path: &str| dirs.iter().any(|dir| below(dir, path).is_some_and(matches));
                let is_denied = |path: &str| matches(path) || below_any(path);
                let has_component = |path: &str| !glob.has_slash() && path.split('/').any(matches);
                let folded = fold(text);
                // Only below the directories: an action does not choose the names of the folders above them.
                let is_denied_name = |name: &str| {
                    let name = fold(name);
                    let rest = dirs.iter().find_map(|dir| below(dir, &name));
                    is_denied(&name) || has_component(rest.unwrap_or(&name))
                };
                let is_relative = !text.starts_with('/');
                let found = names.iter().flat_map(PlaceNames::all);
                is_denied(text)
                    || below_work_dir.is_some_and(matches)
                    || is_denied(&folded)
                    || has_component(&folded)
                    || (is_relative
                        && dirs
                            .iter()
                            .any(|dir| is_denied(&fold(&format!("{dir}/{text}")))))
                    || found.into_iter().any(is_denied_name)
            }
        }
    }
}

impl<'a> PlaceNames<'a> {
    /// `work_dir` is the working directory as it is named, and without links.
    fn new(
        text: &str,
        below_work_dir: Option<&str>,
        work_dir: Option<(&str, &str)>,
        found: &'a FoundNames,
    ) -> Self {
        let names = found.paths.get(text);
        let others = names.map_or(&[][..], |names| &names.others);
        let target = names.and_then(|names| names.target.as_deref());
        let in_dir = |path| work_dir.map(|(_, real)| fold(&format!("{real}/{path}")));
        let plain = if text.starts_with('/') {
            [Some(fold(text)), below_work_dir.and_then(in_dir)]
        } else {
            [None, in_dir(text)]
        };
        let is_as_written =
            target.is_some_and(|target| plain.iter().flatten().any(|it| it == target));
        let rest = work_dir.and_then(|(_, real)| below(real, target?));
        let below_named = work_dir.and_then(|(named, _)| Some(format!("{named}/{}", rest?)));
        let forms = [target, rest].into_iter().flatten().map(str::to_owned);
        Self {
            is_as_written,
            target: forms.chain(below_named).collect(),
            others,
        }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.target.iter().chain(self.others).map(String::as_str)
    }
}

/// Returns true if a path has no detours besides a `./` before it and a `/` behind it.
fn is_normal(path: &str) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    fold(path) == path.trim_end_matches('/')
}

/// Returns true if a path climbs, or contains forbidden characters.
fn is_risky(path: &str) -> bool {
    path.split(['/', '\\']).any(|component| component == "..") || path.contains(char::is_control)
}

/// The part of `path` below `dir`, both taken as written.
fn below<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let rest = path
        .strip_prefix(dir.trim_end_matches('/'))?
        .strip_prefix('/')?;
    (!rest.is_empty()).then_some(rest)
}

/// Returns the path without `.`, `//` and, if a component precedes them, `..`.
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
    if path.starts_with('/') {
        format!("/{joined}")
    } else {
        joined
    }
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
