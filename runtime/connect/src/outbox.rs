//! Frames that wait for the hub, and frames that it has not read as far as is known.
//!
//! The hub acknowledges no frame, but it reads them in order and answers a ping in that order: a
//! pong means that all frames before its ping were read.

use std::collections::{BTreeSet, VecDeque};

use crate::frame::ToHub;

/// Waiting bytes from which no event of the host is read.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// Unread frames from which no more are written.
const MAX_UNREAD_FRAMES: usize = 1024;

/// Frames after which a ping is sent at once.
const FRAMES_PER_PING: u64 = 256;

/// The treatment of a frame that may be unread when the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossPolicy {
    /// Sent again: twice means the same as once.
    Again,
    /// Not sent again, since the hub would show it twice. Its session gets a line that something
    /// may be missing.
    Marked,
    /// Of no use on another connection.
    Forgotten,
}

/// Frames on their way to the hub.
#[derive(Debug, Default)]
pub(crate) struct FrameOutbox {
    waiting: VecDeque<QueuedFrame>,
    bytes: usize,
    unread: VecDeque<QueuedFrame>,
    /// Frames that were written to this connection.
    sent: u64,
    /// The number of frames that the hub has read.
    read: u64,
    /// The value of `sent` at the last ping.
    asked: u64,
}

#[derive(Debug)]
struct QueuedFrame {
    session: String,
    lost: LossPolicy,
    /// Empty if it was sent and is not sent again.
    text: String,
}

impl FrameOutbox {
    pub(crate) fn push(&mut self, session: &str, lost: LossPolicy, frame: &ToHub) {
        let text = frame.text();
        self.bytes += text.len();
        self.waiting.push_back(QueuedFrame {
            session: session.to_owned(),
            lost,
            text,
        });
    }

    /// Puts a frame before all that wait.
    pub(crate) fn push_front(&mut self, session: &str, lost: LossPolicy, frame: &ToHub) {
        self.push(session, lost, frame);
        self.waiting.rotate_right(1);
    }

    /// Returns true if a frame may be written.
    pub(crate) fn has_next(&self) -> bool {
        !self.waiting.is_empty() && self.unread.len() < MAX_UNREAD_FRAMES
    }

    /// The next frame to write.
    pub(crate) fn next(&mut self) -> Option<String> {
        if !self.has_next() {
            return None;
        }
        let mut frame = self.waiting.pop_front()?;
        self.bytes -= frame.text.len();
        self.sent += 1;
        let text = match frame.lost {
            LossPolicy::Again => frame.text.clone(),
            LossPolicy::Marked | LossPolicy::Forgotten => std::mem::take(&mut frame.text),
        };
        self.unread.push_back(frame);
        Some(text)
    }

    /// Returns true if no event of the host should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_WAITING_BYTES
    }

    /// Returns true if the hub should not be read either, since its frames are answered.
    pub(crate) fn overflows(&self) -> bool {
        self.bytes >= 2 * MAX_WAITING_BYTES
    }

    /// Returns true if frames are unread as far as is known.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Returns true if a ping is due at once.
    pub(crate) fn asks_soon(&self) -> bool {
        self.sent - self.asked >= FRAMES_PER_PING
    }

    /// Notes a ping. Returns its payload.
    pub(crate) fn ask(&mut self) -> u64 {
        self.asked = self.sent;
        self.sent
    }

    /// Notes the pong with this payload.
    pub(crate) fn is_read(&mut self, sent: u64) {
        while self.read < sent.min(self.sent) {
            self.unread.pop_front();
            self.read += 1;
        }
    }

    /// Notes that the connection broke. Returns the sessions of which something may be lost.
    pub(crate) fn broken(&mut self) -> BTreeSet<String> {
        (self.sent, self.read, self.asked) = (0, 0, 0);
        let mut marked = BTreeSet::new();
        for frame in std::mem::take(&mut self.unread).into_iter().rev() {
            match frame.lost {
                LossPolicy::Again => {
                    self.bytes += frame.text.len();
                    self.waiting.push_front(frame);
                }
                LossPolicy::Marked => drop(marked.insert(frame.session)),
                LossPolicy::Forgotten => {}
            }
        }
        // Answers and requests to the connection before.
        self.waiting.retain(|frame| {
            let stays = frame.lost != LossPolicy::Forgotten;
            self.bytes -= if stays { 0 } else { frame.text.len() };
            stays
        });
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(content: &str) -> ToHub {
        ToHub::Output {
            session_id: "s".to_owned(),
            channel: "stdout".to_owned(),
            content: content.to_owned(),
        }
    }

    fn started(id: &str) -> ToHub {
        ToHub::Started {
            session_id: "s".to_owned(),
            in_response_to: id.to_owned(),
        }
    }

    #[test]
    fn what_the_hub_has_not_read_is_sent_again_or_marked() {
        let mut outbox = FrameOutbox::default();
        outbox.push("a", LossPolicy::Marked, &output("1"));
        outbox.push("b", LossPolicy::Marked, &output("2"));
        outbox.push("c", LossPolicy::Again, &started("m"));
        outbox.push("c", LossPolicy::Forgotten, &ToHub::Pong {});
        outbox.push("d", LossPolicy::Marked, &output("waits"));
        outbox.push("d", LossPolicy::Forgotten, &ToHub::Pong {});
        for _ in 0..4 {
            outbox.next().unwrap();
        }
        outbox.is_read(1);
        assert_eq!((outbox.has_unread(), outbox.ask()), (true, 4));
        let marked = outbox.broken();
        assert_eq!(
            marked.into_iter().collect::<Vec<_>>(),
            ["b"],
            "a's was read, and d's was not written"
        );
        assert!(!outbox.has_unread());
        assert_eq!(outbox.next(), Some(started("m").text()));
        assert_eq!(outbox.next(), Some(output("waits").text()));
        assert_eq!(outbox.next(), None);
        assert_eq!(outbox.bytes, 0);
    }

    #[test]
    fn a_pong_says_no_more_than_its_ping() {
        let mut outbox = FrameOutbox::default();
        outbox.push("a", LossPolicy::Marked, &output("1"));
        outbox.next().unwrap();
        // One that no ping has carried.
        outbox.is_read(u64::MAX);
        assert!(!outbox.has_unread());
        outbox.push("a", LossPolicy::Marked, &output("2"));
        outbox.next().unwrap();
        outbox.is_read(1);
        assert_eq!(outbox.broken().len(), 1, "an old pong read nothing new");
    }

    #[test]
    fn a_hub_that_reads_nothing_holds_up_what_is_written_and_then_what_is_read() {
        let mut outbox = FrameOutbox::default();
        for _ in 0..=MAX_UNREAD_FRAMES {
            outbox.push("a", LossPolicy::Marked, &output("1"));
        }
        let written = std::iter::from_fn(|| outbox.next()).count();
        assert_eq!((written, outbox.has_next()), (MAX_UNREAD_FRAMES, false));
        assert!(
            outbox.asks_soon(),
            "a hub that has read them all is not waited for"
        );
        assert_eq!(
            (outbox.ask(), outbox.asks_soon()),
            (MAX_UNREAD_FRAMES as u64, false)
        );
        outbox.is_read(1);
        assert!(outbox.has_next());
        let large = output(&"x".repeat(MAX_WAITING_BYTES));
        outbox.push("a", LossPolicy::Marked, &large);
        assert!(outbox.is_full() && !outbox.overflows());
        outbox.push("a", LossPolicy::Marked, &large);
        assert!(outbox.overflows());
    }
}
