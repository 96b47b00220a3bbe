//! The options that a session may rely on.

use super::SessionStart;

/// A field of `session.start` that restricts the agent: if a session asks for it and the adapter
/// does not list it in `options_applied`, the host refuses the session ([ext.7]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnforcedOption {
    /// `denied_tools`.
    DeniedTools,
    /// `allowed_tools`.
    AllowedTools,
    /// `permission_mode`.
    PermissionMode,
    /// `allowed_domains`.
    AllowedDomains,
    /// `cwd`.
    Cwd,
    /// `max_cost_usd`.
    MaxCostUsd,
    /// `max_tokens`.
    MaxTokens,
    /// `turn_timeout_ms`.
    TurnTimeout,
    /// `inactivity_timeout_ms`.
    InactivityTimeout,
}

impl EnforcedOption {
    /// Each of them, once.
    pub const ALL: [Self; 9] = [
        Self::DeniedTools,
        Self::AllowedTools,
        Self::PermissionMode,
        Self::AllowedDomains,
        Self::Cwd,
        Self::MaxCostUsd,
        Self::MaxTokens,
        Self::TurnTimeout,
        Self::InactivityTimeout,
    ];

    /// The limits among them. A host may enforce these itself, and an input may narrow them ([ext.7]).
    pub const LIMITS: [Self; 3] = [Self::MaxTokens, Self::TurnTimeout, Self::InactivityTimeout];

    /// The name of its field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeniedTools => "denied_tools",
            Self::AllowedTools => "allowed_tools",
            Self::PermissionMode => "permission_mode",
            Self::AllowedDomains => "allowed_domains",
            Self::Cwd => "cwd",
            Self::MaxCostUsd => "max_cost_usd",
            Self::MaxTokens => "max_tokens",
            Self::TurnTimeout => "turn_timeout_ms",
            Self::InactivityTimeout => "inactivity_timeout_ms",
        }
    }

    fn is_asked(self, start: &SessionStart) -> bool {
        match self {
            Self::DeniedTools => start.denied_tools.is_some(),
            Self::AllowedTools => start.allowed_tools.is_some(),
            Self::PermissionMode => start.permission_mode.is_some(),
            Self::AllowedDomains => start.allowed_domains.is_some(),
            Self::Cwd => start.cwd.is_some(),
            Self::MaxCostUsd => start.max_cost_usd.is_some(),
            Self::MaxTokens => start.max_tokens.is_some(),
            Self::TurnTimeout => start.turn_timeout_ms.is_some(),
            Self::InactivityTimeout => start.inactivity_timeout_ms.is_some(),
        }
    }
}

/// Each field with its name and presence.
macro_rules! asked {
    ($start:ident: $($field:ident)+) => { [$((stringify!($field), $start.$field.is_some())),+] };
}

impl SessionStart {
    /// Returns the requested options about the agent's work, by the names of their fields.
    pub fn options(&self) -> impl Iterator<Item = &'static str> + use<> {
        let asked = asked! { self:
            variables cwd add_dirs model reasoning_effort temperature system_prompt system_prompt_mode mode
            permission_mode allowed_tools denied_tools allowed_domains max_turns max_cost_usd max_tokens turn_timeout_ms
            inactivity_timeout_ms output_schema mcp_servers skills env extra_args
        };
        asked
            .into_iter()
            .filter_map(|(name, is_there)| is_there.then_some(name))
    }

    /// The options that must be enforced and that this asks for ([ext.7]).
    pub fn enforced_options(&self) -> impl Iterator<Item = EnforcedOption> {
        EnforcedOption::ALL
            .into_iter()
            .filter(|option| option.is_asked(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostBody, HostMessage};

    #[test]
    fn each_is_asked_for_by_the_field_of_its_name_and_by_no_other() {
        for (field, value) in [
            ("denied_tools", r#"["x"]"#),
            ("allowed_tools", "[]"),
            ("permission_mode", r#""ask""#),
            ("allowed_domains", "[]"),
            ("cwd", r#""/srv""#),
            ("max_cost_usd", "2.5"),
            ("max_tokens", "1"),
            ("turn_timeout_ms", "1"),
            ("inactivity_timeout_ms", "1"),
            ("model", r#""large""#),
            ("add_dirs", r#"["/srv"]"#),
            ("env", r#"{"A":"b"}"#),
        ] {
            let line = format!(r#"{{"type":"session.start","session_id":"s","{field}":{value}}}"#);
            let HostBody::SessionStart(start) = HostMessage::parse(&line).unwrap().body else {
                panic!("{line}")
            };
            let asked: Vec<_> = start.enforced_options().map(EnforcedOption::name).collect();
            let must = EnforcedOption::ALL
                .iter()
                .any(|option| option.name() == field);
            assert_eq!(
                asked,
                must.then_some(field).into_iter().collect::<Vec<_>>(),
                "{field}"
            );
            assert_eq!(start.options().collect::<Vec<_>>(), [field]);
        }
        assert_eq!(SessionStart::default().enforced_options().count(), 0);
    }

    #[test]
    fn the_specification_names_the_same() {
        let spec = include_str!("../../SPEC.md");
        let (_, clause) = spec.split_once("**[ext.7]**").unwrap();
        let (row, _) = clause.split_once(" was asked for").unwrap();
        let (_, named) = row.split_once("- Where ").unwrap();
        let named: Vec<_> = named.split('`').skip(1).step_by(2).collect();
        assert_eq!(named, EnforcedOption::ALL.map(EnforcedOption::name));
    }
}
