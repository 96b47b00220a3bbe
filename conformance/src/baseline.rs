//! Known failures: a file beside the program's source that a run is compared with.
//!
//! Strict in both directions: a failure that is not listed counts, and a listed case that passes
//! makes its entry stale. The comparison is a pure function of results and entries.

mod file;
mod judge;
mod update;

pub(crate) use self::{
    file::{Baseline, Expect},
    judge::{BaselineJudgement, CaseStanding, Fact, judge},
    update::{Candidate, Update, update},
};
