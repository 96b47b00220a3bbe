//! Listeners of a session: each gets every entry once, in order, and its own replies.

use std::{collections::VecDeque, future::Future, sync::Arc};

use bytes::Bytes;
use tokio::sync::{
    mpsc::{
        self,
        error::{TryRecvError, TrySendError},
    },
    oneshot,
};
use tracing::Span;
use trunkline_journal::{Journal, ReadBatch, ReadError, Reader, SessionKey};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, AttachRefusal, Category, ErrorEvent, HostBody, HostMessage, Lag,
    OnSlow, RelayMessage, RequestId, Role, SessionEdit, SessionId,
};

use crate::{
    actor::{AnswerNote, CommandSender, EditSender, OpenRequest, SessionCommand, Submission},
    ends,
    entry::{Entry, Reply, split_lines},
    tail::{EntryChunk, EntryTail, ListenerNo, ReadOutcome, StreamEnd},
};

/// Number of bytes of the journal to read at once.
const READ_BYTES: usize = 256 * 1024;

/// Error text for a hub that reads the replies of a session too slowly.
const OVERRUN: &str = "too many replies of this session wait for this hub, so it gets no more of the session; attach to the session again";

/// An item of the line stream of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamItem {
    /// Entries were appended, or `lag` in their place: whole lines.
    Entries,
    /// A line was appended that replies to this listener only.
    Reply,
    /// The stream has ended: nothing more comes.
    Ended(StreamEnd),
}

/// A listener of a session, which can also send messages if its role allows. Dropping it leaves the
/// session as it is.
#[derive(Debug)]
pub struct Listener {
    pub(crate) id: SessionId,
    pub(crate) no: ListenerNo,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) on_slow: OnSlow,
    pub(crate) key: SessionKey,
    pub(crate) journal: Journal,
    pub(crate) tail: Arc<EntryTail>,
    /// The last entry that the listener has read.
    pub(crate) after: u64,
    /// Reader of the journal while this listener is behind.
    pub(crate) reader: Option<Reader>,
    pub(crate) replies: mpsc::Receiver<Box<Reply>>,
    /// A reply that waits for the entry before it. Further replies wait in their channel.
    pub(crate) held: Option<Reply>,
    pub(crate) commands: CommandSender,
}

/// The next item, before it is encoded or split.
enum Next {
    Chunks(Vec<EntryChunk>),
    /// Lines of the journal. The first one has this number.
    Lines(u64, Vec<u8>),
    Lag(Lag),
    Reply(Reply),
    Ended(StreamEnd),
}

impl Listener {
    /// Returns the id of the session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.id
    }

    /// Returns the role of this listener.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the number of listeners of the session.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.tail.listeners()
    }

    /// Returns a sender of messages to the session, in the name of this listener.
    #[must_use]
    pub fn sender(&self) -> SessionSender {
        SessionSender {
            no: self.no,
            commands: self.commands.clone(),
        }
    }

    /// Leaves the session. As soon as nothing is open in it and no listener is left, its session at
    /// the agent is closed; the next input opens it again ([journal.6]).
    pub fn release(self) {
        // If its inbox is full, the session is in use.
        let _ = self.commands.try_send(Box::new(SessionCommand::Release));
    }

    /// Turns this into a listener that gets entries with their contents.
    #[must_use]
    pub fn into_entries(self) -> EntryListener {
        self.tail.want_contents();
        EntryListener {
            listener: self,
            ready: VecDeque::new(),
        }
    }

    /// Returns the line that informs a hub why the stream ended, and what to do ([journal.5]).
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

    /// Returns the line that informs a hub that its next entries cannot be read from the journal.
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

    /// Returns the line of the next reply to this listener, if there is one.
    pub fn try_reply(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.take_reply().ok()?.write(&self.id, &mut line);
        Some(line)
    }

    /// Takes the next reply whose entry the listener has.
    fn take_reply(&mut self) -> Result<Reply, TryRecvError> {
        let next = match self.held.take() {
            Some(held) => held,
            None => *self.replies.try_recv()?,
        };
        self.hold_back(next).ok_or(TryRecvError::Empty)
    }

    /// Holds a reply back if its entry comes first.
    fn hold_back(&mut self, reply: Reply) -> Option<Reply> {
        if reply.behind <= self.after {
            return Some(reply);
        }
        self.held = Some(reply);
        None
    }

    /// Waits for the next item and appends whole lines: entries, `lag` for entries that are skipped
    /// or lost, and replies to this listener.
    ///
    /// # Errors
    /// [`ReadError`] if the journal cannot be read. A later call tries again.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next(&mut self, lines: &mut Vec<u8>) -> Result<StreamItem, ReadError> {
        self.next_with(std::future::ready(()), lines).await
    }

    /// Works like [`Listener::next`], but entries wait for `room`. Replies do not wait.
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
        let after = self.after;
        match self.receive(room).await? {
            Next::Chunks(chunks) => {
                for chunk in &chunks {
                    lines.extend_from_slice(chunk.lines_from(after + 1));
                }
            }
            Next::Lines(_, read) => lines.extend_from_slice(&read),
            Next::Lag(lag) => RelayMessage::new(self.id.clone(), lag).write(lines),
            Next::Reply(reply) => {
                reply.write(&self.id, lines);
                return Ok(StreamItem::Reply);
            }
            Next::Ended(end) => return Ok(StreamItem::Ended(end)),
        }
        Ok(StreamItem::Entries)
    }

    /// Waits for the next item.
    async fn receive(&mut self, room: impl Future<Output = ()>) -> Result<Next, ReadError> {
        let mut room = std::pin::pin!(room);
        if let Some(reply) = self.held.take().and_then(|held| self.hold_back(held)) {
            return Ok(Next::Reply(reply));
        }
        loop {
            tokio::select! {
                biased;
                Some(reply) = self.replies.recv(), if self.held.is_none() => {
                    if let Some(reply) = self.hold_back(*reply) {
                        return Ok(Next::Reply(reply));
                    }
                }
                () = &mut room => break,
            }
        }
        loop {
            match self.take_reply() {
                Ok(reply) => return Ok(Next::Reply(reply)),
                // A session that ends sends its entries first.
                Err(TryRecvError::Disconnected) if !self.tail.is_over() => {
                    return Ok(Next::Ended(StreamEnd::Overrun));
                }
                Err(_) => {}
            }
            let tail = self.tail.clone();
            let changed = tail.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.tail.take(self.no, self.after) {
                ReadOutcome::Chunks(chunks, last) => {
                    self.after = last;
                    self.reader = None;
                    return Ok(Next::Chunks(chunks));
                }
                ReadOutcome::Behind(to)
                    if self.on_slow == OnSlow::Skip && self.reader.is_none() && self.after > 0 =>
                {
                    return Ok(self.lag(self.after + 1, to));
                }
                ReadOutcome::Behind(_) => return self.read().await,
                ReadOutcome::Over(end) => {
                    // The entry of a held reply never comes.
                    let held = self.held.take().map(Next::Reply);
                    return Ok(held.unwrap_or(Next::Ended(end)));
                }
                ReadOutcome::Nothing => {}
            }
            tokio::select! {
                biased;
                reply = self.replies.recv(), if self.held.is_none() => if let Some(reply) = reply
                    && let Some(reply) = self.hold_back(*reply)
                {
                    return Ok(Next::Reply(reply));
                },
                () = changed => {}
            }
        }
    }

    /// Reads the next entries from the journal.
    async fn read(&mut self) -> Result<Next, ReadError> {
        let first = self.after + 1;
        let reader = self
            .reader
            .take()
            .filter(|reader| reader.position() == first);
        let mut reader = reader.unwrap_or_else(|| self.journal.read(self.key, first));
        let read = move || {
            let mut lines = Vec::new();
            let read = reader.next(&mut lines, READ_BYTES);
            (reader, lines, read)
        };
        let Ok((reader, lines, read)) = tokio::task::spawn_blocking(read).await else {
            // The runtime is shutting down.
            return std::future::pending().await;
        };
        let next = match read? {
            ReadBatch::Lines(numbers) => {
                self.after = *numbers.end();
                self.tail.has_taken(self.no, self.after);
                Next::Lines(*numbers.start(), lines)
            }
            ReadBatch::Missing(numbers) => self.lag(*numbers.start(), *numbers.end()),
            // The session has more entries, but the journal has lost them.
            ReadBatch::End => self.lag(first, self.tail.stored()),
        };
        // A listener that waits keeps no file open, because there may be many of them.
        self.reader = (self.after < self.tail.stored()).then_some(reader);
        Ok(next)
    }

    fn lag(&mut self, from: u64, to: u64) -> Next {
        self.after = to;
        self.tail.has_taken(self.no, to);
        Next::Lag(Lag { from, to })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tail.leave(self.no);
        // If its inbox is full, the session notices when it replies.
        let _ = self
            .commands
            .try_send(Box::new(SessionCommand::Left(self.no)));
    }
}

/// An item of the entry stream of an [`EntryListener`].
#[derive(Debug)]
pub enum EntryItem {
    /// The next entry.
    Entry(Entry),
    /// Entries that this listener does not get.
    Lag(Lag),
    /// A reply to this listener.
    Reply(Reply),
    /// The stream has ended: nothing more comes.
    Ended(StreamEnd),
}

/// A listener of a session that gets entries with their contents. Entries that are written while it
/// listens are not encoded and parsed again.
#[derive(Debug)]
pub struct EntryListener {
    listener: Listener,
    ready: VecDeque<Entry>,
}

impl EntryListener {
    /// Returns the listener, for its lines and its sender.
    #[must_use]
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Returns `true` if the next call of [`EntryListener::next`] returns an entry at once.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Waits for the next item.
    ///
    /// # Errors
    /// [`ReadError`] if the journal cannot be read. A later call tries again.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn next(&mut self) -> Result<EntryItem, ReadError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(EntryItem::Entry(entry));
            }
            let after = self.listener.after;
            match self.listener.receive(std::future::ready(())).await? {
                Next::Chunks(chunks) => {
                    for chunk in &chunks {
                        self.ready.extend(chunk.entries_from(after + 1));
                    }
                }
                Next::Lines(first, lines) => {
                    self.ready.extend(split_lines(first, &Bytes::from(lines)));
                }
                Next::Lag(lag) => return Ok(EntryItem::Lag(lag)),
                Next::Reply(reply) => return Ok(EntryItem::Reply(reply)),
                Next::Ended(end) => return Ok(EntryItem::Ended(end)),
            }
        }
    }
}

impl Drop for EntryListener {
    fn drop(&mut self) {
        self.listener.tail.want_no_contents();
    }
}

/// Sender of messages to a session in the name of a listener.
#[derive(Debug, Clone)]
pub struct SessionSender {
    no: ListenerNo,
    commands: CommandSender,
}

impl SessionSender {
    pub(crate) fn new(no: ListenerNo, commands: CommandSender) -> Self {
        Self { no, commands }
    }

    /// Sends a message of a hub to the session, and waits while its queue is full. A message that
    /// the listener's role does not allow is ignored. Returns `false` if the session has left the
    /// memory.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not have been sent.
    pub fn send(&self, message: HostMessage) -> impl Future<Output = bool> + Send {
        self.command(SessionCommand::Message(self.no, message, Span::current()))
    }

    /// Submits an input with its files, as [`SessionSender::send`] sends a message. The outcome is
    /// a reply to the listener: `input.result`, or the end of a refused input.
    ///
    /// # Cancel safety
    /// If the future is dropped, the input may or may not have been submitted.
    pub fn submit(&self, submission: Submission) -> impl Future<Output = bool> + Send {
        self.command(SessionCommand::Submit(self.no, submission, Span::current()))
    }

    /// Answers a permission or a question with a note, as [`SessionSender::send`] sends a message.
    /// A lasting rule that does not allow the request is replied to with an `error` of category
    /// `protocol`, and the request stays open. Any other message is ignored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the answer may or may not have been sent.
    pub fn answer(&self, body: HostBody, note: AnswerNote) -> impl Future<Output = bool> + Send {
        self.command(SessionCommand::Answer(self.no, body, note))
    }

    /// Returns the open requests; none if the session has left the memory.
    ///
    /// # Cancel safety
    /// The future only reads, so it may be dropped.
    pub async fn open_requests(&self) -> Vec<(RequestId, OpenRequest)> {
        let (reply, requests) = oneshot::channel();
        self.command(SessionCommand::OpenRequests(reply)).await;
        requests.await.unwrap_or_default()
    }

    /// Sends an edit of the title or the archive, as [`SessionSender::send`] sends a message. The
    /// result is a reply to the listener, also if its role does not allow the edit.
    ///
    /// # Cancel safety
    /// If the future is dropped, the edit may or may not have been sent.
    pub fn edit(&self, edit: SessionEdit) -> impl Future<Output = bool> + Send {
        self.command(SessionCommand::Edit(EditSender::Listener(self.no), edit))
    }

    fn command(&self, command: SessionCommand) -> impl Future<Output = bool> + Send {
        // Boxed before the future is made, which is then small.
        let command = Box::new(command);
        async move {
            match self.commands.try_send(command) {
                Ok(()) => true,
                Err(TrySendError::Full(command)) => self.commands.send(command).await.is_ok(),
                Err(TrySendError::Closed(_)) => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use tempfile::TempDir;
    use trunkline_journal::Options;
    use trunkline_protocol::Output;

    use super::*;
    use crate::{actor::CommandReceiver, entry::EntryContent};

    struct World {
        _folder: TempDir,
        _inbox: CommandReceiver,
        replies: mpsc::Sender<Box<Reply>>,
        tail: Arc<EntryTail>,
    }

    fn listen() -> (World, Listener) {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let (sender, replies) = mpsc::channel(2);
        let (commands, inbox) = mpsc::channel(1);
        let listener = Listener {
            id: SessionId::new("s").unwrap(),
            no: 1,
            name: String::new(),
            role: Role::Control,
            on_slow: OnSlow::Wait,
            key,
            journal,
            tail: Arc::new(EntryTail::new(0)),
            after: 0,
            reader: None,
            replies,
            held: None,
            commands,
        };
        listener.tail.join(1, 0);
        let world = World {
            _folder: folder,
            _inbox: inbox,
            replies: sender,
            tail: listener.tail.clone(),
        };
        (world, listener)
    }

    fn reply(text: &str) -> Reply {
        Reply::new(None, AdapterBody::Output(Output::text(text)))
    }

    fn publish(tail: &EntryTail, seq: u64) {
        tail.publish(seq, seq, "{}\n".into(), Vec::new());
    }

    #[tokio::test]
    async fn replies_wait_for_no_room_and_a_listener_with_too_many_gets_an_end() {
        let (world, mut listener) = listen();
        publish(&world.tail, 1);
        let mut lines = Vec::new();
        world.replies.try_send(Box::new(reply("one"))).unwrap();
        world.replies.try_send(Box::new(reply("two"))).unwrap();
        assert_eq!(
            listener.next_with(pending(), &mut lines).await.unwrap(),
            StreamItem::Reply
        );
        let second = String::from_utf8(listener.try_reply().unwrap()).unwrap();
        assert!(second.contains("two"), "{second}");
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
        drop(world.replies);
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Ended(StreamEnd::Overrun)
        );
        // A session that ends sends its entries first.
        publish(&world.tail, 2);
        world.tail.finish();
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Entries
        );
        assert_eq!(
            listener.next(&mut lines).await.unwrap(),
            StreamItem::Ended(StreamEnd::Interrupted)
        );
    }

    #[tokio::test]
    async fn entries_carry_the_content_that_was_written_with_them() {
        let (world, listener) = listen();
        assert!(!world.tail.wants_contents());
        let mut entries = listener.into_entries();
        assert!(world.tail.wants_contents());
        let content = Arc::new(EntryContent {
            turn_id: None,
            body: AdapterBody::Output(Output::text("x")).into(),
        });
        // The line differs from the content, so that the test detects a listener that parses it.
        let line = "{\"type\":\"output\",\"session_id\":\"s\",\"content\":\"y\"}\n";
        world.tail.publish(1, 1, line.into(), vec![content.clone()]);
        world.tail.publish(2, 2, line.into(), Vec::new());
        let mut contents = Vec::new();
        for seq in 1..=2 {
            let EntryItem::Entry(entry) = entries.next().await.unwrap() else {
                panic!("no entry {seq}");
            };
            assert_eq!(entry.seq(), seq);
            contents.push(entry.content().unwrap());
        }
        assert!(Arc::ptr_eq(&contents[0], &content));
        assert_ne!(contents[1], content);
        drop(entries);
        assert!(!world.tail.wants_contents());
    }
}
