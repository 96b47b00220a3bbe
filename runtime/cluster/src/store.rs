//! The shared store of a cluster's hosts. It stores in order and compares; decisions are made
//! elsewhere.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::marks::Extent;

/// A space of the store, with its own keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// A host's row, by its name. The latest counts.
    Hosts,
    /// A session's row, by the hash of its id, and `o.HOST.HASH` for each session that a host has.
    /// The latest counts.
    Sessions,
    /// The digests of tokens, under one key. The latest counts.
    Tokens,
    /// Messages of a session, by the hash of its id. All of them count.
    Journal,
    /// The contents of a session's files in pieces, by the hash of its id, `.`, and the content's
    /// SHA-256. All of it counts.
    Files,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hosts => "list of hosts",
            Self::Sessions => "list of sessions",
            Self::Tokens => "list of tokens",
            Self::Journal => "journal",
            Self::Files => "store of files",
        })
    }
}

impl Space {
    /// Returns true if all messages of a key count, not only the latest.
    pub(crate) fn keeps_all(self) -> bool {
        matches!(self, Self::Journal | Self::Files)
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Number. It rises within a space.
    pub number: u64,
    /// Content; empty if the previous content was removed.
    pub bytes: Bytes,
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The message that is stored under it now.
    pub kept: StoredMessage,
}

/// Reason why something was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// The stored message is not the expected one.
    #[error("another writer has changed it")]
    Other,
    /// Unknown whether it was stored.
    #[error("{0}")]
    Unknown(String),
    /// Not stored, and never will be in this form.
    #[error("{0}")]
    Refused(String),
    /// Not stored, because there is no room.
    #[error("the cluster's store is full: {0}")]
    Full(String),
}

/// A store that all hosts of a cluster share.
///
/// A key has letters, digits, `-`, `_` and `.` only.
pub trait Store: fmt::Debug + Send + Sync {
    /// Keeps something behind what was last kept under the key, if that has the number `last` (0:
    /// there is nothing).
    fn put(
        &self,
        space: Space,
        key: &str,
        last: u64,
        bytes: Bytes,
    ) -> BoxFuture<'static, Result<u64, NotKept>>;

    /// Returns the last message of a key, as of now. A removal is `Some` without bytes, since its
    /// number still counts.
    fn last(
        &self,
        space: Space,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<StoredMessage>, String>>;

    /// Reads the messages of a key behind a number, in order: one slice, empty at the end. For
    /// spaces in which all messages count.
    fn read(
        &self,
        space: Space,
        key: &str,
        behind: u64,
    ) -> BoxFuture<'static, Result<Vec<StoredMessage>, String>>;

    /// Removes all that is kept of a session in a space where all of it counts.
    fn purge(&self, space: Space, session: &str) -> BoxFuture<'static, Result<(), String>>;

    /// The keys of a space that begin so, and what was last kept under each; nothing of what is gone.
    fn list(&self, space: Space, prefix: &str) -> BoxFuture<'static, Result<Vec<Change>, String>>;

    /// Returns the content of a space, followed by its changes. Ends if it cannot continue; the
    /// caller watches again.
    fn watch(&self, space: Space) -> BoxFuture<'static, Result<mpsc::Receiver<Change>, String>>;

    /// Returns the progress of a space; `None` if it does not exist.
    fn extent(&self, space: Space) -> BoxFuture<'static, Result<Option<Extent>, String>>;

    /// The most that is kept at once, in bytes.
    fn most(&self) -> usize;
}

/// The key of a session: its id may have any characters.
#[must_use]
pub fn key_of(session: &str) -> String {
    let hash = hmac_sha256::Hash::hash(session.as_bytes());
    hex(&hash[..16])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if a name, such as a host's, may be a part of a key.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Checks that a name is [valid](is_name).
///
/// # Errors
/// The reason, for a person.
pub(crate) fn check_name(name: &str, what: &str) -> Result<(), String> {
    if is_name(name) {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is no {what}: it has letters, digits, `-` and `_`, from 1 to 64 of them"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_of_any_id_and_a_name_of_few() {
        assert_eq!(key_of("a").len(), 32);
        assert_ne!(key_of("a"), key_of("a."));
        assert!(is_name("host-1_b"));
        for name in ["", "a.b", "a b", "*", ">", "é", &"x".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
