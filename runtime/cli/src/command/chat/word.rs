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
pub(super) enum Word {
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
    Say(String),
}

impl Word {
    /// Parses a line. Unknown commands are sent to the agent.
    pub(super) fn of(line: &str) -> Self {
        let trimmed = line.trim();
        let (name, rest) = trimmed
            .split_once(char::is_whitespace)
            .unwrap_or((trimmed, ""));
        match (name, rest.trim()) {
            ("", _) => Self::Nothing,
            ("/quit" | "/exit", "") => Self::Quit,
            ("/help", "") => Self::Help,
            ("/stop", "") => Self::Stop,
            ("/file", path) if !path.is_empty() => Self::File(file(path)),
            ("/model", name) => Self::Model(one(name)),
            ("/mode", name) => Self::Mode(one(name)),
            ("/usage", "") => Self::Usage,
            ("/new", "") => Self::New,
            ("/export", path) if !path.is_empty() => Self::Export(file(path)),
            ("/file" | "/export", _) => Self::Help,
            _ => Self::Say(
                line.strip_prefix('/')
                    .filter(|rest| rest.starts_with('/'))
                    .unwrap_or(line)
                    .to_owned(),
            ),
        }
    }
}

fn one(name: &str) -> Option<String> {
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Parses a typed path: quotes, escapes, and `~` for the home folder.
fn file(typed: &str) -> PathBuf {
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
        assert_eq!(Word::of("/tool bash"), Word::Say("/tool bash".to_owned()));
        assert_eq!(Word::of("//file x"), Word::Say("/file x".to_owned()));
        assert_eq!(Word::of("/help me"), Word::Say("/help me".to_owned()));
        assert_eq!(Word::of("  indented"), Word::Say("  indented".to_owned()));
    }

    #[test]
    fn our_commands_are_known() {
        assert_eq!(Word::of("  "), Word::Nothing);
        assert_eq!(Word::of("/quit "), Word::Quit);
        assert_eq!(Word::of("/file 'a b.txt'"), Word::File("a b.txt".into()));
        assert_eq!(Word::of("/file a b.txt"), Word::File("a b.txt".into()));
        assert_eq!(Word::of("/model"), Word::Model(None));
        assert_eq!(Word::of("/mode plan "), Word::Mode(Some("plan".to_owned())));
        assert_eq!(Word::of("/export"), Word::Help);
        assert_eq!(Word::of("/export 'a b.md'"), Word::Export("a b.md".into()));
        assert_eq!(Word::of("//model x"), Word::Say("/model x".to_owned()));
    }
}
