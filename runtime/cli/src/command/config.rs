//! `trunkline config`: creates, changes and checks configuration files.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anstream::eprintln;
use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use trunkline_host::{config, redact};

use crate::{
    error::{CliError, CommandResult},
    exit, paint, target,
};

mod create;
mod import;
mod manifest;
mod yaml;

/// The largest file that is imported, in bytes.
const MOST: u64 = 4 * 1024 * 1024;

/// Creates, changes and checks a configuration
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  trunkline config init                        writes ./trunkline.json with the installed agents
  trunkline config add codex                   adds one agent
  trunkline config check                       the configuration that would be used
  trunkline config check team.json             this one
  trunkline config check --json                as JSON: agents, the default, the journal, notices
  trunkline config import wave.yaml            a configuration of a Wave manifest, on stdout
  trunkline config import wave.yaml --output trunkline.json

An Amurg runtime file needs no import: name it by --config FILE."
)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Init(create::Init),
    Add(create::Add),
    Check(Check),
    Import(Import),
}

/// Reads a configuration and tells what of it has no effect; ends with 2 when it cannot be used
///
/// What belongs to a built-in adapter is checked, too. Programs, folders and variables are not looked at: `trunkline
/// doctor` does that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config check
  trunkline config check team.json && trunkline --config team.json serve")]
struct Check {
    /// The file [default: the one that would be used]
    file: Option<PathBuf>,

    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes a configuration of a Wave manifest: each persona becomes an agent
///
/// A persona's adapter is found by its name, whatever its case; one that is not built in becomes a job that runs its
/// binary for each input. The tools that a manifest allows are approved without asking, any other is denied. What has
/// no place in a configuration is reported on stderr.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config import wave.yaml
  trunkline config import wave.yaml --output trunkline.json
  trunkline config import - < wave.yaml")]
struct Import {
    /// The manifest, YAML or JSON; `-` is stdin
    file: PathBuf,

    /// Where the configuration is written [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replaces the file that --output names
    #[arg(long, requires = "output")]
    force: bool,
}

impl Config {
    pub(super) fn run(self, file: Option<&Path>) -> CommandResult {
        match self.command {
            What::Init(init) => init.run(),
            What::Add(add) => add.run(file),
            What::Check(check) => check.run(file),
            What::Import(import) => import.run(),
        }
    }
}

impl Check {
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
            return super::print_json(&facts);
        }
        let config = target::config(file)?;
        let names = target::agent_names(&config);
        let first = config
            .first_choice()
            .map(|agent| agent.id.as_str())
            .unwrap_or_default();
        writeln!(
            anstream::stdout().lock(),
            "{}: {} {}: {names}; the default is {first}",
            config.source,
            config.agents.len(),
            if config.agents.len() == 1 {
                "agent"
            } else {
                "agents"
            },
        )?;
        Ok(exit::OK)
    }
}

impl Import {
    fn run(self) -> CommandResult {
        let text =
            read(&self.file).with_context(|| format!("failed to read {}", self.file.display()));
        let text = text.map_err(|error| {
            CliError::from(error).next("name the manifest by its path from here")
        })?;
        let folder = self.file.parent().unwrap_or(Path::new("")).to_owned();
        let prompt = |path: &Path| prompt(&folder.join(path));
        let imported = import::import(&text, &prompt).map_err(|error| {
            CliError::usage(anyhow!("failed to import {}: {error}", self.file.display()))
                .next("correct the manifest, or write a configuration by hand; `trunkline agents --help` has an example")
        })?;
        let loaded =
            config::Config::parse_checked(imported.text.as_bytes(), &folder, &target::check)
                .map_err(|error| {
                    CliError::usage(anyhow!(
                        "what {} comes to is not a configuration: {error}",
                        self.file.display()
                    ))
                })?;
        match &self.output {
            None => anstream::stdout()
                .lock()
                .write_all(imported.text.as_bytes())?,
            Some(path) => write(path, &imported.text, self.force)?,
        }
        let dim = paint::DIM;
        for note in imported.notes.iter().chain(&loaded.notices) {
            eprintln!("{dim} note: {}{dim:#}", redact::message(note));
        }
        Ok(exit::OK)
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        whole(io::stdin().lock())
    } else {
        whole(File::open(path)?)
    }
}

/// Reads a file that a manifest names: none that waits for somebody, such as stdin or a pipe.
fn prompt(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    whole(File::open(path)?)
}

fn whole(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {MOST} bytes"),
        ));
    }
    Ok(text)
}

/// Writes a new file; one that is there stays, unless it is to be replaced, and then as a whole.
fn write(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            CliError::usage(anyhow!("{} exists already", path.display()))
                .next("name another file, or replace it by --force")
        }
        _ => {
            CliError::failed(anyhow!(error).context(format!("failed to write {}", path.display())))
                .next("name a file in an existing folder by --output FILE")
        }
    };
    let create = |path: &Path| -> io::Result<()> {
        // A configuration may hold secrets.
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    if !force {
        return create(path).map_err(failed);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    create(&beside)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| {
            // What is left of it is of no use.
            let _ = std::fs::remove_file(&beside);
            failed(error)
        })
}
