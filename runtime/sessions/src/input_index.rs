//! Ids that a session has used: the same input twice is one turn ([journal.7]), and no id is used
//! for two requests.
//!
//! The newest inputs are kept in full. A filter remembers that older ids may have been used, so
//! that memory stays bounded; an input whose id may be an older one is looked up in the journal.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    ops::ControlFlow,
};

use trunkline_journal::{Journal, ReadBatch, SessionKey};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, FileInput, MessageId, RelayBody, RelayMessage, RequestId, Sha256,
    TurnId,
};

/// Number of bytes of the journal to read at once.
const READ_BYTES: usize = 1024 * 1024;

/// Maximum number of inputs that are kept in full.
const RECENT_INPUTS: usize = 1024;

/// Prefixes of the lines that contain an id.
const PREFIXES: [&[u8]; 4] = [
    b"{\"type\":\"turn.begin\"",
    b"{\"type\":\"input.steered\"",
    b"{\"type\":\"permission.request\"",
    b"{\"type\":\"input.request\"",
];

/// The ids that one session has used.
#[derive(Debug, Default)]
pub(crate) struct InputIndex {
    recent: HashMap<MessageId, IndexedInput>,
    /// The ids in `recent`, the oldest first.
    order: VecDeque<MessageId>,
    older_inputs: IdFilter,
    recent_turns: RecentIds<TurnId>,
    recent_requests: RecentIds<RequestId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexedInput {
    turn: Option<TurnId>,
    seq: u64,
    /// Hash of the text and of the digests of the files.
    content: u64,
}

/// Result of looking up the id of an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KnownInput {
    /// The session has this input.
    Same { turn: Option<TurnId>, seq: u64 },
    /// The session has another input with this id.
    Other,
    /// The id may be an older one: [`InputIndex::search`] decides.
    Perhaps,
}

impl InputIndex {
    /// Reads the ids of a session from the journal.
    pub(crate) async fn read(journal: &Journal, key: SessionKey) -> Self {
        let journal = journal.clone();
        let read = move || {
            let mut index = Self::default();
            let _: Option<()> = scan(&journal, key, |seq, id| {
                index.add(seq, id);
                ControlFlow::Continue(())
            });
            index
        };
        // Fails only if the runtime shuts down.
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// Looks an input up in the journal.
    pub(crate) async fn search(
        journal: &Journal,
        key: SessionKey,
        id: &MessageId,
        content: u64,
    ) -> Option<KnownInput> {
        let journal = journal.clone();
        let id = id.clone();
        let search = move || {
            scan(&journal, key, |_, used| match used {
                UsedId::Input(Some(used), input) if used == id => {
                    ControlFlow::Break(input.compare(content))
                }
                _ => ControlFlow::Continue(()),
            })
        };
        // Fails only if the runtime shuts down.
        tokio::task::spawn_blocking(search).await.ok().flatten()
    }

    fn add(&mut self, seq: u64, id: UsedId) {
        match id {
            UsedId::Input(message_id, input) => {
                debug_assert_eq!(seq, input.seq);
                if let Some(turn) = &input.turn {
                    self.recent_turns.add(turn.clone());
                }
                if let Some(message_id) = message_id {
                    self.add_input(message_id, input);
                }
            }
            UsedId::Request(id) => self.recent_requests.add(id),
        }
    }

    fn add_input(&mut self, id: MessageId, input: IndexedInput) {
        if self.recent.insert(id.clone(), input).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > RECENT_INPUTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.older_inputs.add(&oldest);
            self.recent.remove(&oldest);
        }
    }

    /// Adds an input that begins a turn.
    pub(crate) fn add_turn(&mut self, id: Option<MessageId>, turn: TurnId, seq: u64, content: u64) {
        let input = IndexedInput {
            turn: Some(turn),
            seq,
            content,
        };
        self.add(seq, UsedId::Input(id, input));
    }

    /// Adds an input to a running turn.
    pub(crate) fn add_steer(
        &mut self,
        id: MessageId,
        turn: Option<TurnId>,
        seq: u64,
        content: u64,
    ) {
        self.add_input(id, IndexedInput { turn, seq, content });
    }

    /// Adds the request that the session has under this id.
    pub(crate) fn add_request(&mut self, id: RequestId) {
        self.recent_requests.add(id);
    }

    /// Looks up the id of an input. `None` if the id is new.
    pub(crate) fn find(&self, id: &MessageId, content: u64) -> Option<KnownInput> {
        match self.recent.get(id) {
            Some(input) => Some(input.compare(content)),
            None => self
                .older_inputs
                .may_have(id)
                .then_some(KnownInput::Perhaps),
        }
    }

    /// Returns `true` if the session has had a turn with this id, or may have had one.
    pub(crate) fn has_turn(&self, turn: &TurnId) -> bool {
        self.recent_turns.may_have(turn)
    }

    /// Returns `true` if the session has had a request with this id, or may have had one.
    pub(crate) fn has_request(&self, request: &RequestId) -> bool {
        self.recent_requests.may_have(request)
    }
}

impl IndexedInput {
    fn compare(&self, content: u64) -> KnownInput {
        if self.content != content {
            return KnownInput::Other;
        }
        KnownInput::Same {
            turn: self.turn.clone(),
            seq: self.seq,
        }
    }
}

/// An id that an entry contains.
enum UsedId {
    Input(Option<MessageId>, IndexedInput),
    Request(RequestId),
}

/// Calls `visit` with the ids of a session in their order, until it breaks. Blocks for reads of the
/// disk.
fn scan<T>(
    journal: &Journal,
    key: SessionKey,
    mut visit: impl FnMut(u64, UsedId) -> ControlFlow<T>,
) -> Option<T> {
    let mut reader = journal.read(key, 1);
    let mut lines = Vec::new();
    loop {
        let first = match reader.next(&mut lines, READ_BYTES) {
            Ok(ReadBatch::Lines(numbers)) => *numbers.start(),
            Ok(ReadBatch::Missing(_)) => continue,
            Ok(ReadBatch::End) | Err(_) => return None,
        };
        let each = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        for (seq, line) in (first..).zip(each) {
            if PREFIXES.iter().any(|prefix| line.starts_with(prefix))
                && let Some(id) = std::str::from_utf8(line)
                    .ok()
                    .and_then(|line| UsedId::parse(seq, line))
                && let ControlFlow::Break(found) = visit(seq, id)
            {
                return Some(found);
            }
        }
        lines.clear();
    }
}

impl UsedId {
    fn parse(seq: u64, line: &str) -> Option<Self> {
        if let Ok(message) = AdapterMessage::parse(line) {
            return match message.body {
                AdapterBody::PermissionRequest(request) => Some(Self::Request(request.request_id)),
                AdapterBody::InputRequest(request) => Some(Self::Request(request.request_id)),
                _ => None,
            };
        }
        let message = RelayMessage::parse(line).ok()?;
        let input = |content: &str, files: &Option<Vec<String>>| {
            let files = files.iter().flatten().map(|hex| Sha256::parse(hex));
            IndexedInput {
                turn: message.turn_id.clone(),
                seq,
                content: content_hash(content, &files.collect::<Vec<_>>()),
            }
        };
        match &message.body {
            RelayBody::TurnBegin(begin) => Some(Self::Input(
                begin.message_id.clone(),
                input(&begin.content, &begin.files),
            )),
            RelayBody::InputSteered(steered) => Some(Self::Input(
                steered.message_id.clone(),
                input(&steered.content, &steered.files),
            )),
            _ => None,
        }
    }
}

/// Hashes the parts that identify an input: its text, and the digests of its files.
pub(crate) fn content_hash(content: &str, files: &[Option<Sha256>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    for digest in files {
        digest.as_ref().map(ToString::to_string).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the digests of files, in their order.
pub(crate) fn digests<'a>(files: impl IntoIterator<Item = &'a FileInput>) -> Vec<Option<Sha256>> {
    files.into_iter().map(|file| file.sha256).collect()
}

/// The newest ids in full, and a filter of older ones.
#[derive(Debug)]
struct RecentIds<T> {
    recent: HashSet<T>,
    order: VecDeque<T>,
    older: IdFilter,
}

impl<T> Default for RecentIds<T> {
    fn default() -> Self {
        Self {
            recent: HashSet::new(),
            order: VecDeque::new(),
            older: IdFilter::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> RecentIds<T> {
    fn add(&mut self, id: T) {
        if self.recent.insert(id.clone()) {
            self.order.push_back(id);
        }
        if self.order.len() > RECENT_INPUTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.older.add(&oldest);
            self.recent.remove(&oldest);
        }
    }

    fn may_have(&self, id: &T) -> bool {
        self.recent.contains(id) || self.older.may_have(id)
    }
}

/// A Bloom filter that grows with its ids: ten bits for each, up to [`IdFilter::MAX_BYTES`] in all.
#[derive(Debug, Default)]
struct IdFilter {
    /// Layers, each twice as large as the one before.
    layers: Vec<FilterLayer>,
}

#[derive(Debug)]
struct FilterLayer {
    bits: Vec<u64>,
    ids: usize,
}

impl IdFilter {
    const FIRST_WORDS: usize = 1024;
    const MAX_BYTES: usize = 1024 * 1024;
    const BITS_AN_ID: usize = 10;
    const HASHES: u64 = 7;

    fn add(&mut self, id: &impl Hash) {
        let bytes: usize = self.layers.iter().map(|layer| layer.bits.len() * 8).sum();
        match self.layers.last() {
            Some(last) if !last.is_full() => {}
            // The filter has its maximum size: from now on more ids are looked up in vain.
            Some(last) if bytes + last.bits.len() * 16 > Self::MAX_BYTES => {}
            last => {
                let words = last.map_or(Self::FIRST_WORDS, |last| last.bits.len() * 2);
                self.layers.push(FilterLayer {
                    bits: vec![0; words],
                    ids: 0,
                });
            }
        }
        if let Some(layer) = self.layers.last_mut() {
            layer.ids += 1;
            for bit in places(id, layer.bits.len()) {
                layer.bits[bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    fn may_have(&self, id: &impl Hash) -> bool {
        self.layers.iter().any(|layer| {
            places(id, layer.bits.len()).all(|bit| layer.bits[bit / 64] & (1 << (bit % 64)) != 0)
        })
    }
}

impl FilterLayer {
    fn is_full(&self) -> bool {
        self.ids * IdFilter::BITS_AN_ID >= self.bits.len() * 64
    }
}

/// Returns the bits of an id in a layer with this number of words.
fn places(id: &impl Hash, words: usize) -> impl Iterator<Item = usize> {
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        id.hash(&mut hasher);
        hasher.finish()
    };
    let first = hash(0);
    let step = hash(1) | 1;
    let bits = words as u64 * 64;
    (0..IdFilter::HASHES).map(move |count| {
        let bit = first.wrapping_add(count.wrapping_mul(step)) % bits;
        usize::try_from(bit).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use trunkline_journal::Options;

    use super::*;

    fn message_id(number: usize) -> MessageId {
        MessageId::new(format!("m-{number}")).unwrap()
    }

    fn turn_id(number: usize) -> TurnId {
        TurnId::new(format!("t-{number}")).unwrap()
    }

    #[tokio::test]
    async fn an_input_is_found_however_many_came_behind_it() {
        const COUNT: usize = 5 * RECENT_INPUTS;
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let mut lines = Vec::new();
        for number in 0..COUNT {
            let line = format!(
                "{{\"type\":\"turn.begin\",\"session_id\":\"s\",\"turn_id\":\"t-{number}\",\"message_id\":\"m-{number}\",\"content\":\"{number}\"}}\n"
            );
            lines.extend_from_slice(line.as_bytes());
        }
        let count = u32::try_from(COUNT).unwrap();
        let stored = journal.put_entries(key, 1, 1, count, &lines);
        journal.wait(&stored).unwrap();

        let index = InputIndex::read(&journal, key).await;
        assert!(index.recent.len() <= RECENT_INPUTS && index.order.len() <= RECENT_INPUTS);
        for number in [0, RECENT_INPUTS, COUNT - 1] {
            let id = message_id(number);
            let content = number.to_string();
            let same = Some(KnownInput::Same {
                turn: Some(turn_id(number)),
                seq: number as u64 + 1,
            });
            for (content, expected) in [(content.as_str(), same), ("x", Some(KnownInput::Other))] {
                let content = content_hash(content, &[]);
                let mut known = index.find(&id, content);
                if known == Some(KnownInput::Perhaps) {
                    known = InputIndex::search(&journal, key, &id, content).await;
                }
                assert_eq!(known, expected, "{number}");
            }
            assert!(index.has_turn(&turn_id(number)));
        }
        // A filter with ten bits per id is wrong about less than two in a hundred.
        let wrong = (COUNT..2 * COUNT).filter(|number| index.has_turn(&turn_id(*number)));
        assert!(wrong.count() < COUNT / 50);
        let new = message_id(COUNT);
        assert_eq!(InputIndex::search(&journal, key, &new, 0).await, None);
    }

    #[test]
    fn a_filter_forgets_nothing_and_stays_within_its_bound() {
        let mut filter = IdFilter::default();
        for number in 0..2_000_000_u32 {
            filter.add(&number);
        }
        assert!(
            (0..2_000_000)
                .step_by(997)
                .all(|number: u32| filter.may_have(&number))
        );
        let bytes: usize = filter.layers.iter().map(|layer| layer.bits.len() * 8).sum();
        assert!(bytes <= IdFilter::MAX_BYTES, "{bytes}");
    }

    #[test]
    fn files_are_part_of_what_makes_inputs_the_same() {
        let digest = |digit: &str| Sha256::parse(&digit.repeat(64));
        let one = digest("1");
        let two = digest("2");
        assert!(one.is_some());
        let with = |files: &[Option<Sha256>]| content_hash("x", files);
        assert_eq!(with(&[one]), with(&[one]));
        assert_ne!(with(&[one]), with(&[two]));
        assert_ne!(with(&[one, two]), with(&[two, one]));
        assert_ne!(with(&[]), with(&[None]));
    }
}
