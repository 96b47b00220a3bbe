//! Conversion of the host's figures to the form of the wire.

use std::{collections::BTreeMap, time::Duration};

use trunkline_host::{AgentHealth, Counters, SessionState, SessionStatus};
use trunkline_protocol::{HealthEntry, OpenSession, SessionActivity};

/// Converts an agent's health for the hub.
pub(super) fn entry(health: &AgentHealth) -> HealthEntry {
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
pub(super) fn open_session(session: &SessionStatus) -> OpenSession {
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
