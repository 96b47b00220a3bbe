//! The program of an agent.

use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

/// Profiles that are not an agent's file: the name, and the key of an agent that holds what belongs
/// to it. The first is not a built-in one.
const WITHOUT_FILE: [(&str, &str); 11] = [
    (EXTERNAL, EXTERNAL),
    ("echo", "echo"),
    ("replay", "replay"),
    ("mock", "mock"),
    ("generic-cli", "cli"),
    ("generic-job", "job"),
    ("generic-http", "http"),
    ("claude-code", "claude_code"),
    ("codex", "codex"),
    ("pi", "pi"),
    ("acp", "acp"),
];

/// An agent that speaks ACP, as far as the host needs its file.
#[derive(Debug, Deserialize)]
pub(crate) struct AgentFacts {
    name: String,
    key: String,
    /// Key of the profile's object that chooses a mode.
    pub(crate) mode_option: Option<String>,
    /// Modes in which a person is asked, or nothing happens; the strictest first. Those of one step
    /// ask the same.
    pub(crate) asking: Vec<Vec<String>>,
    /// Modes that ask less.
    pub(crate) looser: Vec<String>,
}

/// The agents' files, as the test of the adapters' crate writes them: this crate does not depend on
/// the adapters.
static AGENTS: LazyLock<Vec<AgentFacts>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a constant, read in every test")]
    serde_json::from_str(include_str!("agents.json")).expect("agents.json is valid")
});

/// Facts of an agent that speaks ACP, by the name of its profile.
pub(crate) fn agent_facts(name: &str) -> Option<&'static AgentFacts> {
    AGENTS.iter().find(|facts| facts.name == name)
}

/// Every profile and its key.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let agents = AGENTS
        .iter()
        .map(|facts| (facts.name.as_str(), facts.key.as_str()));
    WITHOUT_FILE.into_iter().chain(agents)
}

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
    /// The key of an agent that holds what belongs to this profile: `external`, `claude_code`, …;
    /// `None` for a name that is not built in.
    pub fn key(&self) -> Option<&'static str> {
        all()
            .find(|(known, _)| *known == self.name())
            .map(|(_, key)| key)
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
        all().skip(1)
    }

    /// Returns the names of all profiles, `external` first.
    pub(super) fn names() -> Vec<&'static str> {
        all().map(|(name, _)| name).collect()
    }

    /// The profile that a key belongs to.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        Self::find(|(_, known)| *known == key)
    }

    /// Returns the keys of all profiles, each once: agents without options of their own share the
    /// key `acp`.
    pub(super) fn keys() -> Vec<&'static str> {
        let mut keys: Vec<_> = all().map(|(_, key)| key).collect();
        let mut known = HashSet::new();
        keys.retain(|key| known.insert(*key));
        keys
    }

    fn find(is_it: impl Fn(&(&str, &str)) -> bool) -> Option<Self> {
        let (name, _) = all().find(is_it)?;
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
