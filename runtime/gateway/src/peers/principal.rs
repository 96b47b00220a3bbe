//! Principals of forwarded requests.

use serde::{Deserialize, Serialize};

use crate::auth::{principal::Principal, token::Scope};

/// Principal of a request that one host has authenticated and another one serves. Hosts trust each
/// other. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "lowercase", deny_unknown_fields)]
pub enum ForwardedPrincipal {
    /// The user of the hosts.
    User,
    /// The bearer of a token.
    Bearer {
        /// The token's public id.
        id: String,
        /// The token's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The scope of the token.
        scope: Scope,
        /// True if it may answer permissions.
        #[serde(default)]
        may_approve: bool,
        /// The agents that it may use; `None` for all.
        agents: Option<Vec<String>>,
        /// True if it sees the sessions of other tokens.
        all_sessions: bool,
        /// Creation, in seconds since 1970.
        created: u64,
        /// Expiry, in seconds since 1970; `None` for never.
        expires: Option<u64>,
    },
}

impl ForwardedPrincipal {
    /// Describes a principal to another host.
    pub(crate) fn from_principal(principal: &Principal) -> Self {
        match principal {
            Principal::User => Self::User,
            Principal::Bearer(bearer) => Self::Bearer {
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
        let who = ForwardedPrincipal::Bearer {
            id: "0a1b2c3d".to_owned(),
            name: Some("ann".to_owned()),
            scope: Scope::Control,
            may_approve: true,
            agents: Some(vec!["a".to_owned()]),
            all_sessions: false,
            created: 1,
            expires: Some(u64::MAX),
        };
        for who in [ForwardedPrincipal::User, who] {
            let told = serde_json::to_string(&who).unwrap();
            assert!(!told.contains("digest"), "{told}");
            let heard: ForwardedPrincipal = serde_json::from_str(&told).unwrap();
            assert_eq!(heard, who);
            assert_eq!(
                ForwardedPrincipal::from_principal(&Principal::of_other_host(heard)),
                who
            );
        }
        assert!(serde_json::from_str::<ForwardedPrincipal>(r#"{"who":"root"}"#).is_err());
    }
}
