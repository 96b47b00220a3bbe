//! Judges adapters and hosts of the adapter protocol, in any language.
#![forbid(unsafe_code)]

pub mod clauses;
pub mod model;
pub mod stub;
