//! Settings of an agent by the hub's administrator: only restrictions and limits.

use std::time::Duration;

use serde_json::{Value, json};

use crate::frame::{AgentLimits, ConfigUpdate, SecuritySettings};

/// The settings of one agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AgentSettings {
    /// Tools that never run.
    pub(crate) denied_tools: Vec<String>,
    pub(crate) max_sessions: Option<u64>,
    /// The time without a message or an event after which a session is closed.
    pub(crate) idle: Option<Duration>,
    /// The longest life of a session, which is closed between turns.
    pub(crate) lasts: Option<Duration>,
    /// The longest output of a turn, in bytes.
    pub(crate) max_output: Option<u64>,
}

/// Members that only the runtime's own configuration sets, because they could allow more.
const RUNTIME_KEYS: [&str; 6] = [
    "allowed_paths",
    "denied_paths",
    "allowed_tools",
    "env_whitelist",
    "permission_mode",
    "cwd",
];

/// Denied tools of an agent.
const MAX_DENIED_TOOLS: usize = 256;

impl AgentSettings {
    /// Applies an update, whole or not at all.
    ///
    /// # Errors
    /// The members that the hub may not set, or that cannot be read.
    pub(crate) fn apply(&mut self, update: &ConfigUpdate) -> Result<(), String> {
        let mut new = self.clone();
        let no_security = SecuritySettings::default();
        let no_limits = AgentLimits::default();
        let security = update.security.as_ref().unwrap_or(&no_security);
        let limits = update.limits.as_ref().unwrap_or(&no_limits);
        let is_set = |key: &&str| {
            let value = security.others.get(*key);
            value.is_some_and(|value| ![Value::Null, json!(""), json!([])].contains(value))
        };
        let refused: Vec<_> = RUNTIME_KEYS.into_iter().filter(is_set).collect();
        if !refused.is_empty() {
            return Err(format!(
                "the runtime's own configuration sets {}",
                refused.join(", ")
            ));
        }
        if let Some(tools) = security
            .disallowed_tools
            .as_ref()
            .filter(|tools| !tools.is_empty())
        {
            if tools.len() > MAX_DENIED_TOOLS {
                return Err(format!(
                    "disallowed_tools has more than {MAX_DENIED_TOOLS} tools"
                ));
            }
            new.denied_tools.clone_from(tools);
        }
        new.max_sessions = limits
            .max_sessions
            .filter(|most| *most > 0)
            .or(new.max_sessions);
        new.max_output = limits
            .max_output_bytes
            .filter(|most| *most > 0)
            .or(new.max_output);
        new.idle = parse_duration("idle_timeout", limits.idle_timeout.as_deref())?.or(new.idle);
        new.lasts =
            parse_duration("session_timeout", limits.session_timeout.as_deref())?.or(new.lasts);
        *self = new;
        Ok(())
    }
}

/// Parses a duration as Go writes it: `1h30m0s`, `1.5s`. `None` for an empty one, and for zero.
fn parse_duration(name: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let duration = humantime::parse_duration(text.trim());
    let duration = duration.map_err(|_| format!("{name} is not a duration such as 30m"))?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(text: &str) -> ConfigUpdate {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_bounds_is_applied_and_an_empty_member_changes_nothing() {
        let mut settings = AgentSettings::default();
        let all = r#"{"agent_id":"a","security":{"disallowed_tools":["Bash"],"allowed_paths":[],"cwd":"","permission_mode":null},
            "limits":{"max_sessions":2,"session_timeout":"1h30m0s","max_output_bytes":10,"idle_timeout":"1.5s"}}"#;
        settings.apply(&update(all)).unwrap();
        let expected = AgentSettings {
            denied_tools: vec!["Bash".to_owned()],
            max_sessions: Some(2),
            idle: Some(Duration::from_millis(1500)),
            lasts: Some(Duration::from_secs(5400)),
            max_output: Some(10),
        };
        assert_eq!(settings, expected);
        let empty = r#"{"agent_id":"a","security":{"disallowed_tools":[]},"limits":{"max_sessions":0,"idle_timeout":"0s"}}"#;
        settings.apply(&update(empty)).unwrap();
        settings.apply(&update(r#"{"agent_id":"a"}"#)).unwrap();
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_could_widen_is_refused_by_name_and_nothing_of_it_is_applied() {
        for (text, named) in [
            (r#"{"permission_mode":"skip"}"#, "permission_mode"),
            (
                r#"{"allowed_tools":["Bash"],"cwd":"/"}"#,
                "allowed_tools, cwd",
            ),
            (r#"{"allowed_paths":["/"]}"#, "allowed_paths"),
            (r#"{"denied_paths":["/"]}"#, "denied_paths"),
            (r#"{"env_whitelist":["KEY"]}"#, "env_whitelist"),
        ] {
            let text = text.replacen('{', r#"{"disallowed_tools":["X"],"#, 1);
            let mut settings = AgentSettings::default();
            let why = settings
                .apply(&update(&format!(r#"{{"agent_id":"a","security":{text}}}"#)))
                .unwrap_err();
            assert!(why.ends_with(named), "{why}");
            assert_eq!(settings, AgentSettings::default());
        }
        for bad in ["5", "m", "1x", "-1s", "1..2s", "1e99h"] {
            let text = format!(
                r#"{{"agent_id":"a","limits":{{"max_sessions":1,"idle_timeout":"{bad}"}}}}"#
            );
            let mut settings = AgentSettings::default();
            assert!(settings.apply(&update(&text)).is_err(), "{bad}");
            assert_eq!(settings, AgentSettings::default());
        }
    }
}
