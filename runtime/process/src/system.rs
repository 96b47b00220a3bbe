//! The edge to the system that the compiler cannot check: all unsafe code of the crate.
#![allow(
    unsafe_code,
    reason = "a closure that runs between fork and exec, and a descriptor that a runtime watches, need it"
)]

pub(crate) mod before_exec;
mod end_watch;

pub(crate) use end_watch::EndWatch;
