//! Search over the sessions of a journal: their titles, and the texts of inputs and outputs.
//!
//! There is no index. A search reads the sessions, the last active first and each from its end,
//! until it has enough hits or has used up its budget; the cursor of its answer continues there.
//! Lines are looked through as they are stored, and decoded only if they can have the text. Outputs
//! that follow each other are pieces of one text, and are decoded together.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use memchr::{memchr2, memmem::Finder};
use serde::{Deserialize, Serialize};
use trunkline_journal::{Journal, ListPosition, ReadError, Reader, SessionListing};

use crate::{
    facts::controls_display,
    history::EntryLines,
    list::{InMemory, ListCandidates, format_time, read_session},
    visitor::Visitor,
};

/// Maximum length of the text to search for, in bytes.
pub(crate) const MAX_SEARCH_TEXT: usize = 256;

/// Default number of hits in an answer, followed by the maximum.
const HITS: usize = 50;
const MAX_HITS: usize = 200;

/// Maximum number of characters in a snippet.
const SNIPPET: usize = 200;

/// Size of the part of a session that is searched at once, in bytes.
const WINDOW: u64 = 1024 * 1024;

/// The effort of one request: it ends when either is used up.
#[derive(Debug, Clone, Copy)]
struct SearchBudget {
    time: Duration,
    bytes: usize,
}

const BUDGET: SearchBudget = SearchBudget {
    time: Duration::from_millis(250),
    bytes: 64 * 1024 * 1024,
};

/// A request for sessions that have a text.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// The text, of 1 to 256 bytes, found without regard of case. No character has a special
    /// meaning.
    pub text: String,
    /// Searches only the sessions of this agent.
    pub agent: Option<String>,
    /// Maximum number of hits; 50 if absent, 200 at most.
    pub limit: Option<usize>,
    /// The `next` of the answer before.
    pub after: Option<String>,
}

/// An answer to a search.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SearchPage {
    /// The hits, by sessions, the last active first, and in a session the newest first.
    pub hits: Vec<SearchHit>,
    /// Cursor with which the search continues; `None` if everything was searched.
    pub next: Option<String>,
    /// `true` if everything was searched.
    pub complete: bool,
    /// Number of sessions searched so far, with the earlier answers.
    pub sessions_searched: u64,
    /// Number of sessions in the journal. Only for a visitor that sees them all.
    pub sessions_total: Option<usize>,
}

/// A text that contains the searched one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SearchHit {
    /// The session's id.
    pub id: String,
    /// The session's agent.
    pub agent: String,
    /// The session's title.
    pub title: Option<String>,
    /// Set if the session is archived.
    pub archived: bool,
    /// The number of the entry in which the text begins; `None` for a title.
    pub seq: Option<u64>,
    /// The turn of that entry.
    pub turn: Option<String>,
    /// The time of that entry; for a title, of the session's last entry. RFC 3339.
    pub time: String,
    /// The place of the text.
    pub kind: SearchedText,
    /// The text around the first place in it, on one line: 200 characters at most.
    pub snippet: String,
}

/// The place of a text that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SearchedText {
    /// The title of the session.
    Title,
    /// An input.
    Input,
    /// An output of the agent: all pieces that follow each other.
    Output,
}

/// Reason that a search was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// There is nothing to search for, or too much.
    #[error("the text to search for has {0} bytes; give one of 1 to {MAX_SEARCH_TEXT} bytes")]
    Text(usize),
    /// The cursor is not one.
    #[error(
        "the cursor {0:?} is not the `next` of an answer; leave it out to search from the beginning"
    )]
    Cursor(String),
    /// The file system's own reason.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Searches the sessions that a visitor sees. Blocks for reads of the disk.
pub(crate) fn search(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    query: &SearchQuery,
) -> Result<SearchPage, SearchError> {
    search_within(journal, memory, visitor, query, BUDGET)
}

fn search_within(
    journal: &Journal,
    memory: &impl InMemory,
    visitor: Option<&Visitor>,
    query: &SearchQuery,
    budget: SearchBudget,
) -> Result<SearchPage, SearchError> {
    if !(1..=MAX_SEARCH_TEXT).contains(&query.text.len()) {
        return Err(SearchError::Text(query.text.len()));
    }
    let begin = match &query.after {
        None => None,
        Some(cursor) => {
            Some(SearchCursor::parse(cursor).ok_or_else(|| SearchError::Cursor(cursor.clone()))?)
        }
    };
    let mut search = SessionSearch {
        needle: Needle::new(&query.text),
        limit: query.limit.unwrap_or(HITS).clamp(1, MAX_HITS),
        until: Instant::now() + budget.time,
        bytes_left: budget.bytes,
        hits: Vec::new(),
        searched: begin.map_or(0, |begin| begin.searched),
    };
    let agent = query.agent.as_deref();
    let mut reader: Option<Reader> = None;
    let mut behind = begin.map(|begin| begin.behind);
    let mut stopped_at = None;
    let unfinished = begin.filter(|begin| begin.before > 0).and_then(|begin| {
        let mut listed = journal.listed(begin.behind.session())?;
        // A session that was active meanwhile has left its place in the list.
        listed.position = begin.behind;
        Some((listed, Some(begin.before)))
    });
    let rest = ListCandidates::all(journal, behind).map(|listed| (listed, None));
    for (listed, before) in unfinished.into_iter().chain(rest) {
        behind = Some(listed.position);
        let reader = reader.get_or_insert_with(|| journal.read(listed.key, 1));
        let facts = reader.facts(listed.key)?;
        let read = read_session(journal, memory, visitor, &listed, facts)?;
        let stop = match read {
            Some((facts, activity)) if agent.is_none_or(|agent| facts.agent == agent) => {
                let session = SearchHit {
                    id: facts.id,
                    agent: facts.agent,
                    title: activity.title,
                    archived: activity.is_archived,
                    seq: None,
                    turn: None,
                    time: format_time(listed.known.active),
                    kind: SearchedText::Title,
                    snippet: String::new(),
                };
                search.search_session(reader, &listed, &session, before)?
            }
            _ => None,
        };
        if stop.is_some() || search.is_over() {
            stopped_at = Some(stop.unwrap_or(0));
            break;
        }
    }
    let sees_all = visitor.is_none_or(|visitor| visitor.sees_all && visitor.agents.is_none());
    let next = stopped_at.zip(behind).map(|(before, behind)| SearchCursor {
        behind,
        before,
        searched: search.searched,
    });
    Ok(SearchPage {
        complete: next.is_none(),
        hits: search.hits,
        next: next.map(SearchCursor::print),
        sessions_searched: search.searched,
        sessions_total: (sees_all && query.agent.is_none()).then(|| journal.sessions()),
    })
}

/// The place at which a search continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SearchCursor {
    /// The session that was searched last.
    behind: ListPosition,
    /// The entry before which its rest is not searched yet; 0 if nothing of it is left.
    before: u64,
    /// The number of sessions that were searched.
    searched: u64,
}

impl SearchCursor {
    fn print(self) -> String {
        let (time, key) = self.behind.to_numbers();
        format!("{time:x}-{key:x}-{:x}-{:x}", self.before, self.searched)
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text
            .split('-')
            .map(|number| u64::from_str_radix(number, 16).ok())
            .collect();
        let [time, key, before, searched] = numbers?[..] else {
            return None;
        };
        Some(Self {
            behind: ListPosition::from_numbers((time, key)),
            before,
            searched,
        })
    }
}

/// A search through one session after the other.
struct SessionSearch {
    needle: Needle,
    limit: usize,
    until: Instant,
    bytes_left: usize,
    hits: Vec<SearchHit>,
    searched: u64,
}

impl SessionSearch {
    /// Returns `true` if the answer is full, or its budget is used up.
    fn is_over(&self) -> bool {
        self.hits.len() >= self.limit || self.bytes_left == 0 || Instant::now() >= self.until
    }

    /// Searches a session, or what is left of it before an entry. Returns the entry before which
    /// the rest is not searched yet.
    fn search_session(
        &mut self,
        reader: &mut Reader,
        listed: &SessionListing,
        session: &SearchHit,
        before: Option<u64>,
    ) -> Result<Option<u64>, ReadError> {
        let mut before = match before {
            Some(before) => before.min(listed.known.last + 1),
            None => {
                self.searched += 1;
                let title = session.title.as_deref().unwrap_or_default();
                if let Some(at) = self.needle.find(title) {
                    self.hits.push(SearchHit {
                        snippet: snippet(title, at, self.needle.length),
                        ..session.clone()
                    });
                }
                listed.known.last + 1
            }
        };
        while before > 1 {
            if self.is_over() {
                return Ok(Some(before));
            }
            reader.turn_to_page(listed.key, before, u64::MAX, WINDOW)?;
            let from = reader.position();
            let lines = EntryLines::read_to(reader, before, usize::MAX)?;
            self.bytes_left = self.bytes_left.saturating_sub(lines.bytes());
            let (mut texts, cut) = read_texts(&lines, &self.needle);
            // The text at the beginning may have begun earlier, and is read with what is ahead.
            before = cut.filter(|_| from > 1).unwrap_or(from);
            texts.retain(|text| text.seq() >= before);
            while let Some(text) = texts.pop() {
                let Some(at) = self.needle.find(&text.content) else {
                    continue;
                };
                let (_, piece) = &text.pieces[text
                    .pieces
                    .partition_point(|(begin, _)| *begin <= at)
                    .saturating_sub(1)];
                self.hits.push(SearchHit {
                    seq: Some(piece.seq),
                    turn: text.turn.clone(),
                    time: piece.time.clone(),
                    kind: text.kind,
                    snippet: snippet(&text.content, at, self.needle.length),
                    ..session.clone()
                });
                if self.hits.len() >= self.limit {
                    return Ok(Some(text.seq()));
                }
            }
        }
        Ok(None)
    }
}

/// An entry that has a text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TextEntry<'a> {
    turn_id: Option<String>,
    #[serde(borrow)]
    content: Cow<'a, str>,
    channel: Option<String>,
    role: Option<String>,
    time: String,
}

/// A text of a session: an input, a message, or an output with all its pieces.
#[derive(Debug)]
struct SessionText {
    kind: SearchedText,
    turn: Option<String>,
    content: String,
    /// The offset of each piece in the content. There is at least one.
    pieces: Vec<(usize, TextPiece)>,
}

#[derive(Debug)]
struct TextPiece {
    seq: u64,
    time: String,
}

impl SessionText {
    /// Returns the number of its first entry.
    fn seq(&self) -> u64 {
        self.pieces[0].1.seq
    }
}

/// Reads the texts that can have the needle, in their order. If the lines begin with an output and
/// have more than that, also returns the number behind its last piece.
fn read_texts(lines: &EntryLines, needle: &Needle) -> (Vec<SessionText>, Option<u64>) {
    let mut texts: Vec<SessionText> = Vec::new();
    let mut raw = Vec::new();
    let mut iter = lines.iter().peekable();
    let mut cut = None;
    let mut is_first = true;
    while let Some((seq, line)) = iter.next() {
        let is_first = std::mem::take(&mut is_first);
        let is_output = is_output(line);
        let is_input = INPUTS.iter().any(|kind| line.starts_with(kind));
        if !is_output && !is_input {
            continue;
        }
        let mut pieces = vec![(seq, line)];
        let mut end = seq + 1;
        while is_output
            && let Some(next) = iter.next_if(|(next, line)| *next == end && self::is_output(line))
        {
            end += 1;
            pieces.push(next);
        }
        if is_first && is_output && iter.peek().is_some() {
            cut = Some(end);
        }
        if !needle.may_be_in(&pieces, &mut raw) {
            continue;
        }
        let begin = texts.len();
        for (seq, line) in pieces {
            let Ok(entry) = serde_json::from_slice::<TextEntry<'_>>(line) else {
                continue;
            };
            if !matches!(entry.channel.as_deref(), None | Some("stdout" | "response")) {
                continue;
            }
            let is_input = is_input && entry.role.as_deref().is_none_or(|role| role == "user");
            let piece = TextPiece {
                seq,
                time: entry.time,
            };
            match texts.get_mut(begin..).and_then(<[_]>::last_mut) {
                Some(text) if text.turn == entry.turn_id => {
                    text.pieces.push((text.content.len(), piece));
                    text.content.push_str(&entry.content);
                }
                _ => texts.push(SessionText {
                    kind: if is_input {
                        SearchedText::Input
                    } else {
                        SearchedText::Output
                    },
                    turn: entry.turn_id,
                    content: entry.content.into_owned(),
                    pieces: vec![(0, piece)],
                }),
            }
        }
    }
    (texts, cut)
}

/// Beginnings of the lines that have a text and are no pieces. A relay writes the type first.
const INPUTS: [&[u8]; 3] = [
    b"{\"type\":\"turn.begin\"",
    b"{\"type\":\"input.steered\"",
    b"{\"type\":\"message\"",
];

fn is_output(line: &[u8]) -> bool {
    line.starts_with(b"{\"type\":\"output\"")
}

/// Beginning of the member that has the text of a line.
const CONTENT: &[u8] = b"\"content\":\"";

/// A text to search for without regard of case.
#[derive(Debug)]
struct Needle {
    /// The number of its characters.
    length: usize,
    /// Finds it in a text in lower case.
    finder: Finder<'static>,
    /// Finds the longest part of it that JSON does not escape and that ASCII letters in lower case
    /// match. Empty if there is none.
    raw_finder: Finder<'static>,
    /// Finds the member that has the text of a line.
    content_finder: Finder<'static>,
}

impl Needle {
    fn new(text: &str) -> Self {
        let lower: String = text.chars().map(fold).collect();
        let is_unlike = |char: char| {
            char.is_ascii_control()
                || matches!(char, '"' | '\\')
                || !char.is_ascii() && !char.to_uppercase().eq([char])
        };
        let raw = lower.split(is_unlike).max_by_key(|part| part.len());
        Self {
            length: lower.chars().count(),
            finder: Finder::new(&lower).into_owned(),
            raw_finder: Finder::new(raw.unwrap_or_default()).into_owned(),
            content_finder: Finder::new(CONTENT),
        }
    }

    /// Returns `true` unless lines, one behind the other, cannot have the text.
    fn may_be_in(&self, lines: &[(u64, &[u8])], raw: &mut Vec<u8>) -> bool {
        raw.clear();
        for (_, line) in lines {
            match self.raw_content(line) {
                Some(content) => raw.extend_from_slice(content),
                None => return true,
            }
        }
        raw.make_ascii_lowercase();
        self.raw_finder.find(raw).is_some()
    }

    /// Returns the text of a line as it is stored, without its quotes.
    fn raw_content<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let begin = self.content_finder.find(line)? + CONTENT.len();
        let mut end = begin;
        loop {
            end += memchr2(b'"', b'\\', line.get(end..)?)?;
            if line[end] == b'"' {
                return Some(&line[begin..end]);
            }
            end += 2;
        }
    }

    /// Returns the offset of the first place in a text.
    fn find(&self, text: &str) -> Option<usize> {
        let lower: String = text.chars().map(fold).collect();
        let at = self.finder.find(lower.as_bytes())?;
        let characters = lower[..at].chars().count();
        text.char_indices().nth(characters).map(|(at, _)| at)
    }
}

/// Returns a character in lower case, if that is one character. A letter beyond ASCII stays beyond.
fn fold(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    let mut lower = char.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) if !lower.is_ascii() => lower,
        _ => char,
    }
}

/// Returns the text around a place, on one line, without characters that control how it is shown.
fn snippet(text: &str, at: usize, length: usize) -> String {
    let ahead = SNIPPET.saturating_sub(length) / 2;
    let begin = text[..at].char_indices().rev().take(ahead).last();
    text[begin.map_or(at, |(begin, _)| begin)..]
        .chars()
        .take(SNIPPET)
        .map(|char| if controls_display(char) { ' ' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use tempfile::TempDir;
    use trunkline_journal::{Options, SessionKey, Settled};
    use trunkline_protocol::{SessionId, SessionStart};

    use super::*;
    use crate::facts::SessionFacts;

    fn open(folder: &Path) -> Journal {
        Journal::open(folder, Options::default()).unwrap().0
    }

    /// Stores a session: its lines are `{"type":KIND,"turn_id":TURN,"content":TEXT,MORE}`.
    fn store(
        journal: &Journal,
        id: &str,
        (agent, owner, title): (&str, &str, &str),
        lines: &[(&str, &str, &str)],
    ) -> SessionKey {
        let id = SessionId::new(id).unwrap();
        let mut facts = SessionFacts::new(&id, agent, &SessionStart::default(), None);
        facts.owner = Some(owner.to_owned());
        facts.title = Some(title.to_owned());
        let (key, _) = journal.create(id.as_str(), &facts.to_bytes()).unwrap();
        let epoch = journal.epoch();
        let mut seq = 0;
        for (kind, turn, text) in lines {
            seq += 1;
            let line = serde_json::json!({"type": kind, "session_id": id, "turn_id": turn,
                "content": text, "seq": seq, "epoch": epoch, "time": format!("T{seq}")});
            let line = format!("{line}\n");
            let stored = journal.put_entries(key, epoch, seq, 1, line.as_bytes());
            // Each entry is a block of its own.
            journal.wait(&stored).unwrap();
        }
        facts.last = seq;
        let stored = journal.put_facts(key, epoch, seq, &facts.to_bytes(), Settled::Yes);
        journal.wait(&stored).unwrap();
        key
    }

    /// A budget whose time is enough for a busy machine.
    const PATIENT: SearchBudget = SearchBudget {
        time: Duration::from_secs(60),
        bytes: BUDGET.bytes,
    };

    fn search(
        journal: &Journal,
        visitor: Option<&Visitor>,
        query: &SearchQuery,
    ) -> Result<SearchPage, SearchError> {
        search_within(journal, &(), visitor, query, PATIENT)
    }

    fn query(text: &str) -> SearchQuery {
        SearchQuery {
            text: text.to_owned(),
            ..SearchQuery::default()
        }
    }

    fn visitor(name: &str) -> Visitor {
        Visitor {
            name: name.to_owned(),
            author: name.to_owned(),
            sees_all: false,
            may_speak: true,
            may_approve: false,
            agents: None,
        }
    }

    fn find(journal: &Journal, text: &str) -> Vec<SearchHit> {
        let all = SearchQuery {
            limit: Some(usize::MAX),
            ..query(text)
        };
        search(journal, None, &all).unwrap().hits
    }

    /// Returns the place of each hit: the session, the entry and the kind.
    fn places(hits: &[SearchHit]) -> Vec<(&str, Option<u64>, SearchedText)> {
        let place = |hit: &'_ SearchHit| (hit.seq, hit.kind);
        hits.iter()
            .map(|hit| (&*hit.id, place(hit).0, place(hit).1))
            .collect()
    }

    const CONVERSATION: [(&str, &str, &str); 8] = [
        ("host.fact", "", "the needle is no text here"),
        ("turn.begin", "t1", "Find the Needle, please"),
        ("output", "t1", "I found a nee"),
        ("output", "t1", "d"),
        (
            "output",
            "t1",
            "le in the h\u{e4}y \u{1}\u{202e}\n\"stack\\\"",
        ),
        ("thinking", "t1", "needle"),
        ("output", "t1", "done"),
        (
            "input.steered",
            "t1",
            "(.*)[a-z]+$ \u{65e5}\u{672c}\u{8a9e} \u{c4}RGER",
        ),
    ];

    #[test]
    fn titles_inputs_and_outputs_are_found_without_regard_of_case() {
        use SearchedText::{Input, Output, Title};
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        store(&journal, "s", ("a", "o", "A needle's title"), &CONVERSATION);
        let s = |seq, kind| ("s", seq, kind);
        for (text, expected) in [
            (
                "nEEdle",
                vec![s(None, Title), s(Some(3), Output), s(Some(2), Input)],
            ),
            ("needle in", vec![s(Some(3), Output)]),
            (
                "d",
                vec![
                    s(None, Title),
                    s(Some(7), Output),
                    s(Some(3), Output),
                    s(Some(2), Input),
                ],
            ),
            (
                "dle",
                vec![s(None, Title), s(Some(4), Output), s(Some(2), Input)],
            ),
            // What JSON escapes, and letters beyond ASCII.
            ("\"STACK\\\"", vec![s(Some(5), Output)]),
            ("H\u{c4}Y", vec![s(Some(5), Output)]),
            ("\u{e4}rger", vec![s(Some(8), Input)]),
            ("\u{65e5}\u{672c}", vec![s(Some(8), Input)]),
            ("(.*)[A-Z]+$", vec![s(Some(8), Input)]),
            (".*", vec![s(Some(8), Input)]),
            ("no text", vec![]),
            ("\0", vec![]),
            ("content", vec![]),
        ] {
            assert_eq!(places(&find(&journal, text)), expected, "{text:?}");
        }
        let hit = &find(&journal, "stack")[0];
        assert_eq!(
            hit.snippet,
            "I found a needle in the h\u{e4}y    \"stack\\\""
        );
        assert_eq!((hit.turn.as_deref(), &*hit.time), (Some("t1"), "T5"));
    }

    #[test]
    fn a_snippet_has_200_characters_around_the_hit() {
        let text = format!("{}needle{}", "\u{e4}".repeat(500), "\u{f6}".repeat(500));
        let around = snippet(&text, text.find("needle").unwrap(), 6);
        assert_eq!(around.chars().count(), SNIPPET);
        assert_eq!(around.find("needle"), Some(2 * 97));
        assert_eq!(snippet("needle", 0, 6), "needle");
        assert!(snippet(&text, text.len() - 4, 2).ends_with("\u{f6}\u{f6}"));
    }

    #[test]
    fn a_text_or_a_cursor_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        for text in ["", &"x".repeat(MAX_SEARCH_TEXT + 1), &"x".repeat(10_000)] {
            let refused = search(&journal, None, &query(text)).unwrap_err();
            assert!(matches!(refused, SearchError::Text(bytes) if bytes == text.len()));
        }
        for cursor in [
            "",
            "1-2",
            "1-2-3-4-5",
            "x-1-1-1",
            "-1-1-1-1",
            "fffffffffffffffff-0-0-0",
        ] {
            let asked = SearchQuery {
                after: Some(cursor.to_owned()),
                ..query("x")
            };
            let refused = search(&journal, None, &asked).unwrap_err();
            assert!(matches!(refused, SearchError::Cursor(_)), "{cursor}");
        }
        // One that was made up names no session, or a session that is checked as all are.
        let asked = SearchQuery {
            after: Some(
                "ffffffffffffffff-ffffffffffffffff-ffffffffffffffff-ffffffffffffffff".to_owned(),
            ),
            ..query("x")
        };
        assert!(search(&journal, None, &asked).unwrap().complete);
    }

    #[test]
    fn a_visitor_finds_only_what_it_sees() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        let key = store(&journal, "ann-1", ("a", "ann", "needle"), &CONVERSATION);
        store(&journal, "ben-1", ("a", "ben", "needle"), &CONVERSATION);
        store(&journal, "ann-2", ("b", "ann", "needle"), &CONVERSATION);
        let found = |visitor: Option<&Visitor>, query: &SearchQuery| {
            let page = search(&journal, visitor, query).unwrap();
            let ids: BTreeSet<_> = page.hits.into_iter().map(|hit| hit.id).collect();
            let ids: Vec<_> = ids.into_iter().collect();
            (ids.join(" "), page.sessions_searched, page.sessions_total)
        };
        let needle = query("needle");
        let all = Visitor {
            sees_all: true,
            ..visitor("eve")
        };
        let only_a = Visitor {
            agents: Some(vec!["a".to_owned()]),
            ..all.clone()
        };
        let of_b = SearchQuery {
            agent: Some("b".to_owned()),
            ..needle.clone()
        };
        for (visitor, query, ids, searched, total) in [
            (None, &needle, "ann-1 ann-2 ben-1", 3, Some(3)),
            (Some(&all), &needle, "ann-1 ann-2 ben-1", 3, Some(3)),
            (Some(&visitor("ann")), &needle, "ann-1 ann-2", 2, None),
            (Some(&visitor("ben")), &needle, "ben-1", 1, None),
            (Some(&visitor("eve")), &needle, "", 0, None),
            (Some(&only_a), &needle, "ann-1 ben-1", 2, None),
            (None, &of_b, "ann-2", 1, None),
            (Some(&only_a), &of_b, "", 0, None),
        ] {
            assert_eq!(found(visitor, query), (ids.to_owned(), searched, total));
        }
        // A cursor into a session of another visitor.
        let (time, number) = journal.listed(key).unwrap().position.to_numbers();
        let into = SearchQuery {
            after: Some(format!("{time:x}-{number:x}-9-0")),
            ..needle
        };
        assert!(found(None, &into).0.contains("ann-1"));
        assert!(!found(Some(&visitor("ben")), &into).0.contains("ann"));
    }

    #[test]
    fn the_pages_of_every_limit_and_budget_join_to_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        for number in 0..9 {
            let title = if number % 2 == 0 { "needle" } else { "other" };
            store(
                &journal,
                &format!("s-{number}"),
                ("a", "o", title),
                &CONVERSATION,
            );
        }
        let long: Vec<_> = (0..60)
            .map(|number| match number % 3 {
                0 => ("turn.begin", "t", "needle"),
                1 => ("output", "t", "nee"),
                _ => ("output", "t", "dle"),
            })
            .collect();
        store(&journal, "long", ("a", "o", "x"), &long);
        let whole = find(&journal, "needle");
        assert_eq!(whole.len(), 5 + 2 * 9 + 40);
        let budgets = [1, 4000, BUDGET.bytes].map(|bytes| SearchBudget { bytes, ..PATIENT });
        for budget in budgets {
            for limit in [1, 2, 3, 200] {
                let mut asked = SearchQuery {
                    limit: Some(limit),
                    ..query("needle")
                };
                let mut joined = Vec::new();
                loop {
                    let page = search_within(&journal, &(), None, &asked, budget).unwrap();
                    assert!(page.hits.len() <= limit);
                    assert_eq!(page.complete, page.next.is_none());
                    joined.extend(page.hits);
                    asked.after = page.next;
                    if page.complete {
                        assert_eq!(
                            (page.sessions_searched, page.sessions_total),
                            (10, Some(10))
                        );
                        break;
                    }
                }
                assert_eq!(places(&joined), places(&whole), "{limit} {budget:?}");
            }
        }
    }

    /// A session of several windows, in which an answer goes over the edge of two.
    #[test]
    fn a_text_at_the_edge_of_two_windows_is_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        let pad = |bytes| "x".repeat(bytes);
        let begin = pad(200_000) + "nee";
        let end = format!("dle{} needle", pad(200_000));
        let input = pad(700_000);
        let lines = [
            ("turn.begin", "t", "needle"),
            ("output", "t", "x"),
            ("output", "t", &*begin),
            // The window that ends behind the last entry begins here.
            ("output", "t", &*end),
            ("turn.begin", "u", &*input),
            ("output", "u", "needle"),
        ];
        store(&journal, "s", ("a", "o", "x"), &lines);
        let found: Vec<_> = find(&journal, "needle").iter().map(|hit| hit.seq).collect();
        assert_eq!(found, [Some(6), Some(3), Some(1)]);
    }

    #[test]
    fn a_torn_end_of_the_journal_costs_what_was_torn() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(folder.path());
        store(&journal, "whole", ("a", "o", "x"), &CONVERSATION);
        let log = folder.path().join("00000001.log");
        let size = std::fs::metadata(&log).unwrap().len();
        store(&journal, "torn", ("a", "o", "x"), &CONVERSATION);
        journal.close().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        for cut in [700, 300, 5] {
            file.set_len(size + cut).unwrap();
            let journal = open(folder.path());
            let page = search(&journal, None, &query("needle in")).unwrap();
            assert!(page.complete);
            let found = places(&page.hits);
            assert!(
                found.contains(&("whole", Some(3), SearchedText::Output)),
                "{found:?}"
            );
            journal.close().unwrap();
        }
    }

    /// Measures the search of many sessions:
    /// `SEARCH_SESSIONS=100000 cargo test -p trunkline-sessions --lib search_scale -- --ignored --nocapture`
    #[test]
    #[ignore = "it writes about 600 MB and takes minutes; it measures"]
    fn search_scale() {
        let count = std::env::var("SEARCH_SESSIONS").map_or(1000, |count| count.parse().unwrap());
        let folder = match std::env::var_os("SEARCH_FOLDER") {
            Some(folder) => folder.into(),
            None => TempDir::new().unwrap().keep(),
        };
        let journal = open(&folder);
        let words =
            "the quick brown fox jumps over a lazy dog and reads every file of this folder ";
        let mut open = Vec::new();
        for number in journal.sessions()..count {
            let id = SessionId::new(format!("s-{number}")).unwrap();
            let mut facts = SessionFacts::new(&id, "a", &SessionStart::default(), None);
            facts.title = Some(format!("Work on item {number}"));
            let (key, _) = journal.create(id.as_str(), &facts.to_bytes()).unwrap();
            open.push((id, facts, key));
            if open.len() < 50 && number + 1 < count {
                continue;
            }
            // The sessions are used at the same time.
            let mut last = None;
            for block in 0..5_u64 {
                for (id, _, key) in &open {
                    let mut lines = String::new();
                    for seq in 4 * block + 1..=4 * block + 4 {
                        let (kind, text) = match seq {
                            1 => ("turn.begin", words.repeat(3)),
                            20 => ("turn.complete", String::new()),
                            10 | 15 => ("tool.start", words.to_owned()),
                            7 if id.as_str() == "s-77" => ("output", "a rare Zyzzyva".to_owned()),
                            _ => ("output", words.to_owned()),
                        };
                        let line = serde_json::json!({"type": kind, "session_id": id,
                            "turn_id": "3f9c2a11-9bb1-4e6b-8f61-2a70c1a8b1d4", "content": text,
                            "message_id": "m-1", "seq": seq, "epoch": 1,
                            "time": "2026-01-01T00:00:00.000Z"});
                        lines.push_str(&format!("{line}\n"));
                    }
                    last = Some(journal.put_entries(*key, 1, 4 * block + 1, 4, lines.as_bytes()));
                }
                journal.wait(last.as_ref().unwrap()).unwrap();
            }
            for (_, mut facts, key) in open.drain(..) {
                facts.last = 20;
                last = Some(journal.put_facts(key, 1, 20, &facts.to_bytes(), Settled::Yes));
            }
            journal.wait(&last.unwrap()).unwrap();
        }
        let measured = [
            ("title only", format!("item {}", count / 2)),
            ("rare word", "zyzzyva".to_owned()),
            ("no hit, pieces", "fox folder".to_owned()),
            ("common word", "fox".to_owned()),
        ];
        for (name, text) in measured {
            let mut asked = query(&text);
            let mut requests = 0;
            let mut hits = 0;
            let begun = Instant::now();
            let mut first = None;
            let mut longest = Duration::ZERO;
            let page = loop {
                let request = Instant::now();
                let page = super::search(&journal, &(), None, &asked).unwrap();
                longest = longest.max(request.elapsed());
                requests += 1;
                hits += page.hits.len();
                if !page.hits.is_empty() {
                    first.get_or_insert(begun.elapsed());
                }
                asked.after.clone_from(&page.next);
                if page.complete || name == "common word" && hits >= 1000 {
                    break page;
                }
            };
            eprintln!(
                "{name} {text:?}: {hits} hits, {} sessions of {count}, {requests} requests, {:?}, \
                 the first hit after {first:?}, the longest request {longest:?}",
                page.sessions_searched,
                begun.elapsed()
            );
        }
        eprintln!("the journal is {}", folder.display());
    }
}
