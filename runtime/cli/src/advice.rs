//! How wrapped agents are installed and logged in, for those who miss one.

use trunkline_host::{
    config::{AgentConfig, Profile},
    protocol::{Category, Failure},
};
use trunkline_profiles::PROFILES;

/// A wrapped agent.
#[derive(Debug)]
pub(crate) struct Wrapped {
    /// The built-in adapter.
    pub(crate) profile: &'static str,
    /// Its program, unless the configuration names another.
    pub(crate) program: &'static str,
    /// The command that installs it.
    pub(crate) install: &'static str,
}

/// Every wrapped agent, in the order of `trunkline profiles`.
pub(crate) const ALL: [Wrapped; 7] = [
    Wrapped {
        profile: "claude-code",
        program: "claude",
        install: "npm install -g @anthropic-ai/claude-code",
    },
    Wrapped {
        profile: "codex",
        program: "codex",
        install: "npm install -g @openai/codex",
    },
    Wrapped {
        profile: "gemini-cli",
        program: "gemini",
        install: "npm install -g @google/gemini-cli",
    },
    Wrapped {
        profile: "github-copilot",
        program: "copilot",
        install: "npm install -g @github/copilot",
    },
    Wrapped {
        profile: "kilo-code",
        program: "kilo",
        install: "npm install -g @kilocode/cli",
    },
    Wrapped {
        profile: "opencode",
        program: "opencode",
        install: "npm install -g opencode-ai",
    },
    Wrapped {
        profile: "pi",
        program: "pi",
        install: "npm install -g @mariozechner/pi-coding-agent",
    },
];

/// The agent that a built-in adapter wraps.
pub(crate) fn of(agent: &AgentConfig) -> Option<&'static Wrapped> {
    let Profile::BuiltIn(name) = &agent.profile else {
        return None;
    };
    ALL.iter().find(|wrapped| wrapped.profile == name)
}

/// What to do about a failure, where that is known.
pub(crate) fn next(agent: &AgentConfig, failure: &Failure) -> Option<String> {
    match failure.category? {
        Category::NotInstalled => of(agent).map(Wrapped::install),
        Category::Auth => of(agent).map(|wrapped| {
            format!(
                "log in with {}; `trunkline doctor {}` shows which credentials there are",
                wrapped.login(),
                agent.id
            )
        }),
        _ => None,
    }
}

impl Wrapped {
    /// How a person logs in.
    pub(crate) fn login(&self) -> &'static str {
        let profile = PROFILES.iter().find(|profile| profile.name == self.profile);
        profile
            .and_then(trunkline_profiles::Profile::login)
            .unwrap_or(self.program)
    }

    /// How it is installed, or another program named.
    pub(crate) fn install(&self) -> String {
        format!(
            "`{}` installs it; -c command=PATH names one that is elsewhere",
            self.install
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrapped_agent_is_a_built_in_adapter_with_a_command_to_choose() {
        for wrapped in &ALL {
            assert!(
                PROFILES
                    .iter()
                    .any(|profile| profile.name == wrapped.profile),
                "{wrapped:?}"
            );
            let profile = Profile::BuiltIn(wrapped.profile.to_owned());
            assert!(crate::overrides::knows(&profile, "command"), "{wrapped:?}");
        }
    }

    #[test]
    fn advice_is_given_where_it_helps() {
        let failure = |category| Failure {
            category: Some(category),
            ..Failure::default()
        };
        let codex = AgentConfig::built_in("mine", "codex");
        assert!(
            next(&codex, &failure(Category::NotInstalled))
                .unwrap()
                .contains("npm install -g @openai/codex")
        );
        let login = next(&codex, &failure(Category::Auth)).unwrap();
        assert!(
            login.contains("`codex login`") && login.contains("doctor mine"),
            "{login}"
        );
        assert_eq!(next(&codex, &failure(Category::Timeout)), None);
        assert_eq!(
            next(&AgentConfig::external("a", "x"), &failure(Category::Auth)),
            None
        );
    }
}
