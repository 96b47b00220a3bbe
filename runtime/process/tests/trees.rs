//! Containment × way of dying × kind of tree: nothing is left.
//!
//! Every cell runs in a *chamber*: a PID namespace with a cap on processes, whose end is the end of
//! everything that a failing cell leaves. In it a *host*, a process of its own, starts a tree and
//! lets it die or dies itself; then `/proc` is searched. Without PID namespaces there is no
//! chamber, and the tests report that and do nothing.
//!
//! Cell, chamber and host are shared with the tests of `trunkline-sandbox`, whose holder is a
//! sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests"
)]

mod trees {
    use trunkline_process::ChildSpec;

    use self::cell::Holder;

    /// The init program of these tests.
    pub(crate) const INIT: &str = env!("CARGO_BIN_EXE_trunkline-init");

    /// No holder here is a sandbox.
    pub(crate) fn sandboxed(spec: ChildSpec, _: [&String; 2]) -> ChildSpec {
        spec
    }

    #[test]
    fn nothing_is_left_in_a_namespace() {
        chamber::run(Holder::Namespace);
    }

    #[test]
    fn a_reaper_leaves_nothing() {
        chamber::run(Holder::Reaper);
    }

    #[test]
    fn a_group_leaves_nothing_that_stays_in_it() {
        chamber::run(Holder::Group);
    }

    mod cell;
    mod chamber;
    mod host;
    mod python;
    mod records;
    mod shortage;
}
