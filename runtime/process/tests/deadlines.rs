//! A host stands still, or forgets its children: their trees die at their deadline, and no later.
//!
//! The host is a process of its own, so that it can be stopped. What it starts writes the machine's clock to a FIFO every
//! 10 ms; the end of that FIFO is the end of the last process of the tree.
//!
//! The scene is shared with the tests of `trunkline-sandbox`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests, their helper functions too")]

mod deadlines {
    use trunkline_process::{ChildSpec, Containment, containment_support};
    use trunkline_testing::skipped;

    use self::scene::Scene;

    /// The init program of these tests.
    pub(crate) const INIT: &str = env!("CARGO_BIN_EXE_trunkline-init");

    pub(crate) fn held(spec: ChildSpec, holder: &str, _: [&String; 3]) -> ChildSpec {
        let containment = if holder == "reaper" { Containment::Reaper } else { Containment::Namespace };
        spec.containment(containment)
    }

    /// A host whose children are contained like this, unless that does not work here.
    fn scene(holder: &'static str) -> Option<Scene> {
        trunkline_process::init::use_program(INIT);
        let support = containment_support();
        let works = if holder == "reaper" { support.reaper } else { support.namespace };
        match works {
            Ok(()) => Some(Scene::new(holder)),
            Err(why) => {
                skipped(&format!("no {holder}: {why}"));
                None
            }
        }
    }

    #[test]
    fn a_namespace_ends_at_its_deadline_while_its_host_stands_still() {
        scene("namespace").into_iter().for_each(Scene::stop_host);
    }

    #[test]
    fn what_a_reaper_holds_ends_at_its_deadline_while_its_host_stands_still() {
        scene("reaper").into_iter().for_each(Scene::stop_host);
    }

    #[test]
    fn a_namespace_whose_deadline_passed_is_not_revived() {
        scene("namespace").into_iter().for_each(Scene::let_pass);
    }

    #[test]
    fn what_a_reaper_holds_is_not_revived_when_its_deadline_passed() {
        scene("reaper").into_iter().for_each(Scene::let_pass);
    }

    #[test]
    fn an_agent_within_its_adapters_namespace_ends_with_it() {
        scene("namespace").into_iter().for_each(Scene::stop_host_of_agent);
    }

    #[test]
    fn an_agent_under_its_adapters_reaper_ends_with_it() {
        scene("reaper").into_iter().for_each(Scene::stop_host_of_agent);
    }

    mod host;
    #[path = "../trees/python.rs"]
    mod python;
    mod refusals;
    mod scene;
}
