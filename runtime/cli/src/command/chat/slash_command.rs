//! Parses lines of the user.

use std::path::PathBuf;

/// List of the commands, for `/help`.
pub(super) const HELP: &str = "\
/file PATH    attach a file to your next input
/model NAME   change the model; without NAME, list the models
/mode NAME    change the agent's mode; without NAME, list the modes
/usage        show the usage of this conversation
/new          start a new conversation
/export FILE  write the conversation to a new file, as Markdown
/stop         stop the turn, like Ctrl-C while it runs
/quit         leave, like Ctrl-D
/help         show this list, and the agent's commands after its first answer
Alt-Enter, or a \\ at the end of a line, starts another line.
Any other line is sent to the agent, including its own commands; //file sends /file.";

/// Names of the commands, for completion.
pub(super) const NAMES: &[&str] = &[
    "/export ", "/file ", "/help", "/mode ", "/model ", "/new", "/quit", "/stop", "/usage",
];

/// A parsed line of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlashCommand {
    /// An empty line.
    Nothing,
    /// Leave.
    Quit,
    /// List the commands.
    Help,
    /// Stop the turn.
    Stop,
    /// Attach a file to the next input.
    File(PathBuf),
    /// Change or show the model.
    Model(Option<String>),
    /// Change or show the mode.
    Mode(Option<String>),
    /// Show the usage.
    Usage,
    /// Start a new conversation.
    New,
    /// Export the conversation to a file.
    Export(PathBuf),
    /// Send an input to the agent.
    Input(String),
}

impl SlashCommand {
    /// Parses a line. Unknown commands are sent to the agent.
    pub(super) fn parse(line: &str) -> Self {
        let trimmed = line.trim();
        let (name, rest) = trimmed
            .split_once(char::is_whitespace)
            .unwrap_or((trimmed, ""));
        match (name, rest.trim()) {
            ("", _) => Self::Nothing,
            ("/quit" | "/exit", "") => Self::Quit,
            ("/help", "") => Self::Help,
            ("/stop", "") => Self::Stop,
            ("/file", path) if !path.is_empty() => Self::File(parse_path(path)),
            ("/model", name) => Self::Model(non_empty(name)),
            ("/mode", name) => Self::Mode(non_empty(name)),
            ("/usage", "") => Self::Usage,
            ("/new", "") => Self::New,
            ("/export", path) if !path.is_empty() => Self::Export(parse_path(path)),
            ("/file" | "/export", _) => Self::Help,
            _ => Self::Input(
                line.strip_prefix('/')
                    .filter(|rest| rest.starts_with('/'))
                    .unwrap_or(line)
                    .to_owned(),
            ),
        }
    }
}

fn non_empty(name: &str) -> Option<String> {
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Parses a typed path: quotes, escapes, and `~` for the home folder.
fn parse_path(typed: &str) -> PathBuf {
    let words = shell_words::split(typed).ok();
    let path = match words.as_deref() {
        Some([one]) => one.clone(),
        _ => typed.to_owned(),
    };
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_ours_is_the_agents() {
        assert_eq!(
            SlashCommand::parse("/tool bash"),
            SlashCommand::Input("/tool bash".to_owned())
        );
        assert_eq!(
            SlashCommand::parse("//file x"),
            SlashCommand::Input("/file x".to_owned())
        );
        assert_eq!(
            SlashCommand::parse("/help me"),
            SlashCommand::Input("/help me".to_owned())
        );
        assert_eq!(
            SlashCommand::parse("  indented"),
            SlashCommand::Input("  indented".to_owned())
        );
    }

    #[test]
    fn our_commands_are_known() {
        assert_eq!(SlashCommand::parse("  "), SlashCommand::Nothing);
        assert_eq!(SlashCommand::parse("/quit "), SlashCommand::Quit);
        assert_eq!(
            SlashCommand::parse("/file 'a b.txt'"),
            SlashCommand::File("a b.txt".into())
        );
        assert_eq!(
            SlashCommand::parse("/file a b.txt"),
            SlashCommand::File("a b.txt".into())
        );
        assert_eq!(SlashCommand::parse("/model"), SlashCommand::Model(None));
        assert_eq!(
            SlashCommand::parse("/mode plan "),
            SlashCommand::Mode(Some("plan".to_owned()))
        );
        assert_eq!(SlashCommand::parse("/export"), SlashCommand::Help);
        assert_eq!(
            SlashCommand::parse("/export 'a b.md'"),
            SlashCommand::Export("a b.md".into())
        );
        assert_eq!(
            SlashCommand::parse("//model x"),
            SlashCommand::Input("/model x".to_owned())
        );
    }
}
