//! One who listens to a session: gets each entry once, in order, and what answers it alone.

use std::{future::Future, sync::Arc};

use tokio::sync::mpsc::{self, error::TryRecvError};
use tracing::Span;
use trunkline_journal::{Batch, Journal, ReadError, Reader, SessionKey};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, AttachRefusal, Category, ErrorEvent, HostMessage, Lag, OnSlow,
    RelayMessage, Role, SessionId,
};

use crate::{
    ends,
    live::Command,
    tail::{ListenerNo, StreamEnd, Tail, Taken},
};

/// How much of the journal is read at once, in bytes.
const READ: usize = 256 * 1024;

/// Text for a hub that reads the replies of a session too slowly.
const OVERRUN: &str = "too many replies of this session wait for this hub, so it gets no more of the session; attach to the session again";

/// An item of the stream of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamItem {
    /// Entries were appended, or `lag` in their place: whole lines.
    Entries,
    /// One line was appended that replies to this listener only.
    Reply,
    /// The stream has ended: nothing more comes.
    Ended(StreamEnd),
}

/// Listens to a session, and speaks in it where its role allows. Dropping it leaves the session, which goes on.
#[derive(Debug)]
pub struct Listener {
    pub(crate) id: SessionId,
    pub(crate) no: ListenerNo,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) on_slow: OnSlow,
    pub(crate) key: SessionKey,
    pub(crate) journal: Journal,
    pub(crate) tail: Arc<Tail>,
    /// The last entry that was taken.
    pub(crate) after: u64,
    /// What comes from the journal, while this listener is behind.
    pub(crate) reader: Option<Reader>,
    pub(crate) answers: mpsc::Receiver<Vec<u8>>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl Listener {
    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.id
    }

    /// What this listener may do.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// How many listen to the session.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.tail.listeners()
    }

    /// The way to speak in the session.
    #[must_use]
    pub fn speaker(&self) -> Speaker {
        Speaker {
            no: self.no,
            commands: self.commands.clone(),
        }
    }

    /// Returns the line that tells a hub why the stream ended, and what to do ([journal.5]).
    #[must_use]
    pub fn last_line(&self, end: StreamEnd) -> Vec<u8> {
        let unavailable = |why: &str| self.refusal_line(why.to_owned());
        match end {
            StreamEnd::Moved => RelayMessage::new(self.id.clone(), ends::moved()).to_line(),
            StreamEnd::HostEnding => {
                unavailable("the host ends; attach to the session again when it runs again")
            }
            StreamEnd::Interrupted => {
                unavailable("the session was interrupted; attach to it again")
            }
            StreamEnd::Overrun => {
                let error = ErrorEvent {
                    category: Some(Category::Busy),
                    message: OVERRUN.to_owned(),
                    fatal: Some(false),
                    ..ErrorEvent::default()
                };
                AdapterMessage::new(self.id.clone(), AdapterBody::from(error)).to_line()
            }
        }
    }

    /// Returns the line that tells a hub that its next entries cannot be read from the journal.
    #[must_use]
    pub fn unreadable_line(&self, error: &ReadError) -> Vec<u8> {
        self.refusal_line(format!(
            "the journal cannot be read: {error}; attach again behind the last entry, or run `trunkline sessions check`"
        ))
    }

    fn refusal_line(&self, why: String) -> Vec<u8> {
        let refused = ends::refused(AttachRefusal::Unavailable, why);
        RelayMessage::new(self.id.clone(), refused).to_line()
    }

    /// The next answer to this listener alone, where there is one.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        self.answers.try_recv().ok()
    }

    /// Waits for what comes next, and appends whole lines: entries, `lag` where some are skipped or lost, and answers to
    /// this listener alone.
    ///
    /// # Errors
    /// Why the journal cannot be read. A later call tries again.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next(&mut self, lines: &mut Vec<u8>) -> Result<StreamItem, ReadError> {
        self.next_with(std::future::ready(()), lines).await
    }

    /// As [`Listener::next`], where entries wait for room. An answer does not: one who speaks must hear it.
    ///
    /// # Errors
    /// As [`Listener::next`].
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next_with(
        &mut self,
        room: impl Future<Output = ()>,
        lines: &mut Vec<u8>,
    ) -> Result<StreamItem, ReadError> {
        tokio::select! {
            biased;
            Some(answer) = self.answers.recv() => {
                lines.extend_from_slice(&answer);
                return Ok(StreamItem::Reply);
            }
            () = room => {}
        }
        loop {
            match self.answers.try_recv() {
                Ok(answer) => {
                    lines.extend_from_slice(&answer);
                    return Ok(StreamItem::Reply);
                }
                // A session that ends says so first.
                Err(TryRecvError::Disconnected) if !self.tail.is_over() => {
                    return Ok(StreamItem::Ended(StreamEnd::Overrun));
                }
                Err(_) => {}
            }
            let tail = self.tail.clone();
            let changed = tail.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.tail.take(self.no, self.after, lines) {
                Taken::Lines(last) => {
                    self.after = last;
                    self.reader = None;
                    return Ok(StreamItem::Entries);
                }
                Taken::Behind(to)
                    if self.on_slow == OnSlow::Skip && self.reader.is_none() && self.after > 0 =>
                {
                    self.lag(self.after + 1, to, lines);
                    return Ok(StreamItem::Entries);
                }
                Taken::Behind(_) => {
                    self.read(lines).await?;
                    return Ok(StreamItem::Entries);
                }
                Taken::Over(end) => return Ok(StreamItem::Ended(end)),
                Taken::Nothing => {}
            }
            tokio::select! {
                biased;
                answer = self.answers.recv() => if let Some(answer) = answer {
                    lines.extend_from_slice(&answer);
                    return Ok(StreamItem::Reply);
                },
                () = changed => {}
            }
        }
    }

    /// Reads the next entries from the journal.
    async fn read(&mut self, lines: &mut Vec<u8>) -> Result<(), ReadError> {
        let reader = self
            .reader
            .take()
            .filter(|reader| reader.position() == self.after + 1);
        let mut reader = reader.unwrap_or_else(|| self.journal.read(self.key, self.after + 1));
        let read = move || {
            let mut lines = Vec::new();
            let read = reader.next(&mut lines, READ);
            (reader, lines, read)
        };
        let Ok((reader, read_lines, read)) = tokio::task::spawn_blocking(read).await else {
            // The runtime ends.
            return std::future::pending().await;
        };
        match read? {
            Batch::Lines(numbers) => {
                lines.extend_from_slice(&read_lines);
                self.after = *numbers.end();
            }
            Batch::Missing(numbers) => self.lag(*numbers.start(), *numbers.end(), lines),
            // It says that there is more, and the journal has none: passed over.
            Batch::End => {
                let stored = self.tail.stored();
                self.lag(self.after + 1, stored, lines);
            }
        }
        // One that waits for what comes next holds no file open: there may be many of them.
        self.reader = (self.after < self.tail.stored()).then_some(reader);
        self.tail.has_taken(self.no, self.after);
        Ok(())
    }

    fn lag(&mut self, from: u64, to: u64, lines: &mut Vec<u8>) {
        RelayMessage::new(self.id.clone(), Lag { from, to }).write(lines);
        self.after = to;
        self.tail.has_taken(self.no, to);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tail.leave(self.no);
        // Where its inbox is full the session finds out when it answers.
        let _ = self.commands.try_send(Command::Left(self.no));
    }
}

/// Speaks in a session.
#[derive(Debug, Clone)]
pub struct Speaker {
    no: ListenerNo,
    commands: mpsc::Sender<Command>,
}

impl Speaker {
    /// Says a message of a hub to the session. Waits while many wait already. What it may not say is not taken. Whether
    /// the session was there.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have been said.
    pub async fn say(&self, message: HostMessage) -> bool {
        self.commands
            .send(Command::Said(self.no, Box::new(message), Span::current()))
            .await
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use trunkline_journal::Options;

    use super::*;

    #[tokio::test]
    async fn answers_wait_for_no_room_and_one_that_is_let_go_learns_it() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let (tail, id) = (Arc::new(Tail::new(0)), SessionId::new("s").unwrap());
        let (sender, answers) = mpsc::channel(2);
        let (commands, _inbox) = mpsc::channel(1);
        let (name, role, on_slow) = (String::new(), Role::Control, OnSlow::Wait);
        let mut listener = Listener {
            id,
            no: 1,
            name,
            role,
            on_slow,
            key,
            journal,
            tail,
            after: 0,
            reader: None,
            answers,
            commands,
        };
        let tail = listener.tail.clone();
        tail.join(1, 0);
        tail.publish(1, 1, "{}\n".into());

        let mut lines = Vec::new();
        sender.try_send(b"one\n".to_vec()).unwrap();
        sender.try_send(b"two\n".to_vec()).unwrap();
        assert_eq!(
            listener.next_with(pending(), &mut lines).await.unwrap(),
            StreamItem::Reply
        );
        assert_eq!(
            (&lines[..], listener.answer()),
            (&b"one\n"[..], Some(b"two\n".to_vec()))
        );
        assert!(
            listener
                .next_with(pending(), &mut lines)
                .now_or_never()
                .is_none(),
            "an entry waits for room"
        );
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Entries
        );
        drop(sender);
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Ended(StreamEnd::Overrun)
        );
        // Where the session ends, too, all that it said is heard first.
        tail.publish(2, 2, "{}\n".into());
        tail.finish();
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Entries
        );
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Ended(StreamEnd::Interrupted)
        );
    }
}
