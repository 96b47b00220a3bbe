//! Agents, their health, and their own conversations.

use std::{collections::BTreeMap, path::Path};

use axum::{
    Extension, Json,
    extract::{Path as PathParams, State},
};
use serde::Deserialize;
use serde_json::{Value, json};
use trunkline_protocol::{Resume, SessionEntry, SessionStart};

use super::{Asks, Gate, Query, with_short_names};
use crate::{
    auth::principal::Principal,
    gateway::Shared,
    http::problem::{Answer, Problem},
};

/// Number of an agent's conversations that are searched for one to continue, the newest first.
const MAX_SEARCHED: u32 = 1000;

pub(super) async fn list(State(shared): Gate, Extension(principal): Asks) -> Json<Value> {
    let mut agents = trunkline_relay::list_agents(&shared.host).await;
    agents.retain(|agent| principal.may_have(&agent.id));
    let default = shared
        .host
        .default_agent()
        .filter(|id| principal.may_have(id));
    let mut answer = json!({ "agents": agents, "default": default });
    if matches!(principal, Principal::User) {
        answer["work_dirs"] = json!(work_dirs(&shared, &principal));
    }
    Json(answer)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConversationsQuery {
    cwd: Option<String>,
    limit: Option<u32>,
}

/// Lists the conversations that an agent itself keeps.
pub(super) async fn conversations(
    State(shared): Gate,
    Extension(principal): Asks,
    PathParams(agent): PathParams<String>,
    Query(query): Query<ConversationsQuery>,
) -> Answer<Json<Value>> {
    if !principal.may_have(&agent) || shared.host.agent(&agent).is_none() {
        return Err(Problem::no_agent(&agent));
    }
    let sessions = shared.sessions_for(&principal);
    let listed = sessions.list_conversations(&agent, query.cwd, query.limit);
    let names = [("id", "native_session_id"), ("agent", "agent_id")];
    let conversations = listed.await?.into_iter();
    let conversations: Vec<_> = conversations
        .map(|conversation| with_short_names(json!(conversation), &names))
        .collect();
    Ok(Json(json!({ "conversations": conversations })))
}

/// Makes a new session continue a conversation that the agent lists, in the folder of the
/// conversation unless the session names one. A client of a network names neither a folder nor what
/// to resume, so both are taken from the agent's list, and the folder is one that the agent's
/// configuration allows.
///
/// # Errors
/// The conversations are not listed, this one is not among them, or its folder is not allowed.
pub(super) async fn continue_conversation(
    shared: &Shared,
    principal: &Principal,
    agent: &str,
    id: &str,
    start: &mut SessionStart,
) -> Answer<()> {
    let sessions = shared.sessions_for(principal);
    let listed = sessions.list_conversations(agent, None, Some(MAX_SEARCHED));
    let is_meant = |entry: &SessionEntry| entry.native_session_id == id;
    let found = listed.await?.into_iter().find(is_meant);
    let found = found.ok_or_else(|| {
        Problem::unprocessable(format!(
            "the agent {agent} lists no conversation {id:?}; GET /v1/agents/{agent}/conversations lists them"
        ))
    })?;
    if start.cwd.is_none()
        && let Some(folder) = found.cwd
    {
        let config = shared.host.agent(agent).map(|agent| agent.config);
        let is_allowed = || config.is_some_and(|config| config.allows_dir(Path::new(&folder)));
        if !matches!(principal, Principal::User) && !is_allowed() {
            return Err(Problem::forbidden(format!(
                "the conversation {id:?} is of the folder {folder}, which the agent's configuration does not allow \
                 to a network: it has to be in its `work_dir` or one of `allowed_dirs`"
            )));
        }
        start.cwd = Some(folder);
    }
    start.resume = Some(Resume {
        native_session_id: Some(found.native_session_id),
        history: Some(true),
        ..Resume::default()
    });
    Ok(())
}

/// Returns the folder of each agent by its id, except paths that are not UTF-8.
pub(super) fn work_dirs(shared: &Shared, principal: &Principal) -> BTreeMap<String, String> {
    let agents = shared.host.agents().into_iter();
    let work_dirs = agents.filter_map(|agent| {
        let config = agent.config;
        let here = std::env::current_dir().ok()?;
        let work_dir = here.join(&config.command.work_dir).to_str()?.to_owned();
        principal
            .may_have(&config.id)
            .then(|| (config.id.clone(), work_dir))
    });
    work_dirs.collect()
}
