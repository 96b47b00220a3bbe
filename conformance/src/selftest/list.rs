//! The lists of broken and of odd programs.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{clauses::Side, needs::Ability};

/// Error of a list that could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    /// The list could not be read.
    #[error("could not read {}: {source}; name the folder of the lists with --mutants", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The list is invalid.
    #[error("{}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Problem and its place.
        reason: String,
    },
    /// A program that it names is not there.
    #[error("{} is not there; build it with `cargo build -p trunkline-conformance-mutants`", path.display())]
    Missing {
        /// The program.
        path: PathBuf,
    },
}

/// A broken program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// Name.
    pub name: String,
    /// Command; by default a switch of its side's broken program.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables that it needs.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The clause that it breaks.
    pub breaks: String,
    /// The case that must catch it.
    pub killed_by: String,
    /// Bug, in a sentence.
    #[serde(rename = "bug")]
    _bug: String,
    /// True if it cannot even complete a turn, so that nothing can be measured first.
    #[serde(default)]
    pub no_turn: bool,
}

/// An odd program that keeps every rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// Name.
    pub name: String,
    /// Command; by default a switch of its side's broken program.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables that it needs.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Name in the code of the broken program.
    #[serde(default, rename = "switch")]
    _switch: String,
    /// Oddity.
    #[serde(rename = "about")]
    _about: String,
    /// Abilities that it does not declare.
    #[serde(default)]
    pub without: Vec<Ability>,
    /// Cases that its oddity concerns, besides the smoke set.
    #[serde(default)]
    pub cases: Vec<String>,
}

/// The programs of one side.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Programs {
    /// The broken ones.
    #[serde(default, rename = "mutant")]
    pub mutants: Vec<Mutant>,
    /// The odd ones.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
}

impl Programs {
    /// The names of all mutants and variants.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let mutants = self.mutants.iter().map(|mutant| &*mutant.name);
        mutants.chain(self.variants.iter().map(|variant| &*variant.name))
    }

    /// Reads the list of a side from a folder. `binaries` is the folder of the compiled programs.
    ///
    /// # Errors
    ///
    /// The list cannot be read or names a missing program.
    pub(crate) fn read(side: Side, folder: &Path, binaries: &Path) -> Result<Self, ListError> {
        let path = folder.join(match side {
            Side::Adapter => "adapters.toml",
            Side::Host => "hosts.toml",
        });
        let text = fs::read_to_string(&path).map_err(|source| ListError::Read {
            path: path.clone(),
            source,
        })?;
        let mut programs: Self = toml::from_str(&text).map_err(|error| ListError::Parse {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let here = folder
            .canonicalize()
            .map_err(|source| ListError::Read { path, source })?;
        let mutants = programs.mutants.iter_mut().map(|of| {
            let keeps_journal = of.breaks.starts_with("journal.");
            (&mut of.command, "--mutant", &of.name, keeps_journal)
        });
        let variants = programs
            .variants
            .iter_mut()
            .map(|of| (&mut of.command, "--variant", &of.name, false));
        for (command, flag, name, keeps_journal) in mutants.chain(variants) {
            if command.is_empty() {
                *command = switched(side, flag, name);
                if keeps_journal {
                    command.extend(["--journal", "{journal}"].map(str::to_owned));
                }
            }
            resolve(command, &here, binaries)?;
        }
        Ok(programs)
    }
}

/// Returns the command of a side's broken program with one of its switches.
fn switched(side: Side, flag: &str, name: &str) -> Vec<String> {
    let (program, adapters): (_, &[_]) = match side {
        Side::Adapter => ("broken-adapter", &[]),
        Side::Host => (
            "broken-host",
            &["--adapter", "{adapter}", "--adapter2", "{adapter2}"],
        ),
    };
    [program, flag, name]
        .iter()
        .chain(adapters)
        .map(ToString::to_string)
        .collect()
}

/// Puts paths in the place of names: `{here}` and the compiled programs.
fn resolve(command: &mut [String], here: &Path, binaries: &Path) -> Result<(), ListError> {
    for part in command.iter_mut() {
        *part = part.replace("{here}", &here.display().to_string());
        for program in ["broken-adapter", "broken-host"] {
            // Also within the words of a shell.
            if part.split([' ', '\'', '"']).any(|word| word == program) {
                let path = binaries.join(program);
                if !path.exists() {
                    return Err(ListError::Missing { path });
                }
                *part = part.replace(program, &path.display().to_string());
            }
        }
    }
    Ok(())
}
