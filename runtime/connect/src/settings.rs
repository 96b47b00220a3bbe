//! Settings of an agent by the hub's administrator: only restrictions and limits.

use std::time::Duration;

use crate::frame::{ConfigUpdate, Limits, Security};

/// The settings of one agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
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

/// Denied tools of an agent.
const MAX_DENIED_TOOLS: usize = 256;

impl Settings {
    /// Applies an update, whole or not at all.
    ///
    /// # Errors
    /// The members that the hub may not set, or that cannot be read.
    pub(crate) fn apply(&mut self, update: &ConfigUpdate) -> Result<(), String> {
        let mut new = self.clone();
        let no_security = Security::default();
        let no_limits = Limits::default();
        let security = update.security.as_ref().unwrap_or(&no_security);
        let limits = update.limits.as_ref().unwrap_or(&no_limits);
        let has_items = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|it| !it.is_empty());
        let has_text = |text: &Option<String>| text.as_ref().is_some_and(|it| !it.is_empty());
        let refused = [
            ("allowed_paths", has_items(&security.allowed_paths)),
            ("denied_paths", has_items(&security.denied_paths)),
            ("allowed_tools", has_items(&security.allowed_tools)),
            ("env_whitelist", has_items(&security.env_whitelist)),
            ("permission_mode", has_text(&security.permission_mode)),
            ("cwd", has_text(&security.cwd)),
        ];
        let refused = refused.iter().filter(|(_, is_set)| *is_set);
        let refused: Vec<_> = refused.map(|(name, _)| *name).collect();
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
        new.idle = duration("idle_timeout", limits.idle_timeout.as_deref())?.or(new.idle);
        new.lasts = duration("session_timeout", limits.session_timeout.as_deref())?.or(new.lasts);
        *self = new;
        Ok(())
    }
}

/// A duration as Go writes it: `1h30m0s`, `1.5s`. `None` for an empty one, and for zero.
fn duration(name: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    let Some(mut rest) = text
        .map(str::trim)
        .filter(|text| !text.is_empty() && *text != "0")
    else {
        return Ok(None);
    };
    let wrong = || format!("{name} is not a duration such as 30m");
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        seconds += number
            * match &rest[..unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(wrong()),
            };
        rest = &rest[unit..];
    }
    let whole = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    Ok((!whole.is_zero()).then_some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(text: &str) -> ConfigUpdate {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_bounds_is_applied_and_an_empty_member_changes_nothing() {
        let mut settings = Settings::default();
        let all = r#"{"agent_id":"a","security":{"disallowed_tools":["Bash"],"allowed_paths":[],"cwd":"","permission_mode":null},
            "limits":{"max_sessions":2,"session_timeout":"1h30m0s","max_output_bytes":10,"idle_timeout":"1.5s"}}"#;
        settings.apply(&update(all)).unwrap();
        let expected = Settings {
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
            let mut settings = Settings::default();
            let why = settings
                .apply(&update(&format!(r#"{{"agent_id":"a","security":{text}}}"#)))
                .unwrap_err();
            assert!(why.ends_with(named), "{why}");
            assert_eq!(settings, Settings::default());
        }
        for bad in ["5", "m", "1x", "-1s", "1..2s", "1e99h"] {
            let text = format!(
                r#"{{"agent_id":"a","limits":{{"max_sessions":1,"idle_timeout":"{bad}"}}}}"#
            );
            let mut settings = Settings::default();
            assert!(settings.apply(&update(&text)).is_err(), "{bad}");
            assert_eq!(settings, Settings::default());
        }
    }
}
