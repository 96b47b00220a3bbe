//! The command line of the conformance suite.
#![forbid(unsafe_code)]

fn main() {}
