//! `trunkline dev wire`: prints and replays wire logs.

use clap::Subcommand;

use crate::error::CommandResult;

mod compare;
mod line;
mod replay;
mod script;
mod show;

/// Prints wire logs and replays them to an adapter
///
/// A wire log is the file of `--wire-log FILE` of `run`, `chat`, `serve` and `demo`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  trunkline run --wire-log wire.log 'hello'
  trunkline dev wire show wire.log
  trunkline dev wire show wire.log --session s-1 --follow
  trunkline dev wire show wire.log --json | jq .message.type
  trunkline dev wire replay wire.log -- python3 my_adapter.py")]
pub(crate) enum WireCommand {
    Show(show::ShowArgs),
    Replay(replay::ReplayArgs),
}

impl WireCommand {
    pub(super) fn run(self) -> CommandResult {
        match self {
            Self::Show(show) => show.run(),
            Self::Replay(replay) => super::on_runtime(replay.run()),
        }
    }
}
