//! The sessions of a journal: loading, attaching, listing and removing them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{mpsc, oneshot};
use trunkline_host::{EventDelivery, Host, NativeListError, SessionOptions};
use trunkline_journal::{Damaged, Journal, NotStored, OpenError, Options, ReadError, SessionKey};
use trunkline_protocol::{
    AttachRefusal, Json, Meta, OnSlow, Role, SessionAttach, SessionAttached, SessionClosed,
    SessionEdit, SessionEditResult, SessionEntry, SessionHistory, SessionHistoryResult, SessionId,
    SessionRefused, SessionStart, SessionState, SessionsList, SessionsListResult,
};

use crate::{
    activity::{ActivityCell, SessionActivity},
    actor::{
        EditSender, INBOX, JoinRequest, MAX_UNREAD_REPLIES, SessionActor, SessionCommand,
        SessionSeed, SessionSnapshot,
    },
    changes::{ChangeAnnouncer, ChangeFeed, ChangeReader, SessionChange},
    ends,
    export::{ExportFormat, SessionExport},
    facts::SessionFacts,
    history::{self, HistoryError, HistoryPage, HistoryRange},
    list::{self, InMemory, OverviewPage},
    listener::Listener,
    ownership::NewId,
    record::{NotRecorded, Record, Recording},
    recovery,
    registry::{PublishError, Registry, SessionHandle, SessionOrigin, SlotEntry, SlotReservation},
    search::{self, SearchError, SearchPage, SearchQuery},
    tail::{EntryTail, ListenerNo},
    visitor::{Visitor, is_seen},
};

/// Sessions that outlive their hub, their host and their adapter. Clones are the same.
#[derive(Debug, Clone)]
pub struct Sessions {
    shared: Arc<SessionsState>,
    /// The visitor that makes requests. `None` for the user whose host this is.
    visitor: Option<Arc<Visitor>>,
}

/// State that all sessions share.
#[derive(Debug)]
pub(crate) struct SessionsState {
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    /// The record that is written before the journal. With a record, only sessions that this host
    /// owns are served.
    pub(crate) recording: Option<Recording>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) changes: Arc<ChangeFeed>,
    listeners: AtomicU64,
}

/// Reason that a session was not opened.
#[derive(Debug)]
pub enum StartError {
    /// The journal rejects the session.
    Refused(SessionRefused),
    /// The host rejects the session.
    Closed(Box<SessionClosed>),
}

impl SessionsState {
    /// Returns the reason not to begin new work.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.journal.trouble().map(|trouble| trouble.to_string());
        trouble.or_else(|| self.recording.as_ref()?.trouble())
    }

    /// Reads the change of a session that is not in memory. `None` if it has no readable facts.
    pub(crate) async fn stored_change(
        &self,
        id: &SessionId,
        name: &'static str,
    ) -> Option<(Arc<SessionOrigin>, SessionChange)> {
        let journal = self.journal.clone();
        let key = journal.find(id.as_str())?;
        let read = tokio::task::spawn_blocking(move || SessionFacts::read(&journal, key));
        let facts = read.await.ok()?.ok()??;
        let change = SessionActivity::of_stored(&facts).to_change(name, &facts.id, facts.last);
        let origin = SessionOrigin {
            owner: facts.owner,
            agent: facts.agent,
        };
        Some((Arc::new(origin), change))
    }

    /// Announces a change. Without one, readers read the state of the sessions again.
    pub(crate) fn announce(&self, change: Option<(Arc<SessionOrigin>, SessionChange)>) {
        match change {
            Some((origin, change)) => self.changes.announce(&origin, change),
            None => self.changes.skip(),
        }
    }
}

#[cfg(test)]
impl SessionsState {
    /// Creates sessions of a journal on a host without agents.
    pub(crate) fn for_tests(journal: Journal) -> Arc<Self> {
        Arc::new(Self {
            host: Host::builder().build().expect("a host without agents"),
            journal,
            recording: None,
            registry: Arc::default(),
            changes: Arc::default(),
            listeners: AtomicU64::new(0),
        })
    }
}

impl InMemory for SessionsState {
    fn activity(&self, id: &str) -> Option<SessionActivity> {
        self.registry
            .live_handle(id)
            .map(|handle| handle.shown.get())
    }

    fn in_state(&self, state: SessionState) -> Vec<SessionKey> {
        let live = self.registry.all_live().into_iter();
        live.filter(|handle| handle.shown.state() == state)
            .map(|handle| handle.key)
            .collect()
    }

    fn is_served(&self, id: &str) -> bool {
        self.recording.is_none() || self.registry.ownership(id, |own| own.is_some())
    }
}

impl Sessions {
    /// Opens the journal of a folder, and closes in it everything that was open when its last host
    /// ended. Blocks for the disk: call it only from a context that may block. Adapters that start
    /// in a sandbox from now on do not see the folder.
    ///
    /// # Errors
    /// See [`OpenError`]. Damaged data is returned beside the sessions.
    pub fn open(
        host: Host,
        folder: &Path,
        mut options: Options,
    ) -> Result<(Self, Vec<Damaged>), OpenError> {
        options.session_name = Some(SessionFacts::session_name);
        let (journal, opened) = Journal::open(folder, options)?;
        host.hide(folder);
        let mut closed = Vec::new();
        for session in opened.unsettled {
            match recovery::recover(&journal, session) {
                Ok(stored) => closed.push(stored),
                Err(error) => tracing::warn!("a session that was open was not closed: {error}"),
            }
        }
        // A hub that attaches continues from there.
        for stored in closed {
            journal
                .wait(&stored)
                .map_err(|why| OpenError::not_written(folder, &why))?;
        }
        Ok((Self::over(host, journal, None), opened.damaged))
    }

    /// Opens the journal of a folder as this machine's copy of sessions whose record is elsewhere.
    /// None is served until this host owns it: [`Sessions::own`], [`Sessions::adopt`]. Blocks for
    /// the disk. Adapters that start in a sandbox from now on do not see the folder.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_recorded(
        host: Host,
        folder: &Path,
        mut options: Options,
        record: Arc<dyn Record>,
    ) -> Result<(Self, Vec<Damaged>), OpenError> {
        options.session_name = Some(SessionFacts::session_name);
        let (journal, opened) = Journal::open(folder, options)?;
        host.hide(folder);
        Ok((
            Self::over(host, journal, Some(Recording::new(record))),
            opened.damaged,
        ))
    }

    fn over(host: Host, journal: Journal, recording: Option<Recording>) -> Self {
        let shared = SessionsState {
            host,
            journal,
            recording,
            registry: Arc::default(),
            changes: Arc::default(),
            // A name is never used twice, in any epoch.
            listeners: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            visitor: None,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<SessionsState> {
        &self.shared
    }

    /// Returns the same sessions as a visitor sees them. The visitor owns the sessions that it
    /// opens.
    #[must_use]
    pub fn for_visitor(&self, visitor: Arc<Visitor>) -> Self {
        Self {
            shared: self.shared.clone(),
            visitor: Some(visitor),
        }
    }

    /// Returns the visitor; `None` is the user whose host this is.
    #[must_use]
    pub fn visitor(&self) -> Option<&Visitor> {
        self.visitor.as_deref()
    }

    /// Returns the journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Opens a new session, and listens to it from its first entry on. Without a title, its first
    /// input becomes its title in lists.
    ///
    /// # Errors
    /// [`StartError`]; nothing is kept then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        &self,
        id: &SessionId,
        agent: &str,
        start: SessionStart,
        meta: Option<Meta>,
        title: Option<&str>,
    ) -> Result<Listener, StartError> {
        if let Some(visitor) = self.visitor().filter(|visitor| !visitor.may_open(agent)) {
            let why = if visitor.may_speak {
                format!("{} may not use the agent {agent}", visitor.name)
            } else {
                format!("{} may only listen", visitor.name)
            };
            return Err(refuse_start(AttachRefusal::Forbidden, why));
        }
        let exists = || StartError::Refused(ends::exists());
        let new = match &self.shared.recording {
            None if self.shared.journal.find(id.as_str()).is_some() => return Err(exists()),
            None => None,
            Some(_) => Some(NewId::take(&self.shared, id).map_err(StartError::Refused)?),
        };
        let SlotEntry::Reserved(reservation) = self.shared.registry.enter(id) else {
            return Err(exists());
        };
        if let Some(trouble) = self.shared.trouble() {
            return Err(refuse_start(AttachRefusal::ReadOnly, trouble));
        }
        let mut facts = SessionFacts::new(id, agent, &start, meta.as_ref());
        title
            .into_iter()
            .for_each(|title| facts.set_default_title(title));
        facts.owner = self.visitor().map(|visitor| visitor.name.clone());
        let secrets = secrets(start.env.as_ref(), start.mcp_servers.as_ref());
        let options = SessionOptions {
            id: Some(id.clone()),
            start,
            meta,
            delivery: EventDelivery::Merged,
        };
        let session = self
            .shared
            .host
            .open(agent, options)
            .map_err(|error| StartError::Closed(Box::new(ends::refusal(&error))))?;
        let bytes = facts.to_bytes();
        let created = match &new {
            None => self.shared.journal.create(id.as_str(), &bytes),
            Some(_) => self.shared.journal.create_again(id.as_str(), &bytes),
        };
        let Ok((key, created)) = created else {
            return Err(exists());
        };
        created.detach();
        let epoch = new
            .as_ref()
            .map_or_else(|| self.shared.journal.epoch(), |new| new.epoch);
        let actor = SessionSeed {
            host: self.shared.host.clone(),
            journal: self.shared.journal.clone(),
            key,
            id: id.clone(),
            facts,
            tail: Arc::new(EntryTail::new(0)),
            session: Some(session),
            secrets,
            transcript: None,
            epoch,
            recording: self.shared.recording.clone(),
        };
        let handle = self
            .publish(reservation, actor)
            .map_err(StartError::Refused)?;
        new.into_iter().for_each(NewId::keep);
        let (listener, joined, _) = self.listener(id, &handle, &SessionAttach::default(), 0);
        // A new inbox has room.
        let _ = handle.commands.try_send(Box::new(joined));
        Ok(listener)
    }

    /// Starts the task of a session whose slot is reserved.
    fn publish(
        &self,
        reservation: SlotReservation,
        new: SessionSeed,
    ) -> Result<SessionHandle, SessionRefused> {
        let (commands, inbox) = mpsc::channel(INBOX);
        let origin = SessionOrigin {
            owner: new.facts.owner.clone(),
            agent: new.facts.agent.clone(),
        };
        let has_record = new.recording.is_some();
        let handle = SessionHandle {
            key: new.key,
            epoch: new.epoch,
            origin: Arc::new(origin),
            tail: new.tail.clone(),
            shown: ActivityCell::new(),
            commands,
        };
        let announcer = ChangeAnnouncer {
            feed: self.shared.changes.clone(),
            origin: handle.origin.clone(),
        };
        let actor = Box::new(SessionActor::new(new, handle.shown.clone(), announcer));
        let shared = Arc::downgrade(&self.shared);
        let published = reservation.publish(handle, has_record, shared, |lease| async move {
            actor.run(inbox, lease).await;
        });
        published.map_err(|error| match error {
            PublishError::HostEnding => ends::refused(AttachRefusal::Unavailable, "the host ends"),
            PublishError::NotOwned => ends::moved(),
        })
    }

    fn listener(
        &self,
        id: &SessionId,
        handle: &SessionHandle,
        attach: &SessionAttach,
        after: u64,
    ) -> (Listener, SessionCommand, oneshot::Receiver<SessionSnapshot>) {
        let role = match self.visitor() {
            Some(visitor) if !visitor.may_speak => Role::Observe,
            _ => attach.role.unwrap_or(Role::Control),
        };
        let secrets = secrets(attach.env.as_ref(), attach.mcp_servers.as_ref());
        let count = self.shared.listeners.fetch_add(1, Ordering::Relaxed) + 1;
        let no: ListenerNo = (handle.epoch << 32) | count;
        let (sender, replies) = mpsc::channel(MAX_UNREAD_REPLIES);
        let (joined, now) = oneshot::channel();
        let name = match self.visitor() {
            Some(visitor) => format!("{}/l-{no}", visitor.author),
            None => format!("l-{no}"),
        };
        handle.tail.join(no, after);
        let listener = Listener {
            id: id.clone(),
            no,
            name: name.clone(),
            role,
            on_slow: attach.on_slow.unwrap_or(OnSlow::Wait),
            key: handle.key,
            journal: self.shared.journal.clone(),
            tail: handle.tail.clone(),
            after,
            reader: None,
            replies,
            held: None,
            commands: handle.commands.clone(),
        };
        (
            listener,
            SessionCommand::Joined(
                no,
                JoinRequest {
                    role,
                    may_approve: self.visitor().is_none_or(|visitor| visitor.may_approve),
                    name,
                    secrets,
                    replies: sender,
                    joined,
                },
            ),
            now,
        )
    }

    /// Listens to a session of the journal from an entry on. A session that is not in memory is
    /// loaded; its agent receives no request.
    ///
    /// # Errors
    /// The refusal, as a message of the protocol.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn attach(
        &self,
        id: &SessionId,
        attach: &SessionAttach,
    ) -> Result<(SessionAttached, Listener), SessionRefused> {
        self.attach_from(id, attach, From::Entry).await
    }

    /// Works like [`Sessions::attach`], but from the next entry on.
    ///
    /// # Errors
    /// The refusal, as a message of the protocol.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn join(
        &self,
        id: &SessionId,
    ) -> Result<(SessionAttached, Listener), SessionRefused> {
        self.attach_from(id, &SessionAttach::default(), From::Now)
            .await
    }

    async fn attach_from(
        &self,
        id: &SessionId,
        attach: &SessionAttach,
        from: From,
    ) -> Result<(SessionAttached, Listener), SessionRefused> {
        loop {
            let handle = self.session_handle(id).await?;
            let stored = handle.tail.stored();
            let after = match from {
                From::Now => stored,
                From::Entry => {
                    self.check_position(&handle, attach, stored).await?;
                    attach.after
                }
            };
            let (listener, joined, now) = self.listener(id, &handle, attach, after);
            // A session that has just left the memory is opened again.
            if handle.commands.send(Box::new(joined)).await.is_err() {
                continue;
            }
            let Ok(now) = now.await else {
                continue;
            };
            let attached = SessionAttached {
                agent_id: now.agent,
                state: Some(now.state),
                role: Some(listener.role),
                listener: Some(listener.name.clone()),
                turn_id: now.running,
                queued: Some(now.queued),
                requests: Some(now.requests),
                first_seq: 1,
                last_seq: now.last,
                epoch: handle.epoch,
                title: now.title,
                cwd: now.cwd,
                archived: now.is_archived.then_some(true),
                copied: now.copied,
            };
            return Ok((attached, listener));
        }
    }

    /// Checks that the journal has the last entry that the hub has.
    async fn check_position(
        &self,
        handle: &SessionHandle,
        attach: &SessionAttach,
        stored: u64,
    ) -> Result<(), SessionRefused> {
        let refused = |reason, message: String, last_seq| SessionRefused {
            reason: Some(reason),
            message: Some(message),
            last_seq: Some(last_seq),
        };
        if attach.after > stored {
            let message = format!(
                "the session has {stored} entries, and none of the number {}",
                attach.after
            );
            return Err(refused(AttachRefusal::Ahead, message, stored));
        }
        if let Some(epoch) = attach.epoch
            && attach.after > 0
        {
            let journal = self.shared.journal.clone();
            let key = handle.key;
            let after = attach.after;
            let forked =
                tokio::task::spawn_blocking(move || fork(&journal, key, after, epoch)).await;
            if let Some(common) = forked.ok().flatten() {
                let message = format!("entry {after} is of another epoch than {epoch}");
                return Err(refused(AttachRefusal::Forked, message, common));
            }
        }
        Ok(())
    }

    /// Returns the session in memory, and opens it from the journal if needed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    async fn session_handle(&self, id: &SessionId) -> Result<SessionHandle, SessionRefused> {
        loop {
            if let Some(handle) = self.shared.registry.live_handle(id.as_str()) {
                if !self.may_see(&handle.origin) {
                    return Err(unknown_session());
                }
                self.shared.check_serves(id)?;
                return Ok(handle);
            }
            // Unknown ids take no slot.
            if self.shared.journal.find(id.as_str()).is_none() {
                return Err(unknown_session());
            }
            match self.shared.registry.enter(id) {
                // The next iteration checks the access, as above.
                SlotEntry::Live => {}
                SlotEntry::Busy(until) => until.cancelled().await,
                SlotEntry::Reserved(reservation) => {
                    return self.open_from_journal(id, reservation).await;
                }
            }
        }
    }

    /// Opens a session of the journal in the slot that this caller has reserved.
    async fn open_from_journal(
        &self,
        id: &SessionId,
        reservation: SlotReservation,
    ) -> Result<SessionHandle, SessionRefused> {
        let journal = self.shared.journal.clone();
        let key = journal.find(id.as_str()).ok_or_else(unknown_session)?;
        let known = journal.known(key).ok_or_else(unknown_session)?;
        if known.is_removed {
            // The owner is no longer known.
            return Err(match self.visitor {
                Some(_) => unknown_session(),
                None => ends::refused(AttachRefusal::Gone, "this session was removed"),
            });
        }
        self.shared.settle_journal(id).await;
        let read = tokio::task::spawn_blocking(move || {
            let facts = SessionFacts::read(&journal, key).ok().flatten()?;
            let transcript = facts.read_transcript(&journal, key).ok()?;
            Some((facts, transcript))
        });
        let read = read.await.ok().flatten();
        let (facts, transcript) = read.ok_or_else(|| match self.visitor {
            Some(_) => unknown_session(),
            None => ends::refused(AttachRefusal::Gone, "the facts of this session are damaged"),
        })?;
        if facts.is_partial_copy()
            || facts.id != id.as_str()
            || !is_seen(self.visitor(), facts.owner.as_deref(), &facts.agent)
        {
            return Err(unknown_session());
        }
        let epoch = self.shared.check_serves(id)?;
        let last = self.shared.journal.known(key).map_or(0, |known| known.last);
        let actor = SessionSeed {
            host: self.shared.host.clone(),
            journal: self.shared.journal.clone(),
            key,
            id: id.clone(),
            facts,
            tail: Arc::new(EntryTail::new(last)),
            session: None,
            secrets: None,
            transcript,
            epoch,
            recording: self.shared.recording.clone(),
        };
        self.publish(reservation, actor)
    }

    /// Returns the agent of a session, which is opened from the journal if needed. `None` if this
    /// visitor can see no such session.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn agent(&self, id: &SessionId) -> Option<String> {
        let handle = self.session_handle(id).await.ok()?;
        Some(handle.origin.agent.clone())
    }

    fn may_see(&self, origin: &SessionOrigin) -> bool {
        is_seen(self.visitor(), origin.owner.as_deref(), &origin.agent)
    }

    /// Returns the key of a session that this visitor can see, in memory or not.
    pub(crate) async fn find(&self, id: &SessionId) -> Option<SessionKey> {
        let key = self.shared.journal.find(id.as_str())?;
        self.shared.check_serves(id).ok()?;
        let known = self.shared.journal.known(key);
        if known.is_some_and(|known| known.is_removed) {
            return None;
        }
        if self.visitor.is_none() {
            return Some(key);
        }
        if let Some(handle) = self.shared.registry.live_handle(id.as_str()) {
            return self.may_see(&handle.origin).then_some(key);
        }
        let journal = self.shared.journal.clone();
        let visitor = self.visitor.clone();
        let seen = tokio::task::spawn_blocking(move || {
            let facts = journal
                .facts(key)
                .ok()?
                .and_then(|bytes| SessionFacts::from_bytes(&bytes))?;
            is_seen(visitor.as_deref(), facts.owner.as_deref(), &facts.agent).then_some(key)
        });
        // Fails only if the runtime shuts down.
        seen.await.ok().flatten()
    }

    /// Reads entries of a session, which need not be in memory.
    pub async fn history(&self, id: &SessionId, asked: &SessionHistory) -> SessionHistoryResult {
        let mut result = SessionHistoryResult {
            request_id: asked.request_id.clone(),
            entries: None,
            lost: None,
            next: None,
            error: None,
        };
        let from = asked.from.unwrap_or(1).max(1);
        let to = asked.to.unwrap_or(u64::MAX);
        let most = to.saturating_add(1).saturating_sub(from);
        match self.read_page(id, HistoryRange::From(from), most).await {
            Ok(page) if most > 0 => {
                result.next = page.next.filter(|next| *next <= to);
                result.lost = Some(page.lost).filter(|lost| !lost.is_empty());
                result.entries = Some(page.entries);
            }
            Ok(_) => result.entries = Some(Vec::new()),
            Err(error) => result.error = Some(error.to_string()),
        }
        result
    }

    /// Reads a page of a session's entries, which need not be in memory: at most `limit`, and about
    /// 1 MiB.
    ///
    /// # Errors
    /// [`HistoryError`]
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read_page(
        &self,
        id: &SessionId,
        range: HistoryRange,
        limit: u64,
    ) -> Result<HistoryPage, HistoryError> {
        let key = self.find(id).await.ok_or(HistoryError::Unknown)?;
        let journal = self.shared.journal.clone();
        let read =
            tokio::task::spawn_blocking(move || history::read_page(&journal, key, range, limit));
        Ok(read.await.map_err(|_| HistoryError::HostEnding)??)
    }

    /// Begins to write out a session, which need not be in memory.
    ///
    /// # Errors
    /// [`HistoryError`]
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn export(
        &self,
        id: &SessionId,
        format: ExportFormat,
    ) -> Result<SessionExport, HistoryError> {
        let shared = self.shared.clone();
        let visitor = self.visitor.clone();
        let id = id.clone();
        let read = move || {
            let journal = &shared.journal;
            let session = list::find_session(journal, &*shared, visitor.as_deref(), &id)?;
            let (key, session) = journal
                .find(id.as_str())
                .zip(session)
                .ok_or(HistoryError::Unknown)?;
            Ok(SessionExport::new(journal, key, id, session, format))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|_| HistoryError::HostEnding)?
    }

    /// Answers a `sessions.list` of the journal ([journal.12]). Loads no session.
    pub async fn list(&self, asked: SessionsList) -> SessionsListResult {
        self.list_with_cursors(asked).await.0
    }

    /// Works like [`Sessions::list`], but also returns the cursor behind each session, for merging
    /// the lists of several journals.
    pub async fn list_with_cursors(
        &self,
        asked: SessionsList,
    ) -> (SessionsListResult, Vec<String>) {
        let shared = self.shared.clone();
        let visitor = self.visitor.clone();
        let failed = SessionsListResult::to(asked.request_id.clone());
        let answered = tokio::task::spawn_blocking(move || {
            list::answer_list(&shared.journal, &*shared, visitor.as_deref(), &asked)
        });
        let failed = SessionsListResult {
            error: Some("the host ends".to_owned()),
            ..failed
        };
        answered.await.unwrap_or((failed, Vec::new()))
    }

    /// Searches the titles, inputs and outputs of the sessions that this visitor sees. Blocks for
    /// the disk, for about 250 ms; loads no session.
    ///
    /// # Errors
    /// [`SearchError`]
    pub fn search(&self, query: &SearchQuery) -> Result<SearchPage, SearchError> {
        let shared = &self.shared;
        search::search(&shared.journal, &**shared, self.visitor(), query)
    }

    /// Returns a reader of the changes of all sessions that this visitor can see, from now on.
    #[must_use]
    pub fn changes(&self) -> ChangeReader {
        let journal = self.journal().clone();
        self.shared.changes.reader(journal, self.visitor.clone())
    }

    /// Reads the part behind `behind` of the state of all sessions that this visitor can see,
    /// archived ones included. Loads no session. A change that is announced before the call is
    /// part of the state; one that is announced later may be.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn overview(&self, behind: Option<SessionKey>) -> Result<OverviewPage, ReadError> {
        let shared = self.shared.clone();
        let visitor = self.visitor.clone();
        let read = tokio::task::spawn_blocking(move || {
            list::read_overview(&shared.journal, &*shared, visitor.as_deref(), behind)
        });
        // Fails only if the runtime shuts down.
        read.await.unwrap_or_else(|_| {
            Ok(OverviewPage {
                sessions: Vec::new(),
                end: None,
            })
        })
    }

    /// Changes the title of a session, or archives it, whatever its state ([journal.13]). A session
    /// that is not in memory is loaded; its agent receives no request. The result comes when the
    /// change is stored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session may or may not be changed.
    pub async fn edit(&self, id: &SessionId, edit: SessionEdit) -> SessionEditResult {
        let request_id = edit.request_id.clone();
        let error = self.try_edit(id, edit).await.err();
        SessionEditResult { request_id, error }
    }

    async fn try_edit(&self, id: &SessionId, edit: SessionEdit) -> Result<(), String> {
        if let Some(visitor) = self.visitor().filter(|visitor| !visitor.may_speak) {
            return Err(format!("{} may only listen", visitor.name));
        }
        let unloaded = |refused: SessionRefused| refused.message.unwrap_or_default();
        let name = self.visitor().map(|visitor| visitor.author.clone());
        loop {
            let handle = self.session_handle(id).await.map_err(unloaded)?;
            let (done, stored) = oneshot::channel();
            let edit = SessionCommand::Edit(EditSender::Caller(name.clone(), done), edit.clone());
            // A session that has just left the memory is opened again.
            if handle.commands.send(Box::new(edit)).await.is_ok() {
                let lost = "the session left the memory before the change was stored; try it again";
                return stored.await.unwrap_or_else(|_| Err(lost.to_owned()));
            }
        }
    }

    /// Lists the conversations that an agent itself keeps ([relay.10]), each with its agent and with
    /// the session that continues it, if this visitor sees that session and it was active lately.
    /// With a directory, only those that began there. Takes at most 30 s.
    ///
    /// # Errors
    /// [`ConversationsError`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list_conversations(
        &self,
        agent: &str,
        cwd: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<SessionEntry>, ConversationsError> {
        // They may be of any user of this machine.
        let may_list = |visitor: &Visitor| visitor.sees_all && visitor.may_open(agent);
        if !self.visitor().is_none_or(may_list) {
            return Err(ConversationsError::Forbidden);
        }
        let host = &self.shared.host;
        let mut entries = host.native_sessions(agent, cwd, limit).await?;
        let shared = self.shared.clone();
        let visitor = self.visitor.clone();
        let agent = agent.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            list::find_native(&shared.journal, &*shared, visitor.as_deref(), &agent)
        });
        // Fails only if the runtime shuts down.
        let mut continued = found.await.unwrap_or_default();
        for entry in &mut entries {
            entry.session_id = continued.remove(&entry.native_session_id);
        }
        Ok(entries)
    }

    /// Removes a session: nothing of it can be read afterwards.
    ///
    /// # Errors
    /// [`RemoveError`]: the session is unknown or in memory, or the disk fails.
    pub async fn remove(&self, id: &SessionId) -> Result<(), RemoveError> {
        let Some(key) = self.find(id).await else {
            return Err(RemoveError::Unknown);
        };
        if self.visitor().is_some_and(|visitor| !visitor.may_speak) {
            return Err(RemoveError::Denied);
        }
        // The reservation keeps other callers from opening it meanwhile.
        let Some(_reservation) = self.shared.registry.reserve(id).await else {
            return Err(RemoveError::InUse);
        };
        if let Some(recording) = &self.shared.recording {
            let shut = self.lock_entry(id).map_err(|_| RemoveError::InUse)?;
            recording
                .record
                .remove(id, shut.epoch)
                .await
                .map_err(RemoveError::NotRecorded)?;
            shut.lose();
        }
        let change = self.shared.stored_change(id, "removed").await;
        let journal = self.shared.journal.clone();
        let removed = tokio::task::spawn_blocking(move || journal.remove(key)).await;
        removed.unwrap_or(Ok(())).map_err(RemoveError::NotStored)?;
        self.shared.announce(change);
        Ok(())
    }

    /// Returns the number of sessions in memory that have a running or waiting turn.
    #[must_use]
    pub fn busy(&self) -> usize {
        let live = self.shared.registry.all_live();
        live.iter()
            .filter(|handle| handle.shown.get().open_turns > 0)
            .count()
    }

    /// Ends with the host: each session in memory writes its open ends, and leaves. The sessions of
    /// the journal stay. The journal belongs to this process until [`Sessions::close`].
    pub async fn finish(&self) {
        self.shared.journal.mark_ending();
        let (handles, mut tasks) = self.shared.registry.end();
        let mut ends = Vec::new();
        for handle in handles {
            let (done, ended) = oneshot::channel();
            if handle
                .commands
                .send(Box::new(SessionCommand::End(done)))
                .await
                .is_ok()
            {
                ends.push(ended);
            }
        }
        for ended in ends {
            // A dropped sender means that the session has ended, too.
            let _ = ended.await;
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Closes the journal, once nothing of this host runs: from then on another host may have it.
    pub async fn close(&self) {
        let journal = self.shared.journal.clone();
        let closed = tokio::task::spawn_blocking(move || journal.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!("{error}");
        }
    }
}

pub(crate) fn unknown_session() -> SessionRefused {
    ends::refused(
        AttachRefusal::Unknown,
        "the journal has no session with this id",
    )
}

fn refuse_start(reason: AttachRefusal, why: String) -> StartError {
    StartError::Refused(ends::refused(reason, why))
}

/// Position from which to listen.
#[derive(Debug, Clone, Copy)]
enum From {
    /// From the entry after the one that the attach names.
    Entry,
    /// From the next entry on.
    Now,
}

/// Returns the values of a hub that are not stored.
fn secrets(
    env: Option<&BTreeMap<String, String>>,
    mcp_servers: Option<&Json>,
) -> Option<Box<SessionStart>> {
    (env.is_some() || mcp_servers.is_some()).then(|| {
        let env = env.cloned();
        let mcp_servers = mcp_servers.cloned();
        Box::new(SessionStart {
            env,
            mcp_servers,
            ..SessionStart::default()
        })
    })
}

/// Returns the last entry that the journal and a hub have in common, as far as epochs show, if the
/// journal's entry at `after` has another epoch than the hub claims. The search relies on epochs
/// that only grow. A fork happens after a power cut, or with a journal from a backup.
fn fork(journal: &Journal, key: SessionKey, after: u64, epoch: u64) -> Option<u64> {
    let is_other = epoch_of(journal, key, after).is_some_and(|own| own != epoch);
    is_other.then(|| {
        let mut common = 0;
        let mut other = after;
        while other - common > 1 {
            let middle = common + (other - common) / 2;
            match epoch_of(journal, key, middle) {
                Some(own) if own <= epoch => common = middle,
                _ => other = middle,
            }
        }
        common
    })
}

/// Returns the epoch in which an entry was written, if that can be read.
pub(crate) fn epoch_of(journal: &Journal, key: SessionKey, seq: u64) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Epoch {
        epoch: u64,
    }
    let mut line = Vec::new();
    journal.read(key, seq).next(&mut line, 1).ok()?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<Epoch>(line)
        .ok()
        .map(|entry| entry.epoch)
}

/// Reason that the conversations of an agent were not listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationsError {
    /// The visitor does not see all sessions, or may not open sessions of the agent.
    #[error(
        "the conversations of an agent are listed only for a token that sees all sessions and may control them"
    )]
    Forbidden,
    /// The host's reason.
    #[error(transparent)]
    Host(#[from] NativeListError),
}

/// Reason that a session was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The journal has no session with this id.
    #[error("the journal has no session with this id")]
    Unknown,
    /// The session has a listener or a running turn.
    #[error("the session is in use; detach from it, and stop its turn, then try again")]
    InUse,
    /// The visitor may only listen.
    #[error("the caller may only listen")]
    Denied,
    /// The journal could not be written.
    #[error("{0}")]
    NotStored(NotStored),
    /// The record still has the session.
    #[error("{0}")]
    NotRecorded(NotRecorded),
}
