//! The agents, as a hub sees them ([relay.4]).

use trunkline_host::{AgentStatus, Host, config::Profile};
use trunkline_protocol::{
    AdapterMessage, AgentEntry, AgentsListResult, MIN_MAX_LINE, Model, RequestId, SessionId,
};

/// The answer to `agents.list`, within a line that any hub can read: where it would be longer, the longest of what
/// is known of an agent is left out, `models` before the rest ([relay.4]).
pub(crate) fn answer(host: &Host, request_id: &RequestId) -> Vec<u8> {
    let mut agents = list(host);
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
fn list(host: &Host) -> Vec<AgentEntry> {
    let entry = |status: AgentStatus| {
        let config = status.config;
        AgentEntry {
            name: Some(config.name),
            profile: Some(match config.profile {
                Profile::External => "external".to_owned(),
                Profile::BuiltIn(name) => name,
            }),
            description: config.description,
            capabilities: status.capabilities,
            models: status.models,
            state: Some(status.state),
            id: config.id,
        }
    };
    host.agents().into_iter().map(entry).collect()
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
