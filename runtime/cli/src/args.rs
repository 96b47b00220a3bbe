//! The command line.

use std::path::PathBuf;

use clap::{
    Parser,
    builder::styling::{AnsiColor, Styles},
};

use crate::{command::Command, exit, log::Logs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::White.on_default().bold())
    .usage(AnsiColor::White.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::White.on_default().dimmed());

/// Help heading of the options that every command has.
pub(crate) const GLOBAL_OPTIONS: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  trunkline demo                               a thousand sessions over one pipe
  trunkline chat                               talk to the built-in echo
  trunkline chat --adapter 'python3 mine.py'   talk to your own adapter
  trunkline run --agent codex 'Explain this'   one turn, the answer on stdout
  trunkline serve                              drive agents from any language

The configuration is the first of --config FILE, $TRUNKLINE_CONFIG,
./trunkline.json, and trunkline/trunkline.json in the user's configuration
folder. Without one there is one agent, the built-in echo.
";

fn after_help() -> String {
    format!("{EXAMPLES}\n{}", exit::TABLE)
}

/// Runs agents and other adapters, talks to them, and serves them to other programs
#[derive(Debug, Parser)]
#[command(name = "trunkline", version, styles = STYLES, after_help = after_help(), max_term_width = 110)]
pub(crate) struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) logs: Logs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for command in Args::command()
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let taught = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                taught.contains("trunkline "),
                "{} has no example",
                command.get_name()
            );
        }
    }
}
