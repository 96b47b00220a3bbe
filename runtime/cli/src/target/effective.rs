//! Comparison of the configurations of two hosts.

use serde_json::json;
use trunkline_host::config::{Config, Document, Organisation};

use super::model_of;
use crate::daemon::hex_digest;

/// Returns a text that is equal for equal configurations of this program: of the file's contents
/// and its folder, from which relative paths start, of the command line and the environment, and of
/// the policies. The text reveals none of them. `None` if a policy cannot be read.
pub(super) fn digest(document: &Document, config: &Config) -> Option<String> {
    let folder = document
        .source
        .path()
        .and_then(|file| std::path::absolute(file).ok());
    let folder = folder
        .as_deref()
        .and_then(std::path::Path::parent)
        .map(|folder| folder.to_string_lossy());
    let agents: Vec<_> = config
        .agents
        .iter()
        .map(|agent| (&agent.id, model_of(agent)))
        .collect();
    let policies = Organisation::of_this_machine(config.policy.as_deref()).ok()?;
    let all = json!([
        env!("CARGO_PKG_VERSION"),
        option_env!("TRUNKLINE_COMMIT"),
        folder,
        document.value,
        agents,
        format!("{policies:?}"),
    ]);
    Some(hex_digest(&all.to_string(), 32))
}

#[cfg(test)]
mod tests {
    use trunkline_host::config::AgentConfig;

    use super::*;

    #[test]
    fn what_has_an_effect_changes_it_and_the_default_does_not() {
        let document = |text: &str| Document::new(serde_json::from_str(text).unwrap(), ".");
        let of = |text: &str, change: &dyn Fn(&mut Config)| {
            let document = document(text);
            let mut config = document.config(&|_, _| Ok(())).unwrap();
            change(&mut config);
            digest(&document, &config).unwrap()
        };
        let file =
            r#"{"agents": [{"id": "a", "profile": "echo"}, {"id": "b", "profile": "codex"}]}"#;
        let same = of(file, &|_| {});
        assert_eq!(
            same,
            of(&file.replace(": ", ":"), &|config| config.default_agent =
                Some("b".to_owned()))
        );
        let secret = |value: &str| {
            let env = format!(r#""echo", "env": {{"KEY": "{value}"}}"#);
            of(&file.replacen(r#""echo""#, &env, 1), &|_| {})
        };
        let all = [
            same,
            of(&file.replace("codex", "pi"), &|_| {}),
            of(
                &file.replace("]}", r#"], "runtime": {"max_sessions": 3}}"#),
                &|_| {},
            ),
            of(file, &|config| {
                config.agents.push(AgentConfig::built_in("c", "echo"))
            }),
            of(file, &|config| {
                config.agents[1].config = Some(json!({ "model": "m" }))
            }),
            secret("one"),
            secret("two"),
        ];
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert!(
            all.iter()
                .all(|digest| digest.len() == 64 && !digest.contains("one"))
        );
    }
}
