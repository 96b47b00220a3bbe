//! Reads `conform.toml`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};

use super::{Limits, ProbeUse, Recipes, Subject};
use crate::{build::Build, class::Class, clauses::Side, needs::Ability};

/// Error of a configuration that could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file could not be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// There is no such file.
    #[error("there is no {}; `trunkline-conformance init` writes one", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what it should be.
    #[error("{} is not a configuration: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Problem and its place.
        reason: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    adapter: Option<Program>,
    host: Option<Program>,
    #[serde(default, alias = "profile")]
    class: Class,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    abilities: BTreeMap<String, bool>,
    #[serde(default)]
    recipes: Recipes,
    #[serde(default)]
    redact: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    command: Vec<String>,
    /// Build of the program.
    #[serde(default)]
    build: Vec<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Names of variables of the suite's own that it gets as well.
    #[serde(default)]
    pass_env: Vec<String>,
    /// Socket on which a host with a journal accepts further hubs.
    #[serde(default)]
    hubs: Option<String>,
    /// The version that the author wrote for; there is one.
    #[serde(default, rename = "spec")]
    _spec: Option<String>,
}

/// Reads a configuration and makes the subject of one side of it.
///
/// # Errors
///
/// When the file cannot be read, is not TOML, has an unknown key, or lacks the side's table.
pub(crate) fn read_config(path: &Path, side: Side) -> Result<Subject, ConfigError> {
    let file = read(path)?;
    let bad = |reason: String| ConfigError::Parse {
        path: path.to_owned(),
        reason,
    };
    let (program, table) = match side {
        Side::Adapter => (file.adapter, "adapter"),
        Side::Host => (file.host, "host"),
    };
    let program =
        program.ok_or_else(|| bad(format!("it has no table [{table}] with a `command`")))?;
    if program.command.is_empty() {
        return Err(bad(format!("`command` of [{table}] is empty")));
    }
    let mut subject = match side {
        Side::Adapter => Subject::adapter(program.command),
        Side::Host => Subject::host(program.command),
    };
    let base = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let base = base.canonicalize().map_err(|source| ConfigError::Read {
        path: base.to_owned(),
        source,
    })?;
    subject.cwd = base.join(program.cwd.unwrap_or_else(|| PathBuf::from(".")));
    subject.env = program.env;
    subject.hubs = program.hubs;
    for name in program.pass_env {
        let value = std::env::var(&name).map_err(|_| {
            bad(format!(
                "`pass_env` names {name}, which is not set here, or is not UTF-8"
            ))
        })?;
        subject.env.entry(name).or_insert(value);
    }
    subject.class = file.class;
    subject.limits = file.limits;
    if !program.build.is_empty() {
        let within = Duration::try_from_secs_f64(subject.limits.build_s)
            .map_err(|error| bad(format!("`build_s`: {error}")))?;
        subject.build = Some(Build {
            command: program.build,
            folder: base.clone(),
            within,
        });
    }
    if file
        .recipes
        .nonce
        .as_ref()
        .is_some_and(|recipe| !recipe.contains("{nonce}"))
    {
        return Err(bad(
            "recipe `nonce` has no {nonce}, so sessions could not be distinguished".to_owned(),
        ));
    }
    subject.recipes = file.recipes;
    subject.redact = file.redact;
    for (name, has) in file.abilities {
        if name == "probe" {
            subject.probe = if has { ProbeUse::Auto } else { ProbeUse::Off };
            continue;
        }
        let ability = Ability::parse(&name, "probe").map_err(bad)?;
        if has {
            subject.abilities.insert(ability);
        }
    }
    Ok(subject)
}

/// The sides that a configuration has a program for.
///
/// # Errors
///
/// When the file cannot be read, is not TOML, has an unknown key, or no program at all.
pub(crate) fn sides_of(path: &Path) -> Result<Vec<Side>, ConfigError> {
    let file = read(path)?;
    let sides = [
        (Side::Adapter, file.adapter.is_some()),
        (Side::Host, file.host.is_some()),
    ];
    let sides: Vec<Side> = sides
        .into_iter()
        .filter_map(|(side, has)| has.then_some(side))
        .collect();
    match sides.is_empty() {
        false => Ok(sides),
        true => {
            let reason = "it has neither a table [adapter] nor a table [host]".to_owned();
            Err(ConfigError::Parse {
                path: path.to_owned(),
                reason,
            })
        }
    }
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let text = fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ConfigError::Missing {
            path: path.to_owned(),
        },
        _ => ConfigError::Read {
            path: path.to_owned(),
            source,
        },
    })?;
    let bad = |reason| ConfigError::Parse {
        path: path.to_owned(),
        reason,
    };
    if toml::from_str::<toml::Table>(&text).is_ok_and(|all| all.contains_key("command")) {
        return Err(bad(
            "`command` belongs in a table: write [adapter], or [host], above it".to_owned(),
        ));
    }
    toml::from_str(&text).map_err(|error: toml::de::Error| bad(error.to_string()))
}

/// Reads a size: a number of bytes, or a number with `KiB` or `MiB`.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(usize),
        Text(String),
    }
    match Size::deserialize(from)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => {
            let (digits, shift) = match text.trim() {
                text if text.ends_with("MiB") => (text.trim_end_matches("MiB"), 20),
                text if text.ends_with("KiB") => (text.trim_end_matches("KiB"), 10),
                text => (text, 0),
            };
            let number: usize = digits.trim().parse().map_err(|_| {
                de::Error::custom(format!(
                    "`{text}` is not a size; write bytes, or a number with KiB or MiB"
                ))
            })?;
            number
                .checked_shl(shift)
                .ok_or_else(|| de::Error::custom("too large"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Result<Class, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conform.toml");
        fs::write(&file, format!("{text}\n[adapter]\ncommand = [\"true\"]")).unwrap();
        read_config(&file, Side::Adapter).map(|subject| subject.class)
    }

    #[test]
    fn a_nonce_that_cannot_come_back_is_refused() {
        assert!(class("[recipes]\nnonce = \"hello\"").is_err());
        assert!(class("[recipes]\nnonce = \"say {nonce}\"").is_ok());
    }

    #[test]
    fn a_command_without_a_table_and_a_missing_file_say_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conform.toml");
        let error = || read_config(&file, Side::Adapter).unwrap_err().to_string();
        assert!(
            error().contains("there is no") && error().contains("init` writes one"),
            "{}",
            error()
        );
        fs::write(&file, "command = [\"true\"]").unwrap();
        assert!(error().contains("write [adapter]"), "{}", error());
    }

    #[test]
    fn the_class_has_a_former_name() {
        assert_eq!(class("").unwrap(), Class::Robust);
        assert_eq!(class("class = \"strict\"").unwrap(), Class::Strict);
        assert_eq!(class("profile = \"core\"").unwrap(), Class::Core);
        assert!(class("class = \"lax\"").is_err());
        assert!(
            class("class = \"core\"\nprofile = \"core\"").is_err(),
            "both names at once"
        );
    }
}
