//! Rows that hosts write for each other: one per host, and one per session.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use trunkline_protocol::SessionId;

use crate::{lease::Terms, store::is_name};

/// The highest epoch, and the highest number of an entry. None gets there who counts by one; in
/// JSON all of these are exact.
pub const MOST_EPOCH: u64 = 1 << 53;

/// The largest row, in bytes.
const ROW: usize = 64 * 1024;

/// Limits of a host's labels, and of the bytes of an operator's name.
pub(crate) const LABELS: usize = 64;
const TEXT: usize = 256;

/// Id of one run of a host's process, unique.
pub type Incarnation = String;

/// Status of a host, published with each renewal of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRow {
    /// Name.
    pub host: String,
    /// Id of its run.
    pub incarnation: Incarnation,
    /// Number of renewals.
    pub beat: u64,
    /// Duration of the lease, in milliseconds.
    pub ttl_ms: u64,
    /// The program's version.
    pub version: String,
    /// Labels of the operator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The storages that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<String>,
    /// The agents that it serves.
    pub agents: Vec<String>,
    /// Of the agents' configuration and the policy: sessions move between hosts with the same.
    pub digest: String,
    /// Number of its sessions, and of those with an open turn.
    pub sessions: u64,
    /// See `sessions`.
    pub busy: u64,
    /// True if it accepts no further sessions.
    #[serde(default)]
    pub is_draining: bool,
    /// True if the lease has ended, by another host or the host itself. Its sessions may be taken.
    #[serde(default)]
    pub is_over: bool,
}

/// A row that is stored as JSON.
pub trait Row: Serialize + DeserializeOwned {
    /// As it is kept.
    #[must_use]
    fn to_bytes(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).unwrap_or_default())
    }

    /// As it was kept; `None` where it is none that a host has written: names go into keys and
    /// subjects, and to terminals.
    #[must_use]
    fn parse(bytes: &[u8]) -> Option<Self> {
        let row: Self = (bytes.len() <= ROW).then(|| serde_json::from_slice(bytes).ok())??;
        row.is_sound().then_some(row)
    }

    /// Returns true if a host may have written it.
    #[must_use]
    fn is_sound(&self) -> bool;
}

/// Returns true if an operator's text may be shown unchanged.
pub(crate) fn is_text(text: &str) -> bool {
    text.len() <= TEXT && !text.contains(char::is_control)
}

impl Row for HostRow {
    fn is_sound(&self) -> bool {
        let is_run = is_name(&self.incarnation) || self.is_over && self.incarnation.is_empty();
        let is_label = |(name, value): (&String, &String)| is_name(name) && is_text(value);
        is_run
            && is_name(&self.host)
            && (Terms::LEAST..=Terms::MOST).contains(&self.ttl())
            && self.labels.len() <= LABELS
            && self.labels.iter().all(is_label)
            && self.storage.iter().all(|id| is_name(id))
            && self
                .agents
                .iter()
                .chain([&self.version, &self.digest])
                .all(|text| is_text(text))
    }
}

impl Row for SessionRow {
    fn is_sound(&self) -> bool {
        is_name(&self.host)
            && is_name(&self.incarnation)
            && SessionId::new(&self.id).is_ok()
            && (1..=MOST_EPOCH).contains(&self.epoch)
            && self.storage.as_ref().is_none_or(|id| is_name(id))
            && self
                .agent
                .iter()
                .chain([&self.digest])
                .all(|text| is_text(text))
    }
}

impl HostRow {
    /// Returns the duration of the lease.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}

/// Owner and state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionRow {
    /// Session id.
    pub id: String,
    /// The host that has it, or had it last.
    pub host: String,
    /// Id of that host's run.
    pub incarnation: Incarnation,
    /// Counts its owners.
    pub epoch: u64,
    /// State of the ownership.
    pub state: OwnershipState,
    /// Agent. `None`: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Storage of its files. `None`: it has none and may be on any host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// Of the configuration under which it was opened.
    pub digest: String,
    /// Epoch in which its files stayed behind, until its record contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<u64>,
}

impl SessionRow {
    /// Returns the key that lists a session under its host, from the session's own key.
    #[must_use]
    pub fn index(host: &str, key: &str) -> String {
        format!("o.{host}.{key}")
    }
}

/// State of a session's ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnershipState {
    /// A host has it.
    Owned,
    /// None does: the last one has let it go in order.
    Free,
    /// None may: it was removed.
    Removed,
}
