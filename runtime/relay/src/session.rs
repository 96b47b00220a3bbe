//! A session of the hub: drives one session of the host and reports to the hub what happens in it.
//!
//! A single task owns all state of the session. It takes the hub's messages at any time, and events
//! from the host only while its queue to the hub has room ([flow.3], [relay.6]). Its answers to the
//! hub are never dropped.

mod brief;
mod events;
mod in_force;
mod inputs;
mod requests;
mod turns;

use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use trunkline_host::{Event, FileError, Session};
use trunkline_pipe::{Class, Flow, place_large_aside};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, Category, Envelope, Extensions, Failure, HostBody, HostMessage,
    Meta, Recipient, SessionClosed, SessionId, ToolsAsOutput, TurnId,
};

use self::{
    in_force::InForce,
    inputs::{Answer, Answering, Ordered, Placing},
    requests::Requests,
    turns::Turns,
};
use crate::{
    counters::LiveCounters,
    upstream::{Outlet, write_for},
};

/// Time for which a session reports what happened before the relay's end; the rest of [relay.9]'s
/// second is the writer's.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// State that all sessions of a relay share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) tools: ToolsAsOutput,
    pub(crate) counters: LiveCounters,
}

/// A session that the hub has opened.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) id: SessionId,
    pub(crate) hub: Recipient,
    /// The hub's exchange folder, for members in files.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) outlet: Outlet,
    pub(crate) common: Arc<Common>,
    /// The host's session, or the reason for its refusal.
    pub(crate) opened: Result<Session, SessionClosed>,
}

/// A session, owned by its task.
pub(crate) struct HubSession {
    id: SessionId,
    hub: Recipient,
    folder: Option<PathBuf>,
    outlet: Outlet,
    common: Arc<Common>,
    session: Option<Session>,
    /// The reason for the session's end below, once it has ended.
    over: Option<SessionClosed>,
    phase: Phase,
    turns: Turns,
    requests: Requests,
    in_force: InForce,
    /// Messages that wait for the file that is being copied.
    ordered: VecDeque<Ordered>,
    placing: Option<Placing>,
    answers: FuturesUnordered<Answering>,
    gave_files: bool,
    /// Set if the end of a turn has reported the end of the process, to a hub that would read it
    /// twice.
    said_exit: bool,
}

/// The state of a session towards its hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The session has ended below. Pending ends and answers are sent first, then the reason.
    Ending,
    /// The hub has received the reason, but cannot know that the session has ended: each further
    /// input is answered ([session.8]).
    Ended,
    /// The relay ends: what happened is reported, and nothing more is accepted.
    Finishing,
    /// The hub has closed the session, or has received its end.
    Closed,
}

/// The next thing that the task handles.
enum Step {
    Hub(Option<Box<HostMessage>>),
    Placed(Result<(), FileError>),
    Answer(Answer),
    /// The queue has room for ends that wait for their turn.
    Room,
    Event(Option<Event>),
}

impl HubSession {
    /// Serves the session until the hub closes it, has received its end, or the relay ends. Returns
    /// the host's session if its files may still be read ([file.3]).
    pub(crate) async fn run(
        new: NewSession,
        mut inbox: mpsc::Receiver<Box<HostMessage>>,
    ) -> Option<Session> {
        let NewSession {
            id,
            hub,
            folder,
            outlet,
            common,
            opened,
        } = new;
        let (session, refused) = match opened {
            Ok(session) => (Some(session), None),
            Err(closed) => (None, Some(closed)),
        };
        let mut own = Self {
            id,
            hub,
            folder,
            outlet,
            common,
            session,
            over: None,
            phase: Phase::Open,
            turns: Turns::default(),
            requests: Requests::default(),
            in_force: InForce::default(),
            ordered: VecDeque::new(),
            placing: None,
            answers: FuturesUnordered::new(),
            gave_files: false,
            said_exit: false,
        };
        if let Some(closed) = refused {
            own.end_from_here(closed);
        }
        while matches!(own.phase, Phase::Open | Phase::Ending | Phase::Ended) {
            match own.step(Some(&mut inbox)).await {
                Step::Hub(Some(message)) => own.take_message(*message).await,
                Step::Hub(None) => own.finish().await,
                step => own.take_step(step).await,
            }
        }
        match &own.session {
            _ if own.over.is_some() => own.see_out(&mut inbox).await,
            Some(session) if own.phase == Phase::Closed => {
                // Before its requests are dropped, since dropping would answer them first.
                session.close().await;
                return None;
            }
            _ => {}
        }
        own.session.filter(|_| own.gave_files)
    }

    /// Waits for the next step. Messages of the hub come first: a `stop` passes through a flood of
    /// events. Ends that wait for their turn come before later events.
    async fn step(&mut self, inbox: Option<&mut mpsc::Receiver<Box<HostMessage>>>) -> Step {
        let Self {
            placing,
            answers,
            outlet,
            session,
            over,
            turns,
            ..
        } = self;
        let session = session.as_ref().filter(|_| over.is_none());
        let refused = turns.is_refused_first();
        tokio::select! {
            biased;
            message = async { inbox.expect("it is there by the branch's condition").recv().await }, if inbox.is_some() => Step::Hub(message),
            placed = async { placing.as_mut().expect("it is there by the branch's condition").await }, if placing.is_some() => Step::Placed(placed),
            Some(answer) = answers.next(), if !answers.is_empty() => Step::Answer(answer),
            () = outlet.room(), if refused => Step::Room,
            event = next_event(outlet, session), if session.is_some() && !refused => Step::Event(event),
        }
    }

    /// Handles a step that is not a message of the hub.
    async fn take_step(&mut self, step: Step) {
        match step {
            Step::Hub(_) => {}
            Step::Placed(placed) => self.placed(placed),
            Step::Answer(answer) => self.answer(answer),
            Step::Room => self.tell_refused(),
            Step::Event(Some(event)) => self.take_event(event).await,
            Step::Event(None) => self.end_from_here(SessionClosed {
                reason: None,
                error: Some(Failure::new(Category::Other, "the host has ended")),
                cause: None,
            }),
        }
        self.tell_end_if_due();
    }

    /// Returns true if the hub and the relay agreed on an extension.
    fn knows(&self, extension: Extensions) -> bool {
        self.hub.agreed.contains(extension)
    }

    /// Reports an event to the hub, in the form that it knows ([ext.3]).
    fn say(&self, turn: Option<TurnId>, body: AdapterBody, meta: Option<Meta>) {
        self.put(self.message(turn, body, meta), Class::Event);
    }

    /// Reports an event of an agent, as [`HubSession::say`] does: members that are too long for a
    /// line are passed in files if that was agreed on ([large.2]).
    async fn pass_on(&mut self, turn: Option<TurnId>, body: AdapterBody, meta: Option<Meta>) {
        let message = self.message(turn, body, meta);
        if let Some(message) = place_large_aside(
            message,
            self.hub.agreed,
            self.hub.max_line,
            self.folder.as_deref(),
        )
        .await
        {
            self.put(message, Class::Event);
        }
    }

    fn message(
        &self,
        turn_id: Option<TurnId>,
        body: AdapterBody,
        meta: Option<Meta>,
    ) -> AdapterMessage {
        AdapterMessage {
            session_id: self.id.clone(),
            turn_id,
            meta,
            large: None,
            body,
        }
    }

    /// Answers a message of the hub. Never dropped: a pause ends before it holds back too much
    /// ([relay.5]).
    fn reply(&mut self, turn: Option<TurnId>, body: AdapterBody) {
        let message = Envelope::new(self.id.clone(), body).of_turn(turn);
        self.put(message, Class::Answer);
        if self.outlet.holds_too_much() {
            tracing::debug!(session = %self.id, "a pause has ended, since too many answers wait for the hub");
            self.flow(Flow::Resume);
        }
    }

    fn put(&self, message: AdapterMessage, class: Class) {
        self.write(message, |line| self.outlet.put(line, class));
    }

    /// Sends the session's last message to the hub.
    fn say_last(&mut self, body: AdapterBody) {
        let message = self.message(None, body, None);
        self.write(message, |line| self.outlet.put_last(line));
        self.phase = Phase::Closed;
    }

    fn write(&self, message: AdapterMessage, put: impl FnMut(Vec<u8>)) {
        write_for(&self.hub, message, &self.common.counters, put);
    }

    /// Drops work in progress: requests are denied, files are not announced. Answers of the host
    /// still come.
    fn drop_work(&mut self) {
        self.requests = Requests::default();
        self.ordered.clear();
        self.placing = None;
    }

    /// Waits until the hub may have read the session's end; until then the session is as open as
    /// before ([session.8]).
    async fn see_out(&mut self, inbox: &mut mpsc::Receiver<Box<HostMessage>>) {
        loop {
            let message = tokio::select! {
                biased;
                message = inbox.recv() => message,
                () = self.outlet.drained() => return,
            };
            match message.map(|message| message.body) {
                Some(HostBody::FlowPause(_)) => self.outlet.flow(Flow::Pause),
                Some(HostBody::FlowResume(_)) => self.outlet.flow(Flow::Resume),
                Some(HostBody::SessionClose(_)) => return self.outlet.purge(),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Finishes because the relay ends: reports what has happened, then ends every open turn
    /// ([relay.9]).
    async fn finish(&mut self) {
        self.phase = Phase::Finishing;
        self.outlet.flow(Flow::Resume);
        self.answer_updates();
        (self.placing, self.ordered) = (None, VecDeque::new());
        let deadline = Instant::now() + LAST_WORDS;
        while (self.over.is_none() || !self.answers.is_empty() || self.turns.is_refused_first())
            && let Ok(step) = timeout_at(deadline, self.step(None)).await
        {
            self.take_step(step).await;
        }
        self.end_turns();
        self.drop_work();
        self.over = None;
    }
}

/// Returns the host's next event as soon as it has room. Loses no event when dropped.
async fn next_event(outlet: &Outlet, session: Option<&Session>) -> Option<Event> {
    outlet.room().await;
    session?.next_event().await
}
