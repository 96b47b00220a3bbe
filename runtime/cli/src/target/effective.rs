//! Comparison of the configurations of two hosts.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use trunkline_host::config::{Config, Document, Organisation};

use super::{MODEL, model_of};
use crate::daemon::hex_digest;

/// Next step if only a new process can have the same configuration.
pub(crate) const RESTART: &str = "restart the daemon by `trunkline down` and `trunkline up`";

/// The configuration in force of a host, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EffectiveConfig {
    /// Version of the program.
    program: String,
    /// File from which it was read; relative paths start in its folder. `None` without a file.
    pub(crate) file: Option<PathBuf>,
    /// Digest of the contents of the file and of the policies.
    contents: String,
    /// Model of each agent by its id, if the configuration or the environment names one.
    agents: BTreeMap<String, Option<String>>,
}

impl EffectiveConfig {
    /// Returns the configuration of a host that offers the agents of `config`. `None` if a policy
    /// cannot be read.
    pub(super) fn new(document: &Document, config: &Config) -> Option<Self> {
        let policies = Organisation::of_this_machine(config.policy.as_deref()).ok()?;
        let file = document.source.path();
        let agents = config.agents.iter();
        Some(Self {
            program: format!(
                "{} {:?}",
                env!("CARGO_PKG_VERSION"),
                option_env!("TRUNKLINE_COMMIT")
            ),
            file: file.and_then(|file| std::path::absolute(file).ok()),
            contents: hex_digest(&format!("{} {policies:?}", document.value), 32),
            agents: agents
                .map(|agent| (agent.id.clone(), model_of(agent).map(str::to_owned)))
                .collect(),
        })
    }

    /// Checks that a host with this configuration runs an agent as a host with `own` would.
    ///
    /// # Errors
    /// The difference, and the next step.
    pub(crate) fn check_agent(&self, agent: &str, own: &Self) -> Result<(), (String, String)> {
        let differs = |why: String, next: &str| Err((why, next.to_owned()));
        if self.program != own.program {
            return differs("it is another version of trunkline".to_owned(), RESTART);
        }
        if self.file != own.file {
            let named = |file: &Option<PathBuf>| {
                file.as_ref().map_or_else(
                    || "no configuration".to_owned(),
                    |file| file.display().to_string(),
                )
            };
            let [there, here] = [&self.file, &own.file].map(named);
            let next = match self.file {
                Some(_) => &format!("use its configuration by --config {there}"),
                None => RESTART,
            };
            return differs(format!("it uses {there}, and this command {here}"), next);
        }
        if self.contents != own.contents {
            let why = "its configuration or a policy has changed since it was read".to_owned();
            return differs(why, "run `trunkline daemon reload`");
        }
        let Some(model) = self.agents.get(agent) else {
            let next = match &self.file {
                Some(file) => &format!(
                    "add {agent} to {}, and run `trunkline daemon reload`",
                    file.display()
                ),
                None => "run `trunkline daemon reload`, which finds installed agents",
            };
            return differs(format!("it does not offer the agent {agent}"), next);
        };
        if Some(model) != own.agents.get(agent) {
            let why = format!("its {MODEL} differs");
            return differs(why, RESTART);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_host::config::AgentConfig;

    use super::*;

    #[test]
    fn only_a_difference_that_has_an_effect_on_the_agent_counts_and_is_named() {
        let file =
            r#"{"agents": [{"id": "a", "profile": "echo"}, {"id": "b", "profile": "codex"}]}"#;
        let of = |text: &str, change: &dyn Fn(&mut Config)| {
            let document = Document::new(serde_json::from_str(text).unwrap(), ".");
            let mut config = document.config(&|_, _| Ok(())).unwrap();
            change(&mut config);
            EffectiveConfig::new(&document, &config).unwrap()
        };
        let daemon = of(file, &|_| {});
        let with_model = |index: usize| {
            move |config: &mut Config| {
                config.agents[index].config = Some(json!({ "model": "m" }));
            }
        };
        let add = |config: &mut Config| config.agents.push(AgentConfig::built_in("c", "echo"));
        for same in [
            of(&file.replace(": ", ":"), &|config| {
                config.default_agent = Some("b".to_owned());
            }),
            of(file, &add),
            of(file, &with_model(1)),
        ] {
            assert_eq!(daemon.check_agent("a", &same), Ok(()));
        }
        let secret = |value: &str| {
            let env = format!(r#""echo", "env": {{"KEY": "{value}"}}"#);
            of(&file.replacen(r#""echo""#, &env, 1), &|_| {})
        };
        let limited = r#"], "runtime": {"max_sessions": 3}}"#;
        let moved = |file: Option<&str>| EffectiveConfig {
            file: file.map(PathBuf::from),
            ..daemon.clone()
        };
        let newer = EffectiveConfig {
            program: "2".to_owned(),
            ..daemon.clone()
        };
        for (there, agent, own, why, next) in [
            (
                &daemon,
                "a",
                &of(&file.replace("codex", "pi"), &|_| {}),
                "has changed",
                "reload",
            ),
            (
                &daemon,
                "a",
                &of(&file.replace("]}", limited), &|_| {}),
                "has changed",
                "reload",
            ),
            (&daemon, "a", &secret("one"), "has changed", "reload"),
            (
                &secret("s3cret"),
                "a",
                &secret("two"),
                "has changed",
                "reload",
            ),
            (
                &daemon,
                "a",
                &of(file, &with_model(0)),
                "TRUNKLINE_MODEL",
                "up",
            ),
            (
                &daemon,
                "c",
                &of(file, &add),
                "not offer the agent c",
                "reload",
            ),
            (&daemon, "a", &newer, "another version", "up"),
            (
                &moved(Some("/x/y")),
                "a",
                &moved(None),
                "it uses /x/y, and this command no",
                "--config /x/y",
            ),
            (
                &moved(None),
                "a",
                &moved(Some("/x/y")),
                "it uses no configuration, and",
                "up",
            ),
        ] {
            let found = there.check_agent(agent, own).unwrap_err();
            assert!(found.0.contains(why) && found.1.contains(next), "{found:?}");
        }
        let text = serde_json::to_string(&secret("s3cret")).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
    }
}
