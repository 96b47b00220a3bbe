//! Mode of a command line: a query, one turn, or a dialogue, and its kind.

use super::recording::Recording;

/// Mode of a dialogue with a CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A question about itself: version, login, sessions.
    Query,
    /// One prompt, answered on stdout, then the end.
    OneShot,
    /// claude's lines in both directions.
    StreamJson,
    /// codex's JSON-RPC.
    AppServer,
    /// The Agent Client Protocol.
    Acp,
}

impl Mode {
    /// Returns the mode of a command line, given by its words after the program.
    pub(crate) fn of_arguments(words: &[String]) -> Self {
        let has = |word: &str| words.iter().any(|given| given == word);
        match words.first().map(String::as_str) {
            Some(
                "--version" | "-v" | "-V" | "--help" | "-h" | "auth" | "login" | "mcp-server"
                | "--list-sessions",
            ) => Self::Query,
            Some("app-server") => Self::AppServer,
            Some("acp") => Self::Acp,
            _ if has("--acp") || has("--experimental-acp") => Self::Acp,
            _ if words.iter().any(|word| word.starts_with("--input-format")) => Self::StreamJson,
            _ if has("--version") => Self::Query,
            _ => Self::OneShot,
        }
    }

    /// Returns the mode of a recording.
    pub(crate) fn from_recording(recording: &Recording) -> Self {
        match Self::of_arguments(recording.argv.get(1..).unwrap_or_default()) {
            Self::OneShot if recording.cli().starts_with("acp-") => Self::Acp,
            mode => mode,
        }
    }
}
