//! The host of a scene: starts trees and extends their deadline, as its input commands.

use std::io::BufRead;
use std::time::Duration;

use trunkline_process::{BootInstant, Child, ChildSpec, Deadline, SpawnError, spawn};

use super::python::Python;
use super::{INIT, held};

pub(crate) const HOLDER: &str = "TRUNKLINE_TEST_HOLDER";
/// Said to a host that is an adapter: it starts its tree in a tree of its own, as adapters start agents.
const WITHIN: &str = "TRUNKLINE_TEST_WITHIN";
const STAMPS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../process/tests/deadlines/stamps.py"
);

/// First deadline: long enough for a busy machine to start the children.
const FIRST: Duration = Duration::from_secs(8);

/// Commands: `start FIFO`, `nest FIFO`, `extend MILLISECONDS` from the deadline or from now,
/// `pass`: waits until none lives. Each is answered with a line `said: …`.
#[tokio::test]
#[ignore = "the host of a scene, which runs it in a process of its own"]
async fn host() {
    let Ok(holder) = std::env::var(HOLDER) else {
        return;
    };
    trunkline_process::init::use_program(INIT);
    if let Some(fifo) = std::env::var_os(WITHIN) {
        let fifo = fifo.to_str().unwrap();
        let _child = start(&Python::find(), &holder, fifo, None).await.unwrap();
        return std::future::pending().await;
    }
    // The script of a version manager takes seconds of a busy machine to find it.
    let python = Python::find();
    let deadline = Deadline::new(BootInstant::now() + FIRST);
    let mut children: Vec<Child> = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (word, of) = line.split_once(' ').unwrap_or((&line, ""));
        let said = match word {
            "start" => match start(&python, &holder, of, Some(&deadline)).await {
                Ok(child) => {
                    children.push(child);
                    "started".to_owned()
                }
                Err(SpawnError::Late { .. }) => "late".to_owned(),
                Err(error) => panic!("{error}"),
            },
            "nest" => {
                let itself = ChildSpec::new(std::env::current_exe().unwrap())
                    .args([
                        "--exact",
                        "--ignored",
                        "--nocapture",
                        "deadlines::host::host",
                    ])
                    .env(HOLDER, &holder)
                    .env(WITHIN, of)
                    .deadline(deadline.clone());
                children.push(spawn(held(itself, &holder, &[], "")).await.unwrap());
                "started".to_owned()
            }
            "extend" => {
                let from = deadline.until().max(BootInstant::now());
                deadline.extend(from + Duration::from_millis(of.parse().unwrap()));
                deadline.until().as_nanos().to_string()
            }
            "pass" => {
                // Nothing is read of the children meanwhile.
                for mut child in children.drain(..) {
                    let exit = child.wait().await;
                    assert_eq!(exit.signal, Some(9), "{exit}");
                }
                deadline.until().as_nanos().to_string()
            }
            _ => panic!("{line:?}"),
        };
        println!("\nsaid: {said}");
    }
}

async fn start(
    python: &Python,
    holder: &str,
    fifo: &str,
    deadline: Option<&Deadline>,
) -> Result<Child, SpawnError> {
    let stamps = std::fs::canonicalize(STAMPS)
        .unwrap()
        .into_os_string()
        .into_string()
        .unwrap();
    let folder = std::path::Path::new(fifo)
        .parent()
        .unwrap()
        .to_str()
        .unwrap();
    let mut spec = ChildSpec::new(&python.program).args([&*stamps, fifo]);
    spec.deadline = deadline.cloned();
    spawn(held(spec, holder, &[&python.prefix, &stamps], folder)).await
}
