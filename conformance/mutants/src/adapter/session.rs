//! A conversation: its turns, its requests, and its output.

mod ending;
mod ledger;
mod process;
mod requests;
mod turn;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use trunkline_conformance_mutants::{
    locks::{lock, wait},
    outbox::Source,
    sleep,
};

pub(crate) use self::{
    ending::TurnEnd,
    ledger::{AnnouncedFile, Ledger, digest},
    process::AdapterProcess,
    requests::{HostReply, OfferedChoice, WaitingRequest, allows},
    turn::AdapterTurn,
    turns::TurnInput,
};
use crate::{
    fields::Fields,
    message::{Members, Message},
    negotiation::{ActiveOptions, PROTOCOL, Start, facts},
    schema::ExtensionSet,
    switches::{Mutant::*, Variant::*, broken, varied},
    world::{Memory, Values},
};
use turns::ActiveTurn;

/// Waiting bytes of a session before its turn waits too ([flow.3]).
const ROOM: usize = 256 * 1024;

/// Waiting bytes for a host that does not read after which its session is closed.
const OVERRUN: usize = 64 * 1024 * 1024;

/// Reason why a turn cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnAbort {
    /// Stopped.
    Stopped,
    /// Its session is closed.
    Closed,
}

/// A session that is open, or was.
#[derive(Debug)]
pub(crate) struct AdapterSession {
    pub(crate) id: String,
    pub(crate) agreed: ExtensionSet,
    pub(crate) process: Arc<AdapterProcess>,
    /// The agent's own id of it.
    native_id: String,
    state: Mutex<AdapterState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AdapterState {
    phase: AdapterPhase,
    queue: VecDeque<TurnInput>,
    queued_bytes: usize,
    running: Option<ActiveTurn>,
    /// True if a thread serves the turns.
    worker: bool,
    requests: BTreeMap<String, WaitingRequest>,
    /// Effects of settled requests, which must not be read again.
    stale: BTreeMap<String, PathBuf>,
    ledger: Ledger,
    values: Values,
    options: ActiveOptions,
    /// Options at its start.
    first_options: ActiveOptions,
    folder: Option<PathBuf>,
    out: VecDeque<String>,
    out_bytes: usize,
    pauses: u32,
    /// When its last turn ended.
    ended_at: Option<Instant>,
    /// True if its last turn was stopped.
    stopped: bool,
    /// True if it has sent its first message.
    begun: bool,
    /// Requests that it has settled by itself, and whose answer is still to come ([permission.4]).
    owed: BTreeSet<String>,
    /// True if it ignores inputs.
    deaf: bool,
    /// True if it is in the queue of the outbox.
    scheduled: bool,
}

impl AdapterState {
    fn is_open(&self) -> bool {
        matches!(self.phase, AdapterPhase::Open)
    }

    fn is_closed(&self) -> bool {
        matches!(self.phase, AdapterPhase::Closed)
    }
}

#[derive(Debug, Default)]
enum AdapterPhase {
    #[default]
    Open,
    /// Ended from this side, in the only way that the host understands ([session.8]).
    Told(String),
    Closed,
}

impl AdapterSession {
    /// Opens a session and sends its first message ([ext.2]).
    pub(crate) fn open(id: String, start: Start, process: &Arc<AdapterProcess>) -> Arc<Self> {
        let world = &process.world;
        let recalled = start.resume.as_ref().map(|native| {
            let native = native.clone().filter(|_| !broken(ResumeClaimed))?;
            world.recall(&native).map(|memory| (native, memory.values))
        });
        let (native_id, values, context) = match recalled {
            Some(Some((native, _))) if broken(ResumeForgets) => {
                (native, Values::new(), Some("kept"))
            }
            Some(Some((native, values))) => (native, values, Some("kept")),
            missing => {
                let lost = if broken(ResumeAlwaysKept) {
                    "kept"
                } else {
                    "lost"
                };
                let native = format!("native-{}", world.serial());
                (native, Values::new(), missing.map(|_| lost))
            }
        };
        let values = if broken(ReusedIdRemembers) {
            world.recall(&id).unwrap_or_default().values
        } else {
            values
        };
        let ready = start.ready(&native_id, context);
        let foreign = start.is_foreign();
        let first_options = start.options.clone();
        let state = AdapterState {
            values,
            options: start.options,
            first_options,
            ..AdapterState::default()
        };
        let session = Arc::new(Self {
            id,
            agreed: start.agreed,
            process: process.clone(),
            native_id,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        process
            .sessions()
            .insert(session.id.clone(), session.clone());
        let mut state = session.lock();
        if varied(Greeting) && ready.is_none() {
            session.send(&mut state, Message::output("Good day."));
        }
        match ready {
            Some(ready) if broken(ReadyLate) => {
                session.send(&mut state, Message::system("starting"));
                session.send(&mut state, ready);
            }
            Some(ready) => session.send(&mut state, ready),
            None if broken(ReadyToCore) => {
                session.send(
                    &mut state,
                    Message::new("session.ready").with("protocol", PROTOCOL),
                );
            }
            None => {}
        }
        if varied(Greeting) && start.offered {
            session.send(&mut state, Message::output("Good day."));
        }
        state.begun = true;
        drop(state);
        if varied(LateFacts) {
            let session = session.clone();
            std::thread::spawn(move || session.tell_facts_late(context));
        }
        if foreign && !broken(ProtocolEchoed) {
            let text = format!("the host speaks protocol 0, this adapter {PROTOCOL}");
            session.end("protocol", Some(("protocol", text)));
        }
        session
    }

    pub(crate) fn has(&self, extension: ExtensionSet) -> bool {
        self.agreed.has(extension)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_closed()
    }

    /// Sends what belongs to no turn, with no wait.
    pub(crate) fn tell(self: &Arc<Self>, message: Message) {
        self.send(&mut self.lock(), message);
    }

    /// Says something while no turn runs: output, and facts that are still the same.
    pub(super) fn speak_between_turns(self: &Arc<Self>) {
        let mut state = self.lock();
        let idle = state.begun && state.running.is_none() && state.queue.is_empty();
        if !idle || state.pauses > 0 || !state.is_open() {
            return;
        }
        self.send(&mut state, Message::output("(at work) "));
        if self.has(ExtensionSet::OPTIONS) {
            let info = Message::with_members("session.info", state.options.in_force());
            self.send(&mut state, info);
        }
    }

    /// Holds back its output ([flow.1]).
    pub(crate) fn pause(&self) {
        let mut state = self.lock();
        state.pauses = if broken(PausesCounted) {
            state.pauses + 1
        } else {
            1
        };
        if broken(PauseIgnored) {
            state.pauses = 0;
        }
    }

    pub(crate) fn resume(self: &Arc<Self>) {
        let mut state = self.lock();
        state.pauses = state.pauses.saturating_sub(1);
        self.schedule(&mut state);
    }

    /// Tells the values in force after a change ([ext.5]).
    pub(crate) fn update(self: &Arc<Self>, fields: &Fields<'_>) {
        let mut state = self.lock();
        state.options.update(fields);
        let values = state.options.in_force();
        let values = if broken(UpdateAnswerEmpty) {
            Members::new()
        } else {
            values
        };
        let info = Message::with_members("session.info", values);
        if varied(SlowUpdates) {
            let session = self.clone();
            std::thread::spawn(move || {
                sleep(1_500);
                session.tell(info);
            });
            return;
        }
        if broken(UpdateAnsweredTwice) {
            self.send(&mut state, info.clone());
        }
        if !broken(UpdateUnanswered) {
            self.send(&mut state, info);
        }
    }

    /// Waits for the turn to end, which no reader of stdin may do.
    pub(crate) fn wait_until_idle(&self) {
        let mut state = self.lock();
        while state.running.is_some() && !state.is_closed() {
            state = self.wait(state, None);
        }
    }

    /// Sends the agent's information about it, after the agent has started.
    fn tell_facts_late(self: &Arc<Self>, context: Option<&str>) {
        sleep(200);
        let mut state = self.lock();
        let facts = facts(self.agreed, &state.options, &self.native_id, context);
        if !facts.is_empty() {
            self.send(&mut state, Message::with_members("session.info", facts));
        }
    }

    /// Returns the state for a later session that resumes this one.
    fn memory(state: &mut AdapterState) -> Memory {
        Memory {
            values: std::mem::take(&mut state.values),
            cwd: state.options.cwd.clone(),
        }
    }

    fn next_line(&self, state: &mut AdapterState, taken: usize, most: usize) -> Option<String> {
        if taken > 0 && taken + state.out.front()?.len() > most {
            return None;
        }
        if broken(Reorders) && state.out.len() > 3 {
            return state.out.remove(1);
        }
        state.out.pop_front()
    }

    /// Puts a message behind what waits. Nothing goes out once the session is closed ([session.4]).
    fn send(self: &Arc<Self>, state: &mut AdapterState, message: Message) {
        if varied(Cuts) {
            return message
                .halves()
                .into_iter()
                .for_each(|half| self.send_whole(state, half));
        }
        self.send_whole(state, message);
    }

    fn send_whole(self: &Arc<Self>, state: &mut AdapterState, message: Message) {
        if state.is_closed() && !broken(SpeaksAfterClose) {
            return;
        }
        if broken(DropsWhenFull) && state.out_bytes > ROOM / 2 && message.kind == "output" {
            return;
        }
        if state.out_bytes > OVERRUN && !broken(PauseUnbounded) {
            // Answers to the host's own messages wait for no room, so nothing else would bound them.
            self.fall_silent(state);
            return;
        }
        let overtakes = broken(PauseLetsEndsThrough) && message.kind == "turn.complete";
        let id = if broken(NewestSessionAnswers) && message.kind == "output" {
            self.process.world.newest()
        } else {
            self.id.clone()
        };
        let own = varied(OwnTypes) && message.kind == "output";
        let line = message.line(&written_id(&id));
        if overtakes && state.pauses > 0 {
            return self.process.send_of_pipe(line);
        }
        state.out_bytes += line.len();
        state.out.push_back(line);
        if own {
            let line = Message::new("reference.note")
                .with("text", "an own type")
                .line(&self.id);
            state.out_bytes += line.len();
            state.out.push_back(line);
        }
        self.schedule(state);
    }

    fn schedule(self: &Arc<Self>, state: &mut AdapterState) {
        if !state.scheduled && state.pauses == 0 && !state.out.is_empty() {
            state.scheduled = true;
            self.process.outbox.schedule(self.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, AdapterState> {
        lock(&self.state)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, AdapterState>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, AdapterState> {
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        });
        wait(&self.changed, state, left)
    }
}

impl Source for AdapterSession {
    fn take_lines(self: Arc<Self>, most: usize) -> Vec<u8> {
        let mut state = self.lock();
        state.scheduled = false;
        let mut lines = Vec::new();
        while state.pauses == 0 {
            let Some(line) = self.next_line(&mut state, lines.len(), most) else {
                break;
            };
            state.out_bytes -= line.len();
            lines.extend_from_slice(line.as_bytes());
        }
        self.schedule(&mut state);
        self.changed.notify_all();
        lines
    }
}

/// Returns the id as it is in the output: the same bytes ([msg.1]).
fn written_id(id: &str) -> String {
    if broken(TruncatesIds) {
        return id.chars().take(32).collect();
    }
    if broken(NormalisesIds) {
        return id.trim().replace('/', "_");
    }
    id.to_owned()
}
