//! Fuzz targets: what peers, users and files say, spoilt in any way.
//!
//! A [`Target`] is a function from bytes that panics where a promise breaks. Its inputs are seeds,
//! spoilt by edits that know the words of its language (`spoil`). `cargo test` runs a short, fixed
//! form of each; `docs/testing.md` says how each runs for longer, on the stable compiler, and where
//! what it finds is kept.

#![forbid(unsafe_code)]

mod run;
mod spoil;
mod targets;

pub use run::{long, short};
pub use targets::{ALL, Target};
