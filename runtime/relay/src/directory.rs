//! The agents and, on request, their health and open sessions ([relay.4]).

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use trunkline_host::{
    AgentHealth, AgentStatus, Counters, Host, SessionState, SessionStatus, config::Profile,
};
use trunkline_protocol::{
    AdapterMessage, AgentEntry, AgentsList, AgentsListResult, HealthEntry, MIN_MAX_LINE, Model,
    OpenSession, SessionActivity, SessionId,
};
use trunkline_sessions::Visitor;

/// Maximum number of open sessions in an answer. Each takes some 250 bytes of the line.
const SESSIONS: usize = 2048;

/// Figures that must be requested from links.
#[derive(Debug, Default)]
pub(crate) struct LinkFigures {
    pub(crate) agents: Vec<AgentHealth>,
    pub(crate) sessions: Vec<SessionStatus>,
}

impl LinkFigures {
    /// Requests the figures from every link.
    pub(crate) async fn request(host: &Host) -> Self {
        let agents = host.health().await;
        let mut sessions = host.sessions().await;
        let runs = |one: &SessionStatus| {
            matches!(one.state, SessionState::Running | SessionState::Stopping)
        };
        sessions.sort_by_key(|one| (!runs(one), Reverse(one.turn_age), one.age));
        Self { agents, sessions }
    }
}

/// Returns the answer to `agents.list`, within a line that any hub can read. If it would be longer,
/// sessions are left out from the end, then the longest member of an agent: `stderr`, then
/// `models`, then the rest ([relay.4]).
pub(crate) fn answer(
    host: &Host,
    list: &AgentsList,
    figures: Option<&LinkFigures>,
    visitor: Option<&Visitor>,
) -> Vec<u8> {
    let figures_of_agents = figures.filter(|_| list.health == Some(true));
    let mut agents = agents(
        host,
        figures_of_agents.map(|figures| &*figures.agents),
        visitor,
    );
    let most = list.sessions.map_or(0, |most| SESSIONS.min(most as usize));
    let listed = figures
        .filter(|_| most > 0)
        .map(|figures| &figures.sessions);
    let mut sessions: Option<Vec<OpenSession>> =
        listed.map(|listed| listed.iter().take(most).map(open_session).collect());
    loop {
        let line = result(list, agents.clone(), sessions.clone());
        let Some(mut excess) = line.len().checked_sub(MIN_MAX_LINE + 1) else {
            return line;
        };
        if let Some(sessions) = sessions.as_mut().filter(|sessions| !sessions.is_empty()) {
            sessions.truncate(sessions.len() / 2);
            continue;
        }
        // The count is lower than the length on the wire: two rounds at most, mostly one.
        while let Some(bytes) = leave_out_longest(&mut agents) {
            match excess.checked_sub(bytes) {
                Some(rest) => excess = rest,
                None => break,
            }
        }
        if agents.iter().all(|agent| {
            agent.models.is_none() && agent.description.is_none() && stderr_of(agent).is_none()
        }) {
            return result(list, agents, sessions);
        }
    }
}

/// Returns the agents that a visitor may have, with their health, complete, in the form of
/// `agents.list.result`. Queries every link.
pub async fn list_agents(host: &Host, visitor: Option<&Visitor>) -> Vec<AgentEntry> {
    agents(host, Some(&host.health().await), visitor)
}

/// Returns the agents that a visitor may have, with their known properties and their health.
fn agents(
    host: &Host,
    known: Option<&[AgentHealth]>,
    visitor: Option<&Visitor>,
) -> Vec<AgentEntry> {
    let mut agents = described_agents(host);
    agents.retain(|agent| visitor.is_none_or(|visitor| visitor.may_have(&agent.id)));
    for agent in &mut agents {
        let health = known.and_then(|known| known.iter().find(|health| health.agent == agent.id));
        agent.health = health.map(health_entry);
        // One process serves all sessions of an agent: its texts may be from any of them.
        if let Some(health) = agent
            .health
            .as_mut()
            .filter(|_| visitor.is_some_and(|visitor| !visitor.sees_all))
        {
            health.verdict = None;
            health.stderr = None;
        }
    }
    agents
}

/// Returns the host's agents with their known properties.
fn described_agents(host: &Host) -> Vec<AgentEntry> {
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
            health: None,
            id: config.id,
        }
    };
    host.agents().into_iter().map(entry).collect()
}

fn result(
    list: &AgentsList,
    agents: Vec<AgentEntry>,
    sessions: Option<Vec<OpenSession>>,
) -> Vec<u8> {
    let result = AgentsListResult {
        request_id: list.request_id.clone(),
        agents,
        sessions,
    };
    AdapterMessage::new(SessionId::none(), result).to_line()
}

fn stderr_of(agent: &AgentEntry) -> Option<&String> {
    agent.health.as_ref()?.stderr.as_ref()
}

/// Leaves out the longest `stderr`; if none is left, the longest list of models, and then the
/// longest description. Returns its approximate length.
fn leave_out_longest(agents: &mut [AgentEntry]) -> Option<usize> {
    let longest = agents
        .iter_mut()
        .max_by_key(|agent| stderr_of(agent).map(String::len))?;
    if let Some(stderr) = longest
        .health
        .as_mut()
        .and_then(|health| health.stderr.take())
    {
        return Some(stderr.len());
    }
    let models = |agent: &AgentEntry| {
        // With the members' names; escaped characters take more.
        let label = |model: &Model| model.label.as_ref().map_or(0, |label| 11 + label.len());
        let length = |model: &Model| 10 + model.id.len() + label(model);
        agent
            .models
            .as_ref()
            .map(|models| models.iter().map(length).sum::<usize>())
    };
    let longest = agents.iter_mut().max_by_key(|agent| models(agent))?;
    if let Some(bytes) = models(longest) {
        longest.models = None;
        return Some(bytes);
    }
    let length = |agent: &AgentEntry| agent.description.as_ref().map(String::len);
    let longest = agents.iter_mut().max_by_key(|agent| length(agent))?;
    longest
        .description
        .take()
        .map(|description| description.len())
}

/// Converts an agent's health for the hub.
fn health_entry(health: &AgentHealth) -> HealthEntry {
    let verdict = health.verdict();
    let stderr = health.stderr_tail();
    let process = health.process.as_ref();
    HealthEntry {
        severity: Some(verdict.severity),
        verdict: Some(verdict.text),
        liveness: Some(health.liveness()),
        pid: process.and_then(|process| process.pid).map(u64::from),
        age_ms: process.map(|process| whole_millis(process.age)),
        silent_ms: process.map(|process| whole_millis(process.silent_for)),
        restart_in_ms: health.restart_in.map(whole_millis),
        last_end: health.last_end.as_ref().map(|end| end.how.clone()),
        sessions: Some(health.sessions as u64),
        turns: Some(health.running_turns as u64),
        requests: Some(health.open_requests as u64),
        queued_bytes: Some(health.counters.queued_bytes),
        lines_rate: Some(health.rates.lines_in.round() as u64),
        bytes_in_rate: Some(health.rates.bytes_in.round() as u64),
        bytes_out_rate: Some(health.rates.bytes_out.round() as u64),
        counters: Some(counters(&health.counters)),
        stderr: (!stderr.is_empty()).then(|| stderr.to_owned()),
    }
}

/// Returns the counters that are not 0.
fn counters(counters: &Counters) -> BTreeMap<String, u64> {
    let counted = counters
        .counts()
        .chain(counters.levels())
        .filter(|(_, count)| *count > 0);
    counted
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Converts an open session for the hub.
fn open_session(session: &SessionStatus) -> OpenSession {
    OpenSession {
        id: session.id.to_string(),
        agent_id: session.agent.clone(),
        state: match session.state {
            SessionState::Unstarted => Some(SessionActivity::Unstarted),
            SessionState::Idle => Some(SessionActivity::Idle),
            SessionState::Running => Some(SessionActivity::Running),
            SessionState::Stopping => Some(SessionActivity::Stopping),
            _ => None,
        },
        age_ms: Some(whole_millis(session.age)),
        turn_ms: session.turn_age.map(whole_millis),
        silent_ms: session.silent_for.map(whole_millis),
        queued_inputs: Some(session.queued_inputs as u64),
        requests: Some(session.open_requests as u64),
        unread_bytes: Some(session.unread_bytes),
        bytes_in: Some(session.bytes_in),
        bytes_out: Some(session.bytes_out),
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use trunkline_host::{SessionOptions, config::AgentConfig};
    use trunkline_protocol::{AdapterBody, RequestId};

    use super::*;

    fn agents_request(health: bool, sessions: u32) -> AgentsList {
        let request_id = RequestId::new("q").unwrap();
        AgentsList {
            request_id,
            health: Some(health),
            sessions: Some(sessions),
        }
    }

    fn agents_answer(host: &Host, list: &AgentsList, figures: &LinkFigures) -> AgentsListResult {
        let line = answer(host, list, Some(figures), None);
        assert!(line.len() <= MIN_MAX_LINE + 1, "{}", line.len());
        let message = AdapterMessage::parse(String::from_utf8(line).unwrap().trim_end()).unwrap();
        let AdapterBody::AgentsListResult(result) = message.body else {
            panic!("another message")
        };
        result
    }

    #[tokio::test]
    async fn sessions_and_health_are_what_was_asked_for_within_a_line_that_any_hub_reads() {
        // The adapter's end is kept open; it reads and sends nothing.
        let (peers, _kept) = std::sync::mpsc::sync_channel(1);
        let streams = move || {
            let (host, peer) = tokio::io::duplex(64);
            peers.send(peer).unwrap();
            tokio::io::split(host)
        };
        let host = Host::builder()
            .agent_over(AgentConfig::external("a", "none"), streams)
            .build()
            .unwrap();
        let open = |number: usize| {
            let id = SessionId::new(format!("{number:-<256}")).unwrap();
            host.open(
                "a",
                SessionOptions {
                    id: Some(id),
                    ..SessionOptions::default()
                },
            )
            .unwrap()
        };
        let _open: Vec<_> = (0..3000).map(open).collect();
        let figures = LinkFigures::request(&host).await;
        let all = agents_answer(&host, &agents_request(true, 3000), &figures);
        let listed = all.sessions.unwrap();
        assert!(
            (1024..=SESSIONS).contains(&listed.len()),
            "{}",
            listed.len()
        );
        assert_eq!(listed[0].agent_id, "a");
        let of = all.agents[0].health.as_ref().unwrap();
        assert_eq!(of.sessions, Some(3000));
        assert!(
            of.verdict
                .as_ref()
                .unwrap()
                .starts_with("it does not read its stdin"),
            "{of:?}"
        );

        let few = agents_answer(&host, &agents_request(false, 2), &figures);
        assert_eq!(
            (few.sessions.unwrap().len(), &few.agents[0].health),
            (2, &None)
        );
        let none = agents_answer(&host, &agents_request(true, 0), &figures);
        assert!(none.sessions.is_none() && none.agents[0].health.is_some());
    }
}
