//! Fuzz targets: input of peers, users and files, mutated.
//!
//! A [`Target`] is a function of bytes that panics if a promise is broken. Its inputs are seeds,
//! mutated by edits that know the words of its language (`spoil`). `cargo test` runs a short, fixed
//! form of each; `docs/testing.md` describes longer runs, on the stable compiler, and the place of
//! their findings.

#![forbid(unsafe_code)]

mod run;
mod spoil;
mod targets;

pub use run::{long, short};
pub use targets::{ALL, Target};
