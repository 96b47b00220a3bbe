//! A host that is killed before its first session leaves nothing; what one leaves later is swept by the next.

mod support;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use support::{agent, played_with, soon};
use trunkline_host::{Host, SessionOptions};

/// Variable with the state folder of the host that this program becomes, and whether it opens a
/// session.
const STATE: &str = "ORPHANS_STATE";
const OPENS: &str = "ORPHANS_OPENS";

/// The host that is killed; a test only on request.
#[tokio::test]
async fn host_to_be_killed() {
    let Some(state) = std::env::var_os(STATE) else {
        return;
    };
    let (host, mut peers) = played_with(Host::builder().state_dir(state), agent(), 4096);
    let open = std::env::var_os(OPENS).map(|_| host.open("a", SessionOptions::default()).unwrap());
    if open.is_some() {
        soon(peers.recv())
            .await
            .unwrap()
            .read("session.start")
            .await;
    }
    println!("\nready");
    std::future::pending::<()>().await;
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}

#[tokio::test]
async fn a_host_that_is_killed_leaves_nothing_before_its_first_session_and_a_record_after() {
    for opens in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "host_to_be_killed", "--nocapture"])
            .env("TMPDIR", temp.path());
        command.env(STATE, state.path()).stdout(Stdio::piped());
        if opens {
            command.env(OPENS, "1");
        }
        let mut killed = command.spawn().unwrap();
        let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap() == "ready"),
            "the host is made"
        );
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(entries(temp.path()), usize::from(opens));
        assert_eq!(entries(&state.path().join("children")), usize::from(opens));

        let (next, mut peers) = played_with(Host::builder().state_dir(state.path()), agent(), 4096);
        let session = next.open("a", SessionOptions::default()).unwrap();
        soon(peers.recv())
            .await
            .unwrap()
            .read("session.start")
            .await;
        for tries in 0.. {
            if entries(temp.path()) == 0 {
                break;
            }
            assert!(
                tries < 3000,
                "the next host removes what the killed one left"
            );
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        drop((session, next));
    }
}
