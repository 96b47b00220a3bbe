//! The sessions of a journal, found and listed page by page ([journal.12]).
//!
//! A page is read from the index of the journal and the facts of the sessions that it examines,
//! never of all sessions. The activity of a session in memory comes from its task.

use std::{
    collections::{HashMap, VecDeque},
    time::SystemTime,
};

use serde::Serialize;
use trunkline_journal::{Journal, ListPosition, ReadError, SessionKey, SessionListing};
use trunkline_protocol::{
    ListedSession, RequestId, SessionId, SessionState, SessionsList, SessionsListResult, TurnId,
};

use crate::{
    activity::{SessionActivity, WaitingRequest},
    facts::SessionFacts,
    visitor::{Visitor, is_seen},
};

/// Default number of sessions on a page, followed by the maximum.
const PAGE: usize = 50;
const LONGEST: usize = 1000;

/// Maximum number of sessions that one request examines, whatever its filters are.
const LOOKED_AT: usize = 2000;

/// Number of sessions to read from the index at once.
const CHUNK: usize = 128;

/// Maximum size of the sessions in one answer, in bytes, so that its line stays below 1 MiB.
const BYTES: usize = 896 * 1024;

/// Number of sessions to read from the index at once for an overview, and the size of its parts in
/// bytes, about.
const OVERVIEW_CHUNK: usize = 256;
const OVERVIEW_BYTES: usize = 64 * 1024;

/// The longest directory that is listed, in bytes. Linux opens no longer ones.
const DIRECTORY: usize = 4096;

/// The sessions that are in memory.
pub(crate) trait InMemory {
    /// Returns the activity of a session, or `None` if it is not in memory.
    fn activity(&self, id: &str) -> Option<SessionActivity>;

    /// Returns the sessions in this state.
    fn in_state(&self, state: SessionState) -> Vec<SessionKey>;

    /// Returns `true` if this host serves the session; other sessions are not listed.
    fn is_served(&self, _: &str) -> bool {
        true
    }
}

/// A journal that is read beside its host, or without one: no session is in memory.
impl InMemory for () {
    fn activity(&self, _: &str) -> Option<SessionActivity> {
        None
    }

    fn in_state(&self, _: SessionState) -> Vec<SessionKey> {
        Vec::new()
    }
}

/// Reason that a list was not answered.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(
        "the cursor {0:?} is not the `next` of an answer; leave it out to begin at the first page"
    )]
    Cursor(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Answers a request with the sessions that this visitor can see, and with the cursor behind each.
/// Blocks for reads of the disk.
pub(crate) fn answer_list(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    asked: &SessionsList,
) -> (SessionsListResult, Vec<String>) {
    let result = SessionsListResult::to(asked.request_id.clone());
    match collect_page(journal, memory, visitor, asked) {
        Ok(ListPage {
            sessions,
            places,
            next,
        }) => {
            let result = SessionsListResult {
                sessions: Some(sessions),
                next: next.map(cursor_of),
                ..result
            };
            (result, places.into_iter().map(cursor_of).collect())
        }
        Err(error) => (
            SessionsListResult {
                error: Some(error.to_string()),
                ..result
            },
            Vec::new(),
        ),
    }
}

/// Returns the list entry of one session, or `None` if the visitor sees no session with this id.
/// Blocks for reads of the disk.
pub(crate) fn find_session(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    id: &SessionId,
) -> Result<Option<ListedSession>, ReadError> {
    let Some(listed) = journal
        .find(id.as_str())
        .and_then(|session| journal.listed(session))
    else {
        return Ok(None);
    };
    let request = RequestId::new("one").expect("an id has 1 to 256 bytes");
    let asked = SessionsList {
        id: Some(id.to_string()),
        ..SessionsList::new(request)
    };
    let read = ListFilter::new(&asked, visitor).read(journal, memory, &listed)?;
    Ok(read.map(|(session, _)| session))
}

/// Returns the sessions that continue conversations of an agent: their ids by the agent's. Examines
/// the sessions that were active last, of which the latest prevails. Blocks for reads of the disk.
pub(crate) fn find_native(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    agent: &str,
) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let request = RequestId::new("native").expect("an id has 1 to 256 bytes");
    let asked = SessionsList::new(request);
    let candidates = ListCandidates::new(journal, memory, &asked, None);
    for listed in candidates.take(LOOKED_AT) {
        let facts = SessionFacts::read(journal, listed.key).ok().flatten();
        let Some(facts) = facts.filter(|facts| {
            facts.agent == agent
                && !facts.is_partial_copy()
                && memory.is_served(&facts.id)
                && is_seen(visitor, facts.owner.as_deref(), agent)
        }) else {
            continue;
        };
        if let Some(native) = facts.native_session_id().filter(|_| !facts.copies_native()) {
            found.entry(native).or_insert(facts.id);
        }
    }
    found
}

/// A session in an overview.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionOverview {
    id: String,
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    state: SessionState,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<bool>,
    /// Number of the last entry.
    last_seq: u64,
    /// The running turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<TurnId>,
    /// Requests that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<WaitingRequest>,
}

/// A part of the overview of all sessions.
#[derive(Debug)]
#[non_exhaustive]
pub struct OverviewPage {
    /// The sessions of this part, in the order in which the journal got them.
    pub sessions: Vec<SessionOverview>,
    /// The end of this part. `None` if no session follows.
    pub end: Option<SessionKey>,
}

/// Reads the part of the overview behind a session. A session that is active meanwhile keeps its
/// place. Blocks for reads of the disk.
pub(crate) fn read_overview(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    behind: Option<SessionKey>,
) -> Result<OverviewPage, ReadError> {
    let asked = SessionsList::new(RequestId::new("all").expect("an id has 1 to 256 bytes"));
    let wanted = ListFilter {
        includes_archived: true,
        ..ListFilter::new(&asked, visitor)
    };
    let mut sessions = Vec::new();
    let mut bytes = 0;
    let chunk = journal.list_by_key(behind, OVERVIEW_CHUNK);
    let is_last = chunk.len() < OVERVIEW_CHUNK;
    let mut end = chunk.last().map(|listed| listed.key).filter(|_| !is_last);
    for listed in chunk {
        let Some((session, activity)) = wanted.read(journal, memory, &listed)? else {
            continue;
        };
        let session = SessionOverview {
            id: session.session_id,
            agent: session.agent_id,
            title: session.title,
            state: activity.state,
            archived: session.archived,
            last_seq: listed.known.last,
            turn_id: activity.running,
            requests: activity.requests,
        };
        bytes += serde_json::to_vec(&session).map_or(0, |json| json.len());
        sessions.push(session);
        if bytes > OVERVIEW_BYTES {
            end = Some(listed.key);
            break;
        }
    }
    Ok(OverviewPage { sessions, end })
}

struct ListPage {
    sessions: Vec<ListedSession>,
    /// Position of each session.
    places: Vec<ListPosition>,
    next: Option<ListPosition>,
}

fn collect_page(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    asked: &SessionsList,
) -> Result<ListPage, ListError> {
    let behind = match &asked.cursor {
        Some(cursor) => Some(position_of(cursor).ok_or_else(|| ListError::Cursor(cursor.clone()))?),
        None => None,
    };
    let limit = asked.limit.map_or(PAGE, |limit| {
        usize::try_from(limit).unwrap_or(LONGEST).min(LONGEST)
    });
    let wanted = ListFilter::new(asked, visitor);
    let mut found = ListPage {
        sessions: Vec::new(),
        places: Vec::new(),
        next: None,
    };
    let mut bytes = 0;
    let mut last = behind;
    for (looked_at, listed) in ListCandidates::new(journal, memory, asked, behind).enumerate() {
        if looked_at == LOOKED_AT {
            return Ok(ListPage {
                next: last,
                ..found
            });
        }
        if let Some((one, _)) = wanted.read(journal, memory, &listed)? {
            bytes += serde_json::to_vec(&one).map_or(0, |line| line.len() + 1);
            if found.sessions.len() == limit || bytes > BYTES {
                return Ok(ListPage {
                    next: last,
                    ..found
                });
            }
            found.sessions.push(one);
            found.places.push(listed.position);
        }
        last = Some(listed.position);
    }
    Ok(found)
}

/// The sessions to examine, the last active first.
pub(crate) struct ListCandidates<'a> {
    journal: &'a Journal,
    behind: Option<ListPosition>,
    chunk: VecDeque<SessionListing>,
    /// Set if there are no more behind the chunk.
    is_last: bool,
}

impl<'a> ListCandidates<'a> {
    /// Returns all sessions behind a position.
    pub(crate) fn all(journal: &'a Journal, behind: Option<ListPosition>) -> Self {
        Self {
            journal,
            behind,
            chunk: VecDeque::new(),
            is_last: false,
        }
    }

    fn new(
        journal: &'a Journal,
        memory: &impl InMemory,
        asked: &SessionsList,
        behind: Option<ListPosition>,
    ) -> Self {
        let few = match (&asked.id, asked.state) {
            (Some(id), _) => Some(Vec::from_iter(journal.find(id))),
            // Only sessions in memory can have this state.
            (None, Some(state @ (SessionState::Running | SessionState::Idle))) => {
                Some(memory.in_state(state))
            }
            (None, _) => None,
        };
        let is_last = few.is_some();
        let mut chunk: Vec<_> = few
            .into_iter()
            .flatten()
            .filter_map(|session| journal.listed(session))
            .collect();
        chunk.retain(|listed| behind.is_none_or(|behind| listed.position < behind));
        chunk.sort_unstable_by_key(|listed| std::cmp::Reverse(listed.position));
        Self {
            journal,
            behind,
            chunk: chunk.into(),
            is_last,
        }
    }
}

impl Iterator for ListCandidates<'_> {
    type Item = SessionListing;

    fn next(&mut self) -> Option<SessionListing> {
        if self.chunk.is_empty() && !self.is_last {
            self.chunk = self.journal.list(self.behind, CHUNK).into();
            self.is_last = self.chunk.len() < CHUNK;
            self.behind = self
                .chunk
                .back()
                .map(|listed| listed.position)
                .or(self.behind);
        }
        self.chunk.pop_front()
    }
}

/// The filters of a request.
struct ListFilter<'a> {
    asked: &'a SessionsList,
    /// The requesting visitor; `None` sees all sessions.
    visitor: Option<&'a Visitor>,
    /// The text in lower case.
    text: Option<String>,
    /// Set if archived sessions pass, too.
    includes_archived: bool,
}

impl<'a> ListFilter<'a> {
    fn new(asked: &'a SessionsList, visitor: Option<&'a Visitor>) -> Self {
        Self {
            asked,
            visitor,
            text: asked.text.as_ref().map(|text| text.to_lowercase()),
            includes_archived: asked.id.is_some(),
        }
    }

    /// Returns the list entry and the activity of a session if it passes the filters. Without facts
    /// a session cannot be listed; a check of the journal reports it.
    fn read(
        &self,
        journal: &Journal,
        memory: &impl InMemory,
        listed: &SessionListing,
    ) -> Result<Option<(ListedSession, SessionActivity)>, ReadError> {
        let facts = journal.facts(listed.key)?;
        let read = read_session(journal, memory, self.visitor, listed, facts)?;
        let Some((facts, activity)) = read else {
            return Ok(None);
        };
        let asked = self.asked;
        if asked.id.as_ref().is_some_and(|id| facts.id != *id)
            || asked
                .agent_id
                .as_ref()
                .is_some_and(|agent| facts.agent != *agent)
        {
            return Ok(None);
        }
        let is_hidden =
            !self.includes_archived && activity.is_archived != asked.archived.unwrap_or(false);
        if is_hidden
            || asked.state.is_some_and(|state| activity.state != state)
            || self
                .text
                .as_ref()
                .is_some_and(|text| !matches_text(text, activity.title.as_deref(), &facts.id))
        {
            return Ok(None);
        }
        let cwd = facts.cwd();
        if asked.cwd.is_some() && asked.cwd != cwd {
            return Ok(None);
        }
        let session = ListedSession {
            session_id: facts.id,
            agent_id: facts.agent,
            title: activity.title.clone(),
            state: Some(activity.state),
            cwd: cwd.filter(|cwd| cwd.len() <= DIRECTORY),
            created: Some(facts.created),
            active: Some(format_time(listed.known.active)),
            entries: Some(listed.known.last),
            bytes: Some(listed.known.bytes),
            open_turns: Some(activity.open_turns as u64),
            open_requests: Some(activity.requests.len() as u64),
            host: None,
            archived: activity.is_archived.then_some(true),
        };
        Ok(Some((session, activity)))
    }
}

/// Reads the stored facts and the activity of a session that the visitor sees and this host serves.
/// Blocks for reads of the disk.
pub(crate) fn read_session(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    listed: &SessionListing,
    facts: Option<Vec<u8>>,
) -> Result<Option<(SessionFacts, SessionActivity)>, ReadError> {
    let Some(mut facts) = facts.and_then(|bytes| SessionFacts::from_bytes(&bytes)) else {
        return Ok(None);
    };
    if facts.is_partial_copy()
        || !is_seen(visitor, facts.owner.as_deref(), &facts.agent)
        || !memory.is_served(&facts.id)
    {
        return Ok(None);
    }
    if let Some(activity) = memory.activity(&facts.id) {
        return Ok(Some((facts, activity)));
    }
    // If a host was killed, its last entries come after the facts.
    if facts.last < listed.known.last {
        match SessionFacts::read(journal, listed.key)? {
            Some(read) => facts = read,
            None => return Ok(None),
        }
    }
    let activity = SessionActivity::of_stored(&facts);
    Ok(Some((facts, activity)))
}

/// Returns `true` if the title or the id contains a text, which is in lower case.
fn matches_text(text: &str, title: Option<&str>, id: &str) -> bool {
    title.is_some_and(|title| title.to_lowercase().contains(text))
        || id.to_lowercase().contains(text)
}

pub(crate) fn format_time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn cursor_of(position: ListPosition) -> String {
    let (time, key) = position.to_numbers();
    format!("{time:x}-{key:x}")
}

fn position_of(cursor: &str) -> Option<ListPosition> {
    let (time, key) = cursor.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(ListPosition::from_numbers((number(time)?, number(key)?)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tempfile::TempDir;
    use trunkline_journal::{Options, Settled};
    use trunkline_protocol::{AdapterBody, AdapterMessage, SessionStart};

    use super::*;

    /// No session is in memory. Counts the sessions that are examined.
    #[derive(Default)]
    struct Counted(Cell<usize>);

    impl InMemory for Counted {
        fn activity(&self, _: &str) -> Option<SessionActivity> {
            self.0.set(self.0.get() + 1);
            None
        }

        fn in_state(&self, _: SessionState) -> Vec<SessionKey> {
            Vec::new()
        }
    }

    /// Creates a journal with this number of sessions, from `s-0` on, of agents `a-0` to `a-9` in
    /// turns, in this directory.
    fn stored(count: usize, cwd: &str) -> (TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let mut last = None;
        for number in 0..count {
            let id = SessionId::new(format!("s-{number}")).unwrap();
            let start = SessionStart {
                cwd: Some(cwd.to_owned()),
                ..SessionStart::default()
            };
            let mut facts = SessionFacts::new(&id, &format!("a-{}", number % 10), &start, None);
            facts.title = Some(format!("Title {number}."));
            let (key, _) = journal.create(id.as_str(), &facts.to_bytes()).unwrap();
            last = Some(journal.put_facts(key, 1, 0, &facts.to_bytes(), Settled::Yes));
        }
        journal.wait(&last.unwrap()).unwrap();
        (folder, journal)
    }

    fn asked() -> SessionsList {
        SessionsList::new(RequestId::new("r").unwrap())
    }

    /// Reads all pages of a request. Returns the ids, the number of pages, and the number of
    /// sessions that the first page examined.
    fn pages(journal: &Journal, mut asked: SessionsList) -> (Vec<String>, usize, usize) {
        let mut ids = Vec::new();
        let mut pages = 0;
        let mut first = 0;
        loop {
            let counted = Counted::default();
            let (answer, _) = answer_list(journal, &counted, None, &asked);
            assert_eq!(answer.error, None);
            let line =
                AdapterMessage::new(SessionId::none(), AdapterBody::from(answer.clone())).to_line();
            assert!(line.len() <= 1024 * 1024, "{} bytes", line.len());
            ids.extend(
                answer
                    .sessions
                    .unwrap()
                    .into_iter()
                    .map(|one| one.session_id),
            );
            pages += 1;
            first = if pages == 1 { counted.0.get() } else { first };
            asked.cursor = answer.next;
            if asked.cursor.is_none() {
                return (ids, pages, first);
            }
        }
    }

    #[test]
    fn a_request_looks_at_a_bounded_number_of_sessions() {
        let count = LOOKED_AT + 500;
        let (_folder, journal) = stored(count, "/");
        let numbers = |ids: &[String]| {
            let mut numbers: Vec<usize> = ids.iter().map(|id| id[2..].parse().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        };
        // The first page reads its own sessions, and one more to find out if there is a next page.
        let (ids, paged, first) = pages(&journal, asked());
        assert_eq!((paged, first), (count / PAGE, PAGE + 1));
        assert_eq!(
            numbers(&ids),
            (0..count).collect::<Vec<_>>(),
            "each comes once"
        );

        let longest = SessionsList {
            limit: Some(u32::MAX),
            ..asked()
        };
        assert_eq!(pages(&journal, longest).1, count.div_ceil(LONGEST));

        // A list continues from the cursor of each session.
        let three = SessionsList {
            limit: Some(3),
            ..asked()
        };
        let (first, cursors) = answer_list(&journal, &(), None, &three);
        let behind_first = SessionsList {
            cursor: cursors.first().cloned(),
            ..three
        };
        let (second, _) = answer_list(&journal, &(), None, &behind_first);
        assert_eq!(first.sessions.unwrap()[1..], second.sessions.unwrap()[..2]);
        assert_eq!(first.next, cursors.last().cloned());

        // A rare match takes several requests, of which the first may find nothing.
        for (rare, found) in [
            ("title 0.", vec![0]),
            ("S-2499", vec![2499]),
            ("nothing has this", vec![]),
        ] {
            let rare = SessionsList {
                text: Some(rare.to_owned()),
                ..asked()
            };
            let (ids, paged, first) = pages(&journal, rare);
            assert_eq!((numbers(&ids), paged, first), (found, 2, LOOKED_AT));
        }
        let agent = SessionsList {
            agent_id: Some("a-3".to_owned()),
            ..asked()
        };
        assert_eq!(
            numbers(&pages(&journal, agent).0),
            (3..count).step_by(10).collect::<Vec<_>>()
        );

        // A single session is found by its id, and states that only a session in memory can have
        // are not searched on disk.
        let one = SessionsList {
            id: Some("s-77".to_owned()),
            ..asked()
        };
        assert_eq!(pages(&journal, one), (vec!["s-77".to_owned()], 1, 1));
        for (cwd, found) in [("/", count), ("/srv", 0)] {
            let there = SessionsList {
                cwd: Some(cwd.to_owned()),
                ..asked()
            };
            assert_eq!(pages(&journal, there).0.len(), found);
        }
        let running = SessionsList {
            state: Some(SessionState::Running),
            ..asked()
        };
        assert_eq!(pages(&journal, running), (vec![], 1, 0));
    }

    #[test]
    fn an_answer_stays_below_a_mebibyte() {
        // Each of these bytes takes six on the wire.
        let (_folder, journal) = stored(500, &"\u{1}".repeat(DIRECTORY));
        let (ids, paged, _) = pages(
            &journal,
            SessionsList {
                limit: Some(500),
                ..asked()
            },
        );
        assert_eq!(ids.len(), 500);
        assert!(paged > 10, "{paged} pages");
        let (_folder, journal) = stored(1, &"\u{1}".repeat(DIRECTORY + 1));
        assert_eq!(
            answer_list(&journal, &(), None, &asked())
                .0
                .sessions
                .unwrap()[0]
                .cwd,
            None
        );
    }
}
