//! Cuts a message to the longest line that its reader accepts ([frame.11]).
//!
//! The largest member gives way first. Ids never do, and a reader rejects an id of more than 256
//! bytes ([msg.6]), so the shortest form of a message that ends or answers something fits into
//! every line that a reader must accept.

use crate::{
    AdapterKind, AdapterMessage, Body, Envelope, Extensions, HostKind, HubKind, Large, LargeMember,
    MIN_MAX_LINE, RelayKind, envelope::direction::Direction, field::Fields,
};

/// A message that is longer than a line of its reader, even without all that may give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// The length of its shortest line, in bytes without the LF.
    pub bytes: usize,
}

/// Members that never give way, in any type of message.
const IDS: [&str; 5] = [
    "request_id",
    "turn_id",
    "message_id",
    "tool_call_id",
    "parent_tool_call_id",
];

/// Members that each piece of a delta has, besides ids.
const OF_EACH_PIECE: [&str; 3] = ["channel", "stream", "history"];

/// The least room for a piece of a delta, in bytes: more than a character and an escape need.
const MIN_PIECE: usize = 16;

/// Ends a text that was cut in a type of message that has no `truncated`.
const ELLIPSIS: &str = "\u{2026}";

/// The message of an answer whose content is longer than a line.
const ANSWER_TOO_LONG: &str = r#""the answer is longer than a line may be; ask for less""#;

/// Rules by which the members of one type of message give way.
///
/// Ids and `kept` stay, `cut` becomes shorter, and all others are left out.
#[derive(Debug, Clone, Copy)]
pub struct Shortening {
    /// The text that several messages carry, one piece each.
    delta: Option<&'static str>,
    /// Members without which the message would have another meaning, and all that a type of message
    /// requires.
    kept: &'static [&'static str],
    /// Texts, and failures by their message. They end where a character ends.
    cut: &'static [&'static str],
    /// True if no member may give way.
    is_whole: bool,
    marks: &'static [Mark],
}

/// A member that is set when others gave way.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The members that it is about; empty: all.
    lost: &'static [&'static str],
    name: &'static str,
    json: &'static str,
    /// The extension that the reader must have agreed on.
    extension: Extensions,
}

impl Mark {
    const fn truncated(extension: Extensions) -> Self {
        Self {
            lost: &[],
            name: "truncated",
            json: "true",
            extension,
        }
    }

    const fn new(lost: &'static [&'static str], name: &'static str, json: &'static str) -> Self {
        Self {
            lost,
            name,
            json,
            extension: Extensions::empty(),
        }
    }
}

impl Shortening {
    const WHOLE: Self = Self {
        is_whole: true,
        ..Self::keeping(&[])
    };

    const fn keeping(kept: &'static [&'static str]) -> Self {
        Self {
            delta: None,
            kept,
            cut: &[],
            is_whole: false,
            marks: &[],
        }
    }

    const fn splitting(self, delta: &'static str) -> Self {
        Self {
            delta: Some(delta),
            ..self
        }
    }

    const fn cutting(self, cut: &'static [&'static str]) -> Self {
        Self { cut, ..self }
    }

    const fn marking(self, marks: &'static [Mark]) -> Self {
        Self { marks, ..self }
    }

    fn is_truncated_marked(&self, agreed: Extensions) -> bool {
        let has_mark = |mark: &Mark| mark.name == "truncated" && agreed.contains(mark.extension);
        self.marks.iter().any(has_mark)
    }

    fn may_give_way(&self, name: &str, json: &str) -> bool {
        let is_mark = |mark: &Mark| mark.name == name && mark.json == json;
        !self.is_whole
            && self.delta != Some(name)
            && !IDS.contains(&name)
            && !self.kept.contains(&name)
            && !self.marks.iter().any(is_mark)
    }
}

/// The types of messages of one direction, by how they are shortened.
pub trait Shorten: Copy {
    /// The rules for this type.
    fn shortening(self) -> Shortening;
}

impl Shorten for AdapterKind {
    fn shortening(self) -> Shortening {
        const MARK_EVENT: &[Mark] = &[Mark::truncated(Extensions::EVENTS)];
        const MARK_TURN: &[Mark] = &[Mark::truncated(Extensions::TURNS)];
        const MARK_REQUEST: &[Mark] = &[Mark::truncated(Extensions::CONTROL)];
        const MARK_LIST: &[Mark] = &[Mark::new(
            &["entries", "sessions", "next", "missing"],
            "error",
            ANSWER_TOO_LONG,
        )];
        let keeping = Shortening::keeping;
        match self {
            Self::Output => keeping(&["channel"]).splitting("content"),
            Self::Thinking => keeping(&[]).splitting("content"),
            Self::ToolUpdate => keeping(&[])
                .splitting("content")
                .cutting(&["title"])
                .marking(MARK_EVENT),
            Self::ToolStart => keeping(&[]).cutting(&["tool", "title"]).marking(MARK_EVENT),
            Self::ToolEnd => keeping(&["is_error"])
                .cutting(&["content"])
                .marking(MARK_EVENT),
            Self::Message => keeping(&["role"]).cutting(&["content"]).marking(MARK_EVENT),
            Self::Log => keeping(&["stream"])
                .cutting(&["content"])
                .marking(MARK_EVENT),
            Self::Custom => keeping(&["name"]).marking(MARK_EVENT),
            Self::Error | Self::Progress => keeping(&["category", "fatal"]).cutting(&["message"]),
            Self::Plan => keeping(&["entries"]),
            Self::FileOutput => keeping(&["file_path"]),
            Self::TurnComplete => keeping(&["status", "delivered", "clear_session"])
                .cutting(&["error", "summary", "stop_reason"])
                .marking(MARK_TURN),
            Self::PermissionRequest => keeping(&["tool", "description", "resource", "options"])
                .cutting(&["title"])
                .marking(MARK_REQUEST),
            Self::InputRequest => keeping(&["prompt", "fields"]),
            Self::PermissionCancel => keeping(&["reason"]),
            Self::SteerResult => keeping(&["delivered"]).cutting(&["reason"]),
            Self::SessionReady => keeping(&["protocol", "extensions", "max_line"]),
            Self::SessionClosed => keeping(&["reason"]).cutting(&["error"]),
            Self::SessionsListResult => keeping(&[]).cutting(&["error"]).marking(MARK_LIST),
            // The relay shortens each agent ([relay.4]).
            Self::AgentsListResult => keeping(&["agents"]),
            Self::Compaction => keeping(&[]).cutting(&["summary"]),
            Self::SessionInfo
            | Self::Usage
            | Self::ContextUsage
            | Self::RateLimit
            | Self::Working
            | Self::Pong => keeping(&[]),
        }
    }
}

impl Shorten for HostKind {
    fn shortening(self) -> Shortening {
        // An approval holds for what was chosen and changed; without that it is a denial.
        const DENY: &[Mark] = &[Mark::new(
            &["option_id", "updated_input"],
            "approved",
            "false",
        )];
        const CANCEL: &[Mark] = &[Mark::new(&["values"], "cancelled", "true")];
        let keeping = Shortening::keeping;
        match self {
            Self::SessionStart
            | Self::SessionUpdate
            | Self::UserInput
            | Self::SessionsList
            | Self::AgentsList => Shortening::WHOLE,
            Self::FileInput => keeping(&["file_path"]),
            Self::PermissionResponse => keeping(&["approved", "end_turn", "reason"])
                .cutting(&["message"])
                .marking(DENY),
            Self::InputResponse => keeping(&["cancelled"]).marking(CANCEL),
            Self::Stop => keeping(&["reason"]),
            Self::SessionClose | Self::FlowPause | Self::FlowResume | Self::Ping => keeping(&[]),
        }
    }
}

impl Shorten for HubKind {
    fn shortening(self) -> Shortening {
        match self {
            Self::SessionAttach
            | Self::SessionDetach
            | Self::SessionHistory
            | Self::SessionEdit
            | Self::SessionFork => Shortening::WHOLE,
        }
    }
}

impl Shorten for RelayKind {
    fn shortening(self) -> Shortening {
        const MARK_HISTORY: &[Mark] = &[Mark::new(&["entries", "lost"], "error", ANSWER_TOO_LONG)];
        let keeping = Shortening::keeping;
        match self {
            Self::SessionAttached => keeping(&[
                "agent_id",
                "state",
                "role",
                "first_seq",
                "last_seq",
                "epoch",
                "copied",
            ])
            .cutting(&["title"]),
            Self::SessionRefused => keeping(&["reason", "last_seq"]).cutting(&["message"]),
            Self::SessionEditResult => keeping(&[]).cutting(&["error"]),
            Self::SessionEdited => keeping(&["archived"]).cutting(&["title"]),
            Self::InputResult => keeping(&["seq", "duplicate"]),
            Self::SessionHistoryResult => {
                keeping(&["next"]).cutting(&["error"]).marking(MARK_HISTORY)
            }
            Self::Lag => keeping(&["from", "to"]),
            Self::HostFact => keeping(&[
                "fact",
                "context",
                "exit_code",
                "signal",
                "silent_ms",
                "deadline_ms",
            ])
            .cutting(&["message"]),
            Self::TurnBegin | Self::InputSteered => keeping(&["content", "queued"]),
            Self::RequestDecided => keeping(&["approved", "cancelled", "reason"]),
            Self::StopRequested => keeping(&["reason"]),
            Self::FileDelivered => keeping(&[]),
        }
    }
}

/// Returns the members that may be in files, by type of message ([large.2]).
#[must_use]
pub fn goes_by_file(kind: AdapterKind) -> &'static [&'static str] {
    use AdapterKind as K;
    match kind {
        K::Message | K::Log => &["content"],
        K::ToolStart => &["input", "locations"],
        K::ToolUpdate => &["input", "locations", "data"],
        K::ToolEnd => &["content", "diffs", "data"],
        K::Custom => &["data"],
        K::TurnComplete => &["result", "artifacts", "summary"],
        _ => &[],
    }
}

/// Stores the JSON of a member in a file that the reader finds.
pub type StoreMember<'a> = &'a mut dyn FnMut(&str) -> std::io::Result<LargeMember>;

/// The longest line that a peer accepts, in bytes without the LF, by its `max_line` ([frame.11]).
#[must_use]
pub fn line_limit(max_line: Option<u64>) -> usize {
    max_line
        .and_then(|bytes| usize::try_from(bytes).ok())
        .map_or(MIN_MAX_LINE, |bytes| bytes.max(MIN_MAX_LINE))
}

/// Returns true if a message is longer than a line of `max_line` bytes and has members that may be
/// in files ([large.2]), as [`move_to_files`] does with it. Never for a message that
/// [`fold`](crate::fold) replaces by another.
#[must_use]
pub fn wants_file(message: &AdapterMessage, agreed: Extensions, max_line: usize) -> bool {
    let kind = message.body.kind();
    agreed.contains(Extensions::LARGE | Extensions::OPTIONS)
        && !goes_by_file(kind).is_empty()
        && kind.shortening().is_truncated_marked(agreed)
        && message.to_line().len() > max_line + 1
}

/// Moves members into files by `store`, the largest first, until the rest of the message fits into
/// a line of `max_line` bytes. A member that cannot be stored stays.
#[must_use]
pub fn move_to_files(
    message: AdapterMessage,
    max_line: usize,
    store: StoreMember<'_>,
) -> AdapterMessage {
    let kind = message.body.kind();
    let mut members = MessageMembers::from_message(&message, kind);
    members.store(kind, max_line, store);
    let line = members.line_with(&members.delta);
    let short = std::str::from_utf8(&line)
        .ok()
        .and_then(|line| AdapterMessage::parse(line.trim_end()).ok());
    short.unwrap_or(message)
}

/// Writes the lines, each with its LF, that carry a message to a reader of lines of up to
/// `max_line` bytes.
///
/// A delta becomes several messages. Of other messages the largest members give way, and
/// `truncated` marks this if it was agreed on. Returns the names of the members that were cut or
/// left out. An approval that would lose what was chosen becomes a denial, and the answer to a
/// question that would lose its values cancels it.
///
/// Never fails for a message that ends or answers something, for limits from [`MIN_MAX_LINE`]:
/// `turn.complete`, `session.closed`, `permission.response` and the like.
///
/// # Errors
/// [`TooLong`] when what must stay is longer; no line was written then.
pub fn fit<B: Body>(
    message: &Envelope<B>,
    agreed: Extensions,
    max_line: usize,
    mut write_line: impl FnMut(Vec<u8>),
) -> Result<Vec<&'static str>, TooLong> {
    let whole = message.to_line();
    if whole.len() <= max_line + 1 {
        write_line(whole);
        return Ok(Vec::new());
    }
    drop(whole);
    let Some(kind) = B::named(message.body.type_name()) else {
        return Ok(Vec::new());
    };
    let mut members = MessageMembers::from_message(message, kind);
    let lost = members.shorten(agreed, max_line)?;
    members.write_pieces(max_line, write_line);
    Ok(lost)
}

/// A message as the JSON of its members.
struct MessageMembers<'a, B> {
    message: &'a Envelope<B>,
    rules: Shortening,
    has_meta: bool,
    large: Large,
    /// By name; the delta is an empty string.
    list: Vec<(&'static str, String)>,
    /// The text of the delta, with its escapes and without its quotes.
    delta: String,
}

impl<'a, B: Body> MessageMembers<'a, B> {
    fn from_message(message: &'a Envelope<B>, kind: B::Kind) -> Self {
        let rules = kind.shortening();
        let mut text = Vec::new();
        message.body.write_members(&mut text);
        let text = String::from_utf8(text).unwrap_or_default();
        let fields = Fields::split(&text, &[<B as Direction>::fields(kind)]).unwrap_or_default();
        let mut delta = String::new();
        let list = fields.iter().map(|(name, json)| {
            if rules.delta == Some(name) {
                inner(json).clone_into(&mut delta);
                (name, "\"\"".to_owned())
            } else {
                (name, json.to_owned())
            }
        });
        let list = list.collect();
        Self {
            message,
            rules,
            has_meta: message.meta.is_some(),
            large: message.large.as_deref().cloned().unwrap_or_default(),
            list,
            delta,
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|(member, _)| *member == name)
    }

    fn set(&mut self, name: &'static str, json: &str) {
        match self.position(name) {
            Some(at) => json.clone_into(&mut self.list[at].1),
            None => self.list.push((name, json.to_owned())),
        }
    }

    /// The line, with its LF and this piece of the delta.
    fn line_with(&self, piece: &str) -> Vec<u8> {
        let mut line = Vec::new();
        let meta = self.message.meta.as_ref().filter(|_| self.has_meta);
        let large = Some(&self.large).filter(|large| !large.is_empty());
        self.message.write_with(meta, large, &mut line, |out| {
            out.push(b'{');
            for (at, (name, json)) in self.list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(format!("\"{name}\":").as_bytes());
                if self.rules.delta == Some(name) {
                    out.extend_from_slice(format!("\"{piece}\"").as_bytes());
                } else {
                    out.extend_from_slice(json.as_bytes());
                }
            }
            out.push(b'}');
        });
        line
    }

    /// The length of the line with an empty delta, in bytes without the LF.
    fn bytes(&self) -> usize {
        self.line_with("").len() - 1
    }

    /// Moves members into files, the largest first, until the line without its delta is short
    /// enough.
    fn store(&mut self, kind: AdapterKind, max_line: usize, store: StoreMember<'_>) {
        let mut left = goes_by_file(kind).to_vec();
        while self.bytes() > max_line {
            let candidates = left.iter().enumerate().filter_map(|(at, name)| {
                let member = self.position(name)?;
                Some((self.list[member].1.len(), at, member))
            });
            let Some((_, at, member)) = candidates.max() else {
                return;
            };
            let name = left.swap_remove(at);
            let Ok(stored) = store(&self.list[member].1) else {
                continue;
            };
            self.large.insert(name.to_owned(), stored);
            if matches!(kind, AdapterKind::Message | AdapterKind::Log) {
                // The type requires it.
                self.list[member].1 = "\"\"".to_owned();
            } else {
                self.list.remove(member);
            }
        }
    }

    /// Shortens the message, the largest member first, until its line with the shortest delta is
    /// short enough. Returns the members that gave way.
    fn shorten(
        &mut self,
        agreed: Extensions,
        max_line: usize,
    ) -> Result<Vec<&'static str>, TooLong> {
        let reserved = if self.delta.is_empty() { 0 } else { MIN_PIECE };
        let ellipsis = if self.rules.is_truncated_marked(agreed) {
            ""
        } else {
            ELLIPSIS
        };
        let mut lost = Vec::new();
        let mut shortest = Vec::new();
        loop {
            let bytes = self.bytes() + reserved;
            if bytes <= max_line {
                return Ok(lost);
            }
            let largest = self.list.iter().enumerate().filter(|(_, (name, json))| {
                self.rules.may_give_way(name, json) && !shortest.contains(name)
            });
            let name = match largest.max_by_key(|(_, (_, json))| json.len()) {
                Some((at, (name, json))) => {
                    let name = *name;
                    if self.rules.cut.contains(&name) {
                        let cut = cut_value(json, bytes - max_line, ellipsis);
                        if cut.len() >= json.len() {
                            shortest.push(name);
                            continue;
                        }
                        self.list[at].1 = cut;
                    } else {
                        self.list.remove(at);
                    }
                    name
                }
                None if self.rules.is_whole => return Err(TooLong { bytes }),
                None if !self.large.is_empty() => {
                    self.large.clear();
                    "large"
                }
                None if self.has_meta => {
                    self.has_meta = false;
                    "_meta"
                }
                None => return Err(TooLong { bytes }),
            };
            if !lost.contains(&name) {
                lost.push(name);
            }
            self.mark(name, agreed);
        }
    }

    fn mark(&mut self, lost: &str, agreed: Extensions) {
        for mark in self.rules.marks {
            let is_about_it = mark.lost.is_empty() || mark.lost.contains(&lost);
            if is_about_it && agreed.contains(mark.extension) {
                self.set(mark.name, mark.json);
            }
        }
    }

    /// Writes the message, once for each piece of its delta.
    fn write_pieces(&mut self, max_line: usize, mut write_line: impl FnMut(Vec<u8>)) {
        let delta = std::mem::take(&mut self.delta);
        let mut rest = delta.as_str();
        loop {
            let room = max_line.saturating_sub(self.bytes());
            let (piece, after) = rest.split_at(cut_at(rest, room));
            debug_assert!(after.is_empty() || !piece.is_empty(), "{room} bytes");
            write_line(self.line_with(piece));
            rest = after;
            if rest.is_empty() {
                return;
            }
            self.keep_for_pieces();
        }
    }

    /// Keeps the members of each piece of a delta; the others were in the first.
    fn keep_for_pieces(&mut self) {
        let delta = self.rules.delta;
        self.list.retain(|(name, _)| {
            delta == Some(*name) || IDS.contains(name) || OF_EACH_PIECE.contains(name)
        });
        self.has_meta = false;
        self.large.clear();
    }
}

/// A string or a failure that is shorter by `excess` bytes, if it has so many.
fn cut_value(json: &str, excess: usize, ellipsis: &str) -> String {
    let most = json.len().saturating_sub(excess);
    if !json.starts_with('{') {
        return cut_string(json, most, ellipsis);
    }
    let fields = Fields::split(json, &[&["category", "message"]]).unwrap_or_default();
    let member = |name: &str| {
        fields
            .get(name)
            .map(|raw| format!("\"{name}\":{}", raw.get()))
    };
    let category = member("category");
    let skeleton = category.as_ref().map_or(0, String::len) + r#"{,"message":}"#.len();
    let message = fields.get("message").map(|raw| {
        let text = cut_string(raw.get(), most.saturating_sub(skeleton), ellipsis);
        format!("\"message\":{text}")
    });
    let members: Vec<String> = category.into_iter().chain(message).collect();
    format!("{{{}}}", members.join(","))
}

/// A JSON string of at most `most` bytes, or the shortest one.
fn cut_string(json: &str, most: usize, ellipsis: &str) -> String {
    if json.len() <= most {
        return json.to_owned();
    }
    let text = inner(json);
    let room = most.saturating_sub(2 + ellipsis.len());
    format!("\"{}{ellipsis}\"", &text[..cut_at(text, room)])
}

/// The text between the quotes of a JSON string, with its escapes.
fn inner(string: &str) -> &str {
    string
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or_default()
}

/// The end of the longest prefix of at most `most` bytes that ends between characters and not
/// within an escape.
fn cut_at(text: &str, most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let at = text.floor_char_boundary(most);
    let bytes = &text.as_bytes()[..at];
    let nearest = bytes.iter().rev().take(5).position(|byte| *byte == b'\\');
    let Some(start) = nearest.map(|back| at - 1 - back) else {
        return at;
    };
    let run = bytes[..=start]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
    let len = if text.as_bytes().get(start + 1) == Some(&b'u') {
        6
    } else {
        2
    };
    if run % 2 == 1 && start + len > at {
        start
    } else {
        at
    }
}
