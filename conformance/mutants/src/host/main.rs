//! The reference host with switches: without a switch it keeps every clause, with one it breaks one.
#![forbid(unsafe_code)]

fn main() {}
