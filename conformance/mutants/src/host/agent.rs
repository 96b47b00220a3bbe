//! An agent: its command, its process, and when that may be started again ([process.5]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// Failed starts within [`WINDOW`] after which the agent is `failed`.
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(120);
/// When a `failed` agent is tried again.
const REST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    /// The process that serves all its sessions.
    pub(crate) process: Option<u64>,
    failures: VecDeque<Instant>,
    not_before: Option<Instant>,
    failed: Option<(Instant, String)>,
}

/// Permission to start a process.
#[derive(Debug)]
pub(crate) enum StartPermit {
    Now,
    Later,
    Never(String),
}

impl Agent {
    pub(crate) fn new(name: &'static str, command: Vec<String>) -> Self {
        Self {
            name,
            command,
            ..Self::default()
        }
    }

    pub(crate) fn state(&self) -> &'static str {
        match (&self.failed, self.process) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "running",
            (None, None) => "idle",
        }
    }

    pub(crate) fn leave(&mut self, now: Instant) -> StartPermit {
        if broken(RestartStorm) {
            return StartPermit::Now;
        }
        if let Some((at, why)) = &self.failed {
            if now < *at + REST {
                return StartPermit::Never(why.clone());
            }
            self.failed = None;
            self.failures.clear();
        }
        match self.not_before {
            Some(at) if now < at => StartPermit::Later,
            _ => StartPermit::Now,
        }
    }

    /// A process ended before it had completed a turn.
    pub(crate) fn count_failure(&mut self, now: Instant, why: &str, at_once: bool) {
        self.failures.push_back(now);
        self.failures.retain(|at| now < *at + WINDOW);
        if at_once || self.failures.len() >= FAILURES || varied(Vh10) {
            self.failed = Some((
                now,
                format!("the agent {} failed to start: {why}", self.name),
            ));
        }
        let longest = 250u64 << self.failures.len().saturating_sub(1).min(7);
        self.not_before = Some(now + Duration::from_millis(jitter(longest.min(30_000))));
    }

    pub(crate) fn count_success(&mut self) {
        self.failures.clear();
        self.not_before = None;
    }
}

/// Returns an unpredictable number below `bound`.
fn jitter(bound: u64) -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish() % bound.max(1)
}
