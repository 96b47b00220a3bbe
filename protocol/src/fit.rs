//! Lines that their reader takes: a message over its limit is cut ([frame.11]).

use crate::{
    AdapterKind, AdapterMessage, Envelope, Extensions, Large, LargeMember, MIN_MAX_LINE,
    envelope::direction::Direction, field::Fields,
};

/// A message of which nothing may be left out, and which is too long for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// The length of the shortest line that carries it, in bytes without the LF.
    pub bytes: usize,
}

/// How a member gives way where its message is too long for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// It is a delta: further messages carry the rest.
    Pieces,
    /// It is a text: it ends earlier, where a character ends.
    End,
    /// It is left out.
    Way,
}

/// The members that give way, by type of message.
pub(crate) fn gives(kind: AdapterKind) -> &'static [(&'static str, Gives)] {
    use AdapterKind as K;
    use Gives::{End, Pieces, Way};
    match kind {
        K::Output | K::Thinking => &[("content", Pieces)],
        K::ToolUpdate => &[
            ("content", Pieces),
            ("input", Way),
            ("data", Way),
            ("title", End),
        ],
        K::ToolStart => &[("input", Way), ("locations", Way), ("title", End)],
        K::ToolEnd => &[("content", End), ("diffs", Way), ("data", Way)],
        K::Message | K::Log => &[("content", End)],
        K::Error | K::Progress => &[("message", End)],
        K::Custom => &[("data", Way)],
        K::TurnComplete => &[
            ("result", Way),
            ("artifacts", Way),
            ("session_params", Way),
            ("error", Way),
            ("usage", Way),
            ("summary", End),
            ("stop_reason", End),
        ],
        K::PermissionRequest => &[("input", Way), ("diffs", Way), ("title", End)],
        K::SessionReady | K::SessionInfo => &[("commands", Way), ("models", Way), ("modes", Way)],
        K::SessionClosed => &[("error", Way)],
        K::FileOutput
        | K::SteerResult
        | K::Plan
        | K::Usage
        | K::ContextUsage
        | K::Compaction
        | K::RateLimit
        | K::SessionsListResult
        | K::InputRequest
        | K::Working
        | K::Pong
        | K::PermissionCancel
        | K::AgentsListResult => &[],
    }
}

/// The members that may lie in files, by type of message ([large.2]).
#[must_use]
pub fn goes_by_file(kind: AdapterKind) -> &'static [&'static str] {
    use AdapterKind as K;
    match kind {
        K::Message | K::Log => &["content"],
        K::ToolStart => &["input", "locations"],
        K::ToolUpdate => &["input", "data"],
        K::ToolEnd => &["content", "diffs", "data"],
        K::Custom => &["data"],
        K::TurnComplete => &["result", "artifacts", "summary"],
        _ => &[],
    }
}

/// Puts the JSON of a member into a file that the reader finds.
pub type Keep<'a> = &'a mut dyn FnMut(&str) -> std::io::Result<LargeMember>;

/// The extension that has `truncated` on this type of message.
const fn marked_by(kind: AdapterKind) -> Option<Extensions> {
    use AdapterKind as K;
    match kind {
        K::Message | K::ToolStart | K::ToolUpdate | K::ToolEnd | K::Log | K::Custom => {
            Some(Extensions::EVENTS)
        }
        K::TurnComplete => Some(Extensions::TURNS),
        K::PermissionRequest => Some(Extensions::CONTROL),
        _ => None,
    }
}

/// What stands at the end of a text that was cut where no `truncated` can say so.
const ELLIPSIS: &str = "\u{2026}";

/// The most bytes of a line that a peer reads which says this of itself ([frame.11]).
#[must_use]
pub fn line_limit(max_line: Option<u64>) -> usize {
    let said = max_line
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(MIN_MAX_LINE);
    said.max(MIN_MAX_LINE)
}

/// Whether a message is too long for a line of `max_line` bytes and has members that may go by file ([large.2]): what
/// [`by_file`] then does with it. Never for a message that [`fold`](crate::fold) makes another of.
#[must_use]
pub fn wants_file(message: &AdapterMessage, agreed: Extensions, max_line: usize) -> bool {
    let kind = message.body.kind();
    agreed.contains(Extensions::LARGE | Extensions::OPTIONS)
        && !goes_by_file(kind).is_empty()
        && marked_by(kind).is_some_and(|extension| agreed.contains(extension))
        && message.to_line().len() > max_line + 1
}

/// Puts members into files by `keep`, the largest first, until the rest of the message is short enough for a line of
/// `max_line` bytes. One that cannot be put there stays.
#[must_use]
pub fn by_file(message: AdapterMessage, max_line: usize, keep: Keep<'_>) -> AdapterMessage {
    let mut members = Members::of(&message);
    members.keep(message.body.kind(), max_line, keep);
    let line = members.line();
    let short = std::str::from_utf8(&line)
        .ok()
        .and_then(|line| AdapterMessage::parse(line.trim_end()).ok());
    short.unwrap_or(message)
}

/// Gives the lines, with their LF, that carry a message to a reader of lines of up to `max_line` bytes.
///
/// Deltas become several messages. Of others the largest members give way, and `truncated` says so where it was agreed
/// on.
///
/// # Errors
/// [`TooLong`] when what must stay is longer; no line was given then.
pub fn fit(
    message: &AdapterMessage,
    agreed: Extensions,
    max_line: usize,
    mut line: impl FnMut(Vec<u8>),
) -> Result<(), TooLong> {
    let whole = message.to_line();
    if whole.len() <= max_line + 1 {
        line(whole);
        return Ok(());
    }
    drop(whole);
    let kind = message.body.kind();
    let mut members = Members::of(message);
    members.shorten(kind, agreed, max_line)?;
    let Some(at) = members.delta(kind) else {
        line(members.line());
        return Ok(());
    };
    let text = std::mem::take(&mut members.list[at].1);
    let mut rest = inner(&text);
    loop {
        let room = max_line.saturating_sub(members.with(at, "").len() - 1);
        let (piece, after) = rest.split_at(cut_at(rest, room));
        if piece.is_empty() && !after.is_empty() {
            return Err(TooLong {
                bytes: members.with(at, "").len(),
            });
        }
        line(members.with(at, piece));
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
        members.keep_for_pieces(kind);
    }
}

/// A message as its members' JSON.
struct Members<'a> {
    message: &'a AdapterMessage,
    has_meta: bool,
    large: Large,
    list: Vec<(&'static str, String)>,
}

impl<'a> Members<'a> {
    fn of(message: &'a AdapterMessage) -> Self {
        let mut text = Vec::new();
        message.body.write_members(&mut text);
        let text = String::from_utf8(text).unwrap_or_default();
        let fields = Fields::split(
            &text,
            &[<crate::AdapterBody as Direction>::fields(
                message.body.kind(),
            )],
        );
        let list = fields
            .unwrap_or_default()
            .iter()
            .map(|(name, raw)| (name, raw.to_owned()))
            .collect();
        Self {
            message,
            has_meta: true,
            large: message.large.as_deref().cloned().unwrap_or_default(),
            list,
        }
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|(member, _)| *member == name)
    }

    fn delta(&self, kind: AdapterKind) -> Option<usize> {
        let (name, _) = gives(kind)
            .iter()
            .find(|(_, gives)| *gives == Gives::Pieces)?;
        self.at(name)
    }

    /// The line, with its LF.
    fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        let Envelope { meta, .. } = self.message;
        let large = Some(&self.large).filter(|large| !large.is_empty());
        self.message.write_with(
            meta.as_ref().filter(|_| self.has_meta),
            large,
            &mut line,
            |out| {
                out.push(b'{');
                for (at, (name, raw)) in self.list.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(format!("\"{name}\":").as_bytes());
                    out.extend_from_slice(raw.as_bytes());
                }
                out.push(b'}');
            },
        );
        line
    }

    /// The line with this piece of the text of a member.
    fn with(&mut self, at: usize, piece: &str) -> Vec<u8> {
        self.list[at].1 = format!("\"{piece}\"");
        self.line()
    }

    /// The length of the line without its delta, in bytes.
    fn bytes(&self, kind: AdapterKind) -> usize {
        self.line().len() - 1 - self.delta(kind).map_or(0, |at| self.list[at].1.len())
    }

    /// Puts members into files, the largest first, until the line without its delta is short enough. One that cannot be
    /// put there stays.
    fn keep(&mut self, kind: AdapterKind, max_line: usize, keep: Keep<'_>) {
        let mut left = goes_by_file(kind).to_vec();
        while self.bytes(kind) > max_line {
            let there = left.iter().enumerate().filter_map(|(at, name)| {
                let member = self.at(name)?;
                Some((self.list[member].1.len(), at, member))
            });
            let Some((_, at, member)) = there.max() else {
                return;
            };
            let name = left.swap_remove(at);
            let Ok(kept) = keep(&self.list[member].1) else {
                continue;
            };
            self.large.insert(name.to_owned(), kept);
            if matches!(kind, AdapterKind::Message | AdapterKind::Log) {
                // It must be there.
                self.list[member].1 = "\"\"".to_owned();
            } else {
                self.list.remove(member);
            }
        }
    }

    /// Lets members give way, the largest first, until the line without its delta is short enough.
    fn shorten(
        &mut self,
        kind: AdapterKind,
        agreed: Extensions,
        max_line: usize,
    ) -> Result<(), TooLong> {
        let mut bytes = self.bytes(kind);
        if bytes <= max_line {
            return Ok(());
        }
        let is_marked = marked_by(kind).is_some_and(|extension| agreed.contains(extension));
        if is_marked {
            self.list.retain(|(name, _)| *name != "truncated");
            self.list.push(("truncated", "true".to_owned()));
            bytes = self.bytes(kind);
        }
        let mut left: Vec<_> = gives(kind)
            .iter()
            .filter(|(_, gives)| *gives != Gives::Pieces)
            .collect();
        while bytes > max_line {
            let largest = left.iter().enumerate().filter_map(|(at, (name, _))| {
                let member = self.at(name)?;
                Some((self.list[member].1.len(), at, member))
            });
            let Some((len, at, member)) = largest.max() else {
                return Err(TooLong { bytes });
            };
            let (_, how) = left.swap_remove(at);
            if *how == Gives::Way {
                self.list.remove(member);
            } else {
                let mark = if is_marked { "" } else { ELLIPSIS };
                let text = inner(&self.list[member].1);
                let most = text.len().saturating_sub(bytes - max_line + mark.len());
                self.list[member].1 = format!("\"{}{mark}\"", &text[..cut_at(text, most)]);
            }
            let now = self.bytes(kind);
            debug_assert!(
                now <= bytes + ELLIPSIS.len(),
                "a member of {len} bytes gives way"
            );
            bytes = now;
        }
        Ok(())
    }

    /// Keeps what belongs to each piece of a delta; the rest was in the first.
    fn keep_for_pieces(&mut self, kind: AdapterKind) {
        let once = |name: &str| {
            gives(kind)
                .iter()
                .any(|(given, how)| *given == name && *how != Gives::Pieces)
                || name == "truncated"
        };
        // The delta stays where it was: what goes stands behind it.
        self.list.retain(|(name, _)| !once(name));
        self.has_meta = false;
        self.large.clear();
    }
}

/// The text within the quotes of a JSON string, with its escapes.
fn inner(string: &str) -> &str {
    string
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or_default()
}

/// Where at most `most` bytes of a JSON string end: between characters, and not within an escape.
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
