//! The text of an answer, once: Claude sends it in pieces as the model writes it, and whole when a
//! block is done; and it begins again when the model's stream breaks off.

use std::collections::VecDeque;

/// Kind of text: the answer, or the model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRole {
    Text,
    Thought,
}

/// A speaker's message: the model's own, or a sub-agent's.
#[derive(Debug, Default)]
pub(super) struct SpeakerMessage {
    /// The message that is being streamed.
    id: Option<String>,
    text: Streamed,
    thought: Streamed,
    /// Number of blocks so far; the first piece of a block opens it.
    blocks: usize,
}

/// Streamed text of one kind.
#[derive(Debug, Default)]
struct Streamed {
    /// Blocks of this message whose whole has not come yet.
    blocks: VecDeque<String>,
    /// Text of the answer from an abandoned attempt.
    abandoned: String,
    /// Length of its repetition by the present attempt; `None` if that differs, or no attempt
    /// failed.
    repeated: Option<usize>,
}

impl SpeakerMessage {
    /// A message begins to be streamed.
    pub(super) fn begin(&mut self, id: Option<&str>) {
        self.id = id.map(str::to_owned);
        self.text.blocks.clear();
        self.thought.blocks.clear();
        self.blocks = 0;
    }

    /// A block of it begins.
    pub(super) fn block(&mut self, kind: Option<TextRole>) {
        self.blocks += 1;
        if let Some(kind) = kind {
            self.streamed_mut(kind).blocks.push_back(String::new());
        }
    }

    /// A piece of a block. Returns what is new of it.
    pub(super) fn piece(&mut self, kind: TextRole, piece: &str) -> String {
        let streamed = self.streamed_mut(kind);
        match streamed.blocks.back_mut() {
            Some(block) => block.push_str(piece),
            None => streamed.blocks.push_back(piece.to_owned()),
        }
        streamed.fresh(piece)
    }

    /// Takes a whole block of the message of this id. Returns the part that was not streamed.
    pub(super) fn whole(&mut self, id: Option<&str>, kind: TextRole, whole: &str) -> String {
        let streams = self.id.is_some() && self.id.as_deref() == id;
        let streamed = self.streamed_mut(kind);
        let pieces = if streams {
            streamed.blocks.pop_front()
        } else {
            None
        };
        match pieces {
            Some(pieces) => {
                let rest = whole
                    .strip_prefix(pieces.as_str())
                    .unwrap_or_default()
                    .to_owned();
                streamed.fresh(&rest)
            }
            None => streamed.fresh(whole),
        }
    }

    /// The stream has broken off: blocks from this number on do not count, and another attempt may
    /// repeat them.
    pub(super) fn abandon(&mut self, from: usize) {
        if from >= self.blocks {
            return;
        }
        for streamed in [&mut self.text, &mut self.thought] {
            let said: String = streamed.blocks.drain(..).collect();
            // An attempt that was still repeating has added nothing.
            if streamed.repeated.is_none() || said.len() > streamed.abandoned.len() {
                streamed.abandoned = said;
            }
            streamed.repeated = (!streamed.abandoned.is_empty()).then_some(0);
        }
        self.id = None;
    }

    /// Ends the comparison: a tool was called, or a message is complete.
    pub(super) fn settle(&mut self) {
        for streamed in [&mut self.text, &mut self.thought] {
            streamed.repeated = None;
            streamed.abandoned = String::new();
        }
    }

    /// The turn is over.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    fn streamed_mut(&mut self, kind: TextRole) -> &mut Streamed {
        match kind {
            TextRole::Text => &mut self.text,
            TextRole::Thought => &mut self.thought,
        }
    }
}

impl Streamed {
    /// Returns the part of a text that an abandoned attempt did not output.
    fn fresh(&mut self, text: &str) -> String {
        let Some(at) = self.repeated else {
            return text.to_owned();
        };
        let expected = &self.abandoned[at..];
        if expected.starts_with(text) {
            self.repeated = Some(at + text.len());
            return String::new();
        }
        let fresh = match text.strip_prefix(expected) {
            Some(rest) => rest.to_owned(),
            // Another answer than the one that was begun: it is reported whole, apart from that.
            None => format!("\n\n{}{text}", &self.abandoned[..at]),
        };
        self.repeated = None;
        self.abandoned = String::new();
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: &mut SpeakerMessage, id: &str, pieces: &[&str]) -> String {
        answer.begin(Some(id));
        answer.block(Some(TextRole::Text));
        pieces
            .iter()
            .map(|piece| answer.piece(TextRole::Text, piece))
            .collect()
    }

    #[test]
    fn pieces_and_whole_blocks_are_told_once() {
        let mut answer = SpeakerMessage::default();
        assert_eq!(said(&mut answer, "m", &["a", "b"]), "ab");
        assert_eq!(answer.whole(Some("m"), TextRole::Text, "ab"), "");
        assert_eq!(
            answer.whole(Some("other"), TextRole::Text, "ab"),
            "ab",
            "another message"
        );
        assert_eq!(
            answer.whole(Some("m"), TextRole::Text, "second block"),
            "second block"
        );
        assert_eq!(said(&mut answer, "n", &["begin"]), "begin");
        assert_eq!(
            answer.whole(Some("n"), TextRole::Text, "beginning"),
            "ning",
            "what no piece had"
        );
        assert_eq!(answer.whole(None, TextRole::Text, "no id"), "no id");
        let mut unstreamed = SpeakerMessage::default();
        assert_eq!(
            unstreamed.whole(Some("m"), TextRole::Text, "whole"),
            "whole"
        );
    }

    #[test]
    fn text_and_thoughts_are_apart() {
        let mut answer = SpeakerMessage::default();
        answer.begin(Some("m"));
        answer.block(Some(TextRole::Thought));
        assert_eq!(answer.piece(TextRole::Thought, "hm"), "hm");
        answer.block(Some(TextRole::Text));
        assert_eq!(answer.piece(TextRole::Text, "so"), "so");
        assert_eq!(answer.whole(Some("m"), TextRole::Thought, "hm"), "");
        assert_eq!(answer.whole(Some("m"), TextRole::Text, "so"), "");
    }

    #[test]
    fn an_answer_that_begins_again_is_told_once() {
        let mut answer = SpeakerMessage::default();
        assert_eq!(
            said(&mut answer, "m1", &["partial ", "text "]),
            "partial text "
        );
        answer.abandon(0);
        assert_eq!(said(&mut answer, "m2", &["part"]), "");
        answer.abandon(0);
        assert_eq!(
            said(&mut answer, "m3", &["partial text", " and more", "!"]),
            "and more!"
        );
        answer.abandon(0);
        assert_eq!(
            said(&mut answer, "m4", &["partial text and", " other"]),
            "\n\npartial text and other"
        );
        answer.abandon(0);
        assert_eq!(
            answer.whole(Some("m5"), TextRole::Text, "partial text and other"),
            ""
        );
    }

    #[test]
    fn blocks_that_were_done_before_the_break_count() {
        let mut answer = SpeakerMessage::default();
        assert_eq!(said(&mut answer, "m", &["kept"]), "kept");
        answer.abandon(1);
        assert_eq!(answer.whole(Some("m"), TextRole::Text, "kept"), "");
        answer.end();
        assert_eq!(said(&mut answer, "n", &["kept"]), "kept");
    }
}
