//! The state machine of one agent's sessions over one pipe.

mod close;
mod effect;
mod figures;
mod flow;
mod key;
mod known;
mod limits;
mod liveness;
mod message;
mod process;
mod queue;
mod rate;
mod reason;
mod request;
mod session;
mod timers;
mod tool_calls;
mod turn;

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, hash::BuildHasher, time::Duration};

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use trunkline_protocol::{Extensions, SessionId, tool_loop::ToolLoopAction};

pub use self::{
    close::WhyClosed,
    effect::{Counter, Effect, Ticket},
    figures::{Figures, ProcessFigures, ProcessPhase, SessionState},
    flow::Reader,
    key::Key,
    rate::OutputRate,
    request::{Answer, exact_rule},
    session::NewSession,
};
use self::{process::Process, request::PendingTotals, session::Session, timers::Timers};
use crate::{Backoff, policy::Policy};

/// The part of the configuration that the core decides by.
#[derive(Debug)]
pub struct Rules {
    /// Extensions that are offered to the adapter; empty for the core protocol only.
    pub offered: Extensions,
    /// Maximum length of a line that is read, in bytes, as sent in `session.start` ([frame.11]).
    pub max_line: usize,
    /// The policy that answers permission requests without a user.
    pub policy: Policy,
    /// The agent's working directory, by every known name: paths in permission requests are relative to it.
    pub work_dirs: Vec<std::path::PathBuf>,
    /// The deadline for a start, and then for the first message of the process.
    pub start_timeout: Duration,
    /// The deadline of a turn. `None`: no deadline.
    pub turn_timeout: Option<Duration>,
    /// The longest silence of a session whose turn runs. `None`: no limit.
    pub inactivity_timeout: Option<Duration>,
    /// The silence of a running turn after which its user learns of it. `None`: never.
    pub stall_after: Option<Duration>,
    /// Silence of a process after which it is pinged. `None`: never.
    pub ping_after: Option<Duration>,
    /// The deadline for the answer to a stop.
    pub stop_timeout: Duration,
    /// The deadline for the answer to a request, which is then denied or cancelled. `None`: no deadline.
    pub permission_timeout: Option<Duration>,
    /// The limit of a turn's output, in bytes. `None`: no limit.
    pub max_turn_output: Option<u64>,
    /// Limit of a session's output rate while a turn runs. `None`: no limit.
    pub output_rate: Option<OutputRate>,
    /// Limit of a session's open requests; a further one is denied at once.
    pub max_open_requests: usize,
    /// Action when an agent repeats the same tool calls.
    pub tool_loop: ToolLoopAction,
    /// True if the end of the process ends its sessions.
    pub close_on_exit: bool,
    /// True if the process is started before a session asks for it, and again when it has ended.
    pub standby: bool,
    /// The options without which a session is refused ([ext.7]).
    pub relied_on: ReliedOn,
    /// True if the process runs in the folder that its sessions name as their `cwd`, so that the
    /// adapter need not know it.
    pub is_in_cwd: bool,
    /// The waits before a process that failed is started again.
    pub backoff: Backoff,
}

/// Options of a session that the adapter must apply. If it does not list one of them, the session
/// is refused ([ext.7]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReliedOn {
    /// None.
    Nothing,
    /// Options that restrict the agent.
    #[default]
    Restrictions,
    /// Each that the session asks for.
    Everything,
}

/// The sessions of one agent.
#[derive(Debug)]
pub struct Core {
    rules: Rules,
    sessions: Vec<Slot>,
    free: Vec<u32>,
    open: usize,
    /// The turns whose input was written and that have not ended.
    running_turns: usize,
    /// The sessions by the id that the process knows them by.
    wire: HashMap<SessionId, u32>,
    /// The session that spoke last: the next line is mostly its, too.
    last: Option<u32>,
    /// Ids that a user chose and that this process has seen, as hashes; when they are [`USED`], any
    /// may be among them.
    used: HashSet<u64>,
    /// Bytes of what is known of the sessions.
    known_bytes: u64,
    /// Requests that wait.
    pending: PendingTotals,
    /// Ids that were closed lately, as hashes, so that late is not taken for unknown.
    closed: VecDeque<u64>,
    hasher: DefaultHashBuilder,
    process: Process,
    timers: Timers,
    effects: VecDeque<Effect>,
    serial: u64,
    seed: u64,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    session: Option<Session>,
}

/// Limit of remembered closed ids, so that late messages are not taken for unknown ones.
const REMEMBERED: usize = 4096;
/// Limit of remembered chosen ids per process. Later ones get a fresh id on the wire.
const USED: usize = 1024 * 1024;

impl Core {
    /// A core without sessions, whose process does not run. The jitter of restarts and the fresh
    /// ids are drawn from `seed`.
    #[must_use]
    pub fn new(rules: Rules, seed: u64) -> Self {
        Self {
            process: Process::new(rules.backoff, seed),
            rules,
            sessions: Vec::new(),
            free: Vec::new(),
            open: 0,
            running_turns: 0,
            wire: HashMap::new(),
            last: None,
            used: HashSet::new(),
            known_bytes: 0,
            pending: PendingTotals::default(),
            closed: VecDeque::new(),
            hasher: DefaultHashBuilder::default(),
            timers: Timers::default(),
            effects: VecDeque::new(),
            serial: 0,
            seed,
        }
    }

    /// The next thing to do. `None`: nothing until the next input or deadline.
    #[inline]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The number of open sessions.
    #[must_use]
    #[inline]
    pub fn open_sessions(&self) -> usize {
        self.open
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    fn count(&mut self, counter: Counter) {
        self.effects.push_back(Effect::Count(counter, None));
    }

    /// Counts something of a session.
    fn count_of(&mut self, index: u32, counter: Counter) {
        let key = self.key_of(index);
        self.effects.push_back(Effect::Count(counter, Some(key)));
    }

    fn get(&mut self, index: u32) -> Option<&mut Session> {
        self.sessions.get_mut(index as usize)?.session.as_mut()
    }

    fn index_of(&self, key: Key) -> Option<u32> {
        let slot = self.sessions.get(key.index() as usize)?;
        (slot.generation == key.generation() && slot.session.is_some()).then(|| key.index())
    }

    fn key_of(&self, index: u32) -> Key {
        Key::new(
            index,
            self.sessions
                .get(index as usize)
                .map_or(0, |slot| slot.generation),
        )
    }

    fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.sessions.len()).unwrap_or(u32::MAX)
    }

    /// The session that this id names in the running process. One comparison for the session that spoke last.
    fn find(&mut self, wire_id: &str) -> Option<u32> {
        if let Some(last) = self.last
            && let Some(session) = self.get(last)
            && session
                .wire
                .as_ref()
                .is_some_and(|wire| wire.as_str() == wire_id)
        {
            return Some(last);
        }
        let index = *self.wire.get(wire_id)?;
        self.last = Some(index);
        Some(index)
    }

    fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Returns true if this id was closed recently.
    fn is_late(&self, id: &str) -> bool {
        self.closed.contains(&self.hash(id))
    }

    fn forget_wire(&mut self, id: &SessionId) {
        self.wire.remove(id);
        self.last = None;
        let hash = self.hash(id.as_str());
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back(hash);
    }

    /// Returns a unique id, drawn from the seed (splitmix64).
    fn fresh_id(&mut self) -> Result<SessionId, trunkline_protocol::BadId> {
        let mut part = || {
            self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.seed;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        SessionId::new(format!("{:016x}{:016x}", part(), part()))
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}
