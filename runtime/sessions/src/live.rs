//! A session that is in memory: drives one session of the host, and writes down what happens.
//!
//! A task of its own owns everything of the session. Whatever changes it is first stored as an entry; what follows from it
//! (the input on its way to the agent, the answer to a request) is done when it is.
//!
//! ```text
//! hubs ── Said ──▶ commands.rs ──┐
//!                                ├──▶ Recorder ──▶ journal ──▶ Tail ──▶ listeners
//! host ── Event ─▶ events.rs ────┘        │
//!      ◀── send, answer, stop ── Then ◀───┘ stored
//! ```

mod commands;
mod events;
mod files;
mod inputs;
mod requests;
mod stall;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tracing::Span;
use trunkline_host::{
    Event, EventDelivery, FileError, Host, Input, Permission, Question, Session, SessionOptions,
    SteerError, TurnNo, UpdateError,
};
use trunkline_journal::{Hold, Journal, SessionKey};
use trunkline_protocol::{
    AdapterBody, Body, Category, ClosedReason, Delivered, Envelope, Fact, Failure, FileDelivered,
    FileInput, HostFact, HostMessage, InputResponse, MessageId, Meta, PermissionResponse,
    RelayBody, RequestDecided, RequestId, Role, SessionClosed, SessionId, SessionInfo,
    SessionStart, SessionState, SessionUpdate, StopReason, TurnComplete, TurnId,
};

use self::{
    files::Keeping,
    stall::{LOOK, Stall},
};
use crate::{
    activity::Shown,
    ends,
    facts::Facts,
    inputs::Inputs,
    open::Reached,
    record::{NotRecorded, Recording},
    recorder::{Recorder, Stored},
    registry::SlotLease,
    tail::{ListenerNo, StreamEnd, Tail},
};

/// How many commands wait for a session.
pub(crate) const INBOX: usize = 64;

/// How many answers to one listener wait until what they tell of is stored. One that has more is let go.
const UNSTORED: usize = 256;

/// How many answers wait to be read by one listener, which is let go as well: those that are stored at once, and what is
/// answered meanwhile.
pub(crate) const UNREAD: usize = 2 * UNSTORED;

/// How many ended turns, and how many decisions, are remembered for what comes late.
const REMEMBERED: usize = 64;

/// How many inputs, files and updates of a session wait.
const WAITING: usize = 64;

/// How long facts that changed wait for more.
const FACTS: Duration = Duration::from_secs(1);

/// How long a session without work and listeners stays in memory, where the agent holds nothing of it.
const LINGER: Duration = Duration::from_secs(1);

/// How long the agent keeps a session without work and listeners. Its next input opens it again.
const PARK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a session that leaves the memory waits for the record.
const RECORD: Duration = Duration::from_secs(10);

/// For how long an end is waited for when the host ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A message to a session.
#[derive(Debug)]
pub(crate) enum Command {
    /// One listens, from now on.
    Joined(ListenerNo, Box<Joined>),
    /// One has left.
    Left(ListenerNo),
    /// A listener says something, in a span.
    Said(ListenerNo, Box<HostMessage>, Span),
    /// It is to end with the host, and says when it has.
    End(oneshot::Sender<()>),
    /// It is to leave for another host, and says whether it has: not where anything is open.
    HandOver(oneshot::Sender<bool>),
}

/// A listener as its session knows it.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) role: Role,
    /// Its name, as it stands in `by`.
    pub(crate) name: String,
    /// What it hands over that is not stored.
    pub(crate) secrets: Option<Box<SessionStart>>,
    pub(crate) answers: mpsc::Sender<Vec<u8>>,
    /// Told what the session does when it has joined.
    pub(crate) joined: oneshot::Sender<Now>,
}

/// What a session does.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    pub(crate) state: SessionState,
    pub(crate) running: Option<TurnId>,
    pub(crate) queued: Vec<TurnId>,
    pub(crate) requests: Vec<RequestId>,
    pub(crate) agent: String,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) last: u64,
}

/// What follows when an entry is stored.
#[derive(Debug)]
enum Then {
    /// The input goes to the agent.
    Send(TurnId, Given),
    /// An addition to the running turn goes to the agent.
    Steer(Input),
    /// A permission of this turn is answered.
    Decide(Option<TurnId>, Permission, PermissionResponse),
    /// A question of this turn is answered.
    Reply(Option<TurnId>, Question, InputResponse),
    /// A listener gets an answer of its own.
    Tell(ListenerNo, Vec<u8>),
}

/// A listener that has joined.
#[derive(Debug)]
struct Hears {
    role: Role,
    name: String,
    answers: mpsc::Sender<Vec<u8>>,
    /// How many answers wait for what they tell of to be stored.
    unstored: usize,
}

/// An input that begins a turn.
#[derive(Debug)]
struct Given {
    input: Input,
    /// The span in which it was said, which the turn's follows from.
    from: Span,
}

/// What waits for its turn to go to the agent.
#[derive(Debug)]
enum Ordered {
    Input(TurnId, Given),
    File(ListenerNo, FileInput),
    Update(ListenerNo, Box<SessionUpdate>),
}

/// A request that waits for an answer.
#[derive(Debug)]
enum Pending {
    Permission(Permission),
    Question(Question),
}

/// What the host answers later.
#[derive(Debug)]
enum Answer {
    Steered(Option<MessageId>, Result<(), SteerError>),
    Updated(ListenerNo, Result<Box<SessionInfo>, UpdateError>),
}

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A session as its task holds it.
pub(crate) struct Live {
    host: Host,
    journal: Journal,
    key: SessionKey,
    _held: Hold,
    id: SessionId,
    facts: Facts,
    /// What the hub gave that is not stored: environment and MCP servers.
    secrets: Option<Box<SessionStart>>,
    tail: Arc<Tail>,
    /// What it does, for those who list it.
    shown: Shown,
    recorder: Recorder<Then>,
    /// Where it writes first. `None`: the journal is all there is.
    recording: Option<Recording>,
    /// The host's session, while the agent has one.
    session: Option<Session>,
    listeners: HashMap<ListenerNo, Hears>,
    /// The turn that the agent has, or is about to get.
    running: Option<TurnId>,
    /// The host's number of it, once it has it.
    no: Option<TurnNo>,
    /// Turns of the host that ended lately, for what comes late.
    ended: VecDeque<(TurnNo, TurnId)>,
    /// Why the turn that is about to go to the agent is to stop instead.
    stopped: Option<StopReason>,
    ordered: VecDeque<Ordered>,
    placing: Option<(ListenerNo, Later<Result<(), FileError>>)>,
    /// What is written down when the file that is being copied has been.
    delivering: Option<FileDelivered>,
    keeping: Option<Keeping>,
    answers: FuturesUnordered<Later<Answer>>,
    pending: HashMap<RequestId, Pending>,
    /// What was decided lately, for those who answer too late.
    decided: VecDeque<RequestDecided>,
    /// The inputs that the journal has by their ids, once that was asked.
    inputs: Option<Inputs>,
    /// Whether the agent was asked to remember, and has not said whether it does.
    is_context_open: bool,
    /// What is done about a journal that cannot be written.
    stall: Stall,
    /// Ends that are written, and not known to be stored.
    unstored_ends: VecDeque<(u64, TurnId, TurnComplete)>,
    /// When facts that changed are written.
    facts_due: Option<Instant>,
    /// Since when nothing is to do and no one listens.
    idle_since: Option<Instant>,
    ending: Vec<oneshot::Sender<()>>,
}

/// How a session gets into memory.
pub(crate) struct NewLive {
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    pub(crate) key: SessionKey,
    pub(crate) id: SessionId,
    pub(crate) facts: Facts,
    pub(crate) tail: Arc<Tail>,
    pub(crate) session: Option<Session>,
    pub(crate) secrets: Option<Box<SessionStart>>,
    /// The epoch in which it writes.
    pub(crate) epoch: u64,
    /// Where it writes first.
    pub(crate) recording: Option<Recording>,
}

enum Step {
    Command(Option<Command>),
    Stored(Stored<Then>),
    Lost(NotRecorded),
    Placed(Result<(), FileError>),
    Kept(io::Result<PathBuf>),
    Answer(Answer),
    Event(Option<Event>),
    FactsDue,
    Look,
    Idle,
}

impl Live {
    pub(crate) fn new(new: NewLive, shown: Shown) -> Self {
        let NewLive {
            host,
            journal,
            key,
            id,
            facts,
            tail,
            session,
            secrets,
            epoch,
            recording,
        } = new;
        let mut recorder = Recorder::new(journal.clone(), key, id.clone(), epoch, tail.clone());
        if let Some(recording) = recording.clone() {
            recorder.record_first(recording);
        }
        let live = Self {
            host,
            _held: journal.hold(key),
            journal,
            key,
            id,
            facts,
            secrets,
            tail,
            shown,
            recorder,
            recording,
            session,
            listeners: HashMap::new(),
            running: None,
            no: None,
            ended: VecDeque::new(),
            stopped: None,
            ordered: VecDeque::new(),
            placing: None,
            delivering: None,
            keeping: None,
            answers: FuturesUnordered::new(),
            pending: HashMap::new(),
            decided: VecDeque::new(),
            inputs: None,
            is_context_open: false,
            stall: Stall::default(),
            unstored_ends: VecDeque::new(),
            facts_due: None,
            idle_since: Some(Instant::now()),
            ending: Vec::new(),
        };
        live.show();
        live
    }

    fn show(&self) {
        self.shown
            .set(self.state(), self.facts.title.as_deref(), &self.facts.open);
    }

    /// Serves the session until it may leave the memory, or the host ends. Boxed: a task has room for all that it awaits,
    /// several times over.
    pub(crate) async fn run(mut self: Box<Self>, inbox: mpsc::Receiver<Command>, lease: SlotLease) {
        let epoch = self.recorder.epoch();
        let served = self.serve(inbox, &lease).await;
        // Its agent's session is closed before callers enter the slot again.
        drop(self);
        if let Err(why) = served {
            lease.end_without_record(epoch, why).await;
        }
    }

    /// # Errors
    /// Why the record takes nothing more.
    async fn serve(
        &mut self,
        mut inbox: mpsc::Receiver<Command>,
        lease: &SlotLease,
    ) -> Result<(), NotRecorded> {
        if self.recorder.last() == 0 {
            let opened = HostFact {
                fact: Some(Fact::Opened),
                ..HostFact::default()
            };
            self.note(None, opened, None);
            if self.recording.is_some() {
                // The first batch says whose session it is.
                self.write_facts();
            }
        }
        loop {
            // Who has heard an entry finds in a list what follows from it.
            self.show();
            self.recorder.flush();
            match self.step(&mut inbox).await {
                Step::Command(Some(Command::End(done))) => {
                    self.ending.push(done);
                    lease.set_end(StreamEnd::HostEnding);
                    break;
                }
                Step::Command(Some(Command::HandOver(done))) => {
                    if self.may_leave() {
                        lease.leave();
                        lease.set_end(StreamEnd::Moved);
                        inbox.close();
                        self.finish(&mut inbox).await?;
                        let _ = done.send(self.recorder.is_idle());
                        return Ok(());
                    }
                    let _ = done.send(false);
                }
                Step::Command(None) => break,
                Step::Lost(why) => {
                    if matches!(why, NotRecorded::Refused(_)) {
                        // It goes on with what is stored.
                        self.session = None;
                        let _ = tokio::time::timeout(RECORD, self.recorder.journaled()).await;
                    }
                    return Err(why);
                }
                // Dropped, it is closed.
                Step::Idle if self.session.is_some() => self.session = None,
                Step::Idle => break,
                step => self.take_step(step).await,
            }
            self.idle_since = match self.is_idle() {
                true => self.idle_since.or_else(|| Some(Instant::now())),
                false => None,
            };
        }
        // Callers wait from now on until the last block is stored. Those that were about to join, whose commands are dropped
        // with the inbox, enter again.
        lease.leave();
        inbox.close();
        self.finish(&mut inbox).await
    }

    /// Waits for the next thing. What hubs say comes first: a `stop` passes through a flood of events.
    async fn step(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Step {
        let Self {
            recorder,
            placing,
            keeping,
            answers,
            session,
            facts_due,
            idle_since,
            stall,
            ..
        } = self;
        let takes_events = keeping.is_none() && recorder.has_room();
        let has_session = session.is_some();
        let (due, idle) = (
            *facts_due,
            idle_since.map(|since| since + if has_session { PARK } else { LINGER }),
        );
        let look = stall.look(!recorder.is_idle());
        tokio::select! {
            biased;
            command = inbox.recv() => Step::Command(command),
            stored = recorder.stored() => stored.map_or_else(Step::Lost, Step::Stored),
            placed = async { (&mut placing.as_mut().expect("it is there by the branch's condition").1).await }, if placing.is_some() => Step::Placed(placed),
            kept = async { (&mut keeping.as_mut().expect("it is there by the branch's condition").kept).await }, if keeping.is_some() => Step::Kept(kept),
            Some(answer) = answers.next(), if !answers.is_empty() => Step::Answer(answer),
            event = async { session.as_ref().expect("it is there by the branch's condition").next_event().await }, if has_session && takes_events => Step::Event(event),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Step::FactsDue,
            () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => Step::Look,
            () = sleep_until(idle.unwrap_or_else(Instant::now)), if idle.is_some() => Step::Idle,
        }
    }

    async fn take_step(&mut self, step: Step) {
        match step {
            Step::Command(Some(command)) => self.take(command).await,
            Step::Stored(stored) => self.stored(stored),
            Step::Placed(placed) => self.placed(placed),
            Step::Kept(kept) => self.kept(kept),
            Step::Answer(answer) => self.answer(answer),
            Step::Event(event) => self.take_events(event),
            Step::FactsDue => self.write_facts(),
            Step::Look => self.look(),
            Step::Command(None) | Step::Idle | Step::Lost(_) => {}
        }
    }

    /// Takes an event, and those behind it that are there already.
    fn take_events(&mut self, first: Option<Event>) {
        let mut next = Some(first);
        while let Some(event) = next.take() {
            match event {
                Some(event) => self.take_event(event),
                None => self.session_ended(SessionClosed {
                    reason: None,
                    error: Some(Failure::new(Category::Other, "the host has ended")),
                }),
            }
            if let Some(session) = &self.session
                && self.keeping.is_none()
                && !self.recorder.is_due()
                && self.recorder.has_room()
            {
                next = futures_util::FutureExt::now_or_never(session.next_event());
            }
        }
    }

    /// Does what follows from entries that are stored.
    fn stored(&mut self, stored: Stored<Then>) {
        self.stall.end();
        let last = self.tail.stored();
        self.unstored_ends.retain(|(seq, ..)| *seq > last);
        for then in stored.then {
            match (&stored.result, then) {
                (Ok(()), Then::Tell(listener, line)) => {
                    if let Some(hears) = self.listeners.get_mut(&listener) {
                        hears.unstored -= 1;
                    }
                    self.tell_line(listener, line);
                }
                (Ok(()), Then::Send(turn, given)) => self.send(turn, given),
                (Ok(()), Then::Steer(input)) => self.steer_now(input),
                (Ok(()), Then::Decide(_, permission, response)) => permission.respond(response),
                (Ok(()), Then::Reply(_, question, response)) => match response.values {
                    Some(values) if response.cancelled != Some(true) => question.answer(values),
                    _ => question.cancel(),
                },
                // The host ends. Dropped, a request is denied and a question cancelled.
                (Err(_), _) => {}
            }
        }
    }

    /// Writes an entry that the adapter could have said.
    fn say(
        &mut self,
        turn: Option<TurnId>,
        body: impl Into<AdapterBody>,
        meta: Option<Meta>,
    ) -> u64 {
        let body = body.into();
        self.facts.open.take_adapter(turn.as_ref(), &body);
        self.change_facts();
        self.recorder.entry(turn, body, meta)
    }

    /// Writes an entry of the relay's own.
    fn note(
        &mut self,
        turn: Option<TurnId>,
        body: impl Into<RelayBody>,
        meta: Option<Meta>,
    ) -> u64 {
        let body = body.into();
        if let RelayBody::RequestDecided(decided) = &body {
            if self.decided.len() == REMEMBERED {
                self.decided.pop_front();
            }
            self.decided.push_back(decided.clone());
        }
        self.facts.open.take_relay(turn.as_ref(), &body);
        self.change_facts();
        self.recorder.entry(turn, body, meta)
    }

    /// Writes the end of a turn, and goes on with what waits.
    fn end_turn(&mut self, turn: TurnId, end: TurnComplete, meta: Option<Meta>) {
        self.facts.learn_from_end(&end);
        if self.stall.is_on() {
            self.tell_early(&turn, &end);
        }
        let seq = self.say(Some(turn.clone()), end.clone(), meta);
        self.unstored_ends.push_back((seq, turn, end));
        let open = &self.facts.open.requests;
        self.pending
            .retain(|id, _| open.iter().any(|request| request.id.0 == *id));
        self.hand_on();
    }

    /// Tells one listener something that is no entry.
    fn tell<B: Body>(&mut self, listener: ListenerNo, turn: Option<TurnId>, body: B) {
        let message = Envelope {
            session_id: self.id.clone(),
            turn_id: turn,
            meta: None,
            large: None,
            body,
        };
        self.tell_line(listener, message.to_line());
    }

    fn tell_line(&mut self, listener: ListenerNo, line: Vec<u8>) {
        if let Some(hears) = self.listeners.get(&listener)
            && hears.answers.try_send(line).is_err()
        {
            self.let_go(listener);
        }
    }

    /// Tells one listener when all that was written so far is stored.
    fn tell_stored(&mut self, listener: ListenerNo, line: Vec<u8>) {
        match self.listeners.get_mut(&listener) {
            Some(hears) if hears.unstored < UNSTORED => {
                hears.unstored += 1;
                self.recorder.then(Then::Tell(listener, line));
            }
            Some(_) => self.let_go(listener),
            None => {}
        }
    }

    /// Forgets a listener, which finds that no answers come any more.
    fn let_go(&mut self, listener: ListenerNo) {
        tracing::warn!(session = %self.id, "a listener with too many answers is let go");
        self.listeners.remove(&listener);
    }

    /// The name of one who speaks, and so has joined.
    fn name(&self, listener: ListenerNo) -> String {
        self.listeners
            .get(&listener)
            .map(|hears| hears.name.clone())
            .unwrap_or_default()
    }

    fn change_facts(&mut self) {
        if self.facts_due.is_none() {
            self.facts_due = Some(Instant::now() + FACTS);
        }
    }

    fn write_facts(&mut self) {
        self.facts_due = None;
        self.facts.last = self.recorder.last();
        self.recorder.facts(&self.facts);
    }

    fn is_idle(&self) -> bool {
        // One whose leaving found the inbox full has left all the same.
        self.listeners
            .values()
            .all(|hears| hears.answers.is_closed())
            && self.facts.open.is_empty()
            && self.recorder.is_idle()
            && self.keeping.is_none()
            && self.ordered.is_empty()
    }

    /// Whether another host may have it: nothing is open, and nothing is under way to the agent.
    fn may_leave(&self) -> bool {
        self.facts.open.is_empty()
            && self.running.is_none()
            && self.ordered.is_empty()
            && self.placing.is_none()
            && self.keeping.is_none()
            && self.answers.is_empty()
    }

    fn state(&self) -> SessionState {
        match (&self.session, &self.running) {
            _ if self.facts.is_closed => SessionState::Closed,
            (_, Some(_)) => SessionState::Running,
            (Some(_), None) => SessionState::Idle,
            (None, None) => SessionState::Detached,
        }
    }

    /// What the session does now.
    fn now(&self) -> Now {
        let open = &self.facts.open;
        let is_running = |turn: &TurnId| self.running.as_ref() == Some(turn);
        Now {
            state: self.state(),
            running: self.running.clone(),
            queued: open
                .turns
                .iter()
                .map(|turn| turn.id.0.clone())
                .filter(|turn| !is_running(turn))
                .collect(),
            requests: open
                .requests
                .iter()
                .map(|request| request.id.0.clone())
                .collect(),
            agent: self.facts.agent.clone(),
            title: self.facts.title.clone(),
            cwd: self.facts.cwd(),
            last: self.tail.stored(),
        }
    }

    /// The agent's session, opened again where there is none.
    fn agent(&mut self) -> Result<Session, SessionClosed> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let given = |name: &String| match (&self.secrets, name.as_str()) {
            (Some(secrets), "env") => secrets.env.is_some(),
            (Some(secrets), _) => secrets.mcp_servers.is_some(),
            (None, _) => false,
        };
        let missing: Vec<_> = self
            .facts
            .secrets
            .iter()
            .filter(|name| !given(name))
            .cloned()
            .collect();
        if !missing.is_empty() {
            let why = format!(
                "the session was opened with `{}`, which is not stored; hand it over with `session.attach`",
                missing.join("` and `")
            );
            return Err(SessionClosed {
                reason: Some(ClosedReason::Refused),
                error: Some(Failure::new(Category::Other, why)),
            });
        }
        let (mut start, meta) = self.facts.start();
        if let Some(secrets) = &self.secrets {
            start.env.clone_from(&secrets.env);
            start.mcp_servers.clone_from(&secrets.mcp_servers);
        }
        let resumes = start.resume.is_some();
        let options = SessionOptions {
            id: Some(self.id.clone()),
            start,
            meta,
            delivery: EventDelivery::Merged,
        };
        let session = self
            .host
            .open(&self.facts.agent, options)
            .map_err(|error| ends::refusal(&error))?;
        self.session = Some(session.clone());
        self.reopened(resumes);
        Ok(session)
    }

    /// Ends with the host: what ends is still written.
    ///
    /// # Errors
    /// Why the record takes nothing more.
    async fn finish(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Result<(), NotRecorded> {
        self.ordered.clear();
        let deadline = Instant::now() + LAST_WORDS;
        while !self.ending.is_empty() && self.running.is_some() && self.session.is_some() {
            self.recorder.flush();
            tokio::select! {
                step = self.step(inbox) => match step {
                    Step::Command(Some(Command::End(done))) => self.ending.push(done),
                    Step::Command(Some(_) | None) => {}
                    Step::Lost(why) => return Err(why),
                    step => self.take_step(step).await,
                },
                () = sleep_until(deadline) => break,
            }
        }
        self.take_back(
            &ends::stopped(StopReason::Shutdown, Delivered::No),
            "the host ends",
        );
        self.stop_for_good();
        self.write_facts();
        let until = Instant::now() + RECORD;
        while !self.recorder.is_idle() && self.journal.stalled().is_none() {
            // What is stored may be followed by more.
            self.recorder.flush();
            // What cannot be stored now waits in the journal until that is closed.
            if let Ok(stored) = tokio::time::timeout(LOOK, self.recorder.stored()).await {
                self.stored(stored?);
            }
            // What is not in the record by then is dropped.
            if self.recording.is_some() && Instant::now() > until {
                break;
            }
        }
        for done in self.ending.drain(..) {
            // Who waits for it may have given up.
            let _ = done.send(());
        }
        Ok(())
    }

    /// Notes how far the running turn's input got.
    fn reached(&mut self, turn: &TurnId, reached: Reached) {
        self.facts.open.reached(turn, reached);
    }
}
