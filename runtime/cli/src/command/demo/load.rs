//! Turns of the demo's sessions, and their results.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use trunkline_host::{Cause, Event, EventKind, Session, TurnNo, protocol::StopReason};

use super::token::SessionTokens;

/// Time after which a long turn is stopped.
const STOP_DELAY: Duration = Duration::from_millis(20);

/// Limit of a turn's searched text, in bytes; far more than the demo's inputs produce.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// State shared by all sessions.
#[derive(Debug)]
pub(super) struct DemoLoad {
    turns: u32,
    tokens: SessionTokens,
    pub(super) progress: ProgressBar,
}

/// Results of one session, or of all sessions.
#[derive(Debug, Default)]
pub(super) struct DemoTally {
    /// Occurrences of other sessions' tokens.
    pub(super) cross_talk: u64,
    /// Turns without exactly one end by the adapter.
    pub(super) unanswered: u64,
    /// Plain turns that repeated the session's token, and so were checked.
    pub(super) checked: u64,
    /// Plain turns that ended without the session's token.
    pub(super) unchecked: u64,
    /// Permission requests.
    pub(super) permissions: u64,
    /// Stopped turns.
    pub(super) stops: u64,
    /// Time from the input to the end of each plain turn.
    pub(super) latencies: Vec<Duration>,
}

/// Kind of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnKind {
    /// A text to echo.
    Echo,
    /// A tool that requires permission.
    Tool,
    /// A long turn to stop.
    Sleep,
}

impl TurnKind {
    /// Returns the kind of a turn: of ten turns, two ask and one is stopped, in a different order
    /// per session.
    fn for_turn(session: u32, turn: u32) -> Self {
        match session.wrapping_add(turn) % 10 {
            3 | 8 => Self::Tool,
            6 => Self::Sleep,
            _ => Self::Echo,
        }
    }

    fn text(self, token: &str) -> String {
        match self {
            Self::Echo => format!("hello from {token}"),
            Self::Tool => format!("/tool {token}"),
            Self::Sleep => "/sleep 30".to_owned(),
        }
    }
}

impl DemoLoad {
    /// Creates a load of `turns` turns in each session.
    pub(super) fn new(turns: u32, progress: ProgressBar) -> Self {
        // The only source of randomness in the standard library, so that no two runs share tokens.
        let run = RandomState::new().hash_one(std::process::id());
        Self {
            turns,
            tokens: SessionTokens::new(run),
            progress,
        }
    }
}

impl DemoTally {
    /// Adds the results of another session.
    pub(super) fn add(&mut self, other: Self) {
        self.cross_talk += other.cross_talk;
        self.unanswered += other.unanswered;
        self.checked += other.checked;
        self.unchecked += other.unchecked;
        self.permissions += other.permissions;
        self.stops += other.stops;
        self.latencies.extend(other.latencies);
    }
}

/// Runs the turns of one session, in sequence. All of its events arrive in one stream, which would
/// reveal an extra end, or text outside any turn.
pub(super) async fn run_turns(
    load: Arc<DemoLoad>,
    number: u32,
    session: Session,
) -> (Session, EventChecker) {
    let mut checker = EventChecker {
        token: load.tokens.for_session(number),
        load,
        approve: number.is_multiple_of(2),
        ends: HashMap::new(),
        text: String::new(),
        tally: DemoTally::default(),
    };
    for turn in 0..checker.load.turns {
        let step = TurnKind::for_turn(number, turn);
        if !checker.turn(&session, step).await {
            break;
        }
        checker.load.progress.inc(1);
    }
    (session, checker)
}

/// Closes a session after its turns, and returns its results.
pub(super) async fn close_session(session: Session, mut checker: EventChecker) -> DemoTally {
    session.close().await;
    while let Some(event) = session.next_event().await {
        checker.record_event(event);
    }
    checker.check();
    let sent = u64::from(checker.load.turns);
    let answered = checker.ends.values().filter(|ends| **ends == 1).count() as u64;
    checker.tally.unanswered = sent.saturating_sub(answered);
    checker.tally
}

/// Checks the events of one session.
pub(super) struct EventChecker {
    load: Arc<DemoLoad>,
    token: String,
    /// True if it allows permission requests. Half of the sessions do.
    approve: bool,
    /// Number of ends of each turn, by turn number.
    ends: HashMap<TurnNo, u32>,
    /// Text since the last check.
    text: String,
    tally: DemoTally,
}

impl EventChecker {
    /// Runs one turn. Returns true if the session continues.
    async fn turn(&mut self, session: &Session, step: TurnKind) -> bool {
        let began = Instant::now();
        let Ok(turn) = session.send(step.text(&self.token)) else {
            return false;
        };
        let no = turn.no();
        turn.detach();
        let mut stop = std::pin::pin!(async {
            if step == TurnKind::Sleep {
                tokio::time::sleep(STOP_DELAY).await;
            } else {
                std::future::pending::<()>().await;
            }
        });
        let mut stopped = false;
        loop {
            let event = tokio::select! {
                event = session.next_event() => event,
                () = &mut stop, if !stopped => {
                    stopped = true;
                    self.tally.stops += 1;
                    session.stop_turn(no, StopReason::User);
                    continue;
                }
            };
            let Some(event) = event else { return false };
            if self.record_event(event) == Some(no) {
                break;
            }
        }
        let took = began.elapsed();
        let own = self.check();
        if step == TurnKind::Echo {
            self.tally.latencies.push(took);
            self.tally.checked += u64::from(own);
            self.tally.unchecked += u64::from(!own);
        }
        true
    }

    /// Records an event. Returns the turn that it ends.
    fn record_event(&mut self, event: Event) -> Option<TurnNo> {
        match event.kind {
            EventKind::Output(output) => self.append_text(&output.content),
            EventKind::Thinking(thinking) => self.append_text(&thinking.content),
            EventKind::Message(message) => self.append_text(&message.content),
            EventKind::ToolStart(start) => self.append_text(&start.tool),
            EventKind::ToolEnd(end) => self.append_text(end.content.as_deref().unwrap_or_default()),
            EventKind::Permission(permission) => {
                self.tally.permissions += 1;
                self.append_text(
                    permission
                        .request()
                        .description
                        .as_deref()
                        .unwrap_or_default(),
                );
                if self.approve {
                    permission.allow()
                } else {
                    permission.deny()
                }
            }
            EventKind::End(end) => {
                // An end by the host is not an answer; counting it twice marks the turn as
                // unanswered.
                let is_answer = matches!(end.cause, Cause::Complete | Cause::StoppedUnsent);
                *self.ends.entry(end.turn).or_default() += if is_answer { 1 } else { 2 };
                return Some(end.turn);
            }
            _ => {}
        }
        None
    }

    fn append_text(&mut self, text: &str) {
        if self.text.len() + text.len() <= MAX_TEXT_BYTES {
            self.text.push_str(text);
        }
    }

    /// Counts the tokens in the text. Returns true if the session's own token was found.
    fn check(&mut self) -> bool {
        let (foreign, own) = self.load.tokens.foreign_and_own(&self.text, &self.token);
        self.tally.cross_talk += foreign;
        self.text.clear();
        own > 0
    }
}
