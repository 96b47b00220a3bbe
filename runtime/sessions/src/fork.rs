//! Copies of sessions ([journal.14]).
//!
//! A copy has the entries of its source up to one of them, and then goes its own way. Nothing runs
//! and no agent is opened for it: its first input opens one, which copies its own conversation if it
//! can, and otherwise gets a transcript. Decisions on permissions stay with the agent's session of
//! the source.

use std::{ops::Range, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;
use trunkline_journal::{Journal, NotStored, ReadBatch, ReadError, SessionKey, Settled, Ticket};
use trunkline_protocol::{
    AttachRefusal, Category, Fact, Failure, HostFact, RelayBody, SessionAttach, SessionAttached,
    SessionEdited, SessionFork, SessionId, SessionRefused, TurnComplete,
};

use crate::{
    ends,
    facts::{ContextSource, CopyOrigin, SessionFacts},
    listener::Listener,
    recorder::{EntryBlock, EntryWriter},
    recovery,
    registry::{SlotEntry, SlotReservation},
    sessions::{Sessions, unknown_session},
    transcript::TRANSCRIPT_GIVEN,
};

/// Number of bytes of the journal to read at once.
const READ: usize = 256 * 1024;

/// Timeout for the description of an agent of which nothing is known.
const DESCRIBED: Duration = Duration::from_secs(5);

/// Error text for turns that run at the last copied entry.
const CUT: &str = "the session was copied while this turn ran; it continues in the source only";

impl Sessions {
    /// Opens a session as a copy of another one, and listens to it ([journal.14]). The copy begins
    /// no turn, and its agent gets nothing before its first input. The source stays as it is.
    ///
    /// [`SessionAttached::copied`] is the way in which the agent gets the conversation.
    ///
    /// # Errors
    /// The refusal, as a message of the protocol. No session is opened then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the copy may or may not be made.
    pub async fn fork(
        &self,
        id: &SessionId,
        fork: SessionFork,
    ) -> Result<(SessionAttached, Listener), SessionRefused> {
        self.copy_session(id, &fork).await?;
        let attach = SessionAttach {
            after: fork.after.unwrap_or(0),
            env: fork.env,
            mcp_servers: fork.mcp_servers,
            ..SessionAttach::default()
        };
        self.attach(id, &attach).await
    }

    async fn copy_session(&self, id: &SessionId, fork: &SessionFork) -> Result<(), SessionRefused> {
        if let Some(visitor) = self.visitor().filter(|visitor| !visitor.may_speak) {
            let why = format!("{} may only listen", visitor.name);
            return Err(ends::refused(AttachRefusal::Forbidden, why));
        }
        let shared = self.shared();
        if shared.recording.is_some() {
            let why = "not supported: sessions that several hosts share are not forked";
            return Err(ends::refused(AttachRefusal::Unsupported, why));
        }
        if shared.journal.find(id.as_str()).is_some() {
            return Err(ends::exists());
        }
        let SlotEntry::Reserved(reservation) = shared.registry.enter(id) else {
            return Err(ends::exists());
        };
        let source = SessionId::new(fork.source.clone()).map_err(|_| unknown_session())?;
        let key = self.find(&source).await.ok_or_else(unknown_session)?;
        let journal = shared.journal.clone();
        let known = journal.known(key).ok_or_else(unknown_session)?;
        if known.is_removed {
            return Err(ends::refused(
                AttachRefusal::Gone,
                "this session was removed",
            ));
        }
        let wanted = fork.seq.unwrap_or(known.last).max(fork.after.unwrap_or(0));
        if wanted > known.last {
            let message = format!(
                "the session {source} has {} entries, and entry {wanted} was named",
                known.last
            );
            return Err(SessionRefused {
                last_seq: Some(known.last),
                ..ends::refused(AttachRefusal::Ahead, message)
            });
        }
        if let Some(trouble) = shared.trouble() {
            return Err(ends::refused(AttachRefusal::ReadOnly, trouble));
        }
        let read = move || SessionFacts::read_origin(&journal, key);
        let origin = tokio::task::spawn_blocking(read).await.ok().flatten();
        let origin = origin.ok_or_else(|| {
            ends::refused(
                AttachRefusal::Gone,
                "the facts of this session are damaged; run `trunkline sessions check`",
            )
        })?;
        let forks_native = self.forks_sessions(&origin.agent).await;
        let copy = CopyJob {
            journal: shared.journal.clone(),
            source: key,
            source_id: source,
            facts: origin.into_copy(id, self.visitor().map(|visitor| visitor.name.clone())),
            last: fork.seq.unwrap_or(known.last),
            forks_native,
            id: id.clone(),
            _reservation: reservation,
        };
        let copied = tokio::task::spawn_blocking(move || copy.run()).await;
        copied.unwrap_or_else(|_| {
            Err(ends::refused(
                AttachRefusal::Unavailable,
                "the host ends; fork the session when it runs again",
            ))
        })?;
        shared.announce(shared.stored_change(id, "opened").await);
        Ok(())
    }

    /// Returns `true` if an agent can copy its own conversations. An agent of which nothing is known
    /// is asked to describe itself.
    async fn forks_sessions(&self, agent: &str) -> bool {
        let host = &self.shared().host;
        let capabilities = || host.agent(agent).and_then(|status| status.capabilities);
        if capabilities().is_none() {
            // An agent that has not described itself by then gets a transcript.
            let _ = tokio::time::timeout(DESCRIBED, host.describe()).await;
        }
        capabilities().and_then(|known| known.forks_sessions) == Some(true)
    }
}

/// Reason that a session was not copied.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("the entries {} to {} of the session are lost; fork it at an entry before them", .0.start, .0.end - 1)]
    Lost(Range<u64>),
    #[error("the journal cannot be read: {0}; run `trunkline sessions check`")]
    Read(#[from] ReadError),
    #[error("{0}")]
    NotStored(#[from] NotStored),
    #[error("the journal knows this id; choose another id")]
    Exists,
    #[error("a file of the session cannot be copied: {0}")]
    File(#[from] std::io::Error),
}

impl CopyError {
    fn reason(&self) -> AttachRefusal {
        match self {
            Self::Lost(_) => AttachRefusal::Gone,
            Self::Read(_) => AttachRefusal::Unavailable,
            Self::NotStored(_) | Self::File(_) => AttachRefusal::ReadOnly,
            Self::Exists => AttachRefusal::Exists,
        }
    }
}

/// A copy to make. Blocks for the disk.
struct CopyJob {
    journal: Journal,
    source: SessionKey,
    source_id: SessionId,
    id: SessionId,
    /// The facts of the copy before its first entry.
    facts: SessionFacts,
    /// The last entry to copy.
    last: u64,
    /// Set if the agent can copy its own conversation.
    forks_native: bool,
    /// Keeps other callers from opening the copy before it is whole.
    _reservation: SlotReservation,
}

/// Findings about the conversation at the last copied entry.
#[derive(Debug, Default)]
struct CopiedTurns {
    has_turn: bool,
    /// Set if the last ended turn has parameters to resume from its end.
    has_params: bool,
    /// Set if a turn begins behind the last copied entry.
    has_later: bool,
}

impl CopyJob {
    fn run(mut self) -> Result<(), SessionRefused> {
        let created = self
            .journal
            .create(self.id.as_str(), &self.facts.to_bytes());
        let copied = match created {
            Ok((key, created)) => {
                created.detach();
                let copied = self.copy_into(key);
                if copied.is_err() && self.journal.remove(key).is_err() {
                    tracing::warn!(session = %self.id, "a part of a copy stays in the journal; lists leave it out");
                }
                copied
            }
            Err(_) => Err(CopyError::Exists),
        };
        copied.map_err(|error| ends::refused(error.reason(), error.to_string()))
    }

    fn copy_into(&mut self, key: SessionKey) -> Result<(), CopyError> {
        let turns = self.copy_entries(key)?;
        let epoch = self.journal.epoch();
        let mut entries = EntryWriter::new(self.id.clone(), epoch, self.facts.last);
        let context = self.decide_context(&turns);
        let message = context.map(|context| match context {
            ContextSource::AgentPending | ContextSource::AgentDone => {
                "the agent copies its own conversation".to_owned()
            }
            ContextSource::Transcript => TRANSCRIPT_GIVEN.to_owned(),
        });
        let fact = HostFact {
            fact: Some(Fact::ForkedFrom),
            message,
            source: Some(self.source_id.to_string()),
            ..HostFact::default()
        };
        entries.entry(None, RelayBody::from(fact), None, false);
        if self.facts.is_archived {
            let edited = SessionEdited {
                archived: Some(false),
                ..SessionEdited::default()
            };
            self.facts.apply_edit(&edited);
            entries.entry(None, RelayBody::from(edited), None, false);
        }
        let open = std::mem::take(&mut self.facts.open);
        recovery::close(open, &mut entries, CUT, |delivered| TurnComplete {
            error: Some(Failure::new(Category::Cancelled, CUT)),
            ..ends::failed(delivered)
        });
        self.facts.last = entries.last();
        let EntryBlock {
            first,
            count,
            lines,
            ..
        } = entries.take_block();
        let stored = self.journal.put_entries(key, epoch, first, count, &lines);
        self.journal.wait(&stored)?;
        let facts = self.facts.to_bytes();
        let last = self.facts.last;
        let stored = self
            .journal
            .put_facts(key, epoch, last, &facts, Settled::Yes);
        Ok(self.journal.wait(&stored)?)
    }

    /// Decides how the agent gets the conversation, and notes it in the facts.
    fn decide_context(&mut self, turns: &CopiedTurns) -> Option<ContextSource> {
        let native = self.facts.native_session_id();
        let is_last = !turns.has_later && self.facts.open.turns.is_empty();
        let context = match native {
            None if !turns.has_turn => None,
            Some(_) if self.forks_native && (turns.has_params || is_last) => {
                Some(ContextSource::AgentPending)
            }
            _ => Some(ContextSource::Transcript),
        };
        self.facts.copied = Some(CopyOrigin {
            last: Some(self.facts.last),
            context,
        });
        if context == Some(ContextSource::Transcript) {
            self.facts.copy_by_transcript();
        }
        context
    }

    /// Copies the entries up to the last one, or to the one before the session was closed.
    fn copy_entries(&mut self, key: SessionKey) -> Result<CopiedTurns, CopyError> {
        let mut turns = CopiedTurns::default();
        let mut reader = self.journal.read(self.source, 1);
        let mut read = Vec::new();
        let mut is_over = false;
        // A turn that begins behind the last entry matters only if its end has no parameters.
        while !is_over || !(turns.has_params || turns.has_later) {
            read.clear();
            let first = match reader.next(&mut read, READ)? {
                ReadBatch::Lines(numbers) => *numbers.start(),
                ReadBatch::Missing(_) if is_over => continue,
                ReadBatch::Missing(lost) => {
                    return Err(CopyError::Lost(*lost.start()..*lost.end() + 1));
                }
                ReadBatch::End => break,
            };
            let mut copied = String::new();
            let mut count = 0;
            let lines = read.split(|byte| *byte == b'\n');
            for (line, seq) in lines.filter(|line| !line.is_empty()).zip(first..) {
                let line = std::str::from_utf8(line).unwrap_or_default();
                let parts: CopiedLine<'_> = serde_json::from_str(line).unwrap_or_default();
                is_over |= seq > self.last || parts.is_kind("session.closed");
                if is_over {
                    turns.has_later |= parts.is_kind("turn.begin");
                    continue;
                }
                turns.note_line(&parts);
                let line = self.copy_line(key, line, &parts)?;
                self.facts.apply_line(&line);
                copied.push_str(&line);
                copied.push('\n');
                count += 1;
            }
            if count > 0 {
                let epoch = self.journal.epoch();
                let bytes = copied.as_bytes();
                let stored: Ticket = self.journal.put_entries(key, epoch, first, count, bytes);
                self.journal.wait(&stored)?;
            }
        }
        Ok(turns)
    }

    /// Returns an entry for the copy: with its id, and with the paths of its own files.
    fn copy_line(
        &self,
        key: SessionKey,
        line: &str,
        parts: &CopiedLine<'_>,
    ) -> Result<String, CopyError> {
        let mut replaced = Vec::new();
        if let Some(id) = parts.session_id {
            replaced.push((id, serde_json::to_string(&self.id).unwrap_or_default()));
        }
        for name in parts.file_names() {
            let Some(file) = self.journal.kept_file(self.source, &name) else {
                continue;
            };
            let own = self.journal.keep_file(key, &file, &name)?;
            if let Some(path) = parts.file_path
                && serde_json::from_str::<&Path>(path.get()).is_ok_and(|path| path == file)
            {
                replaced.push((path, serde_json::to_string(&own).unwrap_or_default()));
            }
        }
        Ok(replace_values(line, replaced))
    }
}

impl CopiedTurns {
    fn note_line(&mut self, parts: &CopiedLine<'_>) {
        if parts.is_kind("turn.begin") {
            self.has_turn = true;
        } else if parts.is_kind("turn.complete") {
            self.has_params = parts
                .session_params
                .is_some_and(|params| params.get() != "null");
        }
    }
}

/// The members of an entry that its copy depends on, as they are written.
#[derive(Debug, Default, Deserialize)]
struct CopiedLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    session_params: Option<&'a RawValue>,
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    sha256: Option<&'a RawValue>,
    #[serde(borrow)]
    files: Option<&'a RawValue>,
}

impl CopiedLine<'_> {
    fn is_kind(&self, kind: &str) -> bool {
        let own = self.kind.map(|own| serde_json::from_str::<&str>(own.get()));
        matches!(own, Some(Ok(own)) if own == kind)
    }

    /// Returns the names under which the journal may have files of this entry: their SHA-256.
    fn file_names(&self) -> Vec<String> {
        let one = self
            .sha256
            .and_then(|one| serde_json::from_str(one.get()).ok());
        let several = self
            .files
            .and_then(|all| serde_json::from_str(all.get()).ok());
        let mut names: Vec<String> = several.unwrap_or_default();
        names.extend(one);
        names
    }
}

/// Replaces values of a line, which are parts of it. The rest stays byte for byte.
fn replace_values(line: &str, mut values: Vec<(&RawValue, String)>) -> String {
    let start_of = |value: &RawValue| value.get().as_ptr().addr() - line.as_ptr().addr();
    values.sort_by_key(|(value, _)| start_of(value));
    let mut replaced = String::with_capacity(line.len() + 64);
    let mut end = 0;
    for (value, new) in values {
        let start = start_of(value);
        replaced.push_str(&line[end..start]);
        replaced.push_str(&new);
        end = start + value.get().len();
    }
    replaced.push_str(&line[end..]);
    replaced
}

#[cfg(test)]
mod tests {
    use trunkline_journal::Options;
    use trunkline_protocol::{RequestId, SessionStart, SessionsList};

    use super::*;
    use crate::list;

    #[test]
    fn a_copy_that_is_not_whole_is_not_listed_and_goes_with_the_next_host() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Journal::open(folder.path(), Options::default()).unwrap();
        let (journal, _) = open();
        let id = SessionId::new("s").unwrap();
        let copy = SessionId::new("t").unwrap();
        let start = SessionStart::default();
        let facts = SessionFacts::new(&id, "coder", &start, None);
        let (source, created) = journal.create("s", &facts.to_bytes()).unwrap();
        journal.wait(&created).unwrap();
        let facts = SessionFacts::read_origin(&journal, source).unwrap();
        let facts = facts.into_copy(&copy, None);
        let (key, _) = journal.create("t", &facts.to_bytes()).unwrap();
        let line = b"{\"type\":\"output\",\"session_id\":\"t\",\"content\":\"x\"}\n";
        let stored = journal.put_entries(key, journal.epoch(), 1, 1, line);
        journal.wait(&stored).unwrap();
        let asked = SessionsList::new(RequestId::new("r").unwrap());
        let (listed, _) = list::answer_list(&journal, &(), None, &asked);
        let listed = listed.sessions.unwrap();
        assert_eq!(
            listed
                .iter()
                .map(|one| &*one.session_id)
                .collect::<Vec<_>>(),
            ["s"]
        );
        journal.close().unwrap();

        let (journal, opened) = open();
        assert_eq!(opened.unsettled, [key]);
        drop(recovery::recover(&journal, key).unwrap());
        assert!(journal.known(key).is_none_or(|known| known.is_removed));
        assert!(SessionFacts::read_origin(&journal, source).is_some());
    }

    #[test]
    fn a_copied_line_differs_in_the_id_only() {
        let line = r#"{"type":"output", "content":"\"session_id\":\"s\"","session_id":"s","later":{"session_id":"s"},"seq":3}"#;
        let parts: CopiedLine<'_> = serde_json::from_str(line).unwrap();
        assert!(parts.is_kind("output"));
        let copied = replace_values(line, vec![(parts.session_id.unwrap(), "\"é\"".to_owned())]);
        assert_eq!(
            copied,
            r#"{"type":"output", "content":"\"session_id\":\"s\"","session_id":"é","later":{"session_id":"s"},"seq":3}"#
        );
    }
}
