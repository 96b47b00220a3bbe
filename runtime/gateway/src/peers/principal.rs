//! Principals of forwarded requests.

use serde::{Deserialize, Serialize};

use crate::auth::{principal::Principal, token::Token};

/// Principal of a request that one host has authenticated and another one serves. Hosts trust each
/// other. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "lowercase", deny_unknown_fields)]
pub enum ForwardedPrincipal {
    /// The user of the hosts.
    User,
    /// The bearer of a token, without its secret.
    Bearer(Box<Token>),
}

impl ForwardedPrincipal {
    /// Describes a principal to another host.
    pub(crate) fn from_principal(principal: &Principal) -> Self {
        match principal {
            Principal::User => Self::User,
            Principal::Bearer(bearer) => Self::Bearer(Box::new(bearer.token.without_secret())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token::Scope;

    #[test]
    fn a_principal_is_the_same_at_the_other_host_and_has_no_secret() {
        let token = Token {
            id: "0a1b2c3d".to_owned(),
            name: Some("ann".to_owned()),
            scope: Scope::Control,
            may_approve: true,
            agents: Some(vec!["a".to_owned()]),
            all_sessions: false,
            created: 1,
            expires: Some(u64::MAX),
            parent: Some("0a1b2c3e".to_owned()),
            digest: "a digest".to_owned(),
            is_page: true,
            browser: None,
        };
        let principal = Principal::of_other_host(ForwardedPrincipal::Bearer(Box::new(token)), None);
        assert!(
            principal
                .bearer()
                .is_some_and(|bearer| !bearer.token.is_page)
        );
        let bearer = ForwardedPrincipal::from_principal(&principal);
        for who in [ForwardedPrincipal::User, bearer] {
            let sent = serde_json::to_string(&who).unwrap();
            assert!(!sent.contains("digest"), "{sent}");
            assert!(!sent.contains("0a1b2c3e"), "{sent}");
            let received: ForwardedPrincipal = serde_json::from_str(&sent).unwrap();
            assert_eq!(received, who);
            assert_eq!(
                ForwardedPrincipal::from_principal(&Principal::of_other_host(received, None)),
                who
            );
        }
        // The form of a host without this type.
        let old = r#"{"who":"bearer","id":"0a1b2c3d","scope":"observe","agents":null,"all_sessions":true,"created":1,"expires":null}"#;
        assert!(serde_json::from_str::<ForwardedPrincipal>(old).is_ok());
        assert!(serde_json::from_str::<ForwardedPrincipal>(r#"{"who":"root"}"#).is_err());
    }
}
