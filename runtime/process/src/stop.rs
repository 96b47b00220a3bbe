//! The four timed steps of a stop ([process.2]).

use std::future::pending;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, copy, sink};
use tokio::time::sleep_until;

use crate::child::Child;
use crate::exit::Exit;
use crate::signal::Signal;

/// Grace time of each step of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StopSteps {
    /// After the sessions were closed.
    pub close: Duration,
    /// After standard input was closed.
    pub eof: Duration,
    /// After SIGTERM; then comes SIGKILL.
    pub term: Duration,
}

impl StopSteps {
    /// 1, 5 and 3 seconds.
    pub const DEFAULT: Self = Self {
        close: Duration::from_secs(1),
        eof: Duration::from_secs(5),
        term: Duration::from_secs(3),
    };
}

impl Default for StopSteps {
    /// [`StopSteps::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A step of a stop, for the driver to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Tell the child that its sessions are closed.
    CloseSessions,
    /// Close its standard input.
    CloseStdin,
    /// Send SIGTERM to its tree.
    Terminate,
    /// Send SIGKILL to its tree. The last step.
    Kill,
}

/// Result of [`Escalation::begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Begun {
    /// This call did.
    Now,
    /// An earlier one did, and nothing has changed.
    Before,
}

/// The course of a stop as data: the steps and their times. Its driver continues to read and answer
/// meanwhile.
///
/// ```text
///  Idle ── begin ──► CloseSessions ── close ──► CloseStdin ── eof ──► Terminate ── term ──► Kill ──► Done
/// ```
///
/// Each step is returned once. A wait counts from the return of its step, not from its due time: a
/// host that was suspended does not skip the child's grace. A second stop neither shortens nor
/// restarts the first. The driver notices the end of the process and then drops this value.
#[derive(Debug, Clone, Default)]
pub struct Escalation {
    phase: Phase,
}

#[derive(Debug, Clone, Default)]
enum Phase {
    #[default]
    Idle,
    Waiting {
        steps: StopSteps,
        upcoming: Step,
        /// `None` if the wait exceeds the range of the clock.
        due: Option<Instant>,
    },
    Done,
}

impl Escalation {
    /// A stop that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the stop; its first step is due at once. While one is under way, or done, changes nothing.
    pub fn begin(&mut self, now: Instant, steps: StopSteps) -> Begun {
        match self.phase {
            Phase::Idle => {
                self.phase = Phase::Waiting {
                    steps,
                    upcoming: Step::CloseSessions,
                    due: Some(now),
                };
                Begun::Now
            }
            Phase::Waiting { .. } | Phase::Done => Begun::Before,
        }
    }

    /// Returns true if a stop was requested.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Waiting { .. } | Phase::Done => true,
        }
    }

    /// The step to take now, if one is due. Ask again until there is none: a wait of zero is over at once.
    pub fn next(&mut self, now: Instant) -> Option<Step> {
        let Phase::Waiting {
            steps,
            upcoming,
            due: Some(due),
        } = self.phase
        else {
            return None;
        };
        if now < due {
            return None;
        }
        let (following, wait) = match upcoming {
            Step::CloseSessions => (Step::CloseStdin, steps.close),
            Step::CloseStdin => (Step::Terminate, steps.eof),
            Step::Terminate => (Step::Kill, steps.term),
            Step::Kill => {
                self.phase = Phase::Done;
                return Some(upcoming);
            }
        };
        self.phase = Phase::Waiting {
            steps,
            upcoming: following,
            due: now.checked_add(wait),
        };
        Some(upcoming)
    }

    /// When to ask for the next step; `None` when there is none to wait for.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { due, .. } => due,
            Phase::Idle | Phase::Done => None,
        }
    }

    /// Ends the first wait: every session has been closed, so standard input may be closed now.
    pub fn sessions_closed(&mut self, now: Instant) {
        if let Phase::Waiting {
            upcoming: Step::CloseStdin,
            due,
            ..
        } = &mut self.phase
        {
            *due = Some(due.map_or(now, |due| due.min(now)));
        }
    }
}

/// Stops a child that has no sessions to close: closes its standard input, waits, sends SIGTERM to
/// its group, waits, sends SIGKILL, reaps it and removes its folder.
///
/// `steps.close` is ignored. A caller who took standard input drops it first. Output that was not
/// taken is read and discarded, so that a child which still writes does not block on a full pipe; a
/// caller who took it continues to read.
///
/// # Cancel safety
///
/// Dropping the future drops the child, which kills its group.
pub async fn stop(child: Child, steps: StopSteps) -> Exit {
    boxed(child, steps).await
}

/// Compiled here, and not in each crate that awaits it.
fn boxed(child: Child, steps: StopSteps) -> Pin<Box<dyn Future<Output = Exit> + Send>> {
    Box::pin(run(child, steps))
}

async fn run(mut child: Child, steps: StopSteps) -> Exit {
    drop(child.take_stdin());
    let unread = (child.take_stdout(), child.take_stderr());
    let mut discard = std::pin::pin!(async {
        tokio::join!(throw_away(unread.0), throw_away(unread.1));
        pending::<()>().await;
    });

    let mut escalation = Escalation::new();
    escalation.begin(
        Instant::now(),
        StopSteps {
            close: Duration::ZERO,
            ..steps
        },
    );
    loop {
        while let Some(step) = escalation.next(Instant::now()) {
            take(&child, step);
        }
        let next_step = async {
            match escalation.deadline() {
                Some(due) => sleep_until(due.into()).await,
                None => pending().await,
            }
        };
        // The end before the next step: a child that has ended must not be signalled.
        tokio::select! {
            biased;
            _ = child.wait() => break,
            () = next_step => {}
            () = &mut discard => {}
        }
    }
    child.finish().await
}

fn take(child: &Child, step: Step) {
    let sent = match step {
        Step::CloseSessions | Step::CloseStdin => Ok(()),
        Step::Terminate => child.signal_tree(Signal::Terminate),
        Step::Kill => child.signal_tree(Signal::Kill),
    };
    if let Err(error) = sent {
        tracing::warn!(pid = child.pid(), ?step, %error, "could not signal a child");
    }
}

async fn throw_away(output: Option<impl AsyncRead + Unpin>) {
    if let Some(mut output) = output {
        // A pipe that cannot be read holds nothing up: its child meets SIGTERM in time.
        let _ = copy(&mut output, &mut sink()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: StopSteps = StopSteps {
        close: Duration::from_secs(1),
        eof: Duration::from_secs(5),
        term: Duration::from_secs(3),
    };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_steps_come_in_order_each_once_each_at_its_time() {
        let start = Instant::now();
        let mut stop = Escalation::new();
        assert_eq!(
            (stop.next(start), stop.deadline(), stop.has_begun()),
            (None, None, false)
        );
        assert_eq!(stop.begin(start, STEPS), Begun::Now);

        for (second, step) in [
            (0, Step::CloseSessions),
            (1, Step::CloseStdin),
            (6, Step::Terminate),
            (9, Step::Kill),
        ] {
            assert_eq!(stop.deadline(), Some(after(start, second)));
            if second > 0 {
                assert_eq!(
                    stop.next(after(start, second) - Duration::from_nanos(1)),
                    None
                );
            }
            assert_eq!(stop.next(after(start, second)), Some(step));
            assert_eq!(stop.next(after(start, second)), None);
        }
        assert_eq!(
            (
                stop.next(after(start, 99)),
                stop.deadline(),
                stop.has_begun()
            ),
            (None, None, true)
        );
    }

    #[test]
    fn a_second_stop_neither_shortens_nor_restarts_the_first() {
        let start = Instant::now();
        let mut stop = Escalation::new();
        stop.begin(start, STEPS);
        assert_eq!(stop.next(start), Some(Step::CloseSessions));
        let hasty = StopSteps {
            close: Duration::ZERO,
            eof: Duration::ZERO,
            term: Duration::ZERO,
        };
        assert_eq!(stop.begin(start, hasty), Begun::Before);
        assert_eq!(stop.next(start), None);
        assert_eq!(stop.deadline(), Some(after(start, 1)));
    }

    #[test]
    fn a_late_driver_still_gives_each_step_its_whole_wait() {
        let start = Instant::now();
        let mut stop = Escalation::new();
        stop.begin(start, STEPS);
        stop.next(start);
        assert_eq!(stop.next(after(start, 60)), Some(Step::CloseStdin));
        assert_eq!(stop.next(after(start, 60)), None);
        assert_eq!(stop.deadline(), Some(after(start, 65)));
    }

    #[test]
    fn closed_sessions_end_the_first_wait_and_no_other() {
        let start = Instant::now();
        let mut stop = Escalation::new();
        stop.sessions_closed(start);
        assert!(!stop.has_begun());
        stop.begin(start, STEPS);
        stop.next(start);
        stop.sessions_closed(start);
        assert_eq!(stop.next(start), Some(Step::CloseStdin));
        stop.sessions_closed(start);
        assert_eq!(stop.deadline(), Some(after(start, 5)));
    }

    #[test]
    fn waits_of_zero_pass_at_once_and_endless_ones_never() {
        let start = Instant::now();
        let mut stop = Escalation::new();
        stop.begin(
            start,
            StopSteps {
                close: Duration::ZERO,
                eof: Duration::ZERO,
                term: Duration::MAX,
            },
        );
        let taken: Vec<Step> = std::iter::from_fn(|| stop.next(start)).collect();
        assert_eq!(
            taken,
            [Step::CloseSessions, Step::CloseStdin, Step::Terminate]
        );
        assert_eq!(stop.deadline(), None);
    }
}
