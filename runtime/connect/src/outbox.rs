//! What waits for the hub, and what it has not shown to have read.
//!
//! The hub acknowledges no frame. But it reads one after the other, and answers a ping when it comes to it: the pong says
//! that it has read all that was written before the ping.

use std::collections::{BTreeSet, VecDeque};

use crate::frame::ToHub;

/// Bytes that wait, beyond which nothing more is read from the host.
const WAITING_BYTES: usize = 4 << 20;

/// Frames that the hub has not shown to have read, beyond which no more are written.
const UNREAD_FRAMES: usize = 1024;

/// Frames after which the hub is asked whether it has read them, without waiting for the next ping.
const ASKED_AFTER: u64 = 256;

/// What becomes of a frame when the connection breaks before the hub has shown that it read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It is sent again: twice means the same as once.
    Again,
    /// It is not sent again, since the hub would show it twice. Its session learns that something may be missing.
    Marked,
    /// It is of no use on another connection.
    Forgotten,
}

/// Frames on their way to the hub.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Frame>,
    bytes: usize,
    unread: VecDeque<Frame>,
    /// How many frames this connection has taken.
    sent: u64,
    /// How many of them the hub has read.
    read: u64,
    /// How many had been taken when it was last asked.
    asked: u64,
}

#[derive(Debug)]
struct Frame {
    session: String,
    lost: Lost,
    /// Empty where it was sent and is not sent again.
    text: String,
}

impl Outbox {
    pub(crate) fn push(&mut self, session: &str, lost: Lost, frame: &ToHub) {
        let text = frame.text();
        self.bytes += text.len();
        self.waiting.push_back(Frame {
            session: session.to_owned(),
            lost,
            text,
        });
    }

    /// Puts a frame before all that wait.
    pub(crate) fn push_front(&mut self, session: &str, lost: Lost, frame: &ToHub) {
        let text = frame.text();
        self.bytes += text.len();
        self.waiting.push_front(Frame {
            session: session.to_owned(),
            lost,
            text,
        });
    }

    /// Whether there is a frame that may be written.
    pub(crate) fn has_next(&self) -> bool {
        !self.waiting.is_empty() && self.unread.len() < UNREAD_FRAMES
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
            Lost::Again => frame.text.clone(),
            Lost::Marked | Lost::Forgotten => std::mem::take(&mut frame.text),
        };
        self.unread.push_back(frame);
        Some(text)
    }

    /// Whether so much waits that nothing more should come.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= WAITING_BYTES
    }

    /// Whether twice as much waits: then nothing is read from the hub, whose frames are answered, either.
    pub(crate) fn overflows(&self) -> bool {
        self.bytes >= 2 * WAITING_BYTES
    }

    /// Whether there are frames that the hub has not shown to have read.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether so many frames were written since the last ping that another one is due.
    pub(crate) fn asks_soon(&self) -> bool {
        self.sent - self.asked >= ASKED_AFTER
    }

    /// A ping is written now. Gives what it is to carry.
    pub(crate) fn ask(&mut self) -> u64 {
        self.asked = self.sent;
        self.sent
    }

    /// The hub has answered a ping that carried this.
    pub(crate) fn is_read(&mut self, sent: u64) {
        while self.read < sent.min(self.sent) {
            self.unread.pop_front();
            self.read += 1;
        }
    }

    /// The connection has broken. Gives the sessions of which something may be lost.
    pub(crate) fn broken(&mut self) -> BTreeSet<String> {
        (self.sent, self.read, self.asked) = (0, 0, 0);
        let mut marked = BTreeSet::new();
        for frame in std::mem::take(&mut self.unread).into_iter().rev() {
            match frame.lost {
                Lost::Again => {
                    self.bytes += frame.text.len();
                    self.waiting.push_front(frame);
                }
                Lost::Marked => drop(marked.insert(frame.session)),
                Lost::Forgotten => {}
            }
        }
        // What answers the hub of before, or asks it.
        self.waiting.retain(|frame| {
            let stays = frame.lost != Lost::Forgotten;
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
        let mut outbox = Outbox::default();
        outbox.push("a", Lost::Marked, &output("1"));
        outbox.push("b", Lost::Marked, &output("2"));
        outbox.push("c", Lost::Again, &started("m"));
        outbox.push("c", Lost::Forgotten, &ToHub::Pong {});
        outbox.push("d", Lost::Marked, &output("waits"));
        outbox.push("d", Lost::Forgotten, &ToHub::Pong {});
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
        let mut outbox = Outbox::default();
        outbox.push("a", Lost::Marked, &output("1"));
        outbox.next().unwrap();
        // One that no ping has carried.
        outbox.is_read(u64::MAX);
        assert!(!outbox.has_unread());
        outbox.push("a", Lost::Marked, &output("2"));
        outbox.next().unwrap();
        outbox.is_read(1);
        assert_eq!(outbox.broken().len(), 1, "an old pong read nothing new");
    }

    #[test]
    fn a_hub_that_reads_nothing_holds_up_what_is_written_and_then_what_is_read() {
        let mut outbox = Outbox::default();
        for _ in 0..=UNREAD_FRAMES {
            outbox.push("a", Lost::Marked, &output("1"));
        }
        let written = std::iter::from_fn(|| outbox.next()).count();
        assert_eq!((written, outbox.has_next()), (UNREAD_FRAMES, false));
        assert!(
            outbox.asks_soon(),
            "a hub that has read them all is not waited for"
        );
        assert_eq!(
            (outbox.ask(), outbox.asks_soon()),
            (UNREAD_FRAMES as u64, false)
        );
        outbox.is_read(1);
        assert!(outbox.has_next());
        let large = output(&"x".repeat(WAITING_BYTES));
        outbox.push("a", Lost::Marked, &large);
        assert!(outbox.is_full() && !outbox.overflows());
        outbox.push("a", Lost::Marked, &large);
        assert!(outbox.overflows());
    }
}
