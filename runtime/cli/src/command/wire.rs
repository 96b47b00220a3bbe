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
pub(super) struct WireArgs {
    #[command(subcommand)]
    action: WireAction,
}

#[derive(Debug, Subcommand)]
enum WireAction {
    Show(show::ShowArgs),
    Replay(replay::ReplayArgs),
}

impl WireArgs {
    pub(super) fn run(self) -> CommandResult {
        match self.action {
            WireAction::Show(show) => show.run(),
            WireAction::Replay(replay) => super::on_runtime(replay.run()),
        }
    }
}
