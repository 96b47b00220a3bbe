//! Pieces of output, joined: each frame of output is a row of the hub's database and a block of its
//! page.

use std::time::Duration;

/// The longest joined text, in bytes. Escaped it fits into the smallest frame limit of a hub, 1 MiB.
pub(crate) const PIECE: usize = 128 * 1024;

/// The time after which a text is sent up to its last blank line.
const PARAGRAPH: Duration = Duration::from_secs(1);

/// The time after which a text is sent up to its last line break, or whole without one.
const LINE: Duration = Duration::from_secs(5);

/// The waiting text of one channel.
#[derive(Debug, Default)]
pub(crate) struct OutputJoiner {
    channel: String,
    text: String,
    since: Duration,
}

impl OutputJoiner {
    /// Adds a piece. Returns the texts that it completes, each with its channel.
    pub(crate) fn add(
        &mut self,
        channel: &str,
        delta: &str,
        now: Duration,
    ) -> Vec<(String, String)> {
        let mut whole = Vec::new();
        if self.channel != channel {
            whole.extend(self.take());
        }
        if self.text.is_empty() {
            self.channel = channel.to_owned();
            self.since = now;
        }
        // The databases of the hub refuse NUL.
        self.text.push_str(&delta.replace('\0', "\u{fffd}"));
        while self.text.len() > PIECE {
            let end = self.text[..self.text.floor_char_boundary(PIECE)]
                .rfind('\n')
                .map_or(PIECE, |at| at + 1);
            whole.extend(self.cut(end, now));
        }
        whole
    }

    /// Takes the text that has waited long enough.
    pub(crate) fn due(&mut self, now: Duration) -> Option<(String, String)> {
        let waited = now.saturating_sub(self.since);
        if self.text.is_empty() || waited < PARAGRAPH {
            return None;
        }
        // Within a block of code a blank line ends nothing.
        let blank = self.text.rmatch_indices("\n\n").map(|(at, _)| at + 2);
        let paragraph = blank
            .into_iter()
            .find(|end| self.text[..*end].matches("```").count().is_multiple_of(2));
        let end = match paragraph {
            Some(end) => end,
            None if waited < LINE => return None,
            None => self.text.rfind('\n').map_or(self.text.len(), |at| at + 1),
        };
        self.cut(end, now)
    }

    /// Takes the whole text.
    pub(crate) fn take(&mut self) -> Option<(String, String)> {
        self.cut(self.text.len(), self.since)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn cut(&mut self, end: usize, now: Duration) -> Option<(String, String)> {
        let end = self.text.floor_char_boundary(end);
        let rest = self.text.split_off(end);
        self.since = now;
        let text = std::mem::replace(&mut self.text, rest);
        (!text.trim().is_empty()).then(|| (self.channel.clone(), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn deltas_become_paragraphs_and_nothing_is_lost() {
        let mut joined = OutputJoiner::default();
        for (place, delta) in ["One ", "para", "graph.\n", "\nAnd ano"].iter().enumerate() {
            assert!(joined.add("stdout", delta, at(place as u64)).is_empty());
        }
        assert_eq!(joined.due(at(999)), None);
        assert_eq!(
            joined.due(at(1000)),
            Some(("stdout".to_owned(), "One paragraph.\n\n".to_owned()))
        );
        assert_eq!(joined.due(at(5999)), None, "a sentence waits for its end");
        assert!(joined.add("stdout", "ther", at(5999)).is_empty());
        assert_eq!(
            joined.due(at(6000)),
            Some(("stdout".to_owned(), "And another".to_owned()))
        );
        assert_eq!((joined.due(at(60_000)), joined.take()), (None, None));
    }

    #[test]
    fn code_is_cut_at_a_line_and_not_at_a_blank_one() {
        let mut joined = OutputJoiner::default();
        joined.add("stdout", "```\na\n\nb", at(0));
        assert_eq!(joined.due(at(4999)), None);
        assert_eq!(joined.due(at(5000)).unwrap().1, "```\na\n\n");
        assert_eq!(joined.take().unwrap().1, "b");
    }

    #[test]
    fn another_channel_ends_a_text_and_a_long_one_is_cut_where_characters_end() {
        let mut joined = OutputJoiner::default();
        joined.add("stdout", "a\0", at(0));
        assert_eq!(
            joined.add("stderr", "b", at(1)),
            [("stdout".to_owned(), "a\u{fffd}".to_owned())]
        );
        let long = "ä".repeat(PIECE);
        let whole = joined.add("stderr", &long, at(2));
        let rest = joined.take().unwrap().1;
        assert!(whole.iter().all(|(_, text)| text.len() <= PIECE) && rest.len() <= PIECE);
        let all: String = whole
            .into_iter()
            .map(|(_, text)| text)
            .chain([rest])
            .collect();
        assert_eq!(all, format!("b{long}"));
    }
}
