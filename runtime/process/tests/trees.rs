//! Containment × way of dying × kind of tree: nothing is left.
//!
//! Every cell runs in a *chamber*: a PID namespace of its own with a cap on processes, whose end is the end of
//! whatever a failing cell leaves. In it a *host*, a process of its own, starts a tree and lets it die or dies; then
//! `/proc` is searched. Without PID namespaces there is no chamber, and the tests say so and do nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "these are tests")]

mod trees {
    mod cell;
    mod chamber;
    mod host;
    mod records;
    mod shortage;
}
