//! The stub over real pipes.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail it by panics"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a literal message reads best by value"
)]

mod bytes;
mod process;
mod running;
mod sessions;
