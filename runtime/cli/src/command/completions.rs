//! `trunkline completions` and `trunkline man`: generated from the command line definition.

use std::{fs, io::Write, path::PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{error::CommandResult, exit};

/// Prints the completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline completions bash > ~/.local/share/bash-completion/completions/trunkline
  trunkline completions zsh > ~/.zfunc/_trunkline
  trunkline completions fish > ~/.config/fish/completions/trunkline.fish")]
pub(crate) struct Completions {
    shell: Shell,
}

/// Writes the manual pages to a folder
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline man ~/.local/share/man/man1 && man trunkline-run")]
pub(crate) struct Man {
    /// Output folder, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Completions {
    pub(super) fn run(self) -> CommandResult {
        let mut text = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut crate::args::Args::command(),
            "trunkline",
            &mut text,
        );
        std::io::stdout().lock().write_all(&text)?;
        Ok(exit::OK)
    }
}

impl Man {
    pub(super) fn run(self) -> CommandResult {
        let folder = &self.folder;
        fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(crate::args::Args::command(), folder))
            .with_context(|| format!("failed to write manual pages to {}", folder.display()))?;
        Ok(exit::OK)
    }
}
