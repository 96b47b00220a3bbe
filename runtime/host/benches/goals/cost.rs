//! Cost of a piece of work in this process: its processor time on all threads, and its speed.
//! Counterparts are processes of their own, so their time is not included.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The cost of each of so many.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_ns: f64,
    pub(crate) per_second: f64,
}

/// A measurement under way.
pub(crate) struct Meter {
    cpu: Duration,
    begun: Instant,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            cpu: cpu(),
            begun: Instant::now(),
        }
    }

    /// The cost of each where so many were done.
    pub(crate) fn of_each(&self, count: usize) -> Cost {
        let cpu = cpu() - self.cpu;
        let took = self.begun.elapsed();
        Cost {
            cpu_ns: cpu.as_nanos() as f64 / count as f64,
            per_second: count as f64 / took.as_secs_f64(),
        }
    }
}

/// The processor time of all threads.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The median of latencies in nanoseconds, and what all but one in a hundred keep to, both in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latency {
    pub(crate) fn from_nanos(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let at = |part: f64| nanos[((nanos.len() - 1) as f64 * part) as usize] as f64 / 1e3;
        Self {
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}
