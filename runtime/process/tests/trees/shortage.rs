//! A host that may start no more processes: a clear error with the cause, and nothing left behind.

use std::time::Duration;

use trunkline_process::{ChildSpec, Containment, SpawnError, spawn};
use trunkline_testing::skipped;

use super::chamber::{self, Cap};

const SHORT: &str = "TRUNKLINE_TEST_SHORTAGE";

#[test]
fn a_host_without_a_process_to_spare_says_so() {
    let Some(cap) = Cap::new(50) else {
        return skipped("no cgroup for processes");
    };
    chamber::enter(
        Some(&cap),
        "trees::shortage::host_that_is_short",
        &[(SHORT, "1")],
        "said so",
    );
}

#[tokio::test]
#[ignore = "a part of the test above, which runs it in a PID namespace under a cap"]
async fn host_that_is_short() {
    if std::env::var_os(SHORT).is_none() {
        return;
    }
    assert!(std::process::id() < 10, "this is not a PID namespace");
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    for containment in [
        Containment::Namespace,
        Containment::Reaper,
        Containment::Group,
    ] {
        let mut children = Vec::new();
        let mut refused = 0;
        // The cap is met at every point of a start: at the first fork, or at a later one.
        while refused < 20 {
            match spawn(ChildSpec::new("cat").containment(containment)).await {
                Ok(child) => children.push(child),
                Err(SpawnError::Resources { .. }) => {
                    refused += 1;
                    drop(children.pop());
                    tokio::time::sleep(Duration::from_millis(refused % 3)).await;
                }
                Err(other) => panic!("{containment}: {other:?}"),
            }
            assert!(children.len() < 100, "there is no cap");
        }
        for child in children.drain(..) {
            trunkline_process::stop(child, trunkline_process::StopSteps::default()).await;
        }
        spawn(ChildSpec::new("true").containment(containment))
            .await
            .expect("there is room again")
            .finish()
            .await;
    }
    println!("\nsaid so");
}
