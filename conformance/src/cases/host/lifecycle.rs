//! H-LIF: the life of the adapter's process.

use crate::cases::prelude::*;

mod ends;
mod restarts;
mod shutdown;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-LIF-04", ends::no_such_program),
    ("H-LIF-05", ends::last_words),
    ("H-LIF-08", shutdown::orderly_end),
    ("H-LIF-09", shutdown::will_not_go),
    ("H-LIF-10", restarts::crash_after_crash),
    ("H-LIF-13", restarts::begun_anew),
    ("H-LIF-14", restarts::no_storm),
    ("H-LIF-17", shutdown::host_killed),
];

/// Waits until these processes of the stub have ended.
pub(in crate::cases) fn demand_gone(t: &Trial, processes: &[u32], within: Duration) -> Outcome {
    let deadline = Instant::now() + within;
    loop {
        if !processes.iter().any(|process| t.is_running(*process)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.late(
                format!("the adapter ends within {within:.1?}"),
                "it is still running",
            );
        }
        t.pass_time(Duration::from_millis(10));
    }
}
