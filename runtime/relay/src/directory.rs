//! The agents, as a hub sees them ([relay.4]).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use trunkline_host::{AgentStatus, Host, config::Profile};
use trunkline_protocol::{
    AdapterMessage, AgentEntry, AgentsListResult, Capabilities, MIN_MAX_LINE, Model, RequestId, SessionId,
    SessionInfo,
};

/// What agents reported of themselves in any session, by agent id.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    learnt: Mutex<HashMap<String, Learnt>>,
}

#[derive(Debug, Default)]
struct Learnt {
    capabilities: Option<Capabilities>,
    models: Option<Vec<Model>>,
}

impl Directory {
    /// Keeps what an agent reported last.
    pub(crate) fn learn(&self, agent: &str, info: &SessionInfo) {
        if info.capabilities.is_none() && info.models.is_none() {
            return;
        }
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let learnt = learnt.entry(agent.to_owned()).or_default();
        if info.capabilities.is_some() {
            learnt.capabilities.clone_from(&info.capabilities);
        }
        if info.models.is_some() {
            learnt.models.clone_from(&info.models);
        }
    }

    /// The answer to `agents.list`, within a line that any hub can read: where it would be longer, the longest of what
    /// is known of an agent is left out, `models` before the rest ([relay.4]).
    pub(crate) fn answer(&self, host: &Host, request_id: &RequestId) -> Vec<u8> {
        let mut agents = self.list(host);
        loop {
            let line = result(request_id, agents.clone());
            let Some(mut excess) = line.len().checked_sub(MIN_MAX_LINE + 1) else { return line };
            // What is left out is shorter here than on the wire: two rounds at most, mostly one.
            while let Some(bytes) = leave_out_longest(&mut agents) {
                match excess.checked_sub(bytes) {
                    Some(rest) => excess = rest,
                    None => break,
                }
            }
            if agents.iter().all(|agent| agent.models.is_none() && agent.description.is_none()) {
                return result(request_id, agents);
            }
        }
    }

    /// The host's agents, with what is known of them.
    fn list(&self, host: &Host) -> Vec<AgentEntry> {
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |status: AgentStatus| {
            let config = status.config;
            let known = learnt.get(&config.id);
            AgentEntry {
                name: Some(config.name),
                profile: Some(match config.profile {
                    Profile::External => "external".to_owned(),
                    Profile::BuiltIn(name) => name,
                }),
                description: config.description,
                capabilities: known.and_then(|known| known.capabilities.clone()),
                models: known.and_then(|known| known.models.clone()),
                state: Some(status.state),
                id: config.id,
            }
        };
        host.agents().into_iter().map(entry).collect()
    }
}

fn result(request_id: &RequestId, agents: Vec<AgentEntry>) -> Vec<u8> {
    let result = AgentsListResult { request_id: request_id.clone(), agents };
    AdapterMessage::new(SessionId::none(), result).to_line()
}

/// Leaves out the longest list of models, or where there is none the longest description. Says about how long it was.
fn leave_out_longest(agents: &mut [AgentEntry]) -> Option<usize> {
    let models = |agent: &AgentEntry| {
        // With the members' names; what has to be escaped is longer.
        let label = |model: &Model| model.label.as_ref().map_or(0, |label| 11 + label.len());
        let length = |model: &Model| 10 + model.id.len() + label(model);
        agent.models.as_ref().map(|models| models.iter().map(length).sum::<usize>())
    };
    let longest = agents.iter_mut().max_by_key(|agent| models(agent))?;
    if let Some(bytes) = models(longest) {
        longest.models = None;
        return Some(bytes);
    }
    let length = |agent: &AgentEntry| agent.description.as_ref().map(String::len);
    let longest = agents.iter_mut().max_by_key(|agent| length(agent))?;
    longest.description.take().map(|description| description.len())
}
