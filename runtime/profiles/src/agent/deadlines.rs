//! An agent's own deadlines, and the sign that quiet work goes on.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use trunkline_sdk::{Category, Error, Turn};

/// How often a quiet turn says that it goes on.
const WORKING: Duration = Duration::from_secs(10);

/// Waits until then; without a time, forever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for something, and says meanwhile that the turn is alive, so that no host takes it for a stall.
pub(crate) async fn while_working<T>(turn: &Turn, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(WORKING) => {}
        }
        // The work goes on while the message waits for room.
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = turn.working() => {}
        }
    }
}

/// How long an agent may take. `None` is forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deadlines {
    /// From its start to its first sign of life.
    pub(crate) start: Option<Duration>,
    /// Between two signs of life within a turn. Time in which the user is asked does not count.
    pub(crate) silence: Option<Duration>,
    /// For a whole turn. Time in which the user is asked does not count.
    pub(crate) turn: Option<Duration>,
}

/// What time has brought.
#[derive(Debug)]
pub(crate) enum Passed {
    /// A deadline: the turn has failed.
    Deadline(Error),
    /// The turn has been quiet for some time.
    Quiet,
}

/// One turn's deadlines. Time in which the user is asked does not count.
#[derive(Debug)]
pub(crate) struct Watch {
    deadlines: Deadlines,
    working: Instant,
    silent_since: Instant,
    began: Instant,
    paused: Option<Instant>,
    /// The agent starts with the turn, and has given no sign of life.
    starting: bool,
}

impl Watch {
    /// Begins now.
    pub(crate) fn new(deadlines: Deadlines) -> Self {
        Self {
            starting: false,
            ..Self::starting_at(deadlines, Instant::now())
        }
    }

    /// Begins now, with the agent's start: its deadline holds until something is heard.
    pub(crate) fn starting(deadlines: Deadlines) -> Self {
        Self::starting_at(deadlines, Instant::now())
    }

    /// Begins with the agent's start, at this time.
    pub(crate) fn starting_at(deadlines: Deadlines, now: Instant) -> Self {
        Self {
            deadlines,
            working: now + WORKING,
            silent_since: now,
            began: now,
            paused: None,
            starting: true,
        }
    }

    /// The agent has said something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.starting = false;
        self.silent_since = now;
        self.working = now + WORKING;
    }

    /// What the agent says could not be heard until now.
    pub(crate) fn rested(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// The user is asked: the deadlines stand still until [`Watch::resume`].
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused.get_or_insert(now);
    }

    /// No request is open any more.
    pub(crate) fn resume(&mut self, now: Instant) {
        if let Some(since) = self.paused.take() {
            self.began += now - since;
            self.silent_since = now;
        }
    }

    /// When [`Watch::passed`] has something to say.
    pub(crate) fn next(&self) -> Instant {
        self.due()
            .map_or(self.working, |(at, ..)| self.working.min(at))
    }

    /// What has become due by now.
    pub(crate) fn passed(&mut self, now: Instant) -> Option<Passed> {
        if let Some((at, wait, what)) = self.due()
            && at <= now
        {
            return Some(Passed::Deadline(late(what, wait)));
        }
        if self.working > now {
            return None;
        }
        self.working = now + WORKING;
        Some(Passed::Quiet)
    }

    /// The next deadline, and what passing it means.
    fn due(&self) -> Option<(Instant, Duration, &'static str)> {
        if self.paused.is_some() {
            return None;
        }
        let silence = self
            .deadlines
            .silence
            .map(|wait| (self.silent_since + wait, wait, "said nothing for"));
        let turn = self
            .deadlines
            .turn
            .map(|wait| (self.began + wait, wait, "did not end its turn within"));
        let start = self.deadlines.start.filter(|_| self.starting);
        let start = start.map(|wait| {
            (
                self.began + wait,
                wait,
                "gave no sign of life after its start for",
            )
        });
        [start, silence, turn]
            .into_iter()
            .flatten()
            .min_by_key(|(at, ..)| *at)
    }
}

/// The failure of an agent that took too long.
pub(crate) fn late(what: &str, wait: Duration) -> Error {
    let wait = humantime::format_duration(wait);
    Error::new(Category::Timeout, format!("the agent {what} {wait}"))
}
