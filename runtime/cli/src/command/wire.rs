//! `trunkline wire`: what is in a wire log.

use clap::{Args, Subcommand};

use crate::fault::Done;

mod line;
mod show;

/// Prints what passed between a host and its adapters
///
/// A wire log is the file of `--wire-log FILE` of `run`, `chat`, `serve` and `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline run --wire-log wire.log 'hello'
  trunkline wire show wire.log
  trunkline wire show wire.log --session s-1 --follow
  trunkline wire show wire.log --json | jq .message.type")]
pub(crate) struct Wire {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(show::Show),
}

impl Wire {
    pub(super) fn run(self) -> Done {
        match self.action {
            Action::Show(show) => show.run(),
        }
    }
}
