//! The agents, as a hub is told of them ([relay.4]).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use trunkline_host::{AgentStatus, Host, config::Profile};
use trunkline_protocol::{AgentEntry, Capabilities, Model, SessionInfo};

/// What agents told of themselves in any session, by agent id.
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
    /// Keeps what an agent told last.
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

    /// The host's agents, with what is known of them.
    pub(crate) fn list(&self, host: &Host) -> Vec<AgentEntry> {
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
