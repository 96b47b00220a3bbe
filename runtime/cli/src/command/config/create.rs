//! `trunkline config init` and `config add`: write a valid configuration file.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use trunkline_host::config::{Document, Profile};

use crate::{
    command::{installed_agents, print_line},
    error::{CliError, CommandResult},
    overrides::{KeyAssignment, assign, assignment},
    private_file::write_output,
    target,
};

/// File of a new configuration.
const FILE_NAME: &str = "trunkline.json";

/// Writes a configuration with the installed agents
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config init
  trunkline config init --output team.json && trunkline --config team.json up")]
pub(crate) struct InitArgs {
    /// File to write
    #[arg(long, short, value_name = "FILE", default_value = FILE_NAME)]
    output: PathBuf,

    /// Replaces an existing file
    #[arg(long)]
    force: bool,
}

/// Adds an agent to the configuration, or creates one with it
///
/// Changes --config FILE, otherwise the file that `trunkline config check` reports, otherwise
/// ./trunkline.json.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline config add codex
  trunkline config add claude-code --id reviewer -c model=opus
  trunkline config add generic-job --id count -c command=wc")]
pub(crate) struct AddArgs {
    /// Built-in adapter, as in `trunkline agents profiles`
    #[arg(value_name = "AGENT")]
    profile: String,

    /// Id of the agent [default: the name of the adapter]
    #[arg(long)]
    id: Option<String>,

    /// Key of the entry or of its profile's object; may be repeated
    #[arg(short = 'c', value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<KeyAssignment>,
}

impl InitArgs {
    pub(super) fn run(self) -> CommandResult {
        let mut agents = installed_agents()?;
        let found = agents.len();
        if agents.is_empty() {
            agents.push("echo");
        }
        let entries: Vec<_> = agents
            .iter()
            .map(|agent| json!({ "id": agent, "profile": agent }))
            .collect();
        let text = to_text(&json!({ "agents": entries }))?;
        write_output(&self.output, text.as_bytes(), self.force)?;
        print_line(format_args!(
            "wrote {}: {}",
            self.output.display(),
            agents.join(", ")
        ))?;
        if found == 0 {
            print_line(
                " no agent is installed; `trunkline doctor --all` shows how to install each",
            )?;
        }
        print_line(" next: `trunkline doctor AGENT` checks one, `trunkline up` serves them all")
    }
}

impl AddArgs {
    pub(super) fn run(self, file: Option<&Path>) -> CommandResult {
        let found = target::discover(file)?;
        let exists = found.is_some();
        let mut document = found.unwrap_or_else(|| Document::new(json!({ "agents": [] }), "."));
        let path = document
            .source
            .path()
            .unwrap_or(Path::new(FILE_NAME))
            .to_owned();
        let id = self.id.unwrap_or_else(|| self.profile.clone());
        if !target::is_built_in(&self.profile) {
            return Err(CliError::usage(anyhow!(
                "no built-in adapter is called {:?}",
                self.profile
            ))
            .next("`trunkline agents profiles` lists them"));
        }
        let no_list = || {
            CliError::usage(anyhow!("{} has no list `agents`", path.display()))
                .next("`trunkline config add` changes only files in trunkline's own form")
        };
        let agents = document.value["agents"]
            .as_array_mut()
            .ok_or_else(no_list)?;
        if agents.iter().any(|agent| agent["id"] == id) {
            return Err(
                CliError::usage(anyhow!("{} has an agent {id} already", path.display()))
                    .next("give the new one another id by --id"),
            );
        }
        agents.push(json!({ "id": id, "profile": self.profile }));
        let index = agents.len() - 1;
        assign(
            &mut document,
            index,
            &Profile::BuiltIn(self.profile),
            &self.set,
        )?;
        let permissions = path.metadata().ok().map(|found| found.permissions());
        write_output(&path, to_text(&document.value)?.as_bytes(), exists)?;
        if let Some(permissions) = permissions {
            std::fs::set_permissions(&path, permissions)?;
        }
        print_line(format_args!(
            "added {id} to {}\n next: `trunkline doctor {id}` checks it, `trunkline daemon reload` gives it to a daemon",
            path.display()
        ))
    }
}

pub(super) fn to_text(configuration: &Value) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(configuration).map_err(CliError::failed)?;
    Ok(text + "\n")
}
