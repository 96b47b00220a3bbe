//! Lasting rules: listed and removed. They are saved by answers.

use axum::{
    Extension, Json as Body,
    extract::{Request, State},
    http::StatusCode,
};
use serde_json::{Value, json};

use super::{Asks, Gate, part};
use crate::{
    auth::{authentication::require_scope, authorizer::no_approval, token::Scope},
    http::problem::{Answer, Problem},
};

pub(super) async fn list(State(shared): Gate, Extension(principal): Asks) -> Answer<Body<Value>> {
    require_scope(&principal, Scope::Control)?;
    let mut rules = shared.rules.list().await;
    rules.retain(|rule| principal.may_have(&rule.agent));
    Ok(Body(json!({ "rules": rules })))
}

pub(super) async fn remove(
    State(shared): Gate,
    Extension(principal): Asks,
    request: Request,
) -> Answer<StatusCode> {
    if !principal.may_approve() {
        return Err(Problem::forbidden(no_approval(&principal)));
    }
    let id = part(&mut request.into_parts().0, "id").await?;
    // A task, since a client that leaves must not interrupt it.
    let removed = tokio::spawn(async move {
        let may_have = |agent: &str| principal.may_have(agent);
        shared.rules.remove(&id, may_have).await
    });
    removed
        .await
        .map_err(|_| Problem::unavailable("the daemon ends"))??;
    Ok(StatusCode::NO_CONTENT)
}
