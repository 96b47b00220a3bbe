//! Skills: folders with a `SKILL.md`, given to each agent by its own mechanism and never in the
//! user's working directory (census rows I01 to I09).

mod document;
mod place;
mod roster;

use std::path::{Path, PathBuf};

use serde_json::Value;
use trunkline_sdk::skill::{self, FILE};

pub(crate) use self::document::commands;
pub(crate) use self::place::{SkillsFolder, install};
pub(crate) use self::roster::Roster;

/// The most skills of a session.
const MOST: usize = 256;

/// A folder with a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skill {
    name: String,
    folder: PathBuf,
}

impl Skill {
    /// The skill of this folder, or of this `SKILL.md`, called so, or as its folder is.
    pub(crate) fn new(path: impl AsRef<Path>, name: Option<&str>) -> Result<Self, String> {
        let path = path.as_ref();
        let shown = path.display();
        if !path.is_absolute()
            || path
                .components()
                .any(|part| part == std::path::Component::ParentDir)
        {
            return Err(format!(
                "skill {shown}: an absolute path without `..` is needed"
            ));
        }
        let is_document = path.file_name().is_some_and(|name| name == FILE);
        let folder = if is_document {
            path.parent().unwrap_or(path)
        } else {
            path
        };
        let name = match name {
            Some(name) => name.to_owned(),
            None => folder
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
        };
        if !skill::is_name(&name) {
            return Err(format!(
                "skill {shown}: {:?} is not a skill name",
                name.chars().take(64).collect::<String>()
            ));
        }
        if !folder.join(FILE).is_file() {
            return Err(format!(
                "skill {name}: there is no {FILE} in {}",
                folder.display()
            ));
        }
        Ok(Self {
            name,
            folder: folder.to_owned(),
        })
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Reads the configuration's skills and those in `session.start.skills`. Each value is a list of
/// paths or of `{name, path}`, or one of them, or a map from names to paths. An unusable one is
/// reported and left out; of two of one name the later is used.
pub(crate) fn parse(skills: &[Value]) -> (Vec<Skill>, Vec<String>) {
    let mut parsed: Vec<Skill> = Vec::new();
    let mut warnings = Vec::new();
    for entry in skills.iter().flat_map(entries) {
        match entry {
            _ if parsed.len() >= MOST => {
                warnings.push(format!("more than {MOST} skills: the rest is left out"));
                break;
            }
            Ok((path, name)) => match Skill::new(path, name) {
                Ok(skill) => {
                    parsed.retain(|known| known.name != skill.name);
                    parsed.push(skill);
                }
                Err(why) => warnings.push(why),
            },
            Err(why) => warnings.push(why),
        }
    }
    (parsed, warnings)
}

type SkillEntry<'v> = Result<(&'v str, Option<&'v str>), String>;

fn entries<'v>(skills: &'v Value) -> Vec<SkillEntry<'v>> {
    match skills {
        Value::Null => Vec::new(),
        Value::Array(elements) => elements.iter().map(entry).collect(),
        Value::Object(members) if !members.contains_key("path") => {
            let named = |(name, value): (&'v String, &'v Value)| {
                let path = value.as_str().or_else(|| value.get("path")?.as_str());
                let missing = || {
                    format!(
                        "skill {:?}: its path is missing",
                        trunkline_sdk::preview::cut(name, 64)
                    )
                };
                path.map(|path| (path, Some(name.as_str())))
                    .ok_or_else(missing)
            };
            members.iter().map(named).collect()
        }
        one => vec![entry(one)],
    }
}

fn entry(value: &Value) -> SkillEntry<'_> {
    if let Some(path) = value.as_str() {
        return Ok((path, None));
    }
    match value["path"].as_str() {
        Some(path) => Ok((path, value["name"].as_str())),
        None => Err(
            "a skill is a path, or an object with `path` and perhaps `name`: one is neither"
                .to_owned(),
        ),
    }
}

/// Style in which an agent's input calls a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandStyle {
    /// `/name`.
    Slash,
    /// `/skill:name`.
    SkillColon,
}

impl CommandStyle {
    /// The text that calls this skill (census row I05).
    pub(crate) fn format_command(self, name: &str) -> String {
        match self {
            Self::Slash => format!("/{name}"),
            Self::SkillColon => format!("/skill:{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
