//! Which program an agent is.

use std::fmt;

/// The profiles: the name, and the key of an agent that holds what belongs to it. The first is not a built-in one.
const ALL: [(&str, &str); 15] = [
    (EXTERNAL, EXTERNAL),
    ("echo", "echo"),
    ("replay", "replay"),
    ("mock", "mock"),
    ("generic-cli", "cli"),
    ("generic-job", "job"),
    ("generic-http", "http"),
    ("claude-code", "claude_code"),
    ("github-copilot", "copilot"),
    ("codex", "codex"),
    ("kilo-code", "kilo"),
    ("gemini-cli", "gemini"),
    ("opencode", "opencode"),
    ("pi", "pi"),
    ("acp", "acp"),
];

/// The name of the profile of a program of one's own, which is its key too.
const EXTERNAL: &str = "external";

/// The program of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// Any program that speaks the protocol: [`Command`](super::Command) names it.
    External,
    /// A built-in adapter of this name, started as `trunkline adapter <name>`.
    BuiltIn(String),
}

impl Profile {
    /// The key of an agent that holds what belongs to this profile: `external`, `claude_code`, …; `None` for a name
    /// that is not built in.
    pub fn key(&self) -> Option<&'static str> {
        ALL.iter()
            .find(|(known, _)| *known == self.name())
            .map(|(_, key)| *key)
    }

    /// The name, as in the configuration.
    pub fn name(&self) -> &str {
        match self {
            Self::External => EXTERNAL,
            Self::BuiltIn(name) => name,
        }
    }

    /// The profile of this name, whatever its case. `None` if there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::find(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The built-in profiles, each by its name and by the key of an agent that holds its configuration.
    pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.into_iter().skip(1)
    }

    /// The names of all profiles, that of a program of one's own first.
    pub(super) fn names() -> [&'static str; ALL.len()] {
        ALL.map(|(name, _)| name)
    }

    /// The profile that a key belongs to.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        Self::find(|(_, known)| *known == key)
    }

    /// The keys of all profiles.
    pub(super) fn keys() -> [&'static str; ALL.len()] {
        ALL.map(|(_, key)| key)
    }

    fn find(is_it: impl Fn(&(&str, &str)) -> bool) -> Option<Self> {
        let (name, _) = ALL.into_iter().find(is_it)?;
        Some(if name == EXTERNAL {
            Self::External
        } else {
            Self::BuiltIn(name.to_owned())
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
