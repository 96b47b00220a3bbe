//! Which program an agent is.

use std::fmt;

use super::read::nearest;

/// The built-in profiles: the name, and the key of an agent that holds its configuration.
const BUILT_IN: [(&str, &str); 14] = [
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

/// Which program an agent is.
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
        match self {
            Self::External => Some(EXTERNAL),
            Self::BuiltIn(name) => BUILT_IN.iter().find(|(known, _)| known == name).map(|(_, key)| *key),
        }
    }

    /// The name, as in the configuration.
    pub fn name(&self) -> &str {
        match self {
            Self::External => EXTERNAL,
            Self::BuiltIn(name) => name,
        }
    }

    /// The profile of this name, whatever its case.
    pub fn of_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(EXTERNAL) {
            return Some(Self::External);
        }
        let known = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(known, _)| Self::BuiltIn((*known).to_owned()))
    }

    /// The built-in profiles, each by its name and by the key of an agent that holds its configuration.
    pub fn built_in() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILT_IN.into_iter()
    }

    /// The names of all profiles, that of a program of one's own first.
    pub(super) fn names() -> Vec<&'static str> {
        std::iter::once(EXTERNAL).chain(BUILT_IN.iter().map(|(known, _)| *known)).collect()
    }

    /// The name that is most likely meant.
    pub(super) fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, &Self::names())
    }

    /// The profile that a key belongs to.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        if key == EXTERNAL {
            return Some(Self::External);
        }
        BUILT_IN.iter().find(|(_, known)| *known == key).map(|(name, _)| Self::BuiltIn((*name).to_owned()))
    }

    /// The keys of all profiles.
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        std::iter::once(EXTERNAL).chain(BUILT_IN.iter().map(|(_, key)| *key))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
