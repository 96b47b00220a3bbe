//! What hosts write for each other: a row for each host, and one for each session.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

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
    /// Whether this is a lease no more: another host has ended it, or the host itself. What the host had may be taken.
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

    /// As it was kept; `None` where it is none.
    #[must_use]
    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl Row for HostRow {}
impl Row for SessionRow {}

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
