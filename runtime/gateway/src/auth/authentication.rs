//! Authentication: the principal of a request, from its connection and its token.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    auth::{caller::UNPROVEN, principal::Principal, token::Scope},
    gateway::Shared,
    http::{
        connection::Peer,
        cors::{peer, single_header},
        problem::Problem,
    },
};

/// Rejects requests without a valid token, and adds the [`Principal`] to the others.
pub(crate) async fn authenticate(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    match require_principal(&shared, request.extensions(), request.headers()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns the principal of a request that must have one.
pub(crate) async fn require_principal(
    shared: &Shared,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<Principal, Problem> {
    let principal = optional_principal(shared, &peer(extensions)?, headers).await;
    principal.unwrap_or_else(|| Err(missing_token()))
}

/// Returns the bearer of a token, unless an agent started the process that sends it.
pub(crate) async fn authenticate_token(
    shared: &Shared,
    peer: &Peer,
    token: &str,
) -> Result<Principal, Problem> {
    let unknown = || Problem::unauthorized("this token is not known, was revoked, or has expired");
    let principal = shared.known_tokens.find(token).ok_or_else(unknown)?;
    if let Peer::Network(_, caller, admission) = peer {
        let is_proven = caller.is_proven().await?;
        admission.accept();
        if !is_proven {
            return Ok(principal.unproven());
        }
    }
    Ok(principal)
}

fn missing_token() -> Problem {
    Problem::unauthorized(
        "a token is needed: `Authorization: Bearer TOKEN`; `trunkline token new` makes one",
    )
}

/// Returns the bearer token of a request.
pub(crate) fn bearer_text(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single_header(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// Returns the principal of a request that may have none.
pub(crate) async fn optional_principal(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
) -> Option<Result<Principal, Problem>> {
    match peer {
        Peer::User => Some(Ok(Principal::User)),
        Peer::OtherHost(principal) => Some(Ok(principal.clone())),
        Peer::Network(..) if !headers.contains_key(header::AUTHORIZATION) => None,
        Peer::Network(..) => Some(match bearer_text(headers) {
            Some(token) => authenticate_token(shared, peer, token).await,
            None => Err(missing_token()),
        }),
    }
}

/// Checks that a principal has a scope.
pub(crate) fn require_scope(principal: &Principal, scope: Scope) -> Result<(), Problem> {
    if principal.scope() >= scope {
        return Ok(());
    }
    if principal.is_unproven() {
        return Err(Problem::forbidden(UNPROVEN));
    }
    let has = principal.scope().as_str();
    let needs = scope.as_str();
    Err(Problem::forbidden(format!(
        "the token has scope {has}, and this needs {needs}"
    )))
}
