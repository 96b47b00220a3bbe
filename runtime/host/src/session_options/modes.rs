//! Values of `mode` and `permission_mode` that ask at least as much as the configured one.

use crate::config::{AgentConfig, AgentFacts, Profile, agent_facts};

/// Modes of a profile's agents, as far as their meaning is known.
struct Modes {
    /// Key of the profile's object that chooses a mode.
    option: Option<&'static str>,
    /// Modes in which a person is asked, or nothing happens; the strictest first. Those of one step
    /// ask the same.
    asking: Vec<Vec<&'static str>>,
    /// Modes that ask less than the last of these: a session may leave one that is configured, and
    /// not choose it.
    looser: Vec<&'static str>,
}

/// The same, written as a constant.
struct FixedModes {
    option: &'static str,
    asking: &'static [&'static [&'static str]],
    looser: &'static [&'static str],
}

/// Meaning of these words for every agent that knows them.
const ANY: FixedModes = FixedModes {
    option: "mode",
    asking: &[&["plan", "read-only"], &["default", "ask"]],
    looser: &[],
};

const CLAUDE: FixedModes = FixedModes {
    option: "permission_mode",
    asking: &[
        &["plan"],
        &["dontAsk", "dont-ask"],
        &["default", "manual", "ask"],
    ],
    looser: &[
        "acceptEdits",
        "accept-edits",
        "auto",
        "bypassPermissions",
        "bypass",
        "dangerously-skip-permissions",
    ],
};

/// A mode of Codex is an approval policy and a sandbox. `auto` lets it write where it may only read.
const CODEX: FixedModes = FixedModes {
    option: "approval_mode",
    asking: &[&["untrusted"], &["read-only", "on-request"]],
    looser: &["on-failure", "never"],
};

impl From<&'static FixedModes> for Modes {
    fn from(fixed: &'static FixedModes) -> Self {
        Self {
            option: Some(fixed.option),
            asking: fixed.asking.iter().map(|step| step.to_vec()).collect(),
            looser: fixed.looser.to_vec(),
        }
    }
}

impl From<&'static AgentFacts> for Modes {
    fn from(facts: &'static AgentFacts) -> Self {
        let words = |modes: &'static [String]| modes.iter().map(String::as_str).collect();
        Self {
            option: facts.mode_option.as_deref(),
            asking: facts.asking.iter().map(|step| words(step)).collect(),
            looser: words(&facts.looser),
        }
    }
}

/// The modes of an agent, and the rank of the configured one.
pub(super) struct Ladder<'c> {
    modes: Modes,
    configured: Option<&'c str>,
}

impl<'c> Ladder<'c> {
    pub(super) fn from_config(config: &'c AgentConfig) -> Self {
        let modes = match &config.profile {
            Profile::External => Modes::from(&ANY),
            Profile::BuiltIn(name) => match name.as_str() {
                "claude-code" => Modes::from(&CLAUDE),
                "codex" => Modes::from(&CODEX),
                name => agent_facts(name).map_or_else(|| Modes::from(&ANY), Modes::from),
            },
        };
        let own = config
            .config
            .as_ref()
            .filter(|_| config.profile != Profile::External);
        let word = |key: &str| own?.get(key)?.as_str().filter(|word| !word.is_empty());
        Self {
            configured: modes.option.and_then(word),
            modes,
        }
    }

    /// Returns true if a session stays within the configuration with this word. An empty one counts
    /// as none.
    pub(super) fn holds(&self, asked: Option<&str>) -> bool {
        let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
            return true;
        };
        let Some(configured) = self.configured else {
            return self.step(asked).is_some();
        };
        if asked == configured {
            return true;
        }
        let is_looser = self.modes.looser.iter().any(|word| is(word, configured));
        match (self.step(asked), self.step(configured)) {
            (Some(_), None) => is_looser,
            (Some(asked), Some(configured)) => asked <= configured,
            (None, _) => false,
        }
    }

    fn step(&self, word: &str) -> Option<usize> {
        self.modes
            .asking
            .iter()
            .position(|step| step.iter().any(|known| is(known, word)))
    }
}

/// Returns true if a word means this mode, in any case, or as the last part of a URL.
fn is(known: &str, word: &str) -> bool {
    let word = if word.contains("://") {
        word.rsplit(['#', '/']).next().unwrap_or(word)
    } else {
        word
    };
    known.eq_ignore_ascii_case(word)
}
