//! The health of agents in the host that runs with the journal of the configuration, or in the
//! user's daemon.

use std::{collections::HashMap, path::Path, time::Duration};

use tokio::time::timeout;
use trunkline_protocol::{HealthEntry, Severity};

use super::report::{CheckCode, DoctorCheck};
use crate::{command::top, journal};

/// Returns the health of each agent of the host, by its id. Empty if no host runs or it does not
/// answer in time.
pub(super) async fn read_health(
    config: Option<&Path>,
    within: Duration,
) -> HashMap<String, HealthEntry> {
    let Ok(Some(journal)) = journal::folder_or_daemons(None, config) else {
        return HashMap::new();
    };
    let agents = timeout(within, top::list_agents(&journal)).await;
    let agents = agents.ok().and_then(Result::ok).flatten();
    let agents = agents.unwrap_or_default().into_iter();
    agents
        .filter_map(|agent| Some((agent.id, agent.health?)))
        .collect()
}

/// Returns the host's verdict on an agent as a check.
pub(super) fn health_check(health: &HealthEntry) -> Option<DoctorCheck> {
    let verdict = health.verdict.as_deref()?;
    let code = match health.severity {
        None | Some(Severity::Ok | Severity::Note) => CheckCode::HostHealthy,
        Some(_) => CheckCode::HostUnhealthy,
    };
    Some(code.check(format!("in the running host: {verdict}")))
}
