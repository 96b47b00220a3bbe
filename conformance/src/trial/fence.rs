//! Proving that something does not happen: a fence, then a quiet window.
//!
//! Pipes keep order, so when a turn of a fresh session is answered, the program has read everything
//! that was written before. What other threads of it still hold has the quiet window to come out.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{CaseSession, Trial};
use crate::{
    clauses::Side,
    history::{PipePair, RecordedEvent},
    verdict::{EvidenceGround, Outcome},
};

impl Trial {
    /// Opens a fresh session, waits for one turn of it, and closes it. Returns how long the turn took.
    ///
    /// # Errors
    ///
    /// A failure under this case's clause when it is not answered.
    pub(crate) fn fence(&mut self) -> Outcome<Duration> {
        let upto = self.history.len();
        let id = self.fresh("fence");
        let session: CaseSession = self.open_as(&id)?;
        let began = Instant::now();
        let quick = self.quick();
        self.input(&session, quick)?;
        // The stub below a host answers at once.
        let least = self.bounds.secs(if self.subject.side == Side::Host {
            6.0
        } else {
            20.0
        });
        let within = self.bounds.deadline.max(least).min(self.bounds.longest);
        let expected = "a turn of a fresh session is answered";
        let answered = loop {
            let waited = began.elapsed();
            if self
                .nth_end(&session, 0, Duration::from_millis(500).min(within))
                .is_some()
            {
                break true;
            }
            if self.exit_text().is_some() {
                break self
                    .nth_end(&session, 0, Duration::from_millis(200))
                    .is_some();
            }
            if waited > within {
                break false;
            }
        };
        if !answered {
            return match self.exit_text() {
                Some(exit) => self.fail(expected, exit),
                None => {
                    let got = format!("nothing for {:.1?}", began.elapsed());
                    self.late_in(&session, self.finding(expected, got, EvidenceGround::Late))
                }
            };
        }
        let took = began.elapsed();
        self.history
            .push(PipePair::Upper, RecordedEvent::Fence { upto });
        self.fences.push(took);
        self.close(&session)?;
        Ok(took)
    }

    /// A fence, then a quiet window: what has not come by now does not come.
    ///
    /// # Errors
    ///
    /// As [`Self::fence`].
    pub(crate) fn settle(&mut self) -> Outcome {
        self.fence()?;
        thread::sleep(self.quiet());
        Ok(())
    }

    /// Returns the length of the quiet window: at least that of the calibration, or five times the
    /// median of this case's fences.
    pub(crate) fn quiet(&self) -> Duration {
        let mut fences = self.fences.clone();
        fences.sort_unstable();
        let median = fences.get(fences.len() / 2).copied().unwrap_or_default();
        (median * 5).clamp(
            self.bounds.quiet,
            Duration::from_secs(3).max(self.bounds.quiet),
        )
    }

    /// Lets a stated time pass in which the program is only watched.
    pub(crate) fn pass_time(&self, stated: Duration) {
        thread::sleep(stated);
    }
}
