//! The one task of a link: takes commands, reads lines, writes messages, runs timers.
//!
//! Each wake does a bounded amount of each, so that a `stop` passes through a flood: up to
//! [`COMMANDS`] commands, writes until the pipe is full, one read, what is due. The driver waits
//! for no consumer, no permission and no pipe; the one thing that pauses its reading is a spool
//! disk that cannot keep up ([`Pressure`]).

mod commands;
mod effects;
mod lifecycle;
mod lines;
mod spans;
mod status;

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
use trunkline_core::{Core, Ended, Key, ProcessEnd, SteerError, Ticket};
use trunkline_process::{Escalation, StandstillMeter};
use trunkline_protocol::{Failure, RequestId, SessionInfo, SessionsListResult};

use self::spans::Spans;
use super::{
    Command, Connect, Inbox,
    connection::Connection,
    file_checks::FileChecks,
    name_lookups::{NameLookups, SessionLookups},
    tap::Tap,
};
use crate::{
    Cause, Event, EventDelivery, EventKind, LastEnd, TurnEnd, TurnNo, TurnScope,
    agent::AgentShared,
    error::UpdateError,
    files::{Pinned, StoreDir},
    health::{FailingTurns, Meter, end_of},
    mailbox::Mailbox,
    session::{Admitted, SessionShared},
    spool::Pressure,
    usage::{EndedTurn, SessionUsage},
};

/// The most commands that one wake takes.
const COMMANDS: usize = 64;
/// The most writes of one wake.
const WRITES: usize = 4;
/// The least room for answers to an adapter, in bytes, however small its outbox is configured.
const ANSWERS: usize = 1024 * 1024;
/// The most requests for a list of the agent's sessions without an answer.
const MAX_LISTS: usize = 16;
/// Timeout for the end of a process whose input is broken.
const BROKEN_GRACE: Duration = Duration::from_secs(1);
/// The most reads that come before a deadline which has passed: more than a pipe holds.
const MAX_OVERDUE_READS: usize = 64;

/// The driver of one agent's link. It lives as long as its host, or until the last session of an
/// agent that was replaced.
pub(crate) struct Driver {
    core: Core,
    agent: Arc<AgentShared>,
    inbox: Arc<Inbox>,
    connect: Connect,
    file_checks: FileChecks,
    name_lookups: NameLookups,
    pressure: Arc<Pressure>,
    /// The bytes that may wait for the disk before reading pauses.
    backlog: usize,
    /// True while reading pauses, since the disk is slower than the adapter.
    paused: bool,
    /// The sessions by their place in the core.
    sessions: Vec<Option<Entry>>,
    connection: Option<Box<Connection>>,
    starting: Option<Work<Result<Box<Connection>, Failure>>>,
    /// The tap of the latest run, if there is one.
    tap: Option<Tap>,
    ending: Option<Work<ProcessEnd>>,
    /// Callers that wait for the end of the process, after which it can be started again.
    restarts: Vec<oneshot::Sender<()>>,
    /// The time at which a process whose input is broken is killed.
    broken: Option<Instant>,
    stopping: Escalation,
    /// Timeout for the end of a process that is being stopped and has closed its output.
    last_wait: Option<Duration>,
    stopped: Vec<oneshot::Sender<()>>,
    /// True if it ends with its last session.
    retired: bool,
    down: bool,
    commands: VecDeque<Command>,
    /// The mailboxes whose readers are woken after this wake's events.
    touched: Vec<Mailbox>,
    /// Turns that ended in this wake, if there is a usage log.
    ended: Vec<EndedTurn>,
    waiting: HashMap<Ticket, Waiting>,
    /// The requests for a list of the agent's sessions without an answer.
    lists: HashMap<RequestId, oneshot::Sender<SessionsListResult>>,
    ticket: u64,
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The time of the latest wake that was handled.
    handled_at: Instant,
    standstill: StandstillMeter,
    /// The reads since a deadline has passed.
    overdue_reads: usize,
    /// The process that runs.
    up: Option<Up>,
    /// The end of the process before, and the time of it.
    last_end: Option<(Instant, LastEnd)>,
    /// The latest turns, if they failed alike.
    failing: Option<FailingTurns>,
    meter: Meter,
}

/// A process that runs.
struct Up {
    since: Instant,
    /// The time of its latest byte.
    heard: Option<Instant>,
}

/// Work beside the loop.
type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A session's way to its user.
struct Entry {
    shared: Arc<SessionShared>,
    /// The turns under way; the first is mostly the one that speaks.
    turns: VecDeque<(TurnNo, Mailbox)>,
    opened: Instant,
    /// Bytes of messages for it that were handed to the writer.
    bytes_out: u64,
    /// Facts for the usage log, if there is one.
    usage_so_far: Option<Box<SessionUsage>>,
    /// Spans for a subscriber of traces, if there is one.
    spans: Option<Box<Spans>>,
    /// The bound of its lookups of names, once it had one.
    lookups: Option<SessionLookups>,
}

/// Command that was given to the core, until it is answered or, if it is a file, has left the
/// queue.
struct Waiting {
    what: Asked,
    admitted: Admitted,
}

enum Asked {
    Steer(oneshot::Sender<Result<(), SteerError>>),
    Update(oneshot::Sender<Result<SessionInfo, UpdateError>>),
    File,
}

/// Result of one wake.
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
        inbox: Arc<Inbox>,
        connect: Connect,
        files: Arc<StoreDir>,
        roots: Vec<Pinned>,
    ) -> Self {
        let file_checks = FileChecks::new(files, roots, agent.counters.clone());
        Self {
            core,
            connect,
            file_checks,
            name_lookups: NameLookups::default(),
            pressure: Arc::default(),
            paused: false,
            backlog: inbox.store().limits.backlog,
            inbox,
            sessions: Vec::new(),
            connection: None,
            starting: None,
            tap: None,
            ending: None,
            restarts: Vec::new(),
            broken: None,
            stopping: Escalation::new(),
            last_wait: None,
            stopped: Vec::new(),
            retired: false,
            down: false,
            commands: VecDeque::new(),
            touched: Vec::new(),
            ended: Vec::new(),
            waiting: HashMap::new(),
            lists: HashMap::new(),
            ticket: 0,
            timer: None,
            handled_at: now(),
            standstill: StandstillMeter::new(Instant::now()),
            overdue_reads: 0,
            up: None,
            last_end: None,
            failing: None,
            meter: Meter::new(now()),
            agent,
        }
    }

    /// Runs until the host shuts down, or the last session of an agent that was replaced has ended,
    /// and the process is gone.
    pub(crate) async fn run(mut self) {
        while !self.is_over() {
            let wake = std::future::poll_fn(|cx| self.poll_wake(cx)).await;
            self.handle(wake);
            self.report();
        }
        let stopped = std::mem::take(&mut self.stopped);
        // Callers that wait for the end find everything released.
        drop(self);
        for done in stopped {
            // A caller that no longer waits needs no answer.
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

    /// Polls every source. Each is cancel-safe: its result is handled before the next poll.
    fn poll_wake(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        let mut wake = Wake {
            commands: self
                .inbox
                .poll_take(COMMANDS, &mut self.commands, cx)
                .is_ready(),
            ..Wake::default()
        };
        let mut any = wake.commands;
        if let Some(connection) = &mut self.connection {
            for _ in 0..WRITES {
                let Some(input) = connection
                    .input
                    .as_mut()
                    .filter(|_| !connection.outbox.is_empty())
                else {
                    break;
                };
                let Poll::Ready(wrote) = input.poll_write(&mut connection.outbox, cx) else {
                    break;
                };
                any = true;
                let failed = wrote.is_err();
                self.agent
                    .counters
                    .bytes_out
                    .add(wrote.as_ref().map_or(0, |bytes| *bytes as u64));
                wake.wrote = Some(wrote.map(|_| ()));
                if failed {
                    break;
                }
            }
            let paused = self.pressure.is_high(self.backlog)
                && self.pressure.poll_eased(self.backlog, cx).is_pending();
            if paused && !std::mem::replace(&mut self.paused, paused) {
                self.agent.counters.pauses.one();
            }
            self.paused = paused;
            if let Some(output) = connection.output.as_mut().filter(|_| !paused)
                && let Poll::Ready(read) = output.poll_read(connection.lines.space(), cx)
            {
                wake.read = Some(read);
                any = true;
            }
            // An exit is handled after the output that was read, and checked each time: a
            // descendant may write forever.
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
        if wake.due && matches!(wake.read, Some(Ok(1..))) && self.overdue_reads < MAX_OVERDUE_READS
        {
            // A deadline is judged once the pipe is empty: a message that waits there came in time.
            self.overdue_reads += 1;
            wake.due = false;
        } else {
            self.overdue_reads = 0;
        }
        if any || wake.due {
            Poll::Ready(wake)
        } else {
            Poll::Pending
        }
    }

    /// Ready when something is due, and once a beat while a turn runs, to look for standstills. The
    /// timer is moved only to an earlier time; when one that is too early fires, nothing is due.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = [
            self.core.poll_timeout(),
            self.stopping.deadline(),
            self.broken,
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(mut due) = due else {
            return Poll::Pending;
        };
        if self.core.is_waiting_for_adapter() {
            due = due.min(self.handled_at + StandstillMeter::BEAT);
        }
        let (at, sleep) = self
            .timer
            .get_or_insert_with(|| (due, Box::pin(tokio::time::sleep_until(due.into()))));
        if due < *at {
            *at = due;
            sleep.as_mut().reset(due.into());
        }
        self.standstill
            .expect_wake(at.saturating_duration_since(self.handled_at));
        std::task::ready!(sleep.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(())
    }

    fn handle(&mut self, wake: Wake) {
        // Before the measurement: a standstill between the two is then counted, and its time is not judged.
        let now = now();
        self.handled_at = now;
        if let Some(length) = self.standstill.measure(Instant::now()) {
            self.handle_standstill(length);
        }
        // Before the commands: a restart ends a process that has just started.
        if let Some(started) = wake.started {
            self.handle_started(started, now);
            self.apply(now);
        }
        if wake.commands {
            while let Some(command) = self.commands.pop_front() {
                self.handle_command(command, now);
                self.apply(now);
            }
        }
        if let Some(Err(error)) = wake.wrote {
            self.handle_input_broken(&error, now);
        }
        match wake.read {
            Some(Ok(0) | Err(_)) => self.handle_output_ended(now),
            Some(Ok(bytes)) => self.handle_read(bytes, now),
            None => {}
        }
        if wake.exited {
            self.handle_exit(now);
        }
        if let Some(ended) = wake.ended {
            tracing::debug!(exit = %ended.exit, "the adapter has ended");
            self.up = None;
            let stderr_tail = end_of(ended.stderr_tail.as_deref().unwrap_or_default()).to_owned();
            self.last_end = Some((
                now,
                LastEnd {
                    how: ended.how(),
                    ago: Duration::ZERO,
                    stderr_tail,
                },
            ));
            self.core.handle_ended(&ended, now);
            if ended.why == Ended::Restart {
                // The turns that it has ended are no failures of the agent.
                self.apply(now);
                self.failing = None;
            }
            // Their callers are informed by the drop.
            self.lists.clear();
            self.restarts.clear();
            self.broken = None;
        }
        if wake.due {
            if self.core.poll_timeout().is_some_and(|at| at <= now) {
                let suspended = self.connection.as_deref().and_then(Connection::suspended);
                self.core.handle_suspended(suspended);
            }
            self.core.handle_timeout(now);
            if self.broken.is_some_and(|broken| broken <= now) {
                self.broken = None;
                self.kill(Ended::Exit);
            }
        }
        self.apply(now);
        self.end_if_retired(now);
        self.go_on_stopping(now);
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.output.is_none())
        {
            // Streams that were ended by force: no end of theirs comes to be read.
            self.handle_output_ended(now);
        }
        for mailbox in self.touched.drain(..) {
            mailbox.wake();
        }
        self.meter.take(&self.agent.counters, now);
        if let Some(log) = self.agent.usage.as_ref().filter(|_| !self.ended.is_empty()) {
            log.push(&mut self.ended);
        }
    }

    /// Takes a time in which this process did not run.
    fn handle_standstill(&mut self, length: Duration) {
        tracing::info!(
            agent = &*self.agent.id,
            seconds = length.as_secs_f64(),
            "the host did not run: deadlines for the adapter move by that time"
        );
        self.core.handle_standstill(length);
        if let Some(broken) = &mut self.broken {
            *broken += length;
        }
    }

    /// Updates the published state.
    fn report(&self) {
        let counters = &self.agent.counters;
        counters.sessions.set(self.core.open_sessions() as u64);
        counters.spooled_bytes.set(self.pressure.spooled() as u64);
        counters.queued_bytes.set(
            self.connection
                .as_ref()
                .map_or(0, |it| it.outbox.len() as u64),
        );
        self.agent.set_state(self.core.agent_state());
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        self.sessions
            .get_mut(key.index() as usize)?
            .as_mut()
            .filter(|entry| key_of(&entry.shared) == key)
    }

    fn wait(&mut self, what: Asked, admitted: Admitted) -> Ticket {
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        self.waiting.insert(ticket, Waiting { what, admitted });
        ticket
    }
}

impl Drop for Driver {
    /// Ends every open turn, and drops commands that are on their way or come later: the driver may
    /// end with its runtime.
    fn drop(&mut self) {
        self.inbox.close();
        self.commands.drain(..).for_each(Command::lose);
        for entry in self.sessions.drain(..).flatten() {
            let key = key_of(&entry.shared);
            for (turn, mailbox) in entry.turns {
                let end = if self.core.was_written(key, turn) {
                    TurnEnd::lost(turn)
                } else {
                    TurnEnd::unsent(turn, Cause::Shutdown, None)
                };
                let end = Box::new(end);
                mailbox.finish_now(Event::new(TurnScope::Running(turn), EventKind::End(end)));
            }
            entry.shared.lose();
        }
    }
}

impl Entry {
    fn mailbox_ref(&self, scope: TurnScope) -> &Mailbox {
        let turn = match (self.shared.delivery, scope) {
            (EventDelivery::PerTurn, TurnScope::Running(turn)) => {
                self.turns.iter().find(|(no, _)| *no == turn)
            }
            (EventDelivery::Merged, _)
            | (EventDelivery::PerTurn, TurnScope::Outside | TurnScope::Ended(_)) => None,
        };
        turn.map_or_else(|| self.shared.mailbox(), |(_, mailbox)| mailbox)
    }

    fn mailbox(&self, scope: TurnScope) -> Mailbox {
        self.mailbox_ref(scope).clone()
    }
}

fn key_of(session: &SessionShared) -> Key {
    Key::from_bits(session.key.load(Ordering::Acquire))
}

/// The time, which tests may make virtual.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
