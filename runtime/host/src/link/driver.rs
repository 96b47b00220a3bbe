//! The one task of a link: takes commands, reads lines, writes messages, keeps time.
//!
//! Each wake does a bounded amount of each, so that a `stop` passes through a flood: up to [`COMMANDS`] commands,
//! writes until the pipe is full, one read, what is due. The driver waits for no consumer, no permission and no pipe;
//! the one thing that pauses its reading is a spool disk that cannot keep up ([`Pressure`]).

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::Sleep};
use trunkline_process::{Escalation, Step, StopSteps};
use trunkline_protocol::{
    Category, Failure, Head, Item, Meta, SessionInfo, Unread, session_named_in, type_named_in,
};

use super::{
    Command, Connect, Inbox,
    connection::{Connection, EXIT_GRACE, start_failure},
    judge::{Case, Judge},
};
use crate::{
    Event, EventKind, Feed, Held, Place, TurnNo,
    agent::AgentShared,
    core::{Core, Effect, Ended, Key, NewSession, Noted, ProcessEnd, Standing, Ticket, WhyClosed},
    error::{SteerError, UpdateError},
    lane::{Lane, Pushed},
    session::SessionShared,
    spool::Pressure,
};

/// How many commands are taken in one wake.
const COMMANDS: usize = 64;
/// How often one wake writes.
const WRITES: usize = 4;
/// How many bytes of answers may wait for an adapter at least, however small its outbox is to be.
const ANSWERS: usize = 1024 * 1024;
/// How long a process whose input is broken may go on.
const BROKEN_GRACE: Duration = Duration::from_secs(1);

/// The driver of one agent's link. It lives as long as its host.
pub(crate) struct Driver {
    core: Core,
    agent: Arc<AgentShared>,
    inbox: Arc<Inbox>,
    connect: Connect,
    judge: Judge,
    pressure: Arc<Pressure>,
    /// How many bytes may wait for the disk before reading pauses.
    backlog: usize,
    /// Whether reading pauses, since the disk is slower than the adapter.
    paused: bool,
    /// The sessions by their place in the core.
    sessions: Vec<Option<Entry>>,
    connection: Option<Box<Connection>>,
    starting: Option<Work<Result<Box<Connection>, Failure>>>,
    ending: Option<Work<ProcessEnd>>,
    /// When a process whose input is broken is killed.
    broken: Option<Instant>,
    stopping: Escalation,
    /// How long a process that was told to end may go on without its output.
    last_wait: Option<Duration>,
    stopped: Vec<oneshot::Sender<()>>,
    down: bool,
    commands: VecDeque<Command>,
    /// Who is woken after this wake's events.
    touched: Vec<Lane>,
    waiting: HashMap<Ticket, Waiting>,
    ticket: u64,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// What goes on beside the loop.
type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A session's way to its user.
struct Entry {
    shared: Arc<SessionShared>,
    /// The turns under way; the first is mostly the one that speaks.
    turns: VecDeque<(TurnNo, Lane)>,
    /// The working directory that it asked for: files may come from there.
    cwd: Option<Box<str>>,
}

enum Waiting {
    Steer(oneshot::Sender<Result<(), SteerError>>),
    Update(oneshot::Sender<Result<SessionInfo, UpdateError>>),
}

/// What one wake found.
#[derive(Default)]
struct Wake {
    commands: bool,
    wrote: Option<io::Result<()>>,
    read: Option<io::Result<usize>>,
    exited: bool,
    started: Option<Result<Box<Connection>, Failure>>,
    ended: Option<Box<ProcessEnd>>,
    due: bool,
}

impl Driver {
    pub(crate) fn new(
        core: Core,
        agent: Arc<AgentShared>,
        connect: Connect,
        roots: Vec<std::path::PathBuf>,
    ) -> Self {
        let judge = Judge {
            store: agent.files.clone(),
            roots,
            counting: agent.counting.clone(),
            under_way: Arc::default(),
        };
        Self {
            core,
            inbox: agent.inbox.clone(),
            connect,
            judge,
            pressure: Arc::default(),
            paused: false,
            backlog: agent.inbox.store().limits.backlog,
            sessions: Vec::new(),
            connection: None,
            starting: None,
            ending: None,
            broken: None,
            stopping: Escalation::new(),
            last_wait: None,
            stopped: Vec::new(),
            down: false,
            commands: VecDeque::new(),
            touched: Vec::new(),
            waiting: HashMap::new(),
            ticket: 0,
            timer: None,
            agent,
        }
    }

    /// Runs until the host shuts down and the process is gone.
    pub(crate) async fn run(mut self) {
        while !self.is_over() {
            let wake = std::future::poll_fn(|cx| self.poll_wake(cx)).await;
            self.handle(wake);
            self.report();
        }
        let stopped = std::mem::take(&mut self.stopped);
        // Who waits for the end finds everything let go.
        drop(self);
        for done in stopped {
            // Who waits no more needs no answer.
            let _ = done.send(());
        }
    }

    fn is_over(&self) -> bool {
        self.down
            && self.connection.is_none()
            && self.starting.is_none()
            && self.ending.is_none()
            && self.inbox.is_empty()
    }

    /// Polls everything there is to wait for. Each source is cancel-safe: what it yields is handled before the next poll.
    fn poll_wake(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        let mut wake = Wake {
            commands: self.inbox.poll_take(COMMANDS, &mut self.commands, cx).is_ready(),
            ..Wake::default()
        };
        let mut any = wake.commands;
        if let Some(connection) = &mut self.connection {
            for _ in 0..WRITES {
                let Some(input) = connection.input.as_mut().filter(|_| !connection.outbox.is_empty()) else {
                    break;
                };
                let Poll::Ready(wrote) = input.poll_write(&mut connection.outbox, cx) else { break };
                any = true;
                let failed = wrote.is_err();
                self.agent.counting.bytes_out.add(wrote.as_ref().map_or(0, |bytes| *bytes as u64));
                wake.wrote = Some(wrote.map(|_| ()));
                if failed {
                    break;
                }
            }
            let paused = self.pressure.is_high(self.backlog)
                && self.pressure.poll_eased(self.backlog, cx).is_pending();
            if paused && !std::mem::replace(&mut self.paused, paused) {
                self.agent.counting.pauses.one();
            }
            self.paused = paused;
            if let Some(output) = connection.output.as_mut().filter(|_| !paused)
                && let Poll::Ready(read) = output.poll_read(connection.lines.space(), cx)
            {
                wake.read = Some(read);
                any = true;
            }
            // An exit is handled after what was read, and looked at each time: a descendant may go on writing for ever.
            if let Some(child) = &mut connection.child
                && child.poll_wait(cx).is_ready()
            {
                wake.exited = true;
                any = true;
            }
        }
        if let Some(starting) = &mut self.starting
            && let Poll::Ready(started) = starting.as_mut().poll(cx)
        {
            self.starting = None;
            wake.started = Some(started);
            any = true;
        }
        if let Some(ending) = &mut self.ending
            && let Poll::Ready(ended) = ending.as_mut().poll(cx)
        {
            self.ending = None;
            wake.ended = Some(Box::new(ended));
            any = true;
        }
        wake.due = self.poll_timer(cx).is_ready();
        if any || wake.due { Poll::Ready(wake) } else { Poll::Pending }
    }

    /// Ready when something is due. The timer is moved only to an earlier time; a late one finds nothing due.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due =
            [self.core.poll_timeout(), self.stopping.deadline(), self.broken].into_iter().flatten().min();
        let Some(due) = due else { return Poll::Pending };
        let (at, sleep) =
            self.timer.get_or_insert_with(|| (due, Box::pin(tokio::time::sleep_until(due.into()))));
        if due < *at {
            *at = due;
            sleep.as_mut().reset(due.into());
        }
        std::task::ready!(sleep.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(())
    }

    fn handle(&mut self, wake: Wake) {
        let now = now();
        if wake.commands {
            while let Some(command) = self.commands.pop_front() {
                self.command(command, now);
                self.apply(now);
            }
        }
        if let Some(started) = wake.started {
            self.started(started, now);
        }
        if let Some(Err(error)) = wake.wrote {
            self.input_broke(&error, now);
        }
        match wake.read {
            Some(Ok(0) | Err(_)) => self.output_ended(now),
            Some(Ok(bytes)) => self.received(bytes, now),
            None => {}
        }
        if wake.exited {
            self.exited(now);
        }
        if let Some(ended) = wake.ended {
            self.core.handle_ended(&ended, now);
            self.broken = None;
        }
        if wake.due {
            self.core.handle_timeout(now);
            if self.broken.is_some_and(|broken| broken <= now) {
                self.broken = None;
                self.kill(Ended::Exit);
            }
        }
        self.apply(now);
        self.go_on_stopping(now);
        if self.connection.as_ref().is_some_and(|connection| connection.output.is_none()) {
            // Streams that were ended by force: no end of theirs comes to be read.
            self.output_ended(now);
        }
        for lane in self.touched.drain(..) {
            lane.wake();
        }
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Open { session, chosen, start, meta } => {
                let cwd = start.as_ref().and_then(|start| start.cwd.as_deref()).map(Box::from);
                let key =
                    self.core.handle_open(NewSession { id: session.id.clone(), chosen, start, meta }, now);
                session.key.store(key.to_bits(), Ordering::Release);
                let index = key.index() as usize;
                if self.sessions.len() <= index {
                    self.sessions.resize_with(index + 1, || None);
                }
                self.sessions[index] = Some(Entry { shared: session.clone(), turns: VecDeque::new(), cwd });
                if self.down {
                    self.core.handle_close(key, WhyClosed::Shutdown, now);
                }
            }
            Command::Send { session, turn, lane, input, meta } => {
                let key = key_of(&session);
                let bytes = input.content.len();
                match self.entry(key) {
                    Some(entry) => {
                        match entry.shared.feed {
                            Feed::PerTurn => entry.turns.push_back((turn, lane)),
                            Feed::Merged => lane.discard(),
                        }
                        self.core.handle_send(key, turn, input, meta, now);
                    }
                    None => {
                        // The session ended while the input was on its way.
                        session.inbox.release(&session.waiting, bytes);
                        let cause = if self.down { crate::Cause::Shutdown } else { crate::Cause::Closed };
                        let end = Box::new(crate::TurnEnd::unsent(turn, cause));
                        lane.finish(Event {
                            place: Place::Turn(turn),
                            kind: EventKind::End(end),
                            meta: None,
                        });
                    }
                }
            }
            Command::Steer { session, input, meta, reply } => {
                let ticket = self.wait(Waiting::Steer(reply));
                self.core.handle_steer(key_of(&session), *input, meta, ticket);
            }
            Command::Update { session, update, reply } => match self.agent.may_update(&update) {
                Ok(()) => {
                    let ticket = self.wait(Waiting::Update(reply));
                    self.core.handle_update(key_of(&session), update, ticket, now);
                }
                Err(option) => drop(reply.send(Err(UpdateError::WouldWiden(option)))),
            },
            Command::File { session, file } => self.core.handle_file(key_of(&session), file, now),
            Command::Stop { session, turn, reason } => {
                self.core.handle_stop(key_of(&session), turn, reason, now)
            }
            Command::Answer { session, request_id, serial, answer } => {
                self.core.handle_answer(key_of(&session), &request_id, serial, answer, now);
            }
            Command::Hold { session, held } => {
                self.core.handle_hold(key_of(&session), held == Held::Yes, now)
            }
            Command::Close { session, done } => {
                self.core.handle_close(key_of(&session), WhyClosed::User, now);
                self.apply(now);
                if let Some(done) = done {
                    // Who waits no more needs no answer.
                    let _ = done.send(());
                }
            }
            Command::Retry => self.core.handle_retry(now),
            Command::Shutdown { steps, done } => {
                self.stopped.extend(done);
                if !std::mem::replace(&mut self.down, true) {
                    self.core.handle_shutdown(now);
                    self.stopping
                        .begin(now, StopSteps { close: steps.close, eof: steps.eof, term: steps.term });
                    self.last_wait = Some(steps.eof);
                }
            }
        }
    }

    /// Hands what was read to the core, line by line.
    fn received(&mut self, bytes: usize, now: Instant) {
        let Some(mut connection) = self.connection.take() else { return };
        self.agent.counting.bytes_in.add(bytes as u64);
        connection.lines.filled(bytes);
        let mut lines = 0;
        while let Some(item) = connection.lines.next() {
            lines += 1;
            self.item(item, now);
            self.apply_with(Some(&mut connection), now);
        }
        self.agent.counting.lines_in.add(lines);
        self.connection = Some(connection);
    }

    fn item(&mut self, item: Item<'_>, now: Instant) {
        let counting = &self.agent.counting;
        match item {
            Item::Line(line) => {
                let Err(unread) = Head::read(line).and_then(|head| self.core.handle_line(head, now)) else {
                    return;
                };
                let counting = &self.agent.counting;
                match &unread {
                    Unread::Noise => counting.noise.one(),
                    Unread::UnknownType { .. } => counting.unknown_type.one(),
                    Unread::Bad { session_id, kind, .. } => {
                        counting.bad.one();
                        if kind.is_none()
                            && let Some(session_id) = session_id
                        {
                            self.core.handle_bad(
                                session_id.as_str(),
                                Category::Protocol,
                                &unread.to_string(),
                            );
                        }
                    }
                    _ => counting.bad.one(),
                }
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = line.len(),
                    "a line was not taken: {unread}"
                );
            }
            Item::TooLong { first, bytes } => {
                counting.too_long.one();
                tracing::debug!(agent = &*self.agent.id, bytes, "a line was over the limit and was skipped");
                if let Some(session_id) = session_named_in(first) {
                    let why =
                        format!("a line of {bytes} bytes was over the limit (`max_line`) and was skipped");
                    self.core.handle_bad(session_id.as_str(), Category::Oversize, &why);
                    if type_named_in(first).as_deref() == Some("turn.complete") {
                        self.core.handle_oversize_end(session_id.as_str(), now);
                    }
                }
            }
            Item::NotUtf8 { line } => {
                counting.noise.one();
                tracing::debug!(agent = &*self.agent.id, bytes = line.len(), "a line was no UTF-8");
                if let Some(session_id) = session_named_in(line) {
                    self.core.handle_bad(
                        session_id.as_str(),
                        Category::Protocol,
                        "a message was no UTF-8 and was skipped",
                    );
                }
            }
            Item::NotObject(line) => {
                counting.noise.one();
                tracing::debug!(agent = &*self.agent.id, bytes = line.len(), "a line was no message");
            }
            Item::Cut(rest) => {
                counting.noise.one();
                tracing::debug!(
                    agent = &*self.agent.id,
                    bytes = rest.len(),
                    "the output ended within a line"
                );
            }
        }
    }

    /// The output has ended: takes the last line, then waits for the process's end beside the loop.
    fn output_ended(&mut self, now: Instant) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.output = None;
        if let Some(item) = connection.lines.finish() {
            self.item(item, now);
            self.apply_with(Some(&mut connection), now);
        }
        self.inbox.unwritten.store(0, Ordering::Release);
        // One that was told to end may take the time that its stop gives it: it may have closed its output to save.
        let grace = self.last_wait.unwrap_or(EXIT_GRACE);
        self.ending = Some(Box::pin(connection.finish(grace)));
    }

    /// The process has ended while its output is open: what the pipe holds is its last word ([process.3]).
    fn exited(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else { return };
        let rest = connection.read_rest();
        for chunk in rest.chunks(trunkline_protocol::READ_BYTES) {
            if let Some(connection) = &mut self.connection {
                connection.lines.space()[..chunk.len()].copy_from_slice(chunk);
            }
            self.received(chunk.len(), now);
        }
        self.output_ended(now);
    }

    /// Nothing can be written any more. What the process still says is read; it ends soon, or is made to.
    fn input_broke(&mut self, error: &io::Error, now: Instant) {
        let Some(connection) = &mut self.connection else { return };
        tracing::debug!(agent = &*self.agent.id, %error, "the adapter's input is closed");
        connection.input = None;
        self.inbox.unwritten.store(0, Ordering::Release);
        if !self.down {
            self.broken.get_or_insert(now + BROKEN_GRACE);
        }
    }

    fn started(&mut self, started: Result<Box<Connection>, Failure>, now: Instant) {
        match started {
            Ok(mut connection) => {
                if self.down {
                    // It came up during the stop: it has no session, and its end of input may have been due already.
                    connection.close_input();
                }
                self.connection = Some(connection);
                self.core.handle_started(now);
            }
            Err(why) => {
                tracing::warn!(
                    agent = &*self.agent.id,
                    why = why.message.as_deref(),
                    "the adapter did not start"
                );
                self.core.handle_start_failed(why, now);
            }
        }
    }

    fn start(&mut self) {
        let (agent, limits) = (self.agent.id.clone(), self.agent.limits.clone());
        match &mut self.connect {
            Connect::Streams(streams) => {
                let connection = Connection::over(streams(), limits.max_line);
                self.starting = Some(Box::pin(std::future::ready(Ok(Box::new(connection)))));
            }
            Connect::Process(spec) => {
                let spec = spec();
                self.starting = Some(Box::pin(async move {
                    match trunkline_process::spawn(spec).await {
                        Ok(child) => Ok(Box::new(Connection::to_child(
                            child,
                            agent,
                            limits.max_line,
                            limits.stderr_tail,
                        ))),
                        Err(error) => Err(start_failure(&error)),
                    }
                }));
            }
        }
    }

    fn kill(&mut self, why: Ended) {
        match &mut self.connection {
            Some(connection) => connection.kill(why),
            None if self.starting.take().is_some() => {
                let end =
                    ProcessEnd { why, exit: crate::ExitStatus::default(), stderr_tail: None, written: 0 };
                self.ending = Some(Box::pin(std::future::ready(end)));
            }
            None => {}
        }
    }

    /// Takes the steps of the stop that are due ([process.2]); meanwhile reading and answering go on.
    fn go_on_stopping(&mut self, now: Instant) {
        if !self.down {
            return;
        }
        if self.connection.as_ref().is_some_and(|connection| connection.outbox.is_empty()) {
            self.stopping.sessions_closed(now);
        }
        while let Some(step) = self.stopping.next(now) {
            match (step, &mut self.connection) {
                (Step::Kill, _) => self.kill(Ended::Exit),
                (Step::CloseStdin, Some(connection)) => connection.close_input(),
                (Step::Terminate, Some(connection)) => connection.terminate(),
                (Step::CloseSessions, _) | (Step::CloseStdin | Step::Terminate, None) => {}
            }
        }
        // A process that came up during the stop begins with its last steps.
        if let Some(connection) = &mut self.connection
            && self.stopping.deadline().is_none()
            && self.stopping.has_begun()
            && connection.ending.is_none()
        {
            self.kill(Ended::Exit);
        }
    }

    fn apply(&mut self, now: Instant) {
        let mut connection = self.connection.take();
        self.apply_with(connection.as_deref_mut(), now);
        if self.connection.is_none() {
            self.connection = connection;
        }
        if let Some(connection) = self.connection.as_ref().filter(|connection| connection.input.is_some()) {
            self.inbox.unwritten.store(connection.outbox.len(), Ordering::Release);
        }
    }

    /// Does what the core asks for.
    fn apply_with(&mut self, mut connection: Option<&mut Connection>, now: Instant) {
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Deliver { key, place, kind, meta } => {
                    self.deliver(key, Event { place, kind, meta }, now)
                }
                Effect::Write { key, input_of, mut message } => {
                    self.complete_start(key, &mut message);
                    let writer = connection.as_deref_mut().filter(|connection| connection.input.is_some());
                    if let Some(turn) = input_of {
                        // Where nobody takes it, it is never written.
                        let at = writer.as_ref().map_or(u64::MAX, |connection| connection.outbox.end());
                        self.core.handle_written_at(key, turn, at);
                    }
                    let Some(connection) = writer else { continue };
                    connection.outbox.push(&message);
                    if connection.outbox.answers() > ANSWERS.max(2 * self.agent.limits.outbox) {
                        // It asks and asks, and does not read the answers.
                        connection.kill(Ended::Exit);
                    }
                }
                Effect::Ask { key, place, request, serial, meta } => {
                    let Some(entry) = self.entry(key) else { continue };
                    let permission = crate::Permission::new(request, serial, entry.shared.clone());
                    self.deliver(key, Event { place, kind: EventKind::Permission(permission), meta }, now);
                }
                Effect::AskInput { key, place, request, serial, meta } => {
                    let Some(entry) = self.entry(key) else { continue };
                    let question = crate::Question::new(request, serial, entry.shared.clone());
                    self.deliver(key, Event { place, kind: EventKind::Question(question), meta }, now);
                }
                Effect::Judge { key, place, file, meta } => {
                    let temp_dir = connection.as_deref().and_then(Connection::temp_dir);
                    let pressure = self.pressure.clone();
                    let Some(entry) = self.entry(key) else { continue };
                    let lane = entry.lane(place);
                    let (promise, pushed) = lane.promise(&pressure);
                    let (session, cwd) = (entry.shared.clone(), entry.cwd.as_deref().map(str::to_owned));
                    self.judge.begin(Case { session, cwd, temp_dir, place, file, meta }, promise);
                    self.pushed(key, &lane, pushed, now);
                }
                Effect::Begun { key, bytes } => {
                    if let Some(entry) = self.entry(key) {
                        let shared = &entry.shared;
                        shared.inbox.release(&shared.waiting, bytes);
                    }
                }
                Effect::End { key, end, meta } => self.end(key, end, meta, now),
                Effect::Closed { key, end } => {
                    let Some(entry) = self.sessions.get_mut(key.index() as usize).and_then(Option::take)
                    else {
                        continue;
                    };
                    entry.shared.set_closed();
                    entry.shared.lane.finish(Event {
                        place: Place::Outside,
                        kind: EventKind::Closed(end),
                        meta: None,
                    });
                }
                Effect::Steered { ticket, result } => {
                    if let Some(Waiting::Steer(reply)) = self.waiting.remove(&ticket) {
                        // Who waits no more needs no answer; so below.
                        let _ = reply.send(result);
                    }
                }
                Effect::Updated { ticket, result } => {
                    if let Some(Waiting::Update(reply)) = self.waiting.remove(&ticket) {
                        let _ = reply.send(result.map(|info| *info));
                    }
                }
                Effect::Note(noted) => self.note(noted),
                Effect::Start => self.start(),
                Effect::Kill(why) => match connection.as_deref_mut() {
                    Some(connection) => connection.kill(why),
                    None => self.kill(why),
                },
            }
        }
    }

    fn deliver(&mut self, key: Key, event: Event, now: Instant) {
        let pressure = &self.pressure;
        let Some(Some(entry)) = self.sessions.get(key.index() as usize) else { return };
        let lane = entry.lane_ref(event.place);
        match lane.push(event, pressure) {
            Pushed::Quiet => {}
            Pushed::Touched => self.touched.push(lane.clone()),
            Pushed::Overflow => self.overflow(key, now),
        }
    }

    fn pushed(&mut self, key: Key, lane: &Lane, pushed: Pushed, now: Instant) {
        match pushed {
            Pushed::Quiet => {}
            Pushed::Touched => self.touched.push(lane.clone()),
            Pushed::Overflow => self.overflow(key, now),
        }
    }

    /// A session's events fit nowhere any more: it ends, and says so.
    fn overflow(&mut self, key: Key, now: Instant) {
        let why = "its output was not read and does not fit on disk".to_owned();
        self.core.handle_close(key, WhyClosed::Limit(why), now);
    }

    fn end(&mut self, key: Key, end: Box<crate::TurnEnd>, meta: Option<Box<Meta>>, now: Instant) {
        let turn = end.turn;
        let event = Event { place: Place::Turn(turn), kind: EventKind::End(end), meta };
        let Some(entry) = self.entry(key) else { return };
        match entry.shared.feed {
            Feed::Merged => self.deliver(key, event, now),
            Feed::PerTurn => {
                let Some(at) = entry.turns.iter().position(|(no, _)| *no == turn) else { return };
                if let Some((_, lane)) = entry.turns.remove(at) {
                    lane.finish(event);
                }
            }
        }
    }

    /// Names the exchange folder in a `session.start` with options ([file.6]).
    fn complete_start(&mut self, key: Key, message: &mut trunkline_protocol::HostMessage) {
        if let trunkline_protocol::HostBody::SessionStart(start) = &mut message.body
            && self.agent.names_exchange
            && let Some(entry) = self.entry(key)
        {
            match entry.shared.exchange() {
                Ok(exchange) => start.exchange_dir = Some(exchange.path().to_string_lossy().into_owned()),
                Err(error) => tracing::warn!(%error, "no exchange folder could be made"),
            }
        }
    }

    fn note(&self, noted: Noted) {
        let counting = &self.agent.counting;
        match noted {
            Noted::UnknownType => counting.unknown_type.one(),
            Noted::UnknownSession => counting.unknown_session.one(),
            Noted::Late => counting.late.one(),
            Noted::Foreign => counting.foreign.one(),
            Noted::StrayEnd => counting.stray_ends.one(),
            Noted::StrayRequest => counting.stray_requests.one(),
            Noted::Bad => counting.bad.one(),
            Noted::Restart => counting.restarts.one(),
            Noted::Turn => counting.turns.one(),
        }
    }

    /// Brings what others may read up to date.
    fn report(&self) {
        let counting = &self.agent.counting;
        counting.sessions.set(self.core.open_sessions() as u64);
        counting.spooled_bytes.set(self.pressure.spooled() as u64);
        counting.queued_bytes.set(self.connection.as_ref().map_or(0, |it| it.outbox.len() as u64));
        self.agent.set_standing(match self.core.standing() {
            Standing::Idle => trunkline_protocol::AgentState::Idle,
            Standing::Running => trunkline_protocol::AgentState::Running,
            Standing::Failed => trunkline_protocol::AgentState::Failed,
        });
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.sessions.get_mut(key.index() as usize)?.as_mut().filter(|entry| key_of(&entry.shared) == key)
    }

    fn wait(&mut self, waiting: Waiting) -> Ticket {
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        self.waiting.insert(ticket, waiting);
        ticket
    }
}

impl Drop for Driver {
    /// However the driver ends, with its runtime too: what is on its way or comes later is let go, and every turn that
    /// is open is told.
    fn drop(&mut self) {
        self.inbox.close();
        self.commands.drain(..).for_each(Command::lose);
        for entry in self.sessions.drain(..).flatten() {
            for (turn, lane) in entry.turns {
                let end = Box::new(crate::TurnEnd::lost(turn));
                lane.finish(Event { place: Place::Turn(turn), kind: EventKind::End(end), meta: None });
            }
            entry.shared.lose();
        }
    }
}

impl Entry {
    fn lane_ref(&self, place: Place) -> &Lane {
        let turn = match (self.shared.feed, place) {
            (Feed::PerTurn, Place::Turn(turn)) => self.turns.iter().find(|(no, _)| *no == turn),
            (Feed::Merged, _) | (Feed::PerTurn, Place::Outside | Place::Late(_)) => None,
        };
        turn.map_or(&self.shared.lane, |(_, lane)| lane)
    }

    fn lane(&self, place: Place) -> Lane {
        self.lane_ref(place).clone()
    }
}

fn key_of(session: &SessionShared) -> Key {
    Key::from_bits(session.key.load(Ordering::Acquire))
}

/// The time, which tests may make virtual.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
