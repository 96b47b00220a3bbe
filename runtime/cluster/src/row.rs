//! What hosts write for each other: a row for each host, and one for each session.

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

/// How many labels a host has at most, and how many bytes a name that operators give has.
pub(crate) const LABELS: usize = 64;
const TEXT: usize = 256;

/// One run of a host's process. No two are the same.
pub type Incarnation = String;

/// What a host says of itself with each renewal of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// Which run of it.
    pub incarnation: Incarnation,
    /// How often it has renewed.
    pub beat: u64,
    /// How long the lease holds, in milliseconds.
    pub ttl_ms: u64,
    /// The program's version.
    pub version: String,
    /// What operators call it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The storages that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<String>,
    /// The agents that it serves.
    pub agents: Vec<String>,
    /// Of the agents' configuration and the policy: sessions move between hosts with the same.
    pub digest: String,
    /// How many sessions it has, and in how many a turn is open.
    pub sessions: u64,
    /// See `sessions`.
    pub busy: u64,
    /// Whether it takes no further sessions.
    #[serde(default)]
    pub is_draining: bool,
    /// Whether this is a lease no more: another host has ended it, or the host itself. What the
    /// host had may be taken.
    #[serde(default)]
    pub is_over: bool,
}

/// What is kept as JSON.
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

    /// Whether a host may have written it.
    #[must_use]
    fn is_sound(&self) -> bool;
}

/// Whether a text of an operator may be shown as it is.
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
    /// How long the lease holds.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}

/// Who has a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The host that has it, or had it last.
    pub host: String,
    /// Which run of that host.
    pub incarnation: Incarnation,
    /// Counts its owners.
    pub epoch: u64,
    /// Whether a host has it.
    pub state: State,
    /// Its agent. `None`: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where its files are. `None`: it has none, and may be anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<String>,
    /// Of the configuration under which it was opened.
    pub digest: String,
    /// The epoch in which its files stayed behind, until its record says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<u64>,
}

impl SessionRow {
    /// The key that says that a host has a session, by the session's own.
    #[must_use]
    pub fn index(host: &str, key: &str) -> String {
        format!("o.{host}.{key}")
    }
}

/// Whether a host has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Owned,
    /// None does: the last one has let it go in order.
    Free,
    /// None may: it was removed.
    Removed,
}
