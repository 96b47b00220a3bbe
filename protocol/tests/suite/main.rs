//! The protocol crate from outside: golden lines, schemas, framing, odd JSON, writing, rules and
//! the fold-down.
//!
//! `UPDATE_GOLDEN=1` rewrites the golden lines and the schemas instead of comparing them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checked_in;
mod compat;
mod examples;
mod first_bytes;
mod fit;
mod fold;
mod golden;
mod head;
mod lines;
mod odd_json;
mod odd_members;
mod rules;
mod schema;
mod writing;
