//! Other agents for a host that runs.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Host, HostBuilder, Narrowed,
    agents::{Agent, Agents, EARLIER, EARLIER_OF_ALL, Trusted, Wanted},
};
use crate::{ReconfigureError, agent, declared::Declaration};

/// Result of [`Host::reconfigure`], by the agents' ids, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Agents that there were not.
    pub added: Vec<String>,
    /// Agents with another configuration than before.
    pub changed: Vec<String>,
    /// Agents that there are no more.
    pub removed: Vec<String>,
    /// Agents that are as before, and whose processes stay.
    pub unchanged: Vec<String>,
    /// The changes that the organisation's policies made to agents' entries, and the agents that
    /// they forbid, one sentence each, for the operator.
    pub notices: Vec<String>,
}

impl Changes {
    /// Returns true if every agent is unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Host {
    /// Replaces the agents of a running host with those of a builder. Every open session continues
    /// unchanged.
    ///
    /// - An agent that is **added** is available at once.
    /// - An agent that is **changed** serves new sessions with the new configuration, in a new
    ///   process. Its open sessions keep their process and configuration, even if that process has
    ///   to be started again. It ends with the last of them.
    /// - An agent that is **removed** gets no new sessions. Its process ends with its last open
    ///   session.
    /// - An agent that is **unchanged** keeps its process. Its configuration is compared after the
    ///   organisation's policies, which are read again, have been applied; the configuration of an
    ///   agent in a sandbox together with the files that nothing in a sandbox may change.
    ///
    /// The builder's agents, default agent, `max_sessions`, policy and read-only files are used;
    /// with [`HostBuilder::config`] all of these come from a configuration. Folders, buffers, logs,
    /// the wire sink and the command for built-in adapters stay as they were when the host was
    /// built. An agent over streams that already has an equal configuration over streams keeps its
    /// streams.
    ///
    /// Standby agents start, if [`Host::stand_by`] was called before. Counters of a changed agent
    /// begin at 0. Sessions that continue with an earlier configuration are counted in
    /// [`AgentHealth::draining`](crate::AgentHealth::draining) and
    /// [`AgentStatus::draining`](crate::AgentStatus::draining), and in the limits of the agent and
    /// of the host.
    ///
    /// It reads the files of policies, so it blocks. All changes happen at once: [`Host::open`]
    /// finds either the earlier agents or the new ones. Simultaneous calls are executed one after
    /// the other.
    ///
    /// # Errors
    /// [`ReconfigureError`], and nothing has changed: a policy cannot be read, the default agent is
    /// none of the agents, too many earlier configurations still have sessions, or the host is
    /// shutting down. An agent that a policy forbids is not an error here, but one of
    /// [`Host::open`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if there is a standby agent.
    pub fn reconfigure(&self, mut agents: HostBuilder) -> Result<Changes, ReconfigureError> {
        let Narrowed {
            notices,
            mut refusals,
            policies,
        } = agents.narrow().map_err(ReconfigureError::Policy)?;
        let trusted = agents.trusted(policies);
        let default_agent = agents.default_agent.or(agents.first);
        if let Some(id) = default_agent
            .as_ref()
            .filter(|id| !agents.agents.contains_key(*id))
        {
            let known = agents.agents.into_keys().collect();
            return Err(ReconfigureError::UnknownDefault {
                id: id.clone(),
                known,
            });
        }
        let mut wanted = Vec::new();
        for (id, (config, connect)) in agents.agents {
            wanted.push(Wanted {
                config,
                declaration: Declaration::default(),
                connect,
                refusal: refusals.remove(&id),
            });
        }
        agent::guard_writable(wanted.iter().map(|agent| &agent.config));
        let mut set = self.inner.agents_mut();
        if self.inner.down.load(Ordering::Acquire) {
            return Err(ReconfigureError::Shutdown);
        }
        set.forget_ended();
        let changes = Changes {
            notices,
            ..changes(&set, &wanted, &trusted)
        };
        let replaced = changes
            .changed
            .iter()
            .chain(&changes.removed)
            .filter_map(|id| set.now.get(&**id));
        let replaced: Vec<_> = replaced
            .filter(|agent| agent.is_linked())
            .cloned()
            .collect();
        has_room(&set, &replaced)?;

        let is_kept = |agent: &Wanted| changes.unchanged.contains(&agent.config.id);
        let new: Vec<_> = wanted.into_iter().filter(|agent| !is_kept(agent)).collect();
        let backends = new.iter().filter(|agent| agent.refusal.is_none());
        let backends = backends.filter_map(|agent| agent.config.sandbox.as_ref());
        self.inner
            .parts
            .cover(new.iter().map(|agent| &agent.config), agents.journal);
        self.inner
            .orphans
            .add(backends.map(|sandbox| &sandbox.backend));
        let gone = |id: &String| set.now.remove(&**id);
        let gone: Vec<Arc<Agent>> = changes
            .changed
            .iter()
            .chain(&changes.removed)
            .filter_map(gone)
            .collect();
        let (stay, leave) =
            std::mem::take(&mut set.placed)
                .into_iter()
                .partition(|agent: &Arc<Agent>| {
                    changes.unchanged.iter().any(|id| **id == *agent.shared.id)
                });
        set.placed = stay;
        let leave: Vec<Arc<Agent>> = leave;
        let gone: Vec<_> = gone.into_iter().chain(leave.iter().cloned()).collect();
        set.earlier
            .extend(leave.into_iter().filter(|agent| agent.is_linked()));
        // Also one that has no link yet: who is about to open a session there makes one.
        gone.iter().for_each(|agent| agent.retire());
        set.earlier.extend(replaced);
        for agent in new {
            let agent = self.inner.parts.make(agent, &trusted);
            set.now.insert(agent.shared.id.clone(), Arc::new(agent));
        }
        (set.default_agent, set.max_sessions) = (default_agent, agents.max_sessions);
        drop(set);
        if self.inner.stands_by.load(Ordering::Acquire) {
            self.stand_by();
        }
        Ok(changes)
    }
}

/// Returns the changes to make.
fn changes(set: &Agents, wanted: &[Wanted], trusted: &Trusted) -> Changes {
    let mut changes = Changes::default();
    for agent in wanted {
        let id = &agent.config.id;
        match set.now.get(&**id) {
            None => changes.added.push(id.clone()),
            Some(now) if now.is(agent, trusted) => changes.unchanged.push(id.clone()),
            Some(_) => changes.changed.push(id.clone()),
        }
    }
    let is_wanted = |id: &str| wanted.iter().any(|agent| agent.config.id == id);
    let removed = set.now.keys().filter(|id| !is_wanted(id));
    changes.removed.extend(removed.map(ToString::to_string));
    changes
}

/// Checks that there is room for these among the earlier configurations with sessions.
fn has_room(set: &Agents, replaced: &[Arc<Agent>]) -> Result<(), ReconfigureError> {
    for agent in replaced {
        let id = &agent.shared.id;
        if set.earlier_of(id).count() >= EARLIER {
            return Err(ReconfigureError::TooManyEarlier {
                agent: Some(id.to_string()),
                limit: EARLIER,
            });
        }
    }
    if set.earlier.len() + replaced.len() > EARLIER_OF_ALL {
        return Err(ReconfigureError::TooManyEarlier {
            agent: None,
            limit: EARLIER_OF_ALL,
        });
    }
    Ok(())
}
