//! Cost of a start: until the first line has come back, and until the end is known, for each
//! containment and for a bare `std::process::Command`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use trunkline_process::{ChildSpec, Containment, containment_support, spawn};

#[path = "../../../testing/benches/timing.rs"]
mod timing;

use timing::measure;

const LINE: &[u8] = b"{\"type\":\"session.start\",\"session_id\":\"s\"}\n";

fn bare() {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    drop(stdin);
    child.wait().unwrap();
}

async fn contained(containment: Containment) {
    let mut child = spawn(ChildSpec::new("cat").containment(containment))
        .await
        .unwrap();
    let mut stdin = child.take_stdin().unwrap();
    stdin.write_all(LINE).await.unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(child.take_stdout().unwrap())
        .read_line(&mut line)
        .await
        .unwrap();
    drop(stdin);
    child.finish().await;
}

fn main() {
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    let runtime = Runtime::new().unwrap();
    measure("start and end: bare", None, bare);
    let support = containment_support();
    let mut containments = vec![Containment::Group];
    if support.reaper.is_ok() {
        containments.push(Containment::Reaper);
    }
    if support.namespace.is_ok() {
        containments.push(Containment::Namespace);
    }
    for containment in containments {
        let name = format!("start and end: {}", containment.name());
        measure(&name, None, || runtime.block_on(contained(containment)));
    }
}
