//! Cost of a start: until the first line has come back, and until the end is known, for each
//! containment and for a bare `std::process::Command`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use trunkline_process::{ChildSpec, Containment, containment_support, spawn};

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

fn with(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, containment: Containment) {
    group.bench_function(containment.name(), |b| {
        b.iter(|| runtime.block_on(contained(containment)));
    });
}

fn start_and_end(c: &mut Criterion) {
    trunkline_process::init::use_program(env!("CARGO_BIN_EXE_trunkline-init"));
    let runtime = Runtime::new().unwrap();
    let mut group = c.benchmark_group("start and end");
    group.bench_function("bare", |b| b.iter(bare));
    with(&mut group, &runtime, Containment::Group);
    let support = containment_support();
    if support.reaper.is_ok() {
        with(&mut group, &runtime, Containment::Reaper);
    }
    if support.namespace.is_ok() {
        with(&mut group, &runtime, Containment::Namespace);
    }
    group.finish();
}

criterion_group!(benches, start_and_end);
criterion_main!(benches);
