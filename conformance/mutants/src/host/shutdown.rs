//! The end of the relay: the end of stdin, a signal, or a stdout without a reader ([relay.9],
//! [process.2]).

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::child::CloseStep;
use crate::relay::Relay;
use crate::session::ForcedEnd;
use crate::switches::{Mutant::*, broken};

/// After the closes, after the end of stdin, after SIGTERM.
const WAITS: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(1),
];
/// Time for queued messages to the hub.
const LAST_WRITE: Duration = Duration::from_secs(1);

impl Relay {
    /// Ends the open turns and begins the four steps below.
    pub(crate) fn begin_end(&mut self) {
        if self.end.is_some() {
            return;
        }
        let now = Instant::now();
        self.end = Some(now);
        let ids: Vec<String> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.with(&id, |relay, session| {
                if !broken(EofTurnsDropped) {
                    relay.end_all(session, &ForcedEnd::stopped("shutdown"));
                }
                relay.close_wire(session, broken(KilledAtOnce));
            });
        }
        self.hub.release();
        for process in self.processes.values_mut() {
            process.ending = Some(if broken(KilledAtOnce) {
                (CloseStep::Kill, now)
            } else {
                (CloseStep::Eof, now + WAITS[0])
            });
        }
        let counters = &self.counters;
        crate::note(&format!("the end; skipped: {counters:?}"));
    }

    /// Takes one step towards the end of a process.
    pub(crate) fn step_end(&mut self, number: u64, step: CloseStep, now: Instant) {
        let Some(process) = self.processes.get_mut(&number) else {
            return;
        };
        match step {
            CloseStep::Eof => {
                process.stdin.close();
                let wait = if broken(ShutdownLingers) {
                    Duration::from_secs(30)
                } else {
                    WAITS[1]
                };
                process.ending = Some((CloseStep::Term, now + wait));
            }
            CloseStep::Term => {
                process.signal(Signal::SIGTERM);
                process.ending = Some((CloseStep::Kill, now + WAITS[2]));
            }
            CloseStep::Kill if broken(NeverKills) => {
                self.processes.remove(&number);
            }
            CloseStep::Kill => {
                process.signal(Signal::SIGKILL);
                self.processes.remove(&number);
            }
        }
    }

    /// Returns true if nothing is left to wait for.
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        self.end.is_some_and(|began| {
            self.processes.is_empty() && (self.hub.is_settled() || now >= began + LAST_WRITE)
        })
    }
}
