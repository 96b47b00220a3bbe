//! Tokens: create, list without their text, revoke.

use std::time::Duration;

use axum::{
    Extension, Json as Body,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asks, Gate, Json, blocking, part};
use crate::{
    auth::{
        authentication::require_scope,
        authorizer::no_approval,
        token::{NewToken, Scope, Token, TokenError},
    },
    http::problem::{Answer, Problem},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    name: Option<String>,
    scope: Scope,
    #[serde(default)]
    may_approve: bool,
    agents: Option<Vec<String>>,
    #[serde(default)]
    all_sessions: bool,
    /// Lifetime, such as `30d`.
    expires: Option<String>,
}

pub(super) async fn make(
    State(shared): Gate,
    Extension(principal): Asks,
    Json(wanted): Json<Wanted>,
) -> Answer<Response> {
    require_scope(&principal, Scope::Admin)?;
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
        all_sessions: wanted.all_sessions,
        expires,
        parent: principal.token_id().map(str::to_owned),
    };
    let (token, text) = blocking(move || shared.tokens.add(new)).await?;
    let mut told = token.to_public_json();
    told["token"] = json!(text);
    Ok((StatusCode::CREATED, Body(told)).into_response())
}

pub(super) async fn list(State(shared): Gate, Extension(principal): Asks) -> Answer<Body<Value>> {
    require_scope(&principal, Scope::Admin)?;
    let tokens = blocking(move || shared.tokens.read()).await?;
    Ok(Body(
        json!({ "tokens": tokens.iter().map(Token::to_public_json).collect::<Vec<_>>() }),
    ))
}

pub(super) async fn revoke(
    State(shared): Gate,
    Extension(principal): Asks,
    request: Request,
) -> Answer<StatusCode> {
    require_scope(&principal, Scope::Admin)?;
    let id = part(&mut request.into_parts().0, "id").await?;
    blocking(move || shared.tokens.revoke(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, error.to_string()),
            TokenError::Name | TokenError::ApproverWithoutControl => {
                Self::unprocessable(error.to_string())
            }
            TokenError::TooMany => Self::too_many(error.to_string()),
            other => Self::failed(other.to_string()),
        }
    }
}
