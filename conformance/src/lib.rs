//! Judges adapters and hosts of the adapter protocol, in any language.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod calendar;
pub mod case;
pub mod cases;
pub mod class;
pub mod clauses;
pub mod cli;
pub mod exit;
pub mod harness;
pub mod history;
pub mod init;
pub mod model;
pub mod needs;
pub mod oracle;
pub mod printable;
pub mod process;
pub mod property;
pub mod replay;
pub mod report;
pub mod rng;
pub mod run;
pub mod selftest;
pub mod shrink;
pub mod stub;
pub mod subject;
pub mod tap;
pub mod trial;
pub mod verdict;
pub mod wire;
