//! H-MSG: messages that are odd, and messages that are none.

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[];
