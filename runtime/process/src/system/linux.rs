//! Linux: all unsafe code of the crate, and reads of `/proc`.

pub(crate) mod ancestry;
#[allow(
    unsafe_code,
    reason = "what runs between fork and exec, and a mask of signals, need it"
)]
pub(crate) mod before_exec;
#[allow(unsafe_code, reason = "a descriptor that a runtime watches needs it")]
mod end_watch;
#[allow(
    unsafe_code,
    reason = "fork, namespaces and signals of an init need it"
)]
pub(crate) mod init;
#[allow(unsafe_code, reason = "a write that raises no signal needs it")]
pub(crate) mod lifeline;
pub(crate) mod proc;
pub(crate) mod sockets;

pub(crate) use end_watch::EndWatch;
