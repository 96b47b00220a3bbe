//! The host of a cell: starts the tree, prints `ready`, and ends as the cell demands when its input
//! asks for it.

use std::io::BufRead;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use trunkline_process::{BootInstant, ChildSpec, Deadline, StopSteps, spawn, stop};

use super::cell::{Cell, Dying, Holder};
use super::python::Python;
use super::{INIT, sandboxed};

pub(crate) const CELL: &str = "TRUNKLINE_TEST_CELL";
const TREE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../process/tests/trees/tree.py"
);

/// A deadline that does not come.
const FAR: Duration = Duration::from_secs(3600);

/// Short, so that only the order counts.
const STEPS: StopSteps = StopSteps {
    close: Duration::ZERO,
    eof: Duration::from_millis(50),
    term: Duration::from_millis(50),
};

#[tokio::test]
#[ignore = "a part of the matrix, which runs it in a process of its own"]
async fn host() {
    let Some(cell) = std::env::var(CELL)
        .ok()
        .and_then(|name| Cell::from_name(&name))
    else {
        return;
    };
    trunkline_process::init::use_program(INIT);
    let python = Python::find();
    let tree = std::fs::canonicalize(TREE)
        .unwrap()
        .into_os_string()
        .into_string()
        .unwrap();
    let mut spec = match cell.kind {
        "wrapper" => {
            ChildSpec::new("/bin/sh").args(["-c", "\"$0\" \"$1\" plain; :", &python.program, &tree])
        }
        kind => ChildSpec::new(&python.program).args([&tree, kind]),
    };
    if cell.holder == Holder::Dated {
        spec = spec.deadline(Deadline::new(BootInstant::now() + FAR));
    }
    if matches!(cell.holder, Holder::Bubblewrap | Holder::Dated) {
        spec = sandboxed(spec.work_dir("/usr"), [&python.prefix, &tree]);
    }
    let mut child = spawn(spec.containment(cell.holder.containment()))
        .await
        .unwrap();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    assert_eq!(line, "ready\n");
    println!("\nready {}", child.pid());

    let mut word = String::new();
    std::io::stdin().lock().read_line(&mut word).unwrap();
    match cell.dying {
        Dying::Stop => {
            stop(child, STEPS).await;
        }
        Dying::Drop => drop(child),
        Dying::End => {
            child.finish().await;
        }
        Dying::Killed => {
            child.wait().await;
        }
        Dying::HostExits => std::process::exit(0),
        Dying::HostKilled => {}
    }
    println!("\ndone");
    // What is left now is left by the containment, and not for want of a host.
    std::future::pending::<()>().await;
}
