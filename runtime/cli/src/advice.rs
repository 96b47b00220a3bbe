//! Install and login commands of wrapped agents.

use std::sync::LazyLock;

use trunkline_host::{
    config::{self, AgentConfig},
    protocol::{Category, Failure},
};
use trunkline_profiles::{PROFILES, Profile};

/// A wrapped agent.
#[derive(Debug)]
pub(crate) struct WrappedAgent {
    /// Name of the built-in adapter.
    pub(crate) profile: &'static str,
    /// Its program, unless the configuration names another.
    pub(crate) program: &'static str,
    /// The command that installs it.
    pub(crate) install: &'static str,
}

/// Every wrapped agent, in the order of `trunkline agents profiles`.
pub(crate) static ALL: LazyLock<Vec<WrappedAgent>> = LazyLock::new(|| {
    let wrapped = |profile: &Profile| {
        let agent = profile.wrapped()?;
        Some(WrappedAgent {
            profile: profile.name,
            program: agent.program,
            install: agent.install,
        })
    };
    PROFILES.iter().filter_map(wrapped).collect()
});

/// Returns the agent that a built-in adapter wraps.
pub(crate) fn wrapped_by(agent: &AgentConfig) -> Option<&'static WrappedAgent> {
    let config::Profile::BuiltIn(name) = &agent.profile else {
        return None;
    };
    ALL.iter().find(|wrapped| wrapped.profile == name)
}

/// Returns the known next step after a failure.
pub(crate) fn next(agent: &AgentConfig, failure: &Failure) -> Option<String> {
    match failure.category? {
        Category::NotInstalled => wrapped_by(agent).map(WrappedAgent::install),
        Category::Auth => wrapped_by(agent).map(|wrapped| {
            format!(
                "log in with {login}, or by `trunkline agents login {id}`; `trunkline doctor {id}` checks the credentials",
                login = wrapped.login(),
                id = agent.id
            )
        }),
        _ => None,
    }
}

impl WrappedAgent {
    /// Returns the command that logs in.
    pub(crate) fn login(&self) -> String {
        let profile = PROFILES.iter().find(|profile| profile.name == self.profile);
        profile.and_then(Profile::credentials).map_or_else(
            || format!("`{}`", self.program),
            |taken| taken.login().to_string(),
        )
    }

    /// Returns the next step for a missing program.
    pub(crate) fn install(&self) -> String {
        format!(
            "install it by `{}`, or set its path by -c command=PATH",
            self.install
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrapped_agent_is_a_built_in_adapter_with_a_command_to_choose() {
        for wrapped in ALL.iter() {
            assert!(
                PROFILES
                    .iter()
                    .any(|profile| profile.name == wrapped.profile),
                "{wrapped:?}"
            );
            let profile = config::Profile::BuiltIn(wrapped.profile.to_owned());
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
