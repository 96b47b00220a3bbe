//! Tokens: create, list without their text, revoke.

use std::time::Duration;

use axum::{Json as Body, http::StatusCode, response::NoContent};

use super::{Json, LastParameter, blocking};
use crate::{
    auth::{
        authorizer::no_approval,
        token::{NewToken, PublicToken, Scope, Token, TokenError},
    },
    http::{
        operation::{CreatedAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
    },
};

parameters! {
    pub(super) struct WantedToken {
        /// Name in lists and in `by`.
        #[cfg_attr(
            test,
            schemars(length(max = 64), regex(pattern = r"^(?![tl]-)[A-Za-z0-9._@-]+$"))
        )]
        name: Option<String>,
        scope: Scope,
        /// True if it answers permissions, which no scope includes. Needs the scope `control` or `admin`.
        #[serde(default)]
        may_approve: bool,
        /// Agents that it may use; all if absent.
        agents: Option<Vec<String>>,
        /// True if it sees the sessions of other tokens.
        #[serde(default)]
        all_sessions: bool,
        /// Lifetime, such as `30d`.
        expires: Option<String>,
    }
}

answers! {
    /// A token with its text.
    pub(super) struct NewTokenText {
        #[serde(flatten)]
        public: PublicToken,
        /// Text of the token.
        token: String,
    }

    /// Valid tokens.
    pub(super) struct TokenList {
        tokens: Vec<PublicToken>,
    }
}

pub(super) async fn make(
    RequestContext { shared, principal }: RequestContext,
    Json(wanted): Json<WantedToken>,
) -> Answer<CreatedAnswer<NewTokenText>> {
    let expires: Option<Duration> = wanted
        .expires
        .map(|text| humantime::parse_duration(&text))
        .transpose()
        .map_err(|error| Problem::unprocessable(format!("expires: {error}; `30d` is 30 days")))?;
    // A token cannot give rights that it lacks.
    let agents = match (
        wanted.agents,
        principal
            .visitor()
            .and_then(|visitor| visitor.agents.clone()),
    ) {
        (agents, None) => agents,
        (None, own) => own,
        (Some(agents), Some(own)) => match agents.iter().find(|agent| !own.contains(agent)) {
            Some(agent) => {
                return Err(Problem::forbidden(format!(
                    "the token that asks is not for the agent {agent}"
                )));
            }
            None => Some(agents),
        },
    };
    let may_see_all = principal.visitor().is_none_or(|visitor| visitor.sees_all);
    if wanted.all_sessions && !may_see_all {
        return Err(Problem::forbidden(
            "the token that asks does not see all sessions",
        ));
    }
    if wanted.may_approve && !principal.may_approve() {
        return Err(Problem::forbidden(no_approval(&principal)));
    }
    let new = NewToken {
        name: wanted.name,
        scope: wanted.scope,
        may_approve: wanted.may_approve,
        agents,
        is_page: false,
        all_sessions: wanted.all_sessions,
        expires,
        parent: principal.token_id().map(str::to_owned),
        browser: None,
    };
    let (token, text) = blocking(move || shared.tokens.add(new)).await?;
    Ok(WithStatus(Body(NewTokenText {
        public: token.to_public(),
        token: text,
    })))
}

pub(super) async fn list(context: RequestContext) -> Answer<Body<TokenList>> {
    let tokens = blocking(move || context.shared.tokens.read()).await?;
    let tokens = tokens.iter().map(Token::to_public).collect();
    Ok(Body(TokenList { tokens }))
}

pub(super) async fn revoke(
    context: RequestContext,
    LastParameter(id): LastParameter,
) -> Answer<NoContent> {
    blocking(move || context.shared.tokens.revoke(&id)).await?;
    Ok(NoContent)
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, error),
            TokenError::Name | TokenError::ApproverWithoutControl => Self::unprocessable(error),
            // Waiting does not help.
            TokenError::TooMany | TokenError::TooManyBrowsers => Self::conflict(error),
            other => Self::failed(other),
        }
    }
}
