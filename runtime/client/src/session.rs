//! A session of a client: what a program does in it.

use std::{fs::Metadata, io, path::Path, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use trunkline_protocol::{
    FileInput, FileOutput, HostBody, InputResponse, MessageId, PermissionResponse, Role,
    SessionAttached, SessionId, SessionInfo, SessionReady, SessionUpdate, Sha256, SteerResult,
    StopReason, TurnId, UserInput, line_limit,
};
use uuid::Uuid;

use crate::{
    ClientError, HistoryPage, Input, Turn,
    client::Client,
    connection::Command,
    event::{EventQueue, SessionsToVisit},
    session_state::{
        OpeningResult, PendingSteer, PendingStop, PendingTurn, SessionCommand, check_length,
        input_message,
    },
    turn::TurnProgress,
};

/// The bytes of a session's inputs and steers without an end; further ones are
/// [`ClientError::Busy`].
pub const MAX_OPEN_INPUT_BYTES: u32 = 64 << 20;

/// The bytes that an input counts at least: 1024 inputs of a session without an end.
const MIN_INPUT_COST: usize = 64 << 10;

/// The largest file that [`Session::file`] reads, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A session of this client. Clones share it.
///
/// Its events come from [`Events`](crate::Events). When the last handle is dropped (clones, turns
/// and events), the client leaves the session as [`Session::detach`] does, once the host has
/// accepted its inputs. A session of a host without a journal is closed instead.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<SharedSession>,
}

#[derive(Debug)]
struct SharedSession {
    id: SessionId,
    client: Client,
    queue: Arc<EventQueue>,
    to_visit: Arc<SessionsToVisit>,
    role: Role,
    opened: Option<OpeningResult>,
    /// Room for inputs, in bytes.
    room: Arc<Semaphore>,
}

impl Drop for SharedSession {
    fn drop(&mut self) {
        self.queue.abandon();
        self.to_visit.request(self.id.clone());
    }
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        client: Client,
        queue: Arc<EventQueue>,
        to_visit: Arc<SessionsToVisit>,
        role: Role,
    ) -> Self {
        Self {
            shared: Arc::new(SharedSession {
                id,
                client,
                queue,
                to_visit,
                role,
                opened: None,
                room: Arc::new(Semaphore::new(MAX_OPEN_INPUT_BYTES as usize)),
            }),
        }
    }

    /// Notes the host's answer, before the handle is shared.
    pub(crate) fn set_opened(&mut self, opened: OpeningResult) {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.opened = Some(opened);
        }
    }

    pub(crate) fn queue(&self) -> &EventQueue {
        &self.shared.queue
    }

    pub(crate) fn request_attention(&self) {
        self.shared.to_visit.request(self.shared.id.clone());
    }

    pub(crate) fn cause(&self) -> ClientError {
        let cause = self.shared.queue.cause().cloned();
        cause.unwrap_or_else(|| self.shared.client.cause())
    }

    /// The session's id, by which it can be attached again.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// The host's `session.ready`, if this client opened the session. Facts of the agent follow as
    /// `session.info`.
    #[must_use]
    pub fn ready(&self) -> Option<&SessionReady> {
        match &self.shared.opened {
            Some(OpeningResult::Ready(ready)) => Some(ready),
            _ => None,
        }
    }

    /// The session when this client attached to it.
    #[must_use]
    pub fn attached(&self) -> Option<&SessionAttached> {
        match &self.shared.opened {
            Some(OpeningResult::Attached(attached)) => Some(attached),
            _ => None,
        }
    }

    /// Returns true once this client has received the session's end, which its events may not have
    /// reached.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.queue.cause().is_some()
    }

    /// Sends an input, which begins a turn or waits for the running one ([turn.3]).
    ///
    /// Returns when the input is on its way. However often the connection breaks, a host with a
    /// journal has it once; a file of it may be announced twice. [`Turn::accepted`] waits for the
    /// host. Over a network, files are uploaded, and the call returns when the host has the input
    /// and those before it.
    ///
    /// # Errors
    /// [`ClientError::Busy`] if 1024 inputs or [`MAX_OPEN_INPUT_BYTES`] have no end,
    /// [`ClientError::File`] if a file is not a regular file at an absolute path,
    /// [`ClientError::LineTooLong`], [`ClientError::ObserveOnly`], and the cause of the session's
    /// end. For files over a network also [`ClientError::Unsupported`], if the connection has no
    /// HTTP (`Client::http`) or the input has a `_meta`, [`ClientError::File`] for more than
    /// [`MAX_FILE_BYTES`], and [`ClientError::HttpRefused`].
    ///
    /// # Cancel safety
    /// Cancelling sends nothing. With files over a network, it may leave the input sent.
    pub async fn send(&self, input: impl Into<Input>) -> Result<Turn, ClientError> {
        self.check_control()?;
        let input = input.into();
        let is_posted = self.shared.client.is_remote() && !input.files.is_empty();
        for file in input.files.iter().filter(|_| !is_posted) {
            self.check_input_file(file)?;
        }
        let turn_id = random_id(TurnId::new);
        let message_id = input
            .message_id
            .unwrap_or_else(|| random_id(MessageId::new));
        let message = UserInput {
            content: input.content,
            message_id: Some(message_id.clone()),
            mode: None,
            limits: None,
        };
        let line = input_message(self.id(), &turn_id, &message, input.meta.as_ref());
        check_length(&line, self.max_line())?;
        let room = self.reserve(&message.content)?;
        let (sender, progress) = watch::channel(TurnProgress {
            turn_id: turn_id.clone(),
            accepted: None,
            end: None,
        });
        let pending = PendingTurn {
            turn_id: turn_id.clone(),
            input: message,
            files: input.files,
            meta: input.meta,
            progress: sender,
            room,
            is_posted,
        };
        let turn = Turn {
            requested_id: turn_id,
            message_id,
            progress,
            session: self.clone(),
        };
        if is_posted {
            self.post(pending).await?
        } else {
            self.command(SessionCommand::Send(pending)).await?
        }
        Ok(turn)
    }

    /// Uploads the files of an input and sends it by HTTP, behind those before it.
    #[cfg(feature = "websocket")]
    async fn post(&self, mut turn: PendingTurn) -> Result<(), ClientError> {
        let http = self.shared.client.http()?;
        if turn.meta.is_some() {
            return Err(ClientError::Unsupported("`_meta` beside files"));
        }
        let mut files = Vec::new();
        for file in std::mem::take(&mut turn.files) {
            let contents = read_file(Path::new(&file.file_path), file.sha256).await?;
            let name = Path::new(&file.file_path).file_name().unwrap_or_default();
            let name = file
                .file_name
                .unwrap_or_else(|| name.to_string_lossy().into());
            let sha256 = http.put_file(self.id(), &name, contents).await?;
            let mut named = serde_json::json!({ "sha256": sha256.to_string(), "name": name });
            if let Some(mime_type) = file.file_mime_type {
                named["mime_type"] = mime_type.into();
            }
            files.push(named);
        }
        let input = turn.input.clone();
        let earlier = self.call(|reply| SessionCommand::Post(turn, reply)).await?;
        for mut progress in earlier {
            // The end of the session ends it, too.
            let _ = progress
                .wait_for(|progress| progress.accepted.is_some() || progress.end.is_some())
                .await;
        }
        let Some(message_id) = &input.message_id else {
            return Ok(());
        };
        let posted = http.post_input(self.id(), message_id, &input.content, files);
        let (turn_id, result) = posted.await?;
        self.command(SessionCommand::Accept(turn_id, result)).await
    }

    #[cfg(not(feature = "websocket"))]
    async fn post(&self, _: PendingTurn) -> Result<(), ClientError> {
        Err(ClientError::Unsupported(NO_FILES))
    }

    /// Adds to a running turn ([turn.10]). Returns the agent's answer, whether or not the text
    /// reached the turn.
    ///
    /// # Errors
    /// As [`Session::send`]; [`ClientError::Unsupported`] for an input with files.
    ///
    /// # Cancel safety
    /// Cancelling may leave the text added. It is never added twice.
    pub async fn steer(
        &self,
        turn: TurnId,
        input: impl Into<Input>,
    ) -> Result<SteerResult, ClientError> {
        self.check_control()?;
        let input = input.into();
        if !input.files.is_empty() {
            return Err(ClientError::Unsupported("files in a steer"));
        }
        let room = self.reserve(&input.content)?;
        self.call(|reply| SessionCommand::Steer(PendingSteer::new(turn, input, room, reply)))
            .await
    }

    /// Stops a turn, running or queued, of any client ([turn.4], [turn.9]). A turn that has ended
    /// stays as it is.
    ///
    /// Returns when the stop is on its way. It is sent again on a new connection until the turn has
    /// ended.
    ///
    /// # Errors
    /// [`ClientError::Busy`], [`ClientError::ObserveOnly`], and the cause of the session's end.
    ///
    /// # Cancel safety
    /// Cancelling may leave the turn stopped.
    pub async fn stop(&self, turn_id: TurnId) -> Result<(), ClientError> {
        self.stop_turn(Some(turn_id), StopReason::User).await
    }

    /// Stops the turn that runs, of any client, for this reason ([turn.4]).
    ///
    /// Returns when the stop is on its way. Without a connection it waits for the next one. It is
    /// not sent again after that: another turn may run then.
    ///
    /// # Errors
    /// As [`Session::stop`].
    ///
    /// # Cancel safety
    /// Cancelling may leave the turn stopped.
    pub async fn stop_running(&self, reason: StopReason) -> Result<(), ClientError> {
        self.stop_turn(None, reason).await
    }

    async fn stop_turn(
        &self,
        turn_id: Option<TurnId>,
        reason: StopReason,
    ) -> Result<(), ClientError> {
        self.check_control()?;
        let stop = PendingStop { turn_id, reason };
        self.call(|reply| SessionCommand::Stop { stop, reply })
            .await
    }

    /// Answers a permission request ([permission.2]).
    ///
    /// Nothing else answers it: a request whose event is dropped, or never read, stays open until
    /// another client or a deadline of the host settles it. Returns when the answer is on its way;
    /// with a journal it is sent again on a new connection until an entry settles the request. The
    /// first answer decides, which need not be this one: a `request.decided` event has the
    /// decision.
    ///
    /// # Errors
    /// [`ClientError::NotPending`] if the request was settled or is unknown,
    /// [`ClientError::LineTooLong`], [`ClientError::ObserveOnly`], and the cause of the session's
    /// end.
    ///
    /// # Cancel safety
    /// Cancelling may leave the request answered.
    pub async fn answer_permission(&self, answer: PermissionResponse) -> Result<(), ClientError> {
        self.answer(answer.request_id.clone(), answer.into()).await
    }

    /// Answers a question (`input.request`). As [`Session::answer_permission`].
    ///
    /// # Errors
    /// As [`Session::answer_permission`].
    ///
    /// # Cancel safety
    /// Cancelling may leave the question answered.
    pub async fn answer_question(&self, answer: InputResponse) -> Result<(), ClientError> {
        self.answer(answer.request_id.clone(), answer.into()).await
    }

    async fn answer(
        &self,
        request_id: trunkline_protocol::RequestId,
        answer: HostBody,
    ) -> Result<(), ClientError> {
        self.check_control()?;
        self.call(|reply| SessionCommand::Answer {
            request_id,
            answer,
            reply,
        })
        .await
    }

    /// Changes options of the session (`session.update`). Returns the values now in force, changed
    /// or not.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] with the reason if the host refuses the update,
    /// [`ClientError::Busy`], [`ClientError::LineTooLong`], [`ClientError::ObserveOnly`], and the
    /// cause of the session's end.
    ///
    /// # Cancel safety
    /// Cancelling may leave the options changed.
    pub async fn update(&self, update: SessionUpdate) -> Result<SessionInfo, ClientError> {
        self.check_control()?;
        self.call(|reply| SessionCommand::Update {
            update: Box::new(update),
            reply,
        })
        .await
    }

    /// Gives the agent a file with the next input ([file.2]). Returns when the host has a copy, or
    /// when the file is on its way to a host that does not report that: one without a journal that
    /// does not know `notes` ([relay.7]). Sent again on a new connection, it may be
    /// announced twice.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] with the host's reason if it refuses the file,
    /// [`ClientError::File`] if it is not a regular file at an absolute path,
    /// [`ClientError::Unsupported`] over a network, [`ClientError::Busy`],
    /// [`ClientError::LineTooLong`], [`ClientError::ObserveOnly`], and the cause of the session's
    /// end.
    ///
    /// # Cancel safety
    /// Cancelling may leave the file with the next input.
    pub async fn place_file(&self, file: FileInput) -> Result<(), ClientError> {
        self.check_control()?;
        self.check_input_file(&file)?;
        self.call(|reply| SessionCommand::PlaceFile {
            file: Box::new(file),
            reply,
        })
        .await
    }

    /// Reads a page of the session's entries ([journal.9]). As [`Client::history`].
    ///
    /// # Errors
    /// As [`Client::history`].
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn history(
        &self,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<HistoryPage, ClientError> {
        self.shared.client.history(self.id(), from, to).await
    }

    /// Reads a file that the agent gave, and compares it with the announced digest ([large.1]).
    ///
    /// # Errors
    /// [`ClientError::File`] if it cannot be read, differs, or has more than [`MAX_FILE_BYTES`].
    /// Over a network also as `HttpClient::get_file`, and [`ClientError::Unsupported`] if the
    /// connection has no HTTP.
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn file(&self, file: &FileOutput) -> Result<Vec<u8>, ClientError> {
        if self.shared.client.is_remote() {
            #[cfg(not(feature = "websocket"))]
            return Err(ClientError::Unsupported(NO_FILES));
            #[cfg(feature = "websocket")]
            return match &file.sha256 {
                Some(sha256) => self.shared.client.http()?.get_file(self.id(), sha256).await,
                None => Err(file_error(
                    Path::new(file.file_name.as_deref().unwrap_or_default()),
                    "the entry has no digest of it".to_owned(),
                )),
            };
        }
        read_file(Path::new(&file.file_path), file.sha256).await
    }

    /// Closes the session for all clients, and waits for its end ([session.4]). Closing twice is
    /// closing once.
    ///
    /// # Errors
    /// [`ClientError::ObserveOnly`], and the cause if the session ends otherwise than closed.
    ///
    /// # Cancel safety
    /// Cancelling may leave the session closed.
    pub async fn close(&self) -> Result<(), ClientError> {
        self.check_control()?;
        let (closer, closed) = oneshot::channel();
        // An ended session has the cause.
        let _ = self.command(SessionCommand::Close(closer)).await;
        let _ = closed.await;
        match self.cause() {
            ClientError::SessionClosed { .. } => Ok(()),
            cause => Err(cause),
        }
    }

    /// Leaves the session, which continues at its host ([journal.6]). A session of a host without a
    /// journal is closed.
    ///
    /// Its events end, and what waits for it fails with [`ClientError::Detached`]. Inputs that were
    /// not accepted may be lost; [`Turn::accepted`] waits for that.
    ///
    /// # Errors
    /// The cause if the session ended before.
    ///
    /// # Cancel safety
    /// Cancelling may leave the session detached.
    pub async fn detach(&self) -> Result<(), ClientError> {
        self.leave(false).await
    }

    /// Leaves the session as [`Self::detach`] does, and releases it at its agent: as soon as nothing is
    /// open in it and no client is attached, the host closes the agent's session, and the next input
    /// resumes it ([journal.6]).
    ///
    /// # Errors
    /// The cause if the session ended before.
    ///
    /// # Cancel safety
    /// Cancelling may leave the session released.
    pub async fn release(&self) -> Result<(), ClientError> {
        self.leave(true).await
    }

    async fn leave(&self, releases: bool) -> Result<(), ClientError> {
        let (left, is_left) = oneshot::channel();
        let leave = SessionCommand::Detach { releases, left };
        self.command(leave).await?;
        is_left.await.map_err(|_| self.cause())
    }

    /// The longest line that the host reads in this session, in bytes.
    fn max_line(&self) -> usize {
        line_limit(self.ready().and_then(|ready| ready.max_line))
    }

    /// Blocks for the time of a `stat`: a call that waited for it could be overtaken by a later one.
    fn check_input_file(&self, file: &FileInput) -> Result<(), ClientError> {
        if self.shared.client.is_remote() {
            return Err(ClientError::Unsupported(NO_FILES));
        }
        let path = Path::new(&file.file_path);
        check_file(path, std::fs::metadata(path)).map(drop)
    }

    fn check_control(&self) -> Result<(), ClientError> {
        match self.shared.role {
            Role::Control => Ok(()),
            Role::Observe => Err(ClientError::ObserveOnly),
        }
    }

    /// Reserves room for an input. It is given back with the input's end.
    fn reserve(&self, content: &str) -> Result<OwnedSemaphorePermit, ClientError> {
        let cost = content.len().max(MIN_INPUT_COST);
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let room = self.shared.room.clone();
        let room = room.try_acquire_many_owned(cost.min(MAX_OPEN_INPUT_BYTES));
        room.map_err(|_| ClientError::Busy("inputs of the session"))
    }

    async fn command(&self, command: SessionCommand) -> Result<(), ClientError> {
        if let Some(cause) = self.shared.queue.cause() {
            return Err(cause.clone());
        }
        let session = self.shared.id.clone();
        let command = Command::Session { session, command };
        self.shared.client.command(command).await
    }

    async fn call<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, ClientError>>) -> SessionCommand,
    ) -> Result<T, ClientError> {
        let (reply, answer) = oneshot::channel();
        self.command(command(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(self.cause()))
    }
}

/// Text of [`ClientError::Unsupported`] for files without an input, or without HTTP.
const NO_FILES: &str = "files by path; give them with an input";

/// Reads a file of at most [`MAX_FILE_BYTES`], and compares it with its announced digest.
async fn read_file(path: &Path, announced: Option<Sha256>) -> Result<Vec<u8>, ClientError> {
    let bytes = check_file(path, tokio::fs::metadata(path).await)?;
    if bytes > MAX_FILE_BYTES {
        let problem =
            format!("it has more than {MAX_FILE_BYTES} bytes, the limit `MAX_FILE_BYTES`");
        return Err(file_error(path, problem));
    }
    let read = tokio::fs::read(path).await;
    let contents = read.map_err(|error| file_error(path, error.to_string()))?;
    match announced {
        Some(announced) if announced != Sha256::digest(&contents) => Err(file_error(
            path,
            "its contents are not the announced ones".to_owned(),
        )),
        _ => Ok(contents),
    }
}

/// Checks that a path is absolute and names a regular file. Returns its size in bytes.
fn check_file(path: &Path, metadata: io::Result<Metadata>) -> Result<u64, ClientError> {
    if !path.is_absolute() {
        return Err(file_error(path, "its path is not absolute".to_owned()));
    }
    match metadata {
        Err(error) => Err(file_error(path, error.to_string())),
        Ok(metadata) if !metadata.is_file() => {
            Err(file_error(path, "it is not a regular file".to_owned()))
        }
        Ok(metadata) => Ok(metadata.len()),
    }
}

fn file_error(path: &Path, message: String) -> ClientError {
    ClientError::File {
        path: path.display().to_string(),
        message,
    }
}

/// A fresh id: 32 hexadecimal digits.
pub(crate) fn random_id<T>(new: impl FnOnce(String) -> Result<T, trunkline_protocol::BadId>) -> T {
    new(Uuid::new_v4().simple().to_string()).expect("an id has 1 to 256 bytes")
}
