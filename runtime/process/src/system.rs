//! The edge to the system that the compiler cannot check: all unsafe code of the crate.
#![allow(
    unsafe_code,
    reason = "fork, what runs between it and exec, signals, and a descriptor that a runtime watches need it"
)]

pub(crate) mod before_exec;
mod end_watch;
pub(crate) mod init;

pub(crate) use end_watch::EndWatch;
