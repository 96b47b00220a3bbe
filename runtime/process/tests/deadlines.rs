//! Trees die at their deadline, and not later, when their host is stopped or forgets them.
//!
//! The host is a process of its own, so that it can be stopped. A tree writes the machine's clock
//! to a FIFO every 10 ms; the end of that FIFO is the end of the last process of the tree.
//!
//! The scene is shared with the tests of `trunkline-sandbox`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

mod deadlines {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use trunkline_process::{
        Attachment, ChildSpec, Containment, Holder as Isolating, Inside, Isolated, Isolation,
        IsolationError, containment_support,
    };
    use trunkline_testing::skipped;

    use self::scene::{LATE, Scene};

    /// The init program of these tests.
    pub(crate) const INIT: &str = env!("CARGO_BIN_EXE_trunkline-init");

    /// A child that is held by what has this name, and reads and writes so much.
    pub(crate) fn held(spec: ChildSpec, holder: &str, _: &[&str], writes: &str) -> ChildSpec {
        match holder {
            "namespace" => spec.containment(Containment::Namespace),
            "reaper" => spec.containment(Containment::Reaper),
            _ => spec.sandbox(Engine {
                pids: Path::new(writes).join("pids"),
            }),
        }
    }

    /// Holds like an engine of containers: what runs is no descendant of its client, and ends when
    /// it is removed.
    #[derive(Debug)]
    struct Engine {
        pids: PathBuf,
    }

    impl Isolation for Engine {
        fn isolate(&self, inside: &Inside<'_>) -> Result<Isolated, IsolationError> {
            let pids = self.pids.clone().into_os_string();
            let kill = ["/bin/sh", "-c", "kill -9 $(cat \"$0\")"].map(OsString::from);
            Ok(Isolated {
                program: inside.program.to_owned(),
                args: inside.args.iter().cloned().chain([pids.clone()]).collect(),
                environment: inside.environment.clone(),
                holder: Isolating::Engine {
                    removal: kill.into_iter().chain([pids]).collect(),
                },
                attachment: Attachment::default(),
            })
        }
    }

    /// A host whose children are contained like this, unless that does not work here.
    fn scene(holder: &'static str) -> Option<Scene> {
        trunkline_process::init::use_program(INIT);
        let support = containment_support();
        let works = if holder == "reaper" {
            support.reaper
        } else {
            support.namespace
        };
        match works {
            Ok(()) => Some(Scene::new(holder, LATE)),
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

    /// The removal takes its engine a moment.
    #[test]
    fn a_container_is_removed_at_its_deadline_while_its_host_stands_still() {
        Scene::new("engine", Duration::from_secs(2)).stop_host_of("start");
    }

    #[test]
    fn an_agent_within_its_adapters_namespace_ends_with_it() {
        scene("namespace")
            .into_iter()
            .for_each(|scene| scene.stop_host_of("nest"));
    }

    #[test]
    fn an_agent_under_its_adapters_reaper_ends_with_it() {
        scene("reaper")
            .into_iter()
            .for_each(|scene| scene.stop_host_of("nest"));
    }

    mod host;
    #[path = "../trees/python.rs"]
    mod python;
    mod refusals;
    mod scene;
}
