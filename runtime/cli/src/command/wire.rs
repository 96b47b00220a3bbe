//! `trunkline dev wire`: prints and replays wire logs.

use clap::{Args, Subcommand};

use crate::error::CommandResult;

mod compare;
mod line;
mod replay;
mod script;
mod show;

/// Prints wire logs and replays them to an adapter
///
/// A wire log is the file of `--wire-log FILE` of `run`, `chat`, `serve` and `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline run --wire-log wire.log 'hello'
  trunkline dev wire show wire.log
  trunkline dev wire show wire.log --session s-1 --follow
  trunkline dev wire show wire.log --json | jq .message.type
  trunkline dev wire replay wire.log -- python3 my_adapter.py")]
pub(super) struct Wire {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(show::Show),
    Replay(replay::Replay),
}

impl Wire {
    pub(super) fn run(self) -> CommandResult {
        match self.action {
            Action::Show(show) => show.run(),
            Action::Replay(replay) => super::on_runtime(replay.run()),
        }
    }
}
