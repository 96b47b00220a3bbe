//! Agents, their health, and their own conversations.

use std::{collections::BTreeMap, iter, path::Path};

use axum::{Json, response::NoContent};
use trunkline_host::config::AgentConfig;
use trunkline_protocol::{AgentEntry, Resume, SessionEntry, SessionStart};

use super::{LastParameter, Query};
use crate::{
    auth::{principal::Principal, token::Scope},
    gateway::Shared,
    http::{
        operation::{RequestContext, answers, parameters},
        problem::{Answer, Problem},
        uploads::MAX_UPLOAD,
    },
};

/// Number of an agent's conversations that are searched for one to continue, the newest first.
const MAX_SEARCHED: u32 = 1000;

answers! {
    /// Agents that a token may use.
    pub(super) struct AgentList {
        agents: Vec<AgentEntry>,
        /// Agent of a session that names none.
        default: Option<String>,
        /// Folder of each agent, by its id. Only for this user's own requests.
        #[serde(skip_serializing_if = "Option::is_none")]
        work_dirs: Option<BTreeMap<String, String>>,
        /// Folders in which a session of each agent may work, by the agent's id; the first one is the
        /// default. Only for a principal that opens sessions.
        #[serde(skip_serializing_if = "Option::is_none")]
        folders: Option<BTreeMap<String, Vec<String>>>,
        /// Largest file that each agent takes, in bytes, by the agent's id.
        max_file_bytes: BTreeMap<String, u64>,
        /// Agents whose `cwd` this user's page may choose, because no configuration names a folder.
        #[serde(skip_serializing_if = "Option::is_none")]
        takes_cwd: Option<Vec<String>>,
    }
}

pub(super) async fn list(RequestContext { shared, principal }: RequestContext) -> Json<AgentList> {
    let visitor = principal.visitor();
    let agents = trunkline_relay::list_agents(&shared.host, visitor.as_deref()).await;
    let default = shared
        .host
        .default_agent()
        .filter(|id| principal.may_have(id));
    let is_user = matches!(principal, Principal::User);
    let configs = shared.host.agents().into_iter().map(|agent| agent.config);
    let configs: Vec<_> = configs
        .filter(|config| principal.may_have(&config.id))
        .collect();
    let takes_cwd = principal.agents_with_folder().map(|others| {
        let ids = agents.iter().map(|agent| agent.id.clone());
        ids.filter(|id| !others.contains(id)).collect()
    });
    Json(AgentList {
        takes_cwd,
        folders: (principal.scope() >= Scope::Control).then(|| {
            let folders = |config: &AgentConfig| (config.id.clone(), folders(config));
            configs.iter().map(folders).collect()
        }),
        max_file_bytes: configs
            .iter()
            .map(|config| (config.id.clone(), max_file_bytes(config)))
            .collect(),
        agents,
        default,
        work_dirs: is_user.then(|| work_dirs(&shared, &principal)),
    })
}

parameters! {
    pub(super) struct ConversationsQuery {
        /// Only conversations of this directory.
        cwd: Option<String>,
        /// Maximum number; the agent's adapter sets it if absent.
        limit: Option<u32>,
    }
}

answers! {
    /// A conversation that an agent itself keeps.
    struct Conversation {
        /// The agent's own id, which a new session names to continue it.
        id: String,
        agent: String,
        #[serde(flatten)]
        entry: SessionEntry,
    }

    /// Conversations of an agent.
    pub(super) struct ConversationList {
        conversations: Vec<Conversation>,
    }
}

/// Lists the conversations that an agent itself keeps.
pub(super) async fn conversations(
    context: RequestContext,
    LastParameter(agent): LastParameter,
    Query(query): Query<ConversationsQuery>,
) -> Answer<Json<ConversationList>> {
    if !context.principal.may_have(&agent) || context.shared.host.agent(&agent).is_none() {
        return Err(Problem::no_agent(&agent));
    }
    let sessions = context.sessions();
    let listed = sessions.list_conversations(&agent, query.cwd, query.limit);
    let conversation = |entry: SessionEntry| Conversation {
        id: entry.native_session_id.clone(),
        agent: entry.agent_id.clone().unwrap_or_default(),
        entry,
    };
    let conversations = listed.await?.into_iter().map(conversation).collect();
    Ok(Json(ConversationList { conversations }))
}

/// Restarts an agent of this host.
pub(super) async fn restart(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(agent): LastParameter,
) -> Answer<NoContent> {
    let unknown = || Problem::no_agent(&agent);
    if !principal.may_have(&agent) {
        return Err(unknown());
    }
    let restarted = shared.host.restart_agent(&agent).await;
    restarted.map(|()| NoContent).map_err(|_| unknown())
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

/// Returns the size of the largest file that an agent takes.
pub(super) fn max_file_bytes(config: &AgentConfig) -> u64 {
    config.limits.max_file_bytes.min(MAX_UPLOAD)
}

/// Returns the folders in which a session of an agent may work, except paths that are not UTF-8.
fn folders(config: &AgentConfig) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_default();
    if config.needs_cwd {
        return Vec::new();
    }
    let roots = iter::once(&config.command.work_dir).chain(&config.allowed_dirs);
    let absolute = roots.filter_map(|root| here.join(root).to_str().map(str::to_owned));
    absolute.collect()
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
