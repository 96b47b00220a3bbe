//! O-DELIVER: what the stub wrote for a live session is what the hub was given, in order
//! ([session.3]).
//!
//! Only `output` is compared, channel by channel, as the text that its contents join to: a host may
//! join deltas or cut them. Channel `system` belongs to hosts as much as to adapters and is left
//! out, and so are the channels that an extension folds down to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use hmac_sha256::Hash as Sha256;
use serde_json::Value;

use super::{HistoryEnd, OracleJudgement};
use crate::{
    clauses::Level,
    history::{PipePair, Record, RecordedEvent},
    trial::named_in,
    verdict::{EvidenceGround, Finding},
    wire::{self, Message},
};

/// Channels on which a host speaks itself, or into which it folds what a hub does not know ([ext.3]).
const OWN_CHANNELS: [&str; 3] = ["system", "question", "tool"];
/// The longest line that every reader takes ([frame.5]).
const LINE: usize = 1 << 20;

/// Compares the lower links with the upper one.
pub(super) fn judge(records: &[Record], ending: HistoryEnd, judgement: &mut OracleJudgement) {
    let mut order: Vec<(usize, &Record)> = records.iter().enumerate().collect();
    order.sort_by_key(|(_, record)| record.at);
    let uppers = uppers(&order);
    let lowers = lowers(&order, &uppers);
    let settled = match ending {
        HistoryEnd::AtRest => last_fence(records),
        HistoryEnd::Cut => Duration::ZERO,
    };
    for (id, upper) in &uppers {
        let Some(below) = lowers.get(id) else {
            continue;
        };
        let quiet_until = upper.closed.map_or(settled, |closed| settled.min(closed));
        let channels: BTreeSet<&str> = below
            .iter()
            .flat_map(|lower| lower.said.iter().map(|said| said.channel.as_str()))
            .collect();
        let all = upper
            .outputs
            .keys()
            .map(String::as_str)
            .chain(channels.iter().copied());
        for channel in all.collect::<BTreeSet<&str>>() {
            if OWN_CHANNELS.contains(&channel) {
                continue;
            }
            let got = upper
                .outputs
                .get(channel)
                .map(Vec::as_slice)
                .unwrap_or_default();
            compare(id, channel, below, got, quiet_until, ending, judgement);
        }
    }
}

/// A session of the hub.
#[derive(Default)]
struct UpperSession<'a> {
    /// Outputs by channel, each with its place.
    outputs: BTreeMap<String, Vec<(usize, &'a str)>>,
    /// When the hub closed it, or paused it for good.
    closed: Option<Duration>,
}

/// A session of one process of the stub.
struct LowerSession {
    said: Vec<StubOutput>,
    /// The host closed it, so that what was on its way may be dropped.
    closed: bool,
}

/// An output of the stub, or several that the log sums up.
struct StubOutput {
    at: Duration,
    channel: String,
    what: DeliveredContent,
    /// True if it need not be delivered: the line is longer than every reader must accept, or was
    /// not ended.
    optional: bool,
}

enum DeliveredContent {
    Text(String),
    Burst { from: u64, count: u64, size: usize },
    Digest { len: usize, sha256: String },
}

fn uppers<'a>(order: &[(usize, &'a Record)]) -> HashMap<String, UpperSession<'a>> {
    let mut uppers: HashMap<String, UpperSession<'a>> = HashMap::new();
    for (index, record) in order
        .iter()
        .filter(|(_, record)| record.link == PipePair::Upper)
    {
        if let Some(message) = record.host_message() {
            let upper = uppers.entry(wire::session(message).to_owned()).or_default();
            match wire::kind(message) {
                "session.close" | "flow.pause" => upper.closed = upper.closed.or(Some(record.at)),
                "flow.resume" => upper.closed = None,
                _ => {}
            }
        } else if let Some(message) = record.adapter_message()
            && wire::kind(message) == "output"
            && let Some(upper) = uppers.get_mut(wire::session(message))
            && let Some(content) = message.get("content").and_then(Value::as_str)
        {
            upper
                .outputs
                .entry(channel(message))
                .or_default()
                .push((*index, content));
        }
    }
    uppers
}

/// The sessions of the stub, by the session of the hub that each belongs to: named by instructions,
/// or of the same id.
fn lowers(
    order: &[(usize, &Record)],
    uppers: &HashMap<String, UpperSession<'_>>,
) -> HashMap<String, Vec<LowerSession>> {
    let mut begun: Vec<((u32, String), Option<String>, LowerSession)> = Vec::new();
    let mut open: HashMap<(u32, String), usize> = HashMap::new();
    for (_, record) in order {
        let PipePair::Lower(process) = record.link else {
            continue;
        };
        let from_host = record.host_message();
        let Some(message) = from_host.or_else(|| record.adapter_message()) else {
            continue;
        };
        let key = (process, wire::session(message).to_owned());
        if from_host.is_some() && wire::kind(message) == "session.start" {
            if !open.contains_key(&key) {
                open.insert(key.clone(), begun.len());
                let upper = uppers.contains_key(&key.1).then(|| key.1.clone());
                begun.push((
                    key,
                    upper,
                    LowerSession {
                        said: Vec::new(),
                        closed: false,
                    },
                ));
            }
            continue;
        }
        let Some(&place) = open.get(&key) else {
            continue;
        };
        let (_, upper, lower) = &mut begun[place];
        match (from_host.is_some(), wire::kind(message)) {
            (true, "user.input") => {
                if let Some(name) = named_in(wire::text(message, "content")) {
                    *upper = Some(name);
                }
            }
            (true, "session.close") => {
                lower.closed = true;
                open.remove(&key);
            }
            (false, "output") => lower.said.extend(said(record, message)),
            (false, "session.closed") => {
                open.remove(&key);
            }
            _ => {}
        }
    }
    let mut lowers: HashMap<String, Vec<LowerSession>> = HashMap::new();
    for (_, upper, lower) in begun {
        if let Some(upper) = upper {
            lowers.entry(upper).or_default().push(lower);
        }
    }
    lowers
}

fn said(record: &Record, message: &Message) -> Option<StubOutput> {
    let ended = !matches!(record.event, RecordedEvent::Adapter { ended: false, .. });
    let summary = &message.get("$summary").cloned().unwrap_or_default();
    let number = |member: &str| {
        summary[member]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
    };
    let (what, bytes) = match summary["ev"].as_str() {
        Some("burst") => {
            let size = number("size")?;
            let from = summary["from"].as_u64()?;
            let count = summary["count"].as_u64()?;
            (DeliveredContent::Burst { from, count, size }, size + 128)
        }
        Some(_) => {
            let sha256 = summary["sha256"].as_str()?.to_owned();
            (
                DeliveredContent::Digest {
                    len: number("len")?,
                    sha256,
                },
                number("bytes")?,
            )
        }
        None => {
            let bytes = match &record.event {
                RecordedEvent::Adapter { bytes, .. } => bytes.len(),
                _ => 0,
            };
            (
                DeliveredContent::Text(message.get("content")?.as_str()?.to_owned()),
                bytes,
            )
        }
    };
    Some(StubOutput {
        at: record.at,
        channel: channel(message),
        what,
        optional: !ended || bytes > LINE,
    })
}

fn channel(message: &Message) -> String {
    match wire::text(message, "channel") {
        "" => "stdout".to_owned(),
        named => named.to_owned(),
    }
}

/// When the last fence was begun: what was written before has had its time.
fn last_fence(records: &[Record]) -> Duration {
    let upto = records.iter().rev().find_map(|record| match record.event {
        RecordedEvent::Fence { upto } => Some(upto),
        _ => None,
    });
    upto.and_then(|upto| records.get(upto))
        .map_or(Duration::ZERO, |record| record.at)
}

fn compare(
    id: &str,
    channel: &str,
    below: &[LowerSession],
    got: &[(usize, &str)],
    settled: Duration,
    ending: HistoryEnd,
    judgement: &mut OracleJudgement,
) {
    let mut cursor = Cursor {
        contents: got,
        offset: 0,
    };
    for lower in below {
        for said in lower.said.iter().filter(|said| said.channel == channel) {
            let mut next = cursor.clone();
            if said.what.taken_from(&mut next) {
                cursor = next;
                continue;
            }
            let missing = cursor.is_at_end();
            if said.optional || (missing && (lower.closed || said.at >= settled)) {
                continue;
            }
            // What was on its way when the host closed the session may be dropped, up to its end.
            if lower.closed {
                break;
            }
            let ground = if missing {
                EvidenceGround::Late
            } else {
                EvidenceGround::Seen
            };
            let got = if missing {
                "nothing more".to_owned()
            } else {
                cursor.shown()
            };
            let expected = format!("{} on channel {channel} of {id}", said.what.shown());
            judgement
                .findings
                .push(finding(expected, got, ground, cursor.place()));
            return;
        }
    }
    if !cursor.is_at_end() {
        let expected =
            format!("nothing more on channel {channel} of {id}: the adapter sent no more");
        // The stub logs each part of a burst after it has written it, and the end of a case may come between.
        let mut said = below.iter().flat_map(|lower| &lower.said);
        let last = said.rfind(|said| said.channel == channel);
        let in_burst = last.is_some_and(|said| matches!(said.what, DeliveredContent::Burst { .. }));
        let ground = if in_burst && ending == HistoryEnd::Cut {
            EvidenceGround::Late
        } else {
            EvidenceGround::Seen
        };
        let got = cursor.shown();
        judgement
            .findings
            .push(finding(expected, got, ground, cursor.place()));
    }
}

fn finding(
    expected: String,
    got: String,
    ground: EvidenceGround,
    record: Option<usize>,
) -> Finding {
    Finding {
        clause: "session.3".into(),
        level: Level::Must,
        check: "O-DELIVER",
        sent: String::new(),
        expected,
        got,
        hint: None,
        ground,
        record,
    }
}

/// A place in the joined contents that the hub was given.
#[derive(Clone)]
struct Cursor<'a> {
    contents: &'a [(usize, &'a str)],
    offset: usize,
}

impl Cursor<'_> {
    fn is_at_end(&self) -> bool {
        self.contents.iter().all(|(_, content)| content.is_empty()) || self.rest().is_empty()
    }

    /// Returns the rest of the first content that has one.
    fn rest(&self) -> &[u8] {
        let mut offset = self.offset;
        for (_, content) in self.contents {
            if offset < content.len() {
                return &content.as_bytes()[offset..];
            }
            offset -= content.len();
        }
        &[]
    }

    fn place(&self) -> Option<usize> {
        self.contents
            .iter()
            .find(|(_, content)| self.offset < content.len())
            .map(|(place, _)| *place)
    }

    fn shown(&self) -> String {
        super::lines::shown(self.rest())
    }

    /// Takes that many bytes and shows them piece by piece. False when `each` refuses, or they are not there.
    fn take(&mut self, mut len: usize, mut each: impl FnMut(&[u8]) -> bool) -> bool {
        while len > 0 {
            while let Some((_, first)) = self.contents.first()
                && self.offset >= first.len()
            {
                self.offset -= first.len();
                self.contents = &self.contents[1..];
            }
            let Some((_, first)) = self.contents.first() else {
                return false;
            };
            let piece = &first.as_bytes()[self.offset..];
            let piece = &piece[..piece.len().min(len)];
            if !each(piece) {
                return false;
            }
            self.offset += piece.len();
            len -= piece.len();
        }
        true
    }

    fn take_exactly(&mut self, mut wanted: &[u8]) -> bool {
        self.take(wanted.len(), |piece| {
            let (now, later) = wanted.split_at(piece.len());
            wanted = later;
            now == piece
        })
    }
}

impl DeliveredContent {
    fn taken_from(&self, cursor: &mut Cursor<'_>) -> bool {
        match self {
            Self::Text(text) => cursor.take_exactly(text.as_bytes()),
            Self::Burst { from, count, size } => (*from..from + count).all(|number| {
                cursor.take_exactly(format!("{number:08}").as_bytes())
                    && cursor.take(size.saturating_sub(8), |piece| {
                        piece.iter().all(|byte| *byte == b'x')
                    })
            }),
            Self::Digest { len, sha256 } => {
                let mut hash = Sha256::new();
                cursor.take(*len, |piece| {
                    hash.update(piece);
                    true
                }) && crate::wire::hex(&hash.finalize()) == *sha256
            }
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => super::lines::shown(text.as_bytes()),
            Self::Burst { from, count, size } => {
                format!(
                    "outputs {from} to {}, of {size} bytes each,",
                    from + count - 1
                )
            }
            Self::Digest { len, .. } => format!("an output of {len} bytes"),
        }
    }
}

#[cfg(test)]
mod tests;
