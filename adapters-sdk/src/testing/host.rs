//! The host's side.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Channel, Envelope, Extensions, FileInput, HostBody, HostMessage,
    InputResponse, Item, Json, LineReader, PROTOCOL, PermissionResponse, RequestId, SessionClose,
    SessionId, SessionStart, Stop, TurnComplete, TurnId, UserInput,
};

use crate::{Adapter, Ended, MAX_LINE, Server};

/// Limit of lines that wait to be written to the adapter: more than a test sends.
const LINES: usize = 1_000_000;

/// The pipe between the two, in bytes, by default.
const PIPE: usize = 64 * 1024;

/// The extensions that the host offers in `session.start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// None: only the core.
    Core,
    /// These extensions.
    These(Extensions),
}

/// A host of one adapter. Dropping it ends the adapter's input.
#[derive(Debug)]
pub struct Host {
    lines: mpsc::Sender<Vec<u8>>,
    inbox: Arc<Inbox>,
    offer: Offer,
    sessions: AtomicU64,
    served: JoinHandle<Ended>,
}

/// Unread messages of the adapter, by session.
#[derive(Debug, Default)]
struct Inbox {
    messages: Mutex<HashMap<SessionId, VecDeque<AdapterMessage>>>,
    came: Notify,
    ended: std::sync::atomic::AtomicBool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, VecDeque<AdapterMessage>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self, id: &SessionId) -> Option<AdapterMessage> {
        loop {
            let came = self.came.notified();
            // Read first: everything before the end has arrived then.
            let ended = self.ended.load(Ordering::Acquire);
            if let Some(message) = self.lock().get_mut(id).and_then(VecDeque::pop_front) {
                return Some(message);
            }
            if ended {
                return None;
            }
            came.await;
        }
    }
}

impl Host {
    /// Runs an adapter and offers it every extension.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(adapter: impl Adapter) -> Self {
        Self::with(Server::new(adapter), Offer::These(Extensions::all()), PIPE)
    }

    /// Runs a server over a pipe of so many bytes.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn with(server: Server, offer: Offer, pipe: usize) -> Self {
        let (to_adapter, input) = duplex(pipe);
        let (output, from_adapter) = duplex(pipe);
        let served = tokio::spawn(server.serve(input, output));
        let (lines, rest) = mpsc::channel(LINES);
        let inbox = Arc::new(Inbox::default());
        drop(tokio::spawn(write(to_adapter, rest)));
        drop(tokio::spawn(read(from_adapter, inbox.clone())));
        Self {
            lines,
            inbox,
            offer,
            sessions: AtomicU64::new(0),
            served,
        }
    }

    /// Opens a session.
    #[must_use]
    pub fn open(&self) -> TestSession {
        self.open_with(SessionStart::default())
    }

    /// Opens a session with options; protocol and extensions are the host's.
    ///
    /// # Panics
    /// When the adapter has ended or has let a million lines wait.
    #[must_use]
    pub fn open_with(&self, options: SessionStart) -> TestSession {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let id = SessionId::new(format!("s{number}")).expect("a short id");
        let start = match self.offer {
            Offer::Core => options,
            Offer::These(extensions) => SessionStart {
                protocol: Some(PROTOCOL),
                extensions: Some(extensions.to_names()),
                ..options
            },
        };
        let session = TestSession {
            id,
            with_turns: self.offer != Offer::Core,
            lines: self.lines.clone(),
            inbox: self.inbox.clone(),
            turns: AtomicU64::new(0),
        };
        session.say(start);
        session
    }

    /// Writes a line as it is.
    ///
    /// # Panics
    /// When the adapter has ended or has let a million lines wait.
    pub fn raw(&self, line: impl AsRef<[u8]>) {
        let mut line = line.as_ref().to_vec();
        line.push(b'\n');
        self.lines.try_send(line).expect("the adapter reads");
    }

    /// The next message of the pipe itself: a `pong`. Nothing once the adapter has ended.
    pub async fn next(&self) -> Option<AdapterMessage> {
        self.inbox.next(&SessionId::none()).await
    }

    /// Ends the adapter's input and waits for its end. Sessions must have been dropped.
    ///
    /// # Panics
    /// When serving panicked.
    pub async fn end(self) -> Ended {
        drop(self.lines);
        self.served.await.expect("serving does not panic")
    }
}

async fn write(mut pipe: DuplexStream, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if pipe.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read(mut pipe: DuplexStream, inbox: Arc<Inbox>) {
    let mut lines = LineReader::new(4 * MAX_LINE);
    while let Ok(bytes) = pipe.read(lines.space()).await {
        if bytes == 0 {
            break;
        }
        lines.filled(bytes);
        while let Some(item) = lines.next() {
            let Item::Line(line) = item else {
                panic!("the adapter wrote no message: {item:?}")
            };
            let message = AdapterMessage::parse(line).unwrap_or_else(|why| panic!("{why}: {line}"));
            inbox
                .lock()
                .entry(message.session_id.clone())
                .or_default()
                .push_back(message);
        }
        inbox.came.notify_waiters();
    }
    inbox.ended.store(true, Ordering::Release);
    inbox.came.notify_waiters();
}

/// A session as its host holds it.
#[derive(Debug)]
pub struct TestSession {
    id: SessionId,
    with_turns: bool,
    lines: mpsc::Sender<Vec<u8>>,
    inbox: Arc<Inbox>,
    turns: AtomicU64,
}

/// The messages and the end of a turn.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TestTurn {
    /// Everything but the end, in order.
    pub messages: Vec<AdapterMessage>,
    /// The end.
    pub end: TurnComplete,
}

impl TestTurn {
    /// The answer: all output on stdout.
    #[must_use]
    pub fn text(&self) -> String {
        self.text_on(&Channel::Stdout)
    }

    /// All output on a channel.
    #[must_use]
    pub fn text_on(&self, channel: &Channel) -> String {
        let outputs = self
            .messages
            .iter()
            .filter_map(|message| match &message.body {
                AdapterBody::Output(output) if output.channel() == channel => {
                    Some(output.content.as_str())
                }
                _ => None,
            });
        outputs.collect()
    }
}

impl TestSession {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Sends any message of the session.
    ///
    /// # Panics
    /// When the adapter has ended or has let a million lines wait.
    pub fn say(&self, body: impl Into<HostBody>) {
        self.say_of(None, body);
    }

    /// Sends any message of a turn.
    ///
    /// # Panics
    /// As [`TestSession::say`].
    pub fn say_of(&self, turn: Option<TurnId>, body: impl Into<HostBody>) {
        let message: HostMessage = Envelope::new(self.id.clone(), body.into()).of_turn(turn);
        self.lines
            .try_send(message.to_line())
            .expect("the adapter reads");
    }

    /// Sends an input and does not wait. Its turn's id is `t1`, `t2`, … where turns have ids.
    pub fn begin(&self, content: impl Into<String>) -> Option<TurnId> {
        let number = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let turn = self
            .with_turns
            .then(|| TurnId::new(format!("t{number}")).ok())
            .flatten();
        self.say_of(turn.clone(), UserInput::text(content));
        turn
    }

    /// Sends an input and waits for its turn's end. Permissions are denied and questions cancelled.
    ///
    /// # Panics
    /// When the adapter ends first.
    pub async fn send(&self, content: impl Into<String>) -> TestTurn {
        self.send_with(content, |_| false).await
    }

    /// As [`TestSession::send`], with a word on each permission request.
    ///
    /// # Panics
    /// When the adapter ends first.
    pub async fn send_with(
        &self,
        content: impl Into<String>,
        approve: impl Fn(&trunkline_protocol::PermissionRequest) -> bool,
    ) -> TestTurn {
        self.begin(content);
        self.collect(approve).await
    }

    /// Waits for the end of the turn under way. Permissions are denied and questions cancelled.
    ///
    /// # Panics
    /// When the adapter ends first.
    pub async fn finish(&self) -> TestTurn {
        self.collect(|_| false).await
    }

    async fn collect(
        &self,
        approve: impl Fn(&trunkline_protocol::PermissionRequest) -> bool,
    ) -> TestTurn {
        let mut messages = Vec::new();
        loop {
            let message = self
                .next()
                .await
                .expect("the adapter ends a turn before it ends itself");
            match &message.body {
                AdapterBody::TurnComplete(end) => {
                    return TestTurn {
                        messages,
                        end: (**end).clone(),
                    };
                }
                AdapterBody::PermissionRequest(request) => {
                    self.answer(&request.request_id, approve(request))
                }
                AdapterBody::InputRequest(request) => {
                    let request_id = request.request_id.clone();
                    self.say(InputResponse {
                        request_id,
                        values: None,
                        cancelled: Some(true),
                    });
                }
                _ => {}
            }
            messages.push(message);
        }
    }

    /// The session's next message; nothing once the adapter has ended.
    pub async fn next(&self) -> Option<AdapterMessage> {
        self.inbox.next(&self.id).await
    }

    /// The session's next message of some kind; those before it are dropped.
    ///
    /// # Panics
    /// When the adapter ends first.
    pub async fn wait_for<T>(&self, wanted: impl Fn(&AdapterBody) -> Option<T>) -> T {
        loop {
            let message = self
                .next()
                .await
                .expect("the adapter sends it before it ends");
            if let Some(found) = wanted(&message.body) {
                return found;
            }
        }
    }

    /// Waits for a permission request, and gives its id.
    ///
    /// # Panics
    /// When the adapter ends first.
    pub async fn asked(&self) -> RequestId {
        self.wait_for(|body| match body {
            AdapterBody::PermissionRequest(request) => Some(request.request_id.clone()),
            _ => None,
        })
        .await
    }

    /// Answers a permission request.
    pub fn answer(&self, request_id: &RequestId, approved: bool) {
        self.say(PermissionResponse::new(request_id.clone(), approved));
    }

    /// Answers a question.
    pub fn reply(&self, request_id: &RequestId, values: impl IntoIterator<Item = (String, Json)>) {
        let values = Some(values.into_iter().collect());
        self.say(InputResponse {
            request_id: request_id.clone(),
            values,
            cancelled: None,
        });
    }

    /// Announces a file.
    pub fn file(&self, path: impl Into<String>) {
        self.say(FileInput {
            file_path: path.into(),
            ..FileInput::default()
        });
    }

    /// Stops the running turn.
    pub fn stop(&self) {
        self.say(Stop::default());
    }

    /// Closes the session.
    pub fn close(&self) {
        self.say(SessionClose::default());
    }
}
