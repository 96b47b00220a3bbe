//! What is known to fail: a file beside the program's source that a run is compared with.
//!
//! Strict in both directions: a failure that is not listed is one, and a listed case that passes
//! makes its entry stale. Comparing is a function of results and entries alone.

mod file;
mod judge;
mod update;

pub(crate) use self::{
    file::{Baseline, Expect},
    judge::{Fact, Judgement, Standing, judge},
    update::{Candidate, Update, update},
};
