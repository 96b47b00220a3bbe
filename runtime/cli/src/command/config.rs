//! `trunkline config`: creates, changes and checks configuration files.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use trunkline_host::{config, redact};

use super::{print_json, print_line, print_text};
use crate::{
    error::{CliError, CommandResult},
    exit,
    private_file::write_output,
    target,
};

mod create;
mod import;
mod manifest;
mod yaml;

/// Size limit of a manifest and of a file that it names, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Creates, changes and checks a configuration
#[derive(Debug, Subcommand)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  trunkline config init                        ./trunkline.json with the installed agents
  trunkline config add codex                   one more agent
  trunkline config check                       the configuration in use
  trunkline config check team.json             another one
  trunkline config check --json                as JSON: agents, the default, the journal, notices
  trunkline config import wave.yaml            prints the configuration of a Wave manifest
  trunkline config import wave.yaml --output trunkline.json

An Amurg runtime file needs no import: use it by --config FILE."
)]
pub(crate) enum ConfigCommand {
    Init(create::InitArgs),
    Add(create::AddArgs),
    Check(CheckArgs),
    Import(ImportArgs),
}

/// Checks a configuration and reports keys without effect; exit code 2 means that it is invalid
///
/// Includes the keys of built-in adapters. Programs, folders, variables and an organisation's policy
/// are checked by `trunkline doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config check
  trunkline config check team.json && trunkline --config team.json serve")]
pub(crate) struct CheckArgs {
    /// File [default: the configuration in use]
    file: Option<PathBuf>,

    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Converts a Wave manifest to a configuration, with an agent for each persona
///
/// A persona's adapter is found by its name in any case. An adapter that is not built in becomes a
/// job that runs its binary for each input. Tools that the manifest allows are approved without
/// asking, and all others are denied. Keys without an equivalent are reported on stderr.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config import wave.yaml
  trunkline config import wave.yaml --output trunkline.json
  trunkline config import - < wave.yaml")]
pub(crate) struct ImportArgs {
    /// Manifest, in YAML or JSON; `-` reads stdin
    file: PathBuf,

    /// File to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replaces an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

impl ConfigCommand {
    pub(super) fn run(self, file: Option<&Path>) -> CommandResult {
        match self {
            Self::Init(init) => init.run(),
            Self::Add(add) => add.run(file),
            Self::Check(check) => check.run(file),
            Self::Import(import) => import.run(),
        }
    }
}

impl CheckArgs {
    fn run(self, file: Option<&Path>) -> CommandResult {
        let file = self.file.as_deref().or(file);
        if self.json {
            let config = target::read(file, &target::check)?;
            let agents: Vec<_> = config.agents.iter().map(|agent| &agent.id).collect();
            let facts = serde_json::json!({
                "configuration": config.source.to_string(),
                "agents": agents,
                "default": config.first_choice().map(|agent| &agent.id),
                "journal": {
                    "folder": config.journal,
                    "sync": config.journal_sync.as_str(),
                    "max_age_s": config.journal_limits.max_age.map(|age| age.as_secs_f64()),
                    "max_bytes": config.journal_limits.max_bytes,
                    "max_sessions": config.journal_limits.max_sessions,
                },
                "notices": config.notices.iter().map(|notice| redact::message(notice)).collect::<Vec<_>>(),
            });
            return print_json(&facts);
        }
        let config = target::config(file)?;
        let names = target::agent_names(&config);
        let first = config
            .first_choice()
            .map(|agent| agent.id.as_str())
            .unwrap_or_default();
        print_line(format_args!(
            "{}: {} agent{}: {names}; the default is {first}",
            config.source,
            config.agents.len(),
            if config.agents.len() == 1 { "" } else { "s" },
        ))
    }
}

impl ImportArgs {
    fn run(self) -> CommandResult {
        let text = read_manifest(&self.file)
            .with_context(|| format!("failed to read {}", self.file.display()));
        let text = text.map_err(|error| {
            CliError::from(error).next("use the path of a manifest, or `-` for stdin")
        })?;
        let folder = self.file.parent().unwrap_or(Path::new("")).to_owned();
        let prompt = |path: &Path| read_prompt(&folder.join(path));
        let (config, notes) = import::import_manifest(&text, &prompt).map_err(|error| {
            CliError::usage(anyhow!("failed to import {}: {error}", self.file.display()))
                .next("correct the manifest, or write a configuration: `trunkline config init`")
        })?;
        let text = create::to_text(&config)?;
        let loaded = config::Config::parse_checked(text.as_bytes(), &folder, &target::check)
            .map_err(|error| {
                CliError::usage(anyhow!(
                    "the manifest {} leads to an invalid configuration: {error}",
                    self.file.display()
                ))
            })?;
        match &self.output {
            None => drop(print_text(text)?),
            Some(path) => write_output(path, text.as_bytes(), self.force)?,
        }
        target::print_notices(&[notes, loaded.notices].concat());
        Ok(exit::OK)
    }
}

fn read_manifest(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        read_limited(io::stdin().lock())
    } else {
        read_limited(File::open(path)?)
    }
}

/// Reads a file that a manifest names. A pipe is rejected, because it could block.
fn read_prompt(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_limited(File::open(path)?)
}

fn read_limited(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let error = format!("it is larger than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
    }
    Ok(text)
}
