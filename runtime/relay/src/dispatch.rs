//! Dispatch of the hub's messages: checks them by the protocol's tables, and answers them or passes
//! them to their session's task.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, timeout},
};
use trunkline_host::{
    EventDelivery, Host, OpenError, Session, SessionOptions, config::Unenforced, redact,
};
use trunkline_pipe::Key;
use trunkline_protocol::{
    AdapterBody, AdapterInfo, AdapterMessage, AgentsList, AttachRefusal, Capabilities, Category,
    ClosedReason, EnforcedOption, Envelope, ErrorEvent, Extensions, Failure, HostBody, HostMessage,
    HubMessage, InputMode, Item, MIN_MAX_LINE, Meta, PROTOCOL, Pong, Recipient, RelayMessage,
    SessionClosed, SessionId, SessionInfo, SessionReady, SessionStart, SessionsList,
    SessionsListResult, Unread, line_limit,
    rules::{SessionPhase, SessionRule, from_host},
    session_named_in,
};
use trunkline_sessions::{SessionSender, Visitor, ends, serve_in_memory};

use crate::{
    RelayOptions,
    counters::{Counter, LiveCounters},
    directory::{self, LinkFigures},
    hub_sink::{HubSink, RelayShared, drop_unagreed},
    journaled::{self, JOURNAL, JournalSessions, ListenerTasks, NOTES},
    upstream::{OutletGate, Upstream, write_for},
};

/// Number of closed ids that are remembered, to count late messages separately from unknown ones.
const REMEMBERED: usize = 1024;

/// Number of requests for the agents that wait for the agents to describe themselves.
const LISTS: usize = 64;

/// Timeout for all descriptions together.
const DESCRIBED: Duration = Duration::from_secs(15);

/// Time for which a hub that has just received the files of an ended session can still read them
/// ([file.3]).
const FILES_STAY: Duration = Duration::from_secs(30);

/// The sessions of a hub.
pub(crate) struct HubDispatcher {
    host: Host,
    options: RelayOptions,
    upstream: Arc<Upstream>,
    common: Arc<RelayShared>,
    links: HashMap<SessionId, SessionLink>,
    closed: VecDeque<SessionId>,
    /// Sessions that the hub has closed and the host is closing.
    closing: HashSet<Key>,
    sessions: SessionTasks,
    /// Requests for the agents, until these have described themselves.
    lists: Vec<AgentsList>,
    /// The task that queries the agents, and their links for figures, while a request waits.
    describing: JoinSet<Option<LinkFigures>>,
    /// The lists of conversations that agents keep, in progress.
    native_lists: JoinSet<()>,
    /// Sessions of the journal, if the relay has one.
    journaled: Option<JournalSessions>,
    /// Ended sessions whose files can still be read.
    kept: VecDeque<(Instant, Session)>,
}

/// The tasks of the sessions.
pub(crate) type SessionTasks = JoinSet<EndedSession>;

/// The result of a session's task that has ended.
pub(crate) struct EndedSession {
    id: SessionId,
    key: Key,
    session: Option<Session>,
}

/// The dispatcher's handle to a session's task.
struct SessionLink {
    key: Key,
    /// Set for a hub with a judge: permissions may differ between agents.
    agent: Option<Box<str>>,
    hub: Recipient,
    sender: SessionSender,
    gate: Arc<OutletGate>,
}

impl HubDispatcher {
    pub(crate) fn new(host: Host, options: RelayOptions, upstream: Arc<Upstream>) -> Self {
        let common = RelayShared {
            tools: options.tools_as_output,
            counters: LiveCounters::default(),
        };
        let journaled = options
            .sessions
            .clone()
            .map(|sessions| JournalSessions::new(sessions, upstream.clone()));
        Self {
            host,
            options,
            upstream,
            journaled,
            common: Arc::new(common),
            links: HashMap::new(),
            closed: VecDeque::new(),
            closing: HashSet::new(),
            sessions: JoinSet::new(),
            lists: Vec::new(),
            describing: JoinSet::new(),
            native_lists: JoinSet::new(),
            kept: VecDeque::new(),
        }
    }

    /// Waits for the end of a task and handles its result.
    ///
    /// # Cancel safety
    /// No end is lost.
    pub(crate) async fn task_ended(&mut self) {
        tokio::select! {
            Some(gone) = self.sessions.join_next() => self.forget_session(gone),
            Some(asked) = self.describing.join_next() => self.agents_asked(asked.ok().flatten().as_ref()),
            else => std::future::pending().await,
        }
    }

    fn counters(&self) -> &LiveCounters {
        &self.common.counters
    }

    /// Answers waiting requests, closes the inboxes of the sessions, which then finish, and returns
    /// their tasks.
    pub(crate) fn into_tasks(mut self) -> (SessionTasks, ListenerTasks, Arc<RelayShared>) {
        self.answer_lists(None);
        (
            self.sessions,
            self.journaled
                .map(JournalSessions::into_listeners)
                .unwrap_or_default(),
            self.common,
        )
    }

    /// Handles an item found in the hub's bytes. Input that cannot be understood is counted and
    /// never answered ([msg.4]).
    ///
    /// Waits for no pipe, only for a session's task to take its messages.
    pub(crate) async fn handle_item(&mut self, item: Item<'_>) {
        let message = match item {
            Item::Line(line) => match HostMessage::parse(line) {
                Ok(message) => message,
                Err(Unread::UnknownType { .. }) => match HubMessage::parse(line) {
                    Ok(message) => {
                        if let Err(why) = self
                            .options
                            .judge
                            .as_ref()
                            .map_or(Ok(()), |judge| judge.hear_hub(&message))
                        {
                            return self.refuse_hub_message(&message, why);
                        }
                        return self.take_journal(message).await;
                    }
                    Err(unread) => return self.drop_line(&unread),
                },
                Err(unread) => return self.drop_line(&unread),
            },
            Item::TooLong { first, bytes } => return self.report_too_long(first, bytes),
            Item::NotUtf8 { .. } | Item::NotObject(_) | Item::Cut(_) => {
                count(&self.counters().noise);
                return tracing::debug!("a line of the hub was not a message");
            }
        };
        match self.authorize(&message).await {
            Ok(()) => self.handle_message(message).await,
            Err(why) => self.refuse_message(message, why),
        }
    }

    /// Counts a line of the hub that is not a message. It is not answered ([msg.4]).
    fn drop_line(&self, unread: &Unread) {
        let counters = self.counters();
        count(match unread {
            Unread::Noise => &counters.noise,
            Unread::UnknownType { .. } => &counters.unknown_type,
            _ => &counters.bad,
        });
        let text = unread.to_string();
        let why = redact::text(&text);
        if matches!(unread, Unread::Bad { .. }) {
            tracing::warn!("a message of the hub is dropped: {why}");
        } else {
            tracing::debug!("a line of the hub is skipped: {why}");
        }
    }

    /// Checks that the hub is allowed to send a message.
    async fn authorize(&self, message: &HostMessage) -> Result<(), String> {
        let Some(judge) = &self.options.judge else {
            return Ok(());
        };
        let agent = match &message.body {
            HostBody::SessionStart(start) => {
                start.agent_id.clone().or_else(|| self.host.default_agent())
            }
            HostBody::SessionUpdate(_) => {
                match self
                    .journaled
                    .as_ref()
                    .filter(|own| own.has_session(&message.session_id))
                {
                    Some(journaled) => journaled.session_agent(&message.session_id).await,
                    None => self
                        .links
                        .get(&message.session_id)
                        .and_then(|link| link.agent.as_deref().map(str::to_owned)),
                }
            }
            _ => None,
        };
        judge.hear_host(message, agent.as_deref())
    }

    /// Answers a forbidden message: with the end of what it would have begun, otherwise with an
    /// `error`.
    fn refuse_message(&self, message: HostMessage, why: String) {
        count(&self.counters().forbidden);
        let HostMessage {
            session_id,
            turn_id,
            body,
            ..
        } = message;
        let failure = Failure::new(Category::PermissionDenied, why);
        let max_line = match &body {
            HostBody::SessionStart(start) => start.max_line,
            _ => None,
        };
        // The values stay as they are: each update has its answer.
        let unchanged = matches!(body, HostBody::SessionUpdate(_)).then(SessionInfo::default);
        let body: AdapterBody = match body {
            HostBody::SessionStart(_) => SessionClosed {
                reason: Some(ClosedReason::Refused),
                error: Some(failure),
                cause: None,
            }
            .into(),
            HostBody::UserInput(input) if input.mode != Some(InputMode::Steer) => {
                ends::forbidden(failure).into()
            }
            _ => ErrorEvent {
                category: failure.category,
                message: failure.message.unwrap_or_default(),
                fatal: Some(false),
                ..ErrorEvent::default()
            }
            .into(),
        };
        let hub = match self.links.get(&session_id) {
            Some(link) => link.hub,
            None => self.recipient(Extensions::all(), max_line),
        };
        let mut answer = AdapterMessage::new(session_id.clone(), body);
        answer.turn_id = turn_id;
        self.write_message(answer, &hub);
        if let Some(unchanged) = unchanged {
            self.write_message(AdapterMessage::new(session_id, unchanged), &hub);
        }
    }

    fn refuse_hub_message(&self, message: &HubMessage, why: String) {
        count(&self.counters().forbidden);
        let refused = journaled::refusal(&message.body, AttachRefusal::Forbidden, why);
        let refused = RelayMessage::new(message.session_id.clone(), refused);
        self.upstream.put_control(&refused.to_line());
    }

    /// Reports a line over the limit to the session that its first bytes name ([frame.5]).
    fn report_too_long(&self, first: &[u8], bytes: u64) {
        count(&self.counters().too_long);
        tracing::debug!(
            bytes,
            "a line of the hub was over the limit and was skipped"
        );
        let named = session_named_in(first).and_then(|id| self.links.get_key_value(&id));
        if let Some((id, link)) = named.filter(|(_, link)| !link.gate.is_ended()) {
            let event = ErrorEvent {
                category: Some(Category::Oversize),
                message: format!("a line of {bytes} bytes is over the limit and was skipped"),
                fatal: Some(false),
                ..ErrorEvent::default()
            };
            self.write_message(
                AdapterMessage::new(id.clone(), AdapterBody::from(event)),
                &link.hub,
            );
        }
    }

    /// Writes a message of the relay itself, in the form that the session agreed on.
    fn write_message(&self, message: AdapterMessage, hub: &Recipient) {
        let session = message.session_id.clone();
        write_for(&session, hub, message, self.counters(), |line| {
            self.upstream.put_control(&line);
        });
    }

    fn recipient(&self, agreed: Extensions, max_line: Option<u64>) -> Recipient {
        Recipient {
            agreed,
            tools: self.common.tools,
            max_line: line_limit(max_line.filter(|_| !agreed.is_empty())),
        }
    }

    /// Handles a message that only a hub of a journal sends.
    async fn take_journal(&mut self, message: HubMessage) {
        count(&self.counters().messages);
        let is_other = self
            .links
            .get(&message.session_id)
            .is_some_and(|link| !link.gate.is_ended());
        match &mut self.journaled {
            Some(journaled) if !is_other => journaled.handle_message(message).await,
            _ => JournalSessions::refuse_message(&self.upstream, &message),
        }
    }

    async fn handle_message(&mut self, mut message: HostMessage) {
        if !message.body.kind().is_of_pipe()
            && let Some(journaled) = self
                .journaled
                .as_mut()
                .filter(|own| own.has_session(&message.session_id))
        {
            count(&self.common.counters.messages);
            return journaled.forward_message(message).await;
        }
        let kind = message.body.kind();
        let link = self
            .links
            .get(&message.session_id)
            .filter(|link| !link.gate.is_ended());
        let phase = match link {
            Some(_) => SessionPhase::Open,
            None if self.closed.contains(&message.session_id) => SessionPhase::Closed,
            None => SessionPhase::Unstarted,
        };
        let counters = self.counters();
        match (from_host(phase, kind), link) {
            (SessionRule::Accept, Some(link)) if !kind.is_agreed(link.hub.agreed) => {
                count(&counters.unknown_type);
                return tracing::debug!(
                    kind = kind.as_str(),
                    "a message of an extension that was not agreed on"
                );
            }
            (SessionRule::Accept, Some(link)) => {
                // The task has ended only if the session has just ended: then the message is late.
                drop_unagreed(&mut message, link.hub.agreed);
                if !link.sender.send(message).await {
                    return count(&self.counters().late);
                }
            }
            (SessionRule::Close, Some(_)) => {
                let id = message.session_id.clone();
                if let Some(link) = self.links.remove(&id) {
                    self.closing.insert(link.key);
                    // A session whose task has ended is closed already.
                    link.sender.send(message).await;
                }
                self.remember_closed(id);
            }
            (SessionRule::Open, _) => self.open_session(message).await,
            (SessionRule::Pipe, _) => self.answer_pipe(message.body),
            (SessionRule::IgnoreUnknown | SessionRule::Accept | SessionRule::Close, _) => {
                return count(&counters.unknown_session);
            }
            (SessionRule::IgnoreLate, _) => return count(&counters.late),
            (SessionRule::IgnoreRepeated, _) => return count(&counters.repeated),
        }
        count(&self.counters().messages);
    }

    /// Opens a session: answers at once, and leaves the rest to the session's task ([relay.8]).
    async fn open_session(&mut self, message: HostMessage) {
        let HostMessage {
            session_id: id,
            meta,
            body: HostBody::SessionStart(start),
            ..
        } = message
        else {
            return;
        };
        let agreed = start
            .extensions
            .as_ref()
            .map_or(Extensions::empty(), Extensions::from_names);
        let agent = start
            .agent_id
            .clone()
            .or_else(|| self.host.default_agent())
            .unwrap_or_default();
        let served = start.protocol.is_none_or(|version| version >= PROTOCOL);
        if journaled::is_offered(JOURNAL, start.extensions.as_deref())
            && served
            && self.journaled.is_some()
        {
            return self.open_journaled(&id, &agent, *start, meta, agreed);
        }
        let has_notes = journaled::is_offered(NOTES, start.extensions.as_deref());
        let hub = self.recipient(agreed, start.max_line);
        let with_files = Extensions::LARGE | Extensions::OPTIONS;
        let folder = start.exchange_dir.as_ref().map(PathBuf::from);
        let folder = folder.filter(|folder| agreed.contains(with_files) && folder.is_absolute());
        let outlet = self.upstream.outlet();
        if !agreed.is_empty() {
            let mut ready = self.ready_message(&agent, &start, agreed);
            if has_notes {
                ready
                    .extensions
                    .get_or_insert_default()
                    .push(NOTES.to_owned());
            }
            self.write_message(Envelope::new(id.clone(), ready), &hub);
        }
        let opened = if !self.may_open(&agent) {
            let why = format!("this hub may not use the agent {agent}");
            Err(SessionClosed {
                reason: Some(ClosedReason::Refused),
                error: Some(Failure::new(Category::PermissionDenied, why)),
                cause: None,
            })
        } else if served {
            self.open_below(&agent, &id, &agent_options(*start), meta.as_ref())
                .await
        } else {
            let version = start.protocol.unwrap_or_default();
            let why = format!(
                "version {version} of the protocol was asked for; this relay speaks version {PROTOCOL}"
            );
            Err(SessionClosed {
                reason: Some(ClosedReason::Protocol),
                error: Some(Failure::new(Category::Protocol, why)),
                cause: None,
            })
        };
        let key = outlet.key();
        let gate = outlet.gate();
        let sink = HubSink::new(
            id.clone(),
            hub,
            has_notes,
            folder,
            outlet,
            self.common.clone(),
        );
        let may_approve = self.visitor().is_none_or(|visitor| visitor.may_approve);
        let (sender, served) = serve_in_memory(id.clone(), opened, Box::new(sink), may_approve);
        let agent = self.options.judge.is_some().then(|| agent.into_boxed_str());
        let link = SessionLink {
            key,
            agent,
            hub,
            sender,
            gate,
        };
        self.links.insert(id.clone(), link);
        // In a box, since a task keeps room for a future both before and while it awaits it.
        let served = Box::pin(served);
        self.sessions.spawn(async move {
            let session = served.await;
            EndedSession { id, key, session }
        });
    }

    fn visitor(&self) -> Option<&Visitor> {
        self.options
            .sessions
            .as_ref()
            .and_then(trunkline_sessions::Sessions::visitor)
    }

    fn may_open(&self, agent: &str) -> bool {
        self.visitor().is_none_or(|visitor| visitor.may_open(agent))
    }

    /// Opens a session of the journal ([journal.2]).
    fn open_journaled(
        &mut self,
        id: &SessionId,
        agent: &str,
        start: SessionStart,
        meta: Option<Meta>,
        agreed: Extensions,
    ) {
        // Members in files would be lost: an entry contains its whole message.
        let mut ready = self.ready_message(agent, &start, agreed - Extensions::LARGE);
        ready
            .extensions
            .get_or_insert_default()
            .push(JOURNAL.to_owned());
        let ready = AdapterMessage::new(id.clone(), Box::new(ready)).to_line();
        let Some(journaled) = &mut self.journaled else {
            return;
        };
        let max_line = start.max_line;
        if let Err(closed) = journaled.start_session(id, agent, agent_options(start), meta, &ready)
        {
            // The message ends the session, whatever else the hub understands.
            let hub = self.recipient(Extensions::all(), max_line);
            self.write_message(AdapterMessage::new(id.clone(), closed), &hub);
        }
    }

    /// Opens the host's session. Sessions that the hub closed earlier make room first.
    async fn open_below(
        &mut self,
        agent: &str,
        id: &SessionId,
        start: &SessionStart,
        meta: Option<&Meta>,
    ) -> Result<Session, SessionClosed> {
        loop {
            let id = Some(id.clone());
            let start = start.clone();
            let meta = meta.cloned();
            match self.host.open(
                agent,
                SessionOptions {
                    id,
                    start,
                    meta,
                    delivery: EventDelivery::Merged,
                },
            ) {
                Err(OpenError::TooManySessions { .. } | OpenError::AdapterFull { .. })
                    if !self.closing.is_empty() =>
                {
                    match self.sessions.join_next().await {
                        Some(gone) => self.forget_session(gone),
                        None => self.closing.clear(),
                    }
                }
                opened => return opened.map_err(|error| ends::refusal(&error)),
            }
        }
    }

    /// Builds the `session.ready` from what the relay knows before the agent has sent anything.
    fn ready_message(&self, agent: &str, start: &SessionStart, agreed: Extensions) -> SessionReady {
        let (config, capabilities) = self
            .host
            .agent(agent)
            .map(|status| (status.config, status.capabilities))
            .unzip();
        let declared = capabilities
            .flatten()
            .and_then(|declared| declared.max_sessions)
            .filter(|most| *most > 0);
        let configured = config
            .as_ref()
            .and_then(|config| config.limits.max_sessions)
            .map(|limit| limit as u64);
        let max_sessions = configured.into_iter().chain(declared).min();
        // The host below enforces the limits itself, and refuses the session if the agent does not apply the
        // others ([ext.7]).
        let enforced = config
            .as_ref()
            .is_some_and(|config| config.unenforced != Unenforced::Allow);
        let of_agent = start
            .enforced_options()
            .filter(|option| enforced && !EnforcedOption::LIMITS.contains(option));
        let applied = of_agent
            .chain(EnforcedOption::LIMITS)
            .map(|option| option.name().to_owned())
            .collect();
        SessionReady {
            protocol: Some(PROTOCOL),
            extensions: Some(agreed.to_names()),
            max_line: Some(self.options.max_line.max(MIN_MAX_LINE) as u64),
            info: SessionInfo {
                adapter: Some(AdapterInfo {
                    name: self.options.name.clone(),
                    version: Some(self.options.version.clone()),
                }),
                capabilities: Some(Capabilities {
                    turn_completion: Some(true),
                    max_sessions,
                    ..Capabilities::default()
                }),
                input_modes: Some(vec!["queue".to_owned(), "steer".to_owned()]),
                options_applied: agreed.contains(Extensions::OPTIONS).then_some(applied),
                ..SessionInfo::default()
            },
        }
    }

    /// Answers a message of the pipe itself, whatever was agreed on ([ext.9]).
    fn answer_pipe(&mut self, body: HostBody) {
        let body: AdapterBody = match body {
            HostBody::Ping(ping) => Pong { nonce: ping.nonce }.into(),
            HostBody::AgentsList(list) => return self.list_agents(list),
            HostBody::SessionsList(list) => {
                let asks = journaled::is_offered(JOURNAL, list.extensions.as_deref());
                if let Some(journaled) = self.journaled.as_mut().filter(|_| asks) {
                    return journaled.list_sessions(list);
                }
                return self.list_native(list);
            }
            _ => return,
        };
        self.upstream
            .put_control(&AdapterMessage::new(SessionId::none(), body).to_line());
    }

    /// Answers with the conversations that an agent itself keeps ([relay.10]).
    fn list_native(&mut self, asked: SessionsList) {
        while self.native_lists.try_join_next().is_some() {}
        let agent = asked.agent_id.clone();
        let agent = agent.or_else(|| self.host.default_agent());
        let upstream = self.upstream.clone();
        let answer = move |result: SessionsListResult| {
            let message = AdapterMessage::new(SessionId::none(), AdapterBody::from(result));
            upstream.put_control(&message.to_line());
        };
        let request_id = asked.request_id;
        let failed = move |why: String| SessionsListResult {
            error: Some(why),
            ..SessionsListResult::to(request_id.clone())
        };
        if self.native_lists.len() >= LISTS {
            let why = "too many wait already; ask again when one is answered";
            return answer(failed(why.to_owned()));
        }
        let Some(agent) = agent else {
            return answer(failed("this host has no agents".to_owned()));
        };
        let host = self.host.clone();
        let sessions = self.options.sessions.clone();
        self.native_lists.spawn(async move {
            let listed = match sessions {
                Some(sessions) => sessions
                    .list_conversations(&agent, asked.cwd, asked.limit)
                    .await
                    .map_err(|error| error.to_string()),
                None => host
                    .native_sessions(&agent, asked.cwd, asked.limit)
                    .await
                    .map_err(|error| error.to_string()),
            };
            answer(match listed {
                Ok(entries) => SessionsListResult {
                    entries: Some(entries),
                    error: None,
                    ..failed(String::new())
                },
                Err(why) => failed(why),
            });
        });
    }

    /// Answers with the agents, after querying the unknown agents, and the links for the figures
    /// that the hub requests ([relay.4]). Answers at once if too many requests wait.
    fn list_agents(&mut self, mut list: AgentsList) {
        if !self.options.is_of_user {
            // A hub does not see the sessions of others, except on a socket of the relay: all hubs
            // there belong to its user.
            list.sessions = None;
        }
        self.lists.push(list);
        self.ask_agents();
        if self.lists.len() > LISTS {
            self.answer_lists(None);
        }
    }

    /// Starts the query that the waiting lists need, unless one is under way.
    fn ask_agents(&mut self) {
        if !self.describing.is_empty() || self.lists.is_empty() {
            return;
        }
        let host = self.host.clone();
        let needs_figures = self.lists.iter().any(needs_figures);
        let mut asked = Box::pin(async move {
            // Agents that have not described themselves by then are left out.
            let _ = timeout(DESCRIBED, host.describe()).await;
            if needs_figures {
                Some(LinkFigures::request(&host).await)
            } else {
                None
            }
        });
        match asked.as_mut().now_or_never() {
            Some(figures) => self.answer_lists(figures.as_ref()),
            None => drop(self.describing.spawn(asked)),
        }
    }

    /// Answers the waiting lists. A list that came too late for the figures it needs gets the next
    /// ones.
    fn agents_asked(&mut self, figures: Option<&LinkFigures>) {
        let waits = |list: &mut AgentsList| figures.is_none() && needs_figures(list);
        let later: Vec<_> = self.lists.extract_if(.., waits).collect();
        self.answer_lists(figures);
        self.lists = later;
        self.ask_agents();
    }

    fn answer_lists(&mut self, figures: Option<&LinkFigures>) {
        for list in std::mem::take(&mut self.lists) {
            let answer = directory::answer(&self.host, &list, figures, self.visitor());
            self.upstream.put_control(&answer);
        }
    }

    /// Removes a session whose task has ended.
    fn forget_session(&mut self, gone: Result<EndedSession, JoinError>) {
        let EndedSession { id, key, session } = match gone {
            Ok(gone) => gone,
            Err(error) => {
                // The failed task's session is unknown, so the relay stops waiting for all closing
                // sessions.
                self.closing.clear();
                return tracing::error!(%error, "a session's task has failed");
            }
        };
        self.closing.remove(&key);
        if self.links.get(&id).is_some_and(|link| link.key == key) {
            self.links.remove(&id);
            self.remember_closed(id);
        }
        let now = Instant::now();
        while self
            .kept
            .front()
            .is_some_and(|(since, _)| *since + FILES_STAY < now)
        {
            self.kept.pop_front();
        }
        self.kept.extend(session.map(|session| (now, session)));
    }

    fn remember_closed(&mut self, id: SessionId) {
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back(id);
    }
}

/// Returns true if an answer needs figures from the links.
fn needs_figures(list: &AgentsList) -> bool {
    list.health == Some(true) || list.sessions.is_some()
}

fn count(count: &Counter) {
    count.add_one();
}

/// Returns a hub's start for the host below, without the members that only concern hub and relay.
fn agent_options(start: SessionStart) -> SessionStart {
    SessionStart {
        protocol: None,
        extensions: None,
        max_line: None,
        // The relay has used it; below, it would select the agent of a further relay.
        agent_id: None,
        exchange_dir: None,
        ..start
    }
}
