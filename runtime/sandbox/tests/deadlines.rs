//! A sandbox ends at its deadline. Uses the fixture of `trunkline-process`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

#[path = "../../process/tests/deadlines"]
mod deadlines {
    use trunkline_process::ChildSpec;
    use trunkline_sandbox::{Backend, Sandbox, check_backend};
    use trunkline_testing::skipped;

    use self::scene::{LATE, Scene};

    /// Path of the init program of these tests.
    pub(crate) const INIT: &str = env!("CARGO_BIN_EXE_sandboxed-init");

    pub(crate) fn held(spec: ChildSpec, _: &str, reads: &[&str], writes: &str) -> ChildSpec {
        let read_only = reads.iter().map(Into::into).collect();
        let sandbox = Sandbox {
            read_only,
            writable: vec![writes.into()],
            ..Sandbox::new(Backend::Bubblewrap)
        };
        spec.sandbox(sandbox).work_dir("/usr")
    }

    fn scene() -> Option<Scene> {
        if let Some(why) = check_backend(&Backend::Bubblewrap).problem {
            skipped(&format!("no bubblewrap: {why}"));
            return None;
        }
        Some(Scene::new("bubblewrap", LATE))
    }

    #[test]
    fn a_sandbox_ends_at_its_deadline_while_its_host_is_stopped() {
        scene().into_iter().for_each(Scene::stop_host);
    }

    #[test]
    fn a_sandbox_whose_deadline_passed_is_not_revived() {
        scene().into_iter().for_each(Scene::let_pass);
    }

    mod host;
    #[path = "../trees/python.rs"]
    mod python;
    mod scene;
}
