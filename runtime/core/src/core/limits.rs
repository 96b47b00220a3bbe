//! The limits of a turn: the configuration sets them, its session and its input narrow them
//! ([ext.7]).

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

use trunkline_protocol::{
    Category, Failure, InputLimits, StopReason, Usage, UsageScope, format_duration,
};

use super::{
    Core,
    queue::Queued,
    reason::{Circumstances, Limit, limit_reached},
    session::Session,
    turn::{Attached, unsent},
};
use crate::{Cause, TurnNo, TurnScope};

/// The place that sets a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitSource {
    Configuration,
    Session,
    Input,
}

impl fmt::Display for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "",
            Self::Session => "the session's ",
            Self::Input => "the input's ",
        })
    }
}

/// A limit of time. Its unit is part of its name in sessions and inputs, and not in the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeLimit {
    pub(super) time: Duration,
    source: LimitSource,
}

impl TimeLimit {
    /// Returns the shortest of the limits that are set; of equal ones, the outermost. In a session
    /// and an input 0 sets none, as in the configuration.
    fn shortest(
        configured: Option<Duration>,
        session_ms: Option<u64>,
        input_ms: Option<u64>,
    ) -> Option<Self> {
        let from_millis = |source, millis: Option<u64>| {
            let time = Duration::from_millis(millis.filter(|millis| *millis > 0)?);
            Some(Self { time, source })
        };
        let configured = configured.map(|time| Self {
            time,
            source: LimitSource::Configuration,
        });
        let narrowed = [
            from_millis(LimitSource::Session, session_ms),
            from_millis(LimitSource::Input, input_ms),
        ];
        configured
            .into_iter()
            .chain(narrowed.into_iter().flatten())
            .min_by_key(|limit| limit.time)
    }

    /// Returns its end after this time. `None` if that is too far away for the clock.
    pub(super) fn ends_at(self, since: Instant) -> Option<Instant> {
        since.checked_add(self.time)
    }

    /// Writes the limit for people, by its name in the configuration.
    pub(super) fn write(self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.source == LimitSource::Configuration {
            ""
        } else {
            "_ms"
        };
        let Self { time, source } = self;
        write!(f, "{source}{name}{unit} of {}", format_duration(time))
    }

    /// Describes the time that passed in the end, if that is more by a second or longer.
    pub(super) fn excess(self, took: Duration, what: &str) -> Option<String> {
        let whole_seconds = Duration::from_secs(took.as_secs());
        (took >= self.time.saturating_add(Duration::from_secs(1)))
            .then(|| format!("{what} for {}", format_duration(whole_seconds)))
    }
}

/// The limits of one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnLimits {
    pub(super) turn: Option<TimeLimit>,
    pub(super) inactivity: Option<TimeLimit>,
    /// The most tokens that its input allows. The session's own limit holds for all of its turns.
    max_tokens: Option<u64>,
}

/// The tokens that the turns of a session have used, as far as the agent reports it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsedTokens {
    /// The sum of the turns that have ended.
    by_ended_turns: u64,
    /// The session's running total. 0 if the agent reports none.
    reported: u64,
}

/// Returns the tokens of a `usage`. `None` if they are unknown.
fn usage_tokens(usage: &Usage) -> Option<u64> {
    let parts = [usage.input_tokens, usage.output_tokens];
    let sum = parts.into_iter().flatten().reduce(u64::saturating_add);
    usage.total_tokens.or(sum)
}

impl Session {
    /// Returns the limits of a turn of this session.
    pub(super) fn turn_limits(
        &self,
        turn_timeout: Option<Duration>,
        inactivity: Option<Duration>,
        input: Option<&InputLimits>,
    ) -> TurnLimits {
        let session = self.start.as_deref();
        TurnLimits {
            turn: TimeLimit::shortest(
                turn_timeout,
                session.and_then(|start| start.turn_timeout_ms),
                input.and_then(|limits| limits.turn_timeout_ms),
            ),
            inactivity: TimeLimit::shortest(
                inactivity,
                session.and_then(|start| start.inactivity_timeout_ms),
                input.and_then(|limits| limits.inactivity_timeout_ms),
            ),
            max_tokens: input.and_then(|limits| limits.max_tokens),
        }
    }

    /// The most tokens that all of its turns may use together.
    pub(super) fn max_tokens(&self) -> Option<u64> {
        self.start.as_ref()?.max_tokens
    }

    /// The tokens that its turns have used, with what the open ones have so far.
    fn used_tokens(&self) -> u64 {
        let used = self.known.as_ref().map(|known| known.tokens);
        let UsedTokens {
            by_ended_turns,
            reported,
        } = used.unwrap_or_default();
        let open = self.open_turns().map(|turn| turn.tokens);
        open.fold(by_ended_turns, u64::saturating_add).max(reported)
    }

    /// Returns its `max_tokens` and what was used, if nothing of it is left.
    fn exhausted_tokens(&self) -> Option<(Limit, u64)> {
        let most = self.max_tokens()?;
        let used = self.used_tokens();
        (used >= most).then_some((Limit::Tokens(LimitSource::Session, most), used))
    }

    /// Counts the tokens of a `usage` for the session or for an open turn.
    fn note_usage(&mut self, turn: Option<TurnNo>, usage: &Usage) {
        let Some(tokens) = usage_tokens(usage) else {
            return;
        };
        if usage.scope == Some(UsageScope::Session) {
            let reported = &mut self.known().tokens.reported;
            *reported = tokens.max(*reported);
        } else if let Some(turn) = turn.and_then(|turn| self.open_turn(turn)) {
            turn.tokens = tokens;
        }
    }

    /// Counts the tokens of a turn that has ended.
    pub(super) fn add_tokens(&mut self, tokens: u64) {
        if tokens > 0 {
            let sum = &mut self.known().tokens.by_ended_turns;
            *sum = sum.saturating_add(tokens);
        }
    }
}

impl Core {
    /// Reports a `usage`, counts its tokens, and stops its turn if none are left for it.
    pub(super) fn handle_usage(
        &mut self,
        index: u32,
        scope: TurnScope,
        usage: Box<Usage>,
        (meta, large): Attached,
        now: Instant,
    ) {
        let turn = match scope {
            TurnScope::Running(turn) => Some(turn),
            TurnScope::Outside | TurnScope::Ended(_) => None,
        };
        self.count_tokens(index, turn, &usage);
        self.deliver_large(index, scope, usage.into(), meta, large);
        self.limit_tokens(index, turn, now);
    }

    /// Counts the tokens of a `usage` that an event or the end of a turn carries.
    pub(super) fn count_tokens(&mut self, index: u32, turn: Option<TurnNo>, usage: &Usage) {
        if let Some(session) = self.get(index) {
            session.note_usage(turn, usage);
        }
    }

    /// Stops a turn, by default the running one, if it has used up its input's tokens or its
    /// session's.
    fn limit_tokens(&mut self, index: u32, turn: Option<TurnNo>, now: Instant) {
        let Some(session) = self.get(index) else {
            return;
        };
        let of_session = session.exhausted_tokens();
        let turn = turn.or_else(|| session.running().map(|running| running.no));
        let Some(running) = turn.and_then(|turn| session.open_turn(turn)) else {
            return;
        };
        let turn = running.no;
        let used = running.tokens;
        let of_input = running.limits.max_tokens.filter(|most| used >= *most);
        let of_input = of_input.map(|most| (Limit::Tokens(LimitSource::Input, most), used));
        if let Some((limit, used)) = of_input.or(of_session) {
            let used = used_note(used);
            let stop = self.stop_at(Cause::MaxTokens, limit, Some(&used));
            self.stop_turn(index, turn, Some(stop), StopReason::Policy, now);
        }
    }

    /// Ends the inputs that wait in a session whose tokens are used up, once no turn of it runs.
    pub(super) fn end_exhausted(&mut self, index: u32) {
        let Some(session) = self.get(index) else {
            return;
        };
        let Some(reached) = session.exhausted_tokens() else {
            return;
        };
        let Some(work) = session.work.as_mut().filter(|work| work.running.is_none()) else {
            return;
        };
        let (inputs, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut work.queue)
            .into_iter()
            .partition(|queued| matches!(queued, Queued::Input { .. }));
        work.queue = others;
        for input in inputs {
            if let Queued::Input { turn, input, .. } = input {
                self.end_without_tokens(index, turn, input.content.len(), reached);
            }
        }
    }

    /// Ends an input for which no tokens are left. It was not written.
    pub(super) fn end_without_tokens(
        &mut self,
        index: u32,
        turn: TurnNo,
        bytes: usize,
        (limit, used): (Limit, u64),
    ) {
        let reached = limit_reached(limit, None);
        let why = format!("{reached}: {}; the input was not sent", used_note(used));
        let failure = Failure::new(Category::UsageLimit, why);
        let circumstances = Circumstances::default();
        let end = unsent(turn, Cause::MaxTokens, Some(&failure), circumstances);
        self.end_unwritten(index, bytes, end);
    }
}

impl TurnLimits {
    /// Returns the input's `max_tokens` if it allows none.
    pub(super) fn allows_no_tokens(&self) -> Option<(Limit, u64)> {
        (self.max_tokens == Some(0)).then_some((Limit::Tokens(LimitSource::Input, 0), 0))
    }
}

fn used_note(tokens: u64) -> String {
    let noun = if tokens == 1 {
        "token was"
    } else {
        "tokens were"
    };
    format!("{tokens} {noun} used")
}
