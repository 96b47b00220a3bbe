//! Changes of all sessions of this host, in one bounded feed.
//!
//! A change that an entry makes is announced when the entry is stored, in the order of the entries.
//! The feed keeps the latest changes for its readers. A publisher never waits: a reader that falls
//! behind the kept ones gets a [`ChangeGap`], and reads the state of all sessions again
//! ([`Sessions::overview`](crate::Sessions::overview)).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use tokio::sync::watch;
use trunkline_journal::Journal;
use trunkline_protocol::{
    AdapterBody, Category, ClosedReason, RelayBody, SessionState, Status, TurnId,
};
use uuid::Uuid;

use crate::{
    facts::now,
    registry::SessionOrigin,
    visitor::{Visitor, is_seen},
};

/// Maximum number of changes that the feed keeps.
const MAX_CHANGES: usize = 4096;

/// Maximum size of the changes that the feed keeps, in bytes, as JSON with an allowance for each.
const MAX_BYTES: usize = 1024 * 1024;

/// Memory that a kept change needs beside its JSON, in bytes, about.
const CHANGE_OVERHEAD: usize = 128;

/// A change of a session: ids, states and numbers, without the content of inputs and outputs.
///
/// The publisher sets `agent` and `time`.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct SessionChange {
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["session", "request", "turn"])))]
    pub(crate) subject: &'static str,
    /// Of a session: `opened`, `state`, `title`, `archived`, `closed`, `failed`, `removed`; of a
    /// request: `opened`, `answered`; of a turn: `started`, `ended`.
    pub(crate) change: &'static str,
    pub(crate) session_id: String,
    /// Agent of the session.
    pub(crate) agent: String,
    /// Time of the announcement, RFC 3339.
    pub(crate) time: String,
    /// The entry of the change, or the last one before it.
    pub(crate) seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<SessionState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archived: Option<bool>,
    /// Turn of a turn or a request; of a session the running one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// Type of an opened request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [PERMISSION, QUESTION])))]
    pub(crate) request: Option<&'static str>,
    /// Client that answered the request or started the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// True if a permission was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approved: Option<bool>,
    /// True if a request has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled: Option<bool>,
    /// Status of an ended turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    /// Reason of a closed or failed session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<ClosedReason>,
    /// Category of the failure of a turn or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<Category>,
}

/// Returns the schema of the JSON of a change.
#[cfg(feature = "schema")]
pub fn change_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<SessionChange>()
}

/// Name of a request for a permission.
pub(crate) const PERMISSION: &str = "permission";

/// Name of a request for an input.
pub(crate) const QUESTION: &str = "question";

impl SessionChange {
    /// Returns the change that an entry of an agent makes, except for the end of its session.
    pub(crate) fn from_event(turn: Option<&TurnId>, body: &AdapterBody) -> Option<Self> {
        let opened = |kind, id: &trunkline_protocol::RequestId| Self {
            subject: "request",
            change: "opened",
            request: Some(kind),
            request_id: Some(id.to_string()),
            ..Self::default()
        };
        let change = match body {
            AdapterBody::PermissionRequest(asked) => opened(PERMISSION, &asked.request_id),
            AdapterBody::InputRequest(asked) => opened(QUESTION, &asked.request_id),
            AdapterBody::TurnComplete(end) => Self {
                subject: "turn",
                change: "ended",
                status: Some(end.status.unwrap_or(Status::Completed)),
                category: end.error.as_ref().and_then(|error| error.category),
                ..Self::default()
            },
            _ => return None,
        };
        Some(Self {
            turn_id: turn.cloned(),
            ..change
        })
    }

    /// Returns the change that an entry of the host makes.
    pub(crate) fn from_note(turn: Option<&TurnId>, body: &RelayBody) -> Option<Self> {
        let change = match body {
            RelayBody::TurnBegin(begin) => Self {
                subject: "turn",
                change: "started",
                by: begin.by.clone(),
                ..Self::default()
            },
            RelayBody::RequestDecided(decided) => Self {
                subject: "request",
                change: "answered",
                request_id: Some(decided.request_id.to_string()),
                by: decided.by.clone(),
                approved: decided.approved,
                cancelled: decided.cancelled,
                ..Self::default()
            },
            _ => return None,
        };
        Some(Self {
            turn_id: turn.cloned(),
            ..change
        })
    }
}

/// A change that was announced.
#[derive(Debug)]
pub struct AnnouncedChange {
    number: u64,
    position: String,
    origin: Arc<SessionOrigin>,
    subject: &'static str,
    change: &'static str,
    json: String,
}

impl AnnouncedChange {
    /// Returns the position behind the change, for [`ChangeReader::resume`].
    #[must_use]
    pub fn position(&self) -> &str {
        &self.position
    }

    /// Returns the type of the change: `session`, `request` or `turn`.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        self.subject
    }

    /// Returns the name of the change, such as `opened`.
    #[must_use]
    pub fn change(&self) -> &'static str {
        self.change
    }

    /// Returns the agent of the session.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.origin.agent
    }

    /// Returns the change as JSON, on one line.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// Reason that the changes behind a position are incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeGap {
    /// The position is from another run of the host, or is none.
    UnknownPosition,
    /// The feed no longer keeps the changes behind the position.
    TooOld,
    /// Sessions changed without an announcement, for example because another host has them.
    Unannounced,
}

impl ChangeGap {
    /// Returns the name of the reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownPosition => "unknown_position",
            Self::TooOld => "too_old",
            Self::Unannounced => "unannounced",
        }
    }
}

/// The latest changes of all sessions of a host.
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    /// Differs in each run of the host.
    instance: String,
    kept: Mutex<KeptChanges>,
    /// The number of the last change.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KeptChanges {
    changes: VecDeque<Arc<AnnouncedChange>>,
    bytes: usize,
    /// The number of the last change.
    last: u64,
    /// The number that was skipped last because something was not announced.
    last_skipped: u64,
    /// The number of sessions that retention had removed at the last read.
    retired: u64,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        Self {
            instance: Uuid::new_v4().simple().to_string()[..16].to_owned(),
            kept: Mutex::default(),
            last: watch::Sender::default(),
        }
    }
}

impl ChangeFeed {
    fn lock(&self) -> MutexGuard<'_, KeptChanges> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the feed for a reader, after a skip if retention has removed sessions.
    fn lock_for_read(&self, retired: u64) -> MutexGuard<'_, KeptChanges> {
        let mut kept = self.lock();
        if std::mem::replace(&mut kept.retired, retired) != retired {
            kept.skip(&self.last);
        }
        kept
    }

    fn position_at(&self, number: u64) -> String {
        format!("{}-{number:x}", self.instance)
    }

    pub(crate) fn announce(&self, origin: &Arc<SessionOrigin>, mut change: SessionChange) {
        change.agent.clone_from(&origin.agent);
        change.time = now();
        let json = serde_json::to_string(&change).unwrap_or_default();
        let mut kept = self.lock();
        kept.last += 1;
        kept.bytes += json.len() + CHANGE_OVERHEAD;
        let announced = AnnouncedChange {
            number: kept.last,
            position: self.position_at(kept.last),
            origin: origin.clone(),
            subject: change.subject,
            change: change.change,
            json,
        };
        kept.changes.push_back(Arc::new(announced));
        while kept.changes.len() > MAX_CHANGES || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.changes.pop_front() else {
                break;
            };
            kept.bytes -= oldest.json.len() + CHANGE_OVERHEAD;
        }
        self.last.send_replace(kept.last);
    }

    /// Makes all readers read the state of the sessions again.
    pub(crate) fn skip(&self) {
        self.lock().skip(&self.last);
    }

    /// Returns a reader of the changes from now on that this visitor can see.
    pub(crate) fn reader(
        self: &Arc<Self>,
        journal: Journal,
        visitor: Option<Arc<Visitor>>,
    ) -> ChangeReader {
        let read = self.lock_for_read(journal.retired()).last;
        ChangeReader {
            feed: self.clone(),
            journal,
            visitor,
            read,
            last: self.last.subscribe(),
        }
    }
}

/// Announces the changes of one session.
#[derive(Debug, Clone)]
pub(crate) struct ChangeAnnouncer {
    pub(crate) feed: Arc<ChangeFeed>,
    pub(crate) origin: Arc<SessionOrigin>,
}

/// A reader of the changes that one visitor can see.
#[derive(Debug)]
pub struct ChangeReader {
    feed: Arc<ChangeFeed>,
    journal: Journal,
    visitor: Option<Arc<Visitor>>,
    /// The number of the last change that was read.
    read: u64,
    last: watch::Receiver<u64>,
}

impl ChangeReader {
    /// Returns the position of the reader, which is opaque.
    #[must_use]
    pub fn position(&self) -> String {
        self.feed.position_at(self.read)
    }

    /// Continues behind a position.
    ///
    /// # Errors
    /// [`ChangeGap`]; the reader stays where it is.
    pub fn resume(&mut self, position: &str) -> Result<(), ChangeGap> {
        let number = position
            .strip_prefix(&*self.feed.instance)
            .and_then(|rest| u64::from_str_radix(rest.strip_prefix('-')?, 16).ok())
            .ok_or(ChangeGap::UnknownPosition)?;
        let kept = self.feed.lock_for_read(self.journal.retired());
        if number > kept.last {
            return Err(ChangeGap::UnknownPosition);
        }
        kept.find_gap(number).map_or(Ok(()), Err)?;
        self.read = number;
        Ok(())
    }

    /// Returns the changes that can be read now, after looking at no more than `most`.
    ///
    /// # Errors
    /// [`ChangeGap`]; the reader continues with the next change.
    pub fn take(&mut self, most: usize) -> Result<Vec<Arc<AnnouncedChange>>, ChangeGap> {
        let kept = self.feed.lock_for_read(self.journal.retired());
        if let Some(gap) = kept.find_gap(self.read) {
            self.read = kept.last;
            return Err(gap);
        }
        let unread = usize::try_from(kept.last - self.read).unwrap_or(usize::MAX);
        let first = kept.changes.len() - unread;
        let next = kept.changes.range(first..).take(most);
        self.read += next.len() as u64;
        let visitor = self.visitor.as_deref();
        let is_visible = |change: &&Arc<AnnouncedChange>| {
            is_seen(visitor, change.origin.owner.as_deref(), change.agent())
        };
        Ok(next.filter(is_visible).cloned().collect())
    }

    /// Waits until [`ChangeReader::take`] has something to read.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn wait(&mut self) {
        let read = self.read;
        // The feed lives as long as its readers.
        let _ = self.last.wait_for(|last| *last > read).await;
    }
}

impl KeptChanges {
    fn skip(&mut self, last: &watch::Sender<u64>) {
        self.last += 1;
        self.last_skipped = self.last;
        self.changes.clear();
        self.bytes = 0;
        last.send_replace(self.last);
    }

    /// Returns the reason that changes behind this number are missing, if they are.
    fn find_gap(&self, number: u64) -> Option<ChangeGap> {
        if number < self.last_skipped {
            return Some(ChangeGap::Unannounced);
        }
        let first = self
            .changes
            .front()
            .map_or(self.last + 1, |change| change.number);
        (number + 1 < first).then_some(ChangeGap::TooOld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce(feed: &ChangeFeed, title: &str) {
        let origin = SessionOrigin {
            owner: None,
            agent: "a".to_owned(),
        };
        let change = SessionChange {
            title: Some(title.to_owned()),
            ..SessionChange::default()
        };
        feed.announce(&Arc::new(origin), change);
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_bytes() {
        let feed = ChangeFeed::default();
        for size in [10, 2000] {
            for _ in 0..2 * MAX_CHANGES {
                announce(&feed, &"x".repeat(size));
                let kept = feed.lock();
                let bytes = kept.changes.iter().map(|change| change.json.len());
                let bytes = bytes.sum::<usize>() + kept.changes.len() * CHANGE_OVERHEAD;
                assert_eq!(bytes, kept.bytes);
                assert!(bytes <= MAX_BYTES && kept.changes.len() <= MAX_CHANGES);
            }
        }
        let kept = feed.lock();
        let first = kept.changes[0].number;
        assert_eq!(kept.find_gap(first - 1), None);
        assert_eq!(kept.find_gap(first - 2), Some(ChangeGap::TooOld));
    }

    #[test]
    fn sessions_that_retention_removed_are_a_gap_for_every_position_before() {
        let feed = ChangeFeed::default();
        announce(&feed, "x");
        assert_eq!(feed.lock_for_read(0).find_gap(0), None);
        let kept = feed.lock_for_read(1);
        for position in [0, 1] {
            assert_eq!(kept.find_gap(position), Some(ChangeGap::Unannounced));
        }
        assert_eq!((kept.find_gap(2), kept.last), (None, 2));
    }
}
