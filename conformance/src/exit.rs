//! The exit statuses of the suite's own program.

/// All scored requirements are met.
pub(crate) const CONFORMANT: u8 = 0;
/// An unexpected failure, or an ability that was declared and refused.
pub(crate) const FAILED: u8 = 1;
/// Wrong arguments or configuration, an unknown id in the baseline, or every case skipped.
pub(crate) const USAGE: u8 = 2;
/// The program under test could not be built or started.
pub(crate) const NOT_STARTED: u8 = 3;
/// Nothing failed, but something could not be found out.
pub(crate) const INCONCLUSIVE: u8 = 4;
/// Only entries of the baseline that no longer fail.
pub(crate) const STALE: u8 = 5;
/// The suite itself went wrong.
pub(crate) const HARNESS: u8 = 6;
