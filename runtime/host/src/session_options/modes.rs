//! Which words of `mode` and `permission_mode` ask at least as much as what is configured.

use crate::config::{AgentConfig, Profile};

/// The modes of a profile's agents, as far as it is known what they ask.
struct Modes {
    /// The keys of the profile's object that choose a mode.
    keys: &'static [&'static str],
    /// Those in which a person is asked, or nothing happens; the strictest first. Those of one step ask the same.
    asking: &'static [&'static [&'static str]],
    /// Those that ask less than the last of these: a session may leave one that is configured, and not choose it.
    looser: &'static [&'static str],
}

/// What is meant by these words wherever they are known.
const ANY: Modes = Modes {
    keys: &["mode"],
    asking: &[&["plan", "read-only"], &["default", "ask"]],
    looser: &[],
};

const CLAUDE: Modes = Modes {
    keys: &["permission_mode"],
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
const CODEX: Modes = Modes {
    keys: &["approval_mode"],
    asking: &[&["untrusted"], &["read-only", "on-request"]],
    looser: &["on-failure", "never"],
};

const GEMINI: Modes = Modes {
    keys: &["approval_mode"],
    asking: &[&["plan"], &["default"]],
    looser: &["auto_edit", "autoEdit", "yolo"],
};

/// Its modes are URLs, of which the last part is the name.
const COPILOT: Modes = Modes {
    keys: &[],
    asking: &[&["plan"], &["agent"]],
    looser: &["autopilot"],
};

/// Their modes are agents. The user's own ones may do anything, so that they are not here.
const OPENCODE: Modes = Modes {
    keys: &["mode"],
    asking: &[&["plan", "ask"], &["build", "code"]],
    looser: &[],
};

/// The modes of an agent, and where its configuration stands among them.
pub(super) struct Ladder<'c> {
    modes: &'static Modes,
    configured: Option<&'c str>,
}

impl<'c> Ladder<'c> {
    pub(super) fn of(config: &'c AgentConfig) -> Self {
        let modes = match &config.profile {
            Profile::External => &ANY,
            Profile::BuiltIn(name) => match name.as_str() {
                "claude-code" => &CLAUDE,
                "codex" => &CODEX,
                "gemini-cli" => &GEMINI,
                "github-copilot" => &COPILOT,
                "kilo-code" | "opencode" => &OPENCODE,
                _ => &ANY,
            },
        };
        let own = config
            .config
            .as_ref()
            .filter(|_| config.profile != Profile::External);
        let word = |key: &&str| own?.get(key)?.as_str().filter(|word| !word.is_empty());
        Self {
            modes,
            configured: modes.keys.iter().find_map(word),
        }
    }

    /// Whether a session stays within the configuration by this word. An empty one is none.
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

/// Whether a word means this mode, in any case, or as the last part of a URL.
fn is(known: &str, word: &str) -> bool {
    let word = match word.contains("://") {
        true => word.rsplit(['#', '/']).next().unwrap_or(word),
        false => word,
    };
    known.eq_ignore_ascii_case(word)
}
