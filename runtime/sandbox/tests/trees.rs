//! Every way in which a sandbox can end, for every kind of process tree: no process is left. The
//! cases come from `trunkline-process`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests"
)]

#[path = "../../process/tests/trees"]
mod trees {
    use trunkline_process::ChildSpec;
    use trunkline_sandbox::{Backend, Sandbox, check_backend};
    use trunkline_testing::skipped;

    use self::cell::Holder;

    mod cell;
    mod chamber;
    mod host;
    mod python;

    /// Path of the init program of these tests.
    pub(crate) const INIT: &str = env!("CARGO_BIN_EXE_sandboxed-init");

    pub(crate) fn sandboxed(spec: ChildSpec, read_only: [&String; 2]) -> ChildSpec {
        let read_only = read_only.map(Into::into).into();
        spec.sandbox(Sandbox {
            read_only,
            ..Sandbox::new(Backend::Bubblewrap)
        })
    }

    fn run(holder: Holder) {
        match check_backend(&Backend::Bubblewrap).problem {
            Some(why) => skipped(&format!("no bubblewrap: {why}")),
            None => chamber::run(holder),
        }
    }

    #[test]
    fn nothing_is_left_in_a_sandbox() {
        run(Holder::Bubblewrap);
    }

    #[test]
    fn nothing_is_left_in_a_sandbox_with_a_deadline() {
        run(Holder::Dated);
    }
}
