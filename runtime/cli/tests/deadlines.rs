//! What a host's deadline means for its adapters, and for the agents that they wrap. `trunkline-process` has
//! the same scene.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

mod deadlines {
    use trunkline_host::process::{Containment, containment_support};
    use trunkline_testing::skipped;

    use self::scene::{LATE, Scene};

    /// The program whose adapters these are, and their init.
    pub(crate) const TRUNKLINE: &str = env!("CARGO_BIN_EXE_trunkline");

    fn scene() -> Option<Scene> {
        trunkline_host::process::init::use_program(TRUNKLINE);
        let support = containment_support();
        match support.choose(Containment::Auto, Containment::Reaper) {
            Ok(choice) => Some(Scene::new(choice.used.name(), LATE)),
            Err(why) => {
                skipped(&why);
                None
            }
        }
    }

    #[test]
    fn adapters_of_a_host_that_stands_still_end_at_its_deadline() {
        scene().into_iter().for_each(Scene::stop_host);
    }

    #[test]
    fn an_agent_that_a_profile_wraps_ends_at_the_deadline_of_the_host() {
        scene()
            .into_iter()
            .for_each(|scene| scene.stop_host_of("nest"));
    }

    #[test]
    fn a_host_whose_deadline_passed_starts_nothing_until_it_is_extended() {
        scene().into_iter().for_each(Scene::let_pass);
    }

    mod host;
    #[path = "../../../process/tests/deadlines/scene.rs"]
    mod scene;
}
