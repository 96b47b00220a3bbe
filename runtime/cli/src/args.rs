//! The command line.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    io::{self, IsTerminal},
    path::PathBuf,
};

use clap::{
    CommandFactory, FromArgMatches, Parser,
    builder::styling::{AnsiColor, Styles},
    error::{ContextKind, ContextValue},
};

use crate::{
    command::{CliCommand, GROUPS, RENAMED},
    exit,
    log::LogOptions,
    terminal::{columns, wrapped},
};

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

The configuration is the first of --config FILE, $TRUNKLINE_CONFIG, \
./trunkline.json, trunkline/trunkline.json in the user's configuration \
folder, and the file of the running daemon. Without one, `up` offers the \
installed agents, and every other command the built-in echo.
";

/// Width of a command's name in the help, with its indentation.
const NAME_COLUMNS: usize = 12;

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
    pub(crate) logs: LogOptions,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Parses the command line. An old name of a command is replaced by the new one, and a person reads a
/// note about it.
///
/// # Errors
/// The command line is wrong, or requests the help or the version.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let mut words: Vec<OsString> = env::args_os().collect();
    let parsed = parse_words(&words);
    let Some((old, new)) = parsed.as_ref().err().and_then(renamed) else {
        return parsed;
    };
    let Some(place) = words.iter().position(|word| word == old) else {
        return parsed;
    };
    words.splice(place..=place, new.split(' ').map(OsString::from));
    let renamed = parse_words(&words);
    // The word was the name of no command, for example in `trunkline config reload`.
    let invalid = renamed.as_ref().err().and_then(invalid_subcommand);
    if invalid.is_some_and(|name| new.starts_with(name)) {
        return parsed;
    }
    if io::stderr().is_terminal() {
        anstream::eprintln!(" note: `trunkline {old}` is now `trunkline {new}`");
    }
    renamed
}

fn parse_words(words: &[OsString]) -> Result<Args, clap::Error> {
    let mut matches = with_groups(Args::command()).try_get_matches_from(words)?;
    Args::from_arg_matches_mut(&mut matches)
}

/// Returns the old and the new name of a command that the command line calls by its old name.
fn renamed(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let name = invalid_subcommand(error)?;
    RENAMED.into_iter().find(|(old, _)| *old == name)
}

/// Returns the name that is no command.
pub(crate) fn invalid_subcommand(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

/// Replaces the one list of commands in the help by the groups of [`GROUPS`].
fn with_groups(command: clap::Command) -> clap::Command {
    let bold = STYLES.get_header();
    let name_style = STYLES.get_literal();
    let mut template = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        let _ = writeln!(template, "\n{bold}{heading}:{bold:#}");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = wrapped(&about, columns(), NAME_COLUMNS).into_owned();
            let _ = writeln!(template, "  {name_style}{name:9}{name_style:#} {about}");
        }
    }
    let _ = write!(
        template,
        "\n{bold}Options:{bold:#}\n{{options}}\n\n{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Args::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|help| help.contains("trunkline ")),
                "{} has no example",
                command.get_name()
            );
        }
    }

    #[test]
    fn groups_of_the_help_hold_each_visible_command_once() {
        let command = Args::command();
        let visible = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(clap::Command::get_name);
        let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let [mut visible, mut grouped]: [Vec<_>; 2] = [visible.collect(), grouped.collect()];
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
        assert!(grouped.len() <= 16, "{} commands", grouped.len());
    }

    #[test]
    fn old_names_of_commands_stand_for_the_new_ones() {
        for (old, new) in RENAMED {
            let error = parse_words(&["trunkline".into(), old.into()]).unwrap_err();
            assert_eq!(renamed(&error), Some((old, new)));
            let mut command = &Args::command();
            for name in new.split(' ') {
                command = command.find_subcommand(name).unwrap();
            }
        }
    }
}
