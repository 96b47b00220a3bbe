//! `trunkline completions` and `trunkline man`: generated from the command line definition.

use std::{fs, io::Write, path::PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, env::Shells};

use crate::{completion::REQUEST_VARIABLE, error::CommandResult, exit};

/// Name of the program, which the script also runs for candidates.
const NAME: &str = "trunkline";

/// Completes the first time as well if the script is an autoloaded function.
const ZSH_AUTOLOAD: &[u8] =
    b"[ \"${funcstack[1]}\" = _trunkline ] && _clap_dynamic_completer_trunkline \"$@\"\n";

/// Prints the completion script for a shell
///
/// The script runs `trunkline` for each completion, so it also completes agents and the ids of
/// sessions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline completions bash > ~/.local/share/bash-completion/completions/trunkline
  trunkline completions zsh > ~/.zfunc/_trunkline
  trunkline completions fish > ~/.config/fish/completions/trunkline.fish")]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

/// Writes the manual pages to a folder
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline man ~/.local/share/man/man1 && man trunkline-run")]
pub(crate) struct ManArgs {
    /// Output folder, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl CompletionsArgs {
    pub(super) fn run(self) -> CommandResult {
        let shell = self.shell.to_string();
        let mut text = Vec::new();
        if let Some(completer) = Shells::builtins().completer(&shell) {
            completer.write_registration(REQUEST_VARIABLE, NAME, NAME, NAME, &mut text)?;
        }
        if self.shell == Shell::Zsh {
            text.extend_from_slice(ZSH_AUTOLOAD);
        }
        std::io::stdout().lock().write_all(&text)?;
        Ok(exit::OK)
    }
}

impl ManArgs {
    pub(super) fn run(self) -> CommandResult {
        let folder = &self.folder;
        fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(crate::args::Args::command(), folder))
            .with_context(|| format!("failed to write manual pages to {}", folder.display()))?;
        Ok(exit::OK)
    }
}
