//! A session: its state on the wire, the adapter's reports, and waiting messages.

use std::{
    collections::VecDeque,
    path::Path,
    time::{Duration, Instant},
};

use trunkline_protocol::{
    AdapterBody, EnforcedOption, Envelope, Extensions, Large, LargeMember, Meta, PROTOCOL,
    SessionId, SessionStart, line_limit,
};

use super::{
    Core, Effect, Key, Slot, Ticket, USED, WhyClosed, known::Known, queue::Queued,
    request::Request, turn::OpenTurn,
};
use crate::{ReliedOn, TurnNo, TurnScope};

/// The parameters of a new session.
#[derive(Debug)]
pub struct NewSession {
    /// The id that its user knows.
    pub id: SessionId,
    /// True if the user chose the id, so that it may have been used before.
    pub chosen: bool,
    /// The options, where any were given.
    pub start: Option<Box<SessionStart>>,
    /// Data that passes through with `session.start`.
    pub meta: Option<Box<Meta>>,
    /// The real path of `start.cwd`, with its links resolved.
    pub real_cwd: Option<Box<Path>>,
}

/// ```text
///           the process runs             first message
///  Opened ───────────────────▶ Started ───────────────▶ Agreed
///    ▲       session.start        │                        │       from each of them: closed
///    └────────────────────────────┴────────────────────────┘       by its user, the adapter, a
///      the process ends, or a stop stays unanswered where          refusal, a limit or shutdown
///      no `turn_id` is known: the next input starts it again
/// ```
///
/// Opened: `wire` is nothing. Started: `wire` is set and `agreed` is not; while `options_due`,
/// inputs wait. Agreed: both are set. A closed session has left its place, whose next [`Key`] is
/// another.
#[derive(Debug)]
pub(super) struct Session {
    /// The id that its user knows; also the wire's, unless that was used before.
    id: SessionId,
    chosen: bool,
    pub(super) start: Option<Box<SessionStart>>,
    meta: Option<Box<Meta>>,
    real_cwd: Option<Box<Path>>,
    /// True if the process runs in `start.cwd`, if there is one.
    pub(super) is_in_cwd: bool,
    /// The id in the running process; nothing where the process does not know the session.
    pub(super) wire: Option<SessionId>,
    /// Agreed extensions; `None` until the adapter's first message ([ext.2]).
    pub(super) agreed: Option<Extensions>,
    /// Since when the process knows it.
    pub(super) started_at: Option<Instant>,
    /// True if a process ever knew it: a new start is then a restart.
    was_started: bool,
    /// True if this process knew it under another id.
    renamed: bool,
    /// True if the user still needs the fact whether the context was kept ([process.5]).
    pub(super) context_due: bool,
    /// True if inputs wait until the adapter has reported the options that it applies ([ext.7]).
    pub(super) options_due: bool,
    /// True if the user has paused events, which pauses the inactivity deadline.
    pub(super) paused: bool,
    /// True if the adapter was asked to hold back the session's messages.
    pub(super) held: bool,
    /// Bytes of its messages.
    pub(super) bytes_in: u64,
    /// When those that came during turns are within its rate.
    pub(super) even_at: Option<Instant>,
    /// Sum of the waiting times of written inputs.
    pub(super) queue_time: Duration,
    /// The highest number of a turn that was written.
    pub(super) written: u64,
    pub(super) armed: Option<Instant>,
    pub(super) known: Option<Box<Known>>,
    /// Open work; freed when there is none, so that an idle session is small.
    pub(super) work: Option<Box<Work>>,
}

/// Open work of a session.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) queue: VecDeque<Queued>,
    /// The oldest turn whose input was written and that has not ended.
    pub(super) running: Option<OpenTurn>,
    /// The turns behind it whose inputs were written, too, in order. Empty while no turn runs.
    pub(super) ahead: VecDeque<OpenTurn>,
    pub(super) requests: Vec<Request>,
    pub(super) steers: VecDeque<(Option<trunkline_protocol::MessageId>, Ticket)>,
    pub(super) updates: VecDeque<Ticket>,
    /// The input whose text is being put into a file, is in one, or cannot be.
    pub(super) placing: Option<(TurnNo, Placing)>,
}

/// State of a text that is sent by file.
#[derive(Debug)]
pub(super) enum Placing {
    UnderWay,
    Placed(Result<LargeMember, String>),
}

impl Work {
    fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.running.is_none()
            && self.requests.is_empty()
            && self.steers.is_empty()
            && self.updates.is_empty()
    }
}

impl Session {
    pub(super) fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }

    pub(super) fn known(&mut self) -> &mut Known {
        self.known.get_or_insert_default()
    }

    /// Returns its working directory, if it chose one: as it was given, then resolved.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let named = self
            .start
            .as_deref()
            .and_then(|start| start.cwd.as_deref())
            .map(Path::new);
        named.into_iter().chain(self.real_cwd.as_deref())
    }

    pub(super) fn was_started(&self) -> bool {
        self.was_started
    }

    pub(super) fn running(&mut self) -> Option<&mut OpenTurn> {
        self.work.as_mut()?.running.as_mut()
    }

    /// The turns whose input was written and that have not ended.
    pub(super) fn open_turns(&self) -> impl Iterator<Item = &OpenTurn> {
        let work = self.work.iter();
        work.flat_map(|work| work.running.iter().chain(&work.ahead))
    }

    pub(super) fn open_turns_mut(&mut self) -> impl Iterator<Item = &mut OpenTurn> {
        let work = self.work.iter_mut();
        work.flat_map(|work| work.running.iter_mut().chain(&mut work.ahead))
    }

    /// The turn of this number, if its input was written and it has not ended.
    pub(super) fn open_turn(&mut self, turn: TurnNo) -> Option<&mut OpenTurn> {
        self.open_turns_mut().find(|open| open.no == turn)
    }

    /// Makes a turn whose input was written the running one, or lets it wait behind that. Returns
    /// true if it runs.
    pub(super) fn add_open_turn(&mut self, mut turn: OpenTurn, now: Instant) -> bool {
        if self.running().is_some() {
            self.work().ahead.push_back(turn);
            return false;
        }
        self.queue_time += turn.start(now);
        self.work().running = Some(turn);
        true
    }

    /// Removes a turn that ends; the next one runs if it was the running one, which is returned with it.
    pub(super) fn take_open_turn(
        &mut self,
        turn: TurnNo,
        now: Instant,
    ) -> Option<(OpenTurn, bool)> {
        let work = self.work.as_mut()?;
        if let Some(at) = work.ahead.iter().position(|open| open.no == turn) {
            return Some((work.ahead.remove(at)?, false));
        }
        let ended = work.running.take_if(|running| running.no == turn)?;
        work.running = work.ahead.pop_front();
        if let Some(next) = &mut work.running {
            self.queue_time += next.start(now);
        }
        Some((ended, true))
    }

    /// Returns true if the adapter takes inputs while a turn runs ([turn.3]), and the host need not
    /// keep them: none ends unsent because the turns before it use up the session's tokens. Such an
    /// adapter knows `turns`, so each has an id.
    pub(super) fn writes_ahead(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.queues) && self.max_tokens().is_none()
    }

    /// The longest line that the adapter reads, if it declared one ([frame.11]).
    pub(super) fn line_limit(&self) -> Option<usize> {
        Some(line_limit(Some(self.known.as_ref()?.max_line?)))
    }

    /// Returns true if this extension may be used towards the adapter: agreed on, or offered before
    /// the adapter's first message.
    pub(super) fn may_use(&self, extension: Extensions, offered: Extensions) -> bool {
        self.agreed.unwrap_or(offered).contains(extension)
    }

    pub(super) fn has_agreed(&self, extension: Extensions) -> bool {
        self.agreed.is_some_and(|agreed| agreed.contains(extension))
    }

    /// After a restart it does not resume from the user's point either.
    pub(super) fn begin_anew(&mut self) {
        if let Some(start) = &mut self.start {
            start.resume = None;
        }
    }

    /// The options that this session relies on ([ext.7]).
    fn relied_on(&self, relied_on: ReliedOn) -> Vec<&'static str> {
        let mut relied_on: Vec<_> = match (&self.start, relied_on) {
            (None, _) | (_, ReliedOn::Nothing) => Vec::new(),
            (Some(start), ReliedOn::Restrictions) => {
                start.enforced_options().map(EnforcedOption::name).collect()
            }
            (Some(start), ReliedOn::Everything) => start.options().collect(),
        };
        relied_on.retain(|option| !self.is_in_cwd || *option != CWD);
        // The host enforces the limits itself.
        relied_on.retain(|option| {
            EnforcedOption::LIMITS
                .iter()
                .all(|own| own.name() != *option)
        });
        relied_on
    }

    /// Returns the required options that the adapter does not list.
    fn unenforced(&self, relied_on: ReliedOn) -> Vec<&'static str> {
        let applied = self
            .known
            .as_ref()
            .map(|known| known.options_applied.as_slice())
            .unwrap_or_default();
        let mut missing = self.relied_on(relied_on);
        missing.retain(|option| !applied.contains(option));
        missing
    }
}

/// The option that a process in its sessions' folder fulfils.
pub(super) const CWD: &str = EnforcedOption::Cwd.name();

impl Core {
    /// Takes a session. Its `session.start` is written as soon as the process runs ([session.1]).
    pub fn handle_open(&mut self, new: NewSession, now: Instant) -> Key {
        let NewSession {
            id,
            chosen,
            start,
            meta,
            real_cwd,
        } = new;
        let session = Session {
            id,
            chosen,
            start,
            meta,
            real_cwd,
            is_in_cwd: self.rules.is_in_cwd,
            wire: None,
            agreed: None,
            started_at: None,
            was_started: false,
            renamed: false,
            context_due: false,
            options_due: false,
            paused: false,
            held: false,
            bytes_in: 0,
            even_at: None,
            queue_time: Duration::ZERO,
            written: 0,
            armed: None,
            known: None,
            work: None,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(Slot {
                generation: 0,
                session: None,
            });
            u32::try_from(self.sessions.len() - 1).unwrap_or(u32::MAX)
        });
        self.sessions[index as usize].session = Some(session);
        self.open += 1;
        // Taken before the start, which may refuse the session at once: the place's next key is not its own.
        let key = self.key_of(index);
        if self.process_is_up() {
            self.start_session(index, now);
        } else {
            self.demand_process(now);
        }
        key
    }

    /// Starts the waiting sessions on a new process: new ones, and those with messages to write.
    pub(super) fn start_waiting(&mut self, now: Instant) {
        for index in self.indices() {
            let Some(session) = self.get(index) else {
                continue;
            };
            let waits = session
                .work
                .as_ref()
                .is_some_and(|work| !work.queue.is_empty());
            if !session.was_started || waits {
                self.flush(index, now);
            }
        }
    }

    /// Writes `session.start`, with the resume state after a restart.
    pub(super) fn start_session(&mut self, index: u32, now: Instant) {
        let offered = self.rules.offered;
        let fresh = self.fresh_id();
        let hash = self.sessions[index as usize]
            .session
            .as_ref()
            .map(|session| self.hasher_of(&session.id));
        let seen = hash.is_some_and(|hash| self.used.contains(&hash)) || self.used.len() >= USED;
        let Some(session) = self.sessions[index as usize].session.as_mut() else {
            return;
        };
        if session.wire.is_some() {
            return;
        }
        let taken =
            session.renamed || self.wire.contains_key(&session.id) || (session.chosen && seen);
        let wire = if taken {
            fresh.unwrap_or_else(|_| session.id.clone())
        } else {
            session.id.clone()
        };
        if session.chosen
            && self.used.len() < USED
            && let Some(hash) = hash
        {
            self.used.insert(hash);
        }
        session.wire = Some(wire.clone());
        session.agreed = offered.is_empty().then_some(Extensions::empty());
        session.started_at = Some(now);
        if let Some(known) = &mut session.known {
            known.max_line = None;
            known.queues = false;
        }
        session.context_due = session.was_started;
        session.was_started = true;
        session.options_due = !session.relied_on(self.rules.relied_on).is_empty();

        let mut start = Box::new(SessionStart::default());
        if offered.contains(Extensions::OPTIONS)
            && let Some(options) = &session.start
        {
            *start = SessionStart {
                resume: None,
                ..options.as_ref().clone()
            };
        }
        if offered.contains(Extensions::RESUME) {
            start.resume = session
                .start
                .as_ref()
                .and_then(|start| start.resume.clone());
            if let Some(resume) = session.known.as_ref().and_then(|known| known.resume()) {
                start.resume = Some(resume);
            }
        }
        if !offered.is_empty() {
            start.protocol = Some(PROTOCOL);
            start.extensions = Some(offered.to_names());
            start.max_line = Some(self.rules.max_line as u64);
        }
        let mut message = Envelope::new(wire.clone(), start);
        message.meta = session
            .meta
            .as_deref()
            .filter(|_| !offered.is_empty())
            .cloned();
        self.wire.insert(wire, index);
        let key = self.key_of(index);
        self.effect(Effect::Write {
            key,
            input_of: None,
            message,
        });
        self.arm(index, now);
        if self.get(index).is_some_and(|session| session.options_due) && offered.is_empty() {
            self.refuse_unenforced(index, now);
        }
    }

    fn hasher_of(&self, id: &SessionId) -> u64 {
        self.hash(id.as_str())
    }

    /// Checks the options that the adapter applies; a missing required one refuses the session
    /// ([ext.7]).
    pub(super) fn check_options(&mut self, index: u32, now: Instant) {
        let relied_on = self.rules.relied_on;
        let Some(session) = self.get(index) else {
            return;
        };
        if !std::mem::take(&mut session.options_due) {
            return;
        }
        if !session.unenforced(relied_on).is_empty() {
            session.options_due = true;
            self.refuse_unenforced(index, now);
        } else {
            self.flush(index, now);
        }
    }

    pub(super) fn refuse_unenforced(&mut self, index: u32, now: Instant) {
        let relied_on = self.rules.relied_on;
        let Some(session) = self.get(index) else {
            return;
        };
        let why = format!(
            "the adapter does not enforce {}",
            session.unenforced(relied_on).join(", ")
        );
        self.close_session(index, WhyClosed::Refused(why), now);
    }

    /// Ends the wire session and begins a new one with the next input, since further messages of
    /// the old one cannot be distinguished from the new ([turn.8]).
    pub(super) fn replace_wire(&mut self, index: u32) {
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        let Some(wire) = session.wire.take() else {
            return;
        };
        session.agreed = None;
        session.held = false;
        session.renamed = true;
        session.started_at = None;
        let message = Envelope::new(wire.clone(), trunkline_protocol::SessionClose::default());
        self.drop_requests(index, trunkline_protocol::StopReason::Stopped);
        self.fail_updates(index);
        self.forget_wire(&wire);
        self.effect(Effect::Write {
            key,
            input_of: None,
            message,
        });
    }

    /// Forgets the wire session with its process.
    pub(super) fn lose_wire(&mut self, index: u32) {
        let Some(session) = self.get(index) else {
            return;
        };
        session.wire = None;
        session.agreed = None;
        session.held = false;
        session.renamed = false;
        session.started_at = None;
        session.options_due = false;
    }

    /// Gives the memory of a session with nothing under way back. Not after each turn: the next is
    /// mostly near.
    pub(super) fn rest(&mut self, index: u32) {
        if let Some(session) = self.get(index)
            && let Some(work) = &session.work
            && work.is_idle()
        {
            session.work = None;
        }
    }

    /// Reports a message of the adapter within a turn or outside of turns.
    pub(super) fn deliver(
        &mut self,
        index: u32,
        scope: TurnScope,
        body: AdapterBody,
        meta: Option<Box<Meta>>,
    ) {
        self.deliver_large(index, scope, body, meta, None);
    }

    /// [`Core::deliver`] for a message with members in files.
    pub(super) fn deliver_large(
        &mut self,
        index: u32,
        scope: TurnScope,
        body: AdapterBody,
        meta: Option<Box<Meta>>,
        large: Option<Box<Large>>,
    ) {
        let key = self.key_of(index);
        self.effect(Effect::Deliver {
            key,
            scope,
            body,
            meta,
            large,
        });
    }
}
