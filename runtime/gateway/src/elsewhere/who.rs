//! Who asks, as one host tells another.

use serde::{Deserialize, Serialize};

use crate::{pass::Pass, token::Scope};

/// Who asks: found out by the gateway that was asked, and told to the one that serves it. Hosts
/// trust each other in this.
///
/// It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "lowercase", deny_unknown_fields)]
pub enum Who {
    /// The user whose hosts these are.
    User,
    /// The bearer of a token.
    Bearer {
        /// The token's public id.
        id: String,
        /// The token's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What it allows.
        scope: Scope,
        /// True if it answers permissions.
        #[serde(default)]
        may_approve: bool,
        /// The agents that it is for. `None`: all.
        agents: Option<Vec<String>>,
        /// Whether it sees the sessions of others.
        all_sessions: bool,
        /// When it was made, in seconds since 1970.
        created: u64,
        /// When it ends, in seconds since 1970. `None`: never.
        expires: Option<u64>,
    },
}

impl Who {
    /// Who has this pass.
    pub(crate) fn of(pass: &Pass) -> Self {
        match pass {
            Pass::User => Self::User,
            Pass::Bearer(bearer) => Self::Bearer {
                id: bearer.token.id.clone(),
                name: bearer.token.name.clone(),
                scope: bearer.token.scope,
                may_approve: bearer.token.may_approve,
                agents: bearer.token.agents.clone(),
                all_sessions: bearer.token.all_sessions,
                created: bearer.token.created,
                expires: bearer.token.expires,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_the_same_at_the_other_host_and_bears_no_secret() {
        let who = Who::Bearer {
            id: "0a1b2c3d".to_owned(),
            name: Some("ann".to_owned()),
            scope: Scope::Control,
            may_approve: true,
            agents: Some(vec!["a".to_owned()]),
            all_sessions: false,
            created: 1,
            expires: Some(u64::MAX),
        };
        for who in [Who::User, who] {
            let told = serde_json::to_string(&who).unwrap();
            assert!(!told.contains("digest"), "{told}");
            let heard: Who = serde_json::from_str(&told).unwrap();
            assert_eq!(heard, who);
            assert_eq!(Who::of(&Pass::of_fellow(heard)), who);
        }
        assert!(serde_json::from_str::<Who>(r#"{"who":"root"}"#).is_err());
    }
}
