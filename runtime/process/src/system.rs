//! System interface: a folder for each system that this crate supports. docs/portability.md lists
//! the duties of such a folder for other systems.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::{EndWatch, ancestry, before_exec, init, lifeline, proc, sockets};

#[cfg(not(target_os = "linux"))]
compile_error!(
    "this crate runs on Linux only: see docs/portability.md for what another system needs"
);
