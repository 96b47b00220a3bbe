//! The end of a program that has dropped its children. It has its own file, because it waits for
//! the children of the whole program.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::fs;
use std::time::Duration;

use tokio::runtime::Builder;
use trunkline_process::{ChildSpec, settle, spawn};

/// Timeout for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn what_was_dropped_with_its_runtime_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let spec = || ChildSpec::new("cat").private_root(root.path());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let child = runtime.block_on(spawn(spec())).unwrap();
    assert!(!settle(Duration::ZERO), "it is held");
    for _ in 0..8 {
        runtime.block_on(async {
            let child = spawn(spec()).await.unwrap();
            tokio::spawn(async move {
                let _held = child;
                std::future::pending::<()>().await;
            });
        });
        // Some are given up in the middle of their start.
        runtime.spawn(spawn(spec()));
    }
    runtime.shutdown_background();
    drop(child);
    assert!(settle(LIMIT));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert!(settle(Duration::ZERO), "there is nothing to wait for");
}
