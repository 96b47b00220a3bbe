//! What each session of the demo does, and what it saw.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use trunkline_host::{Cause, Event, EventKind, Session, TurnNo, protocol::StopReason};

use super::token::{Token, Tokens};

/// How long a long turn runs before it is stopped.
const BEFORE_STOP: Duration = Duration::from_millis(20);

/// The most text of a turn that is searched, in bytes; far more than the demo's inputs make.
const MAX_TEXT: usize = 64 * 1024;

/// What all sessions of the demo share.
#[derive(Debug)]
pub(super) struct Load {
    turns: u32,
    tokens: Tokens,
    pub(super) progress: ProgressBar,
    /// Sessions whose turns are not all done.
    busy: AtomicU32,
    done: Notify,
    closing: watch::Sender<bool>,
}

/// What a session saw, or all of them together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Other sessions' tokens.
    pub(super) cross_talk: u64,
    /// Turns without exactly one end that the adapter made.
    pub(super) unanswered: u64,
    /// Plain turns that gave the session's own text back: those that checked something.
    pub(super) checked: u64,
    /// Plain turns that ended without it.
    pub(super) unchecked: u64,
    /// Permissions that were asked.
    pub(super) permissions: u64,
    /// Turns that were stopped.
    pub(super) stops: u64,
    /// From the send to the end of each plain turn.
    pub(super) latencies: Vec<Duration>,
}

/// What a turn says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A text, to be echoed.
    Echo,
    /// Something that asks for permission first.
    Tool,
    /// Something long, to be stopped.
    Sleep,
}

impl Step {
    /// The step of a turn: of ten turns two ask, one is stopped, at another time in every session.
    fn of(session: u32, turn: u32) -> Self {
        match session.wrapping_add(turn) % 10 {
            3 | 8 => Self::Tool,
            6 => Self::Sleep,
            _ => Self::Echo,
        }
    }

    fn text(self, token: &Token) -> String {
        match self {
            Self::Echo => format!("hello from {token}"),
            Self::Tool => format!("/tool {token}"),
            Self::Sleep => "/sleep 30".to_owned(),
        }
    }
}

impl Load {
    /// A load of so many turns in each of so many sessions.
    pub(super) fn new(sessions: u32, turns: u32, progress: ProgressBar) -> Self {
        // The standard library's one source of chance: no two runs share their tokens.
        let run = RandomState::new().hash_one(std::process::id());
        Self {
            turns,
            tokens: Tokens::new(run),
            progress,
            busy: AtomicU32::new(sessions),
            done: Notify::new(),
            closing: watch::Sender::new(false),
        }
    }

    /// Waits until every session has had its turns. Sessions stay open.
    pub(super) async fn all_done(&self, running: &mut JoinSet<Tally>) {
        while self.busy.load(Ordering::Acquire) > 0 && !running.is_empty() {
            self.done.notified().await;
        }
    }

    /// Lets the sessions close.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    fn one_done(&self) {
        self.busy.fetch_sub(1, Ordering::AcqRel);
        self.done.notify_one();
    }
}

impl Tally {
    /// Adds what another session saw.
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

/// One session of the demo: its turns one after the other, then its end. Its events come in one
/// stream, so that an end too many, or a text outside any turn, would be seen too.
pub(super) async fn session(load: std::sync::Arc<Load>, number: u32, session: Session) -> Tally {
    let mut watcher = Watcher {
        tokens: &load.tokens,
        token: load.tokens.of(number),
        approve: number.is_multiple_of(2),
        ends: Vec::new(),
        text: String::new(),
        tally: Tally::default(),
    };
    for turn in 0..load.turns {
        let step = Step::of(number, turn);
        if !watcher.turn(&session, step).await {
            break;
        }
        load.progress.inc(1);
    }
    load.one_done();
    // An error means that the demo is over.
    let _ = load.closing.subscribe().wait_for(|closing| *closing).await;
    session.close().await;
    while let Some(event) = session.next_event().await {
        watcher.see(event);
    }
    watcher.check();
    let sent = u64::from(load.turns);
    let answered = watcher.ends.iter().filter(|ends| **ends == 1).count() as u64;
    watcher.tally.unanswered = sent.saturating_sub(answered);
    watcher.tally
}

/// Sees the events of one session.
struct Watcher<'a> {
    tokens: &'a Tokens,
    token: Token,
    /// Whether it allows what is asked. Half of the sessions do.
    approve: bool,
    /// How many ends each turn had, by its number.
    ends: Vec<u32>,
    /// What came since the last look.
    text: String,
    tally: Tally,
}

impl Watcher<'_> {
    /// Has one turn; whether the session goes on.
    async fn turn(&mut self, session: &Session, step: Step) -> bool {
        let began = Instant::now();
        let Ok(turn) = session.send(step.text(&self.token)) else {
            return false;
        };
        let no = turn.no();
        turn.detach();
        let mut stop = std::pin::pin!(async {
            if step == Step::Sleep {
                tokio::time::sleep(BEFORE_STOP).await;
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
            if self.see(event) == Some(no) {
                break;
            }
        }
        let took = began.elapsed();
        let own = self.check();
        if step == Step::Echo {
            self.tally.latencies.push(took);
            self.tally.checked += u64::from(own);
            self.tally.unchecked += u64::from(!own);
        }
        true
    }

    /// Takes note of an event; gives the turn that it ends.
    fn see(&mut self, event: Event) -> Option<TurnNo> {
        match event.kind {
            EventKind::Output(output) => self.hear(&output.content),
            EventKind::Thinking(thinking) => self.hear(&thinking.content),
            EventKind::Message(message) => self.hear(&message.content),
            EventKind::ToolStart(start) => self.hear(&start.tool),
            EventKind::ToolEnd(end) => self.hear(end.content.as_deref().unwrap_or_default()),
            EventKind::Permission(permission) => {
                self.tally.permissions += 1;
                self.hear(
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
                let at = usize::try_from(end.turn.get())
                    .unwrap_or(usize::MAX)
                    .saturating_sub(1);
                if self.ends.len() <= at {
                    self.ends.resize(at + 1, 0);
                }
                // An end that the host had to make is not an answer; two of them make sure that it
                // counts as none.
                self.ends[at] += if matches!(end.cause, Cause::Complete | Cause::StoppedUnsent) {
                    1
                } else {
                    2
                };
                return Some(end.turn);
            }
            _ => {}
        }
        None
    }

    fn hear(&mut self, text: &str) {
        if self.text.len() + text.len() <= MAX_TEXT {
            self.text.push_str(text);
        }
    }

    /// Looks whose tokens came; whether the session's own was among them.
    fn check(&mut self) -> bool {
        let (foreign, own) = self.tokens.foreign_and_own(&self.text, &self.token);
        self.tally.cross_talk += foreign;
        self.text.clear();
        own > 0
    }
}
