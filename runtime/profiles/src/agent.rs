//! What every wrapped agent needs, written once.
//!
//! - how one is configured and asked: `settings`, `options`
//! - how its program runs: `launch`, `process`, `lines`, `rpc`, `patience`
//! - what is told of it: `report`, `failure`, `title`, `tool_loop`
#![allow(dead_code, reason = "filled while the profiles land")]

pub(crate) mod ansi;
pub(crate) mod failure;
pub(crate) mod launch;
pub(crate) mod lines;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod rpc;
pub(crate) mod settings;
pub(crate) mod title;
pub(crate) mod tool_loop;
pub(crate) mod variables;
