//! What a line of the person means.

use std::path::PathBuf;

/// The commands, for people.
pub(super) const HELP: &str = "\
/file PATH    gives the agent a file, with what you say next
/model NAME   changes the model; without NAME, shows which there are
/mode NAME    changes the agent's mode; without NAME, shows which there are
/usage        shows what this conversation used
/new          begins a new conversation
/export FILE  writes the conversation into a new file, as Markdown
/stop         stops the turn; while it runs, Ctrl-C does
/quit         leaves; Ctrl-D does too
/help         shows this, and the agent's commands once it has answered
Alt-Enter, or a \\ at the end of a line, begins another line.
Any other line goes to the agent as it is, /its own commands too; //file sends /file.";

/// The names of the commands, for completion.
pub(super) const NAMES: &[&str] = &[
    "/export ", "/file ", "/help", "/mode ", "/model ", "/new", "/quit", "/stop", "/usage",
];

/// What a line of the person means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// An empty line.
    Nothing,
    /// To leave.
    Quit,
    /// The list of commands.
    Help,
    /// To stop the turn.
    Stop,
    /// To give the agent a file.
    File(PathBuf),
    /// To change the model, or to see which there are.
    Model(Option<String>),
    /// To change the mode, or to see which there are.
    Mode(Option<String>),
    /// What was used.
    Usage,
    /// A new conversation.
    New,
    /// The conversation in a file.
    Export(PathBuf),
    /// To say something to the agent.
    Say(String),
}

impl Word {
    /// What the line means. Commands that are not ours are the agent's.
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

/// A path as it is typed: in quotes or with escapes, from the home folder.
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
