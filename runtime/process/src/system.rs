//! The edge to the system: a folder for each that this crate runs on. Of other systems,
//! docs/portability.md says what such a folder has to do.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::{EndWatch, ancestry, before_exec, init, lifeline, proc, sockets};

#[cfg(not(target_os = "linux"))]
compile_error!("this crate runs on Linux only: docs/portability.md says what another system needs");
