//! The deadlines of an agent, and the sign that quiet work continues. Time in which this process
//! did not run counts for none.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use trunkline_process::StandstillMeter;
use trunkline_sdk::{Category, Error, Turn, protocol::format_duration};

/// The interval at which a quiet turn reports that it works.
const WORKING: Duration = Duration::from_secs(10);

/// Waits until then; without a time, forever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Runs `work` for at most the time of the limit, in which this process ran; without a limit, to its end.
///
/// # Errors
/// The limit, when the work was not done by then. The work is dropped.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, Duration> {
    let Some(time) = limit else {
        return Ok(work.await);
    };
    let mut work = pin!(work);
    let mut end = Instant::now() + time;
    loop {
        let mut pause = Pause::begin(Some(end));
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = pause.over() => {}
        }
        match pause.standstill() {
            Some(standstill) => end += standstill,
            None if end <= Instant::now() => return Err(time),
            None => {}
        }
    }
}

/// A wait of at most one beat, which notices that the process stood still meanwhile.
#[derive(Debug)]
pub(crate) struct Pause {
    until: Option<Instant>,
    meter: StandstillMeter,
}

impl Pause {
    /// Begins now; the deadline ends it, if that is sooner than a beat. Without a deadline there is
    /// no beat, either.
    pub(crate) fn begin(deadline: Option<Instant>) -> Self {
        let now = Instant::now();
        let until = deadline.map(|deadline| deadline.min(now + StandstillMeter::BEAT));
        // The system's clock, which no test makes virtual: virtual time never pauses.
        let mut meter = StandstillMeter::new(std::time::Instant::now());
        if let Some(until) = until {
            meter.expect_wake(until.saturating_duration_since(now));
        }
        Self { until, meter }
    }

    /// Waits for its end.
    pub(crate) async fn over(&self) {
        at(self.until).await;
    }

    /// The time for which the process stood still since the begin, if it did.
    pub(crate) fn standstill(&mut self) -> Option<Duration> {
        let standstill = self.meter.measure(std::time::Instant::now())?;
        tracing::info!(
            seconds = standstill.as_secs_f64(),
            "this adapter did not run: the agent's deadlines move by that time"
        );
        Some(standstill)
    }
}

/// Waits for work, unless the turn is stopped before. Dropped work is not done.
pub(crate) async fn until_stopped<T>(
    turn: &Turn,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        () = turn.stopped() => Err(Error::stopped()),
        done = work => done,
    }
}

/// Waits for something, and reports meanwhile that the turn is alive, so that no host takes it for a stall.
pub(crate) async fn while_working<T>(turn: &Turn, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(WORKING) => {}
        }
        // The work continues while the message waits for room.
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = turn.working() => {}
        }
    }
}

/// The time that an agent may take. `None` is forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deadlines {
    /// From its start to its first sign of life.
    pub(crate) start: Option<Duration>,
    /// Between two signs of life within a turn. Time in which the user is asked does not count.
    pub(crate) silence: Option<Duration>,
    /// For a whole turn. Time in which the user is asked does not count.
    pub(crate) turn: Option<Duration>,
}

/// A time of a [`Watch`] that has passed.
#[derive(Debug)]
pub(crate) enum Passed {
    /// A deadline: the turn has failed.
    Deadline(Error),
    /// The turn has been quiet for some time.
    Quiet,
}

/// A turn's deadlines. Time in which the user is asked does not count.
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

    /// Begins now, with the agent's start: its deadline holds until the first message.
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

    /// Takes a sign of life of the agent.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.starting = false;
        self.silent_since = now;
        self.working = now + WORKING;
    }

    /// The agent could not be read until now: silence counts from here.
    pub(crate) fn rested(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// Moves every deadline by a time in which this process did not run.
    pub(crate) fn postpone(&mut self, by: Duration) {
        let Self {
            deadlines: _,
            working,
            silent_since,
            began,
            paused,
            starting: _,
        } = self;
        for time in [working, silent_since, began].into_iter().chain(paused) {
            *time += by;
        }
    }

    /// The user is asked: the deadlines rest until [`Watch::resume`].
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused.get_or_insert(now);
    }

    /// No request is open.
    pub(crate) fn resume(&mut self, now: Instant) {
        if let Some(since) = self.paused.take() {
            self.began += now - since;
            self.silent_since = now;
        }
    }

    /// The time at which [`Watch::passed`] has something to report.
    pub(crate) fn next(&self) -> Instant {
        self.due()
            .map_or(self.working, |(at, ..)| self.working.min(at))
    }

    /// Returns what is due by now.
    pub(crate) fn passed(&mut self, now: Instant) -> Option<Passed> {
        if let Some((at, limit, wait, what)) = self.due()
            && at <= now
        {
            return Some(Passed::Deadline(limit_reached(limit, wait, what)));
        }
        if self.working > now {
            return None;
        }
        self.working = now + WORKING;
        Some(Passed::Quiet)
    }

    /// The next deadline: its time, the name and the value of its limit, and what the agent did not do.
    fn due(&self) -> Option<(Instant, &'static str, Duration, &'static str)> {
        if self.paused.is_some() {
            return None;
        }
        let Deadlines {
            start,
            silence,
            turn,
        } = self.deadlines;
        let start = start.filter(|_| self.starting).map(|wait| {
            let what = "the agent gave no sign of life after its start";
            (self.began + wait, "start_timeout", wait, what)
        });
        let silence = silence.map(|wait| {
            let what = "the agent gave no sign of life";
            (self.silent_since + wait, "silence_timeout", wait, what)
        });
        let turn = turn.map(|wait| {
            let what = "the agent did not end its turn";
            (self.began + wait, "turn_timeout", wait, what)
        });
        [start, silence, turn]
            .into_iter()
            .flatten()
            .min_by_key(|(at, ..)| *at)
    }
}

/// The failure of an agent that reached a limit: its name in the configuration, its value, and what
/// the agent did not do.
pub(crate) fn limit_reached(limit: &str, wait: Duration, what: &str) -> Error {
    Error::new(Category::Timeout, limit_text(limit, wait, what))
}

/// The text of [`limit_reached`], for failures of another category.
pub(crate) fn limit_text(limit: &str, wait: Duration, what: &str) -> String {
    let wait = format_duration(wait);
    format!("{limit} of {wait} reached; {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn watch(now: Instant) -> Watch {
        let deadlines = Deadlines {
            start: Some(3 * S),
            silence: Some(5 * S),
            turn: Some(9 * S),
        };
        Watch::starting_at(deadlines, now)
    }

    #[test]
    fn a_standstill_moves_every_deadline_and_the_sign_of_work() {
        let now = Instant::now();
        for heard in [false, true] {
            let mut watch = watch(now);
            if heard {
                watch.heard(now);
            }
            let due = watch.next();
            watch.postpone(100 * S);
            assert_eq!(watch.next(), due + 100 * S);
            assert!(watch.passed(due + 99 * S).is_none());
            assert!(matches!(
                watch.passed(due + 100 * S),
                Some(Passed::Deadline(_))
            ));
        }
        let mut watch = Watch::starting_at(Deadlines::default(), now);
        watch.postpone(100 * S);
        assert!(watch.passed(now + 109 * S).is_none());
        assert!(matches!(watch.passed(now + 110 * S), Some(Passed::Quiet)));
    }

    #[test]
    fn a_standstill_while_the_user_is_asked_counts_once() {
        let now = Instant::now();
        let mut watch = watch(now);
        watch.heard(now);
        watch.pause(now + S);
        watch.postpone(100 * S);
        watch.resume(now + 111 * S);
        // One second of the turn has passed, and the user took ten.
        watch.heard(now + 115 * S);
        assert!(watch.passed(now + 118 * S).is_none());
        assert!(matches!(
            watch.passed(now + 119 * S),
            Some(Passed::Deadline(_))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn work_has_its_time_and_no_more() {
        let quick = within(Some(3 * S), sleep(2 * S)).await;
        assert!(quick.is_ok());
        let begun = Instant::now();
        let slow = within(Some(3 * S), std::future::pending::<()>()).await;
        assert_eq!((slow, begun.elapsed().as_secs()), (Err(3 * S), 3));
    }
}
