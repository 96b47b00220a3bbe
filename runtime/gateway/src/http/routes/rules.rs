//! Lasting rules: listed and removed. They are saved by answers.

use axum::{Json as Body, response::NoContent};

use super::{LastParameter, spawned};
use crate::{
    auth::{authorizer::no_approval, lasting_rules::StoredRule},
    http::{
        operation::{RequestContext, answers},
        problem::{Answer, Problem},
    },
};

answers! {
    /// Lasting rules, the oldest first.
    pub(super) struct RuleList {
        rules: Vec<StoredRule>,
    }
}

pub(super) async fn list(RequestContext { shared, principal }: RequestContext) -> Body<RuleList> {
    let mut rules = shared.rules.list().await;
    rules.retain(|rule| principal.may_have(&rule.agent));
    Body(RuleList { rules })
}

pub(super) async fn remove(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
) -> Answer<NoContent> {
    if !principal.may_approve() {
        return Err(Problem::forbidden(no_approval(&principal)));
    }
    // A task, since a client that leaves must not interrupt it.
    spawned(async move {
        let may_have = |agent: &str| principal.may_have(agent);
        shared.rules.remove(&id, may_have).await.map(|()| NoContent)
    })
    .await
}
