//! `--start`: starts and stops the real process, with timings.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use trunkline_host::config::AgentConfig;
use trunkline_host::process::{ChildSpec, Exit, StderrTail, spawn, stop};
use trunkline_host::protocol::Extensions;

use super::report::{CheckCode, DoctorCheck};
use crate::command::drain_stderr;

/// Session that is opened and closed.
const SESSION: &str = "doctor";

/// Minimum lifetime of a process without extensions.
const MIN_LIFETIME: Duration = Duration::from_millis(500);

/// Limit of the output before `session.ready`, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Limit of the stored end of stderr, in bytes.
const MAX_STDERR_BYTES: usize = 2048;

/// Starts the process, opens a session, waits for `session.ready`, closes the session and stops the
/// process.
pub(super) async fn start_and_stop(
    agent: &AgentConfig,
    spec: ChildSpec,
    within: Duration,
) -> Vec<DoctorCheck> {
    let began = Instant::now();
    let mut child = match spawn(spec).await {
        Ok(child) => child,
        Err(error) => {
            let check = CheckCode::StartFailed.check(format!("failed to {error}"));
            return vec![match std::error::Error::source(&error) {
                Some(source) => check.detail(source.to_string()),
                None => check,
            }];
        }
    };
    let mut checks =
        vec![CheckCode::StartStarted.check(format!("after {}", elapsed_millis(began)))];
    let tail = StderrTail::new(MAX_STDERR_BYTES);
    let draining = drain_stderr(&mut child, &tail);
    let (Some(mut stdin), Some(stdout)) = (child.take_stdin(), child.take_stdout()) else {
        return checks;
    };
    let mut stdout = BufReader::new(stdout);
    let offered = agent
        .extensions
        .as_ref()
        .map_or(Extensions::all(), Extensions::from_names);
    // A failed write is reported by the end of the process below.
    let _ = write_line(&mut stdin, &start_line(offered)).await;

    // A process without extensions sends nothing before its first input; only its lifetime can be
    // checked.
    let within = if offered.is_empty() {
        within.min(MIN_LIFETIME)
    } else {
        within
    };
    let waited = timeout(within, wait_for_ready(&mut stdout)).await;
    match waited {
        Ok(true) => {
            checks.push(CheckCode::StartReady.check(format!("after {}", elapsed_millis(began))))
        }
        Ok(false) => {}
        Err(_) if child.exit().is_some() => {}
        Err(_) => checks.push(CheckCode::StartQuiet.check(if offered.is_empty() {
            "it is running; without extensions it sends nothing before its first input".to_owned()
        } else {
            format!(
                "no `session.ready` within {}",
                humantime::format_duration(within)
            )
        })),
    }
    // A process that closes its output usually ends at once.
    let ended = match waited {
        Ok(false) => timeout(Duration::from_millis(500), child.wait()).await.ok(),
        _ => child.exit(),
    };
    if ended.is_none() {
        let _ = write_line(
            &mut stdin,
            &json!({ "type": "session.close", "session_id": SESSION }),
        )
        .await;
    }
    drop(stdin);
    let stopping = Instant::now();
    // Continues to read, so that pending output does not block the process.
    let reading =
        tokio::spawn(
            async move { drop(tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await) },
        );
    let exit = stop(child, agent.timeouts.shutdown).await;
    let took = elapsed_millis(stopping);
    if let Some(draining) = draining {
        let _ = timeout(Duration::from_millis(200), draining).await;
    }
    reading.abort();
    let check = end_check(ended, exit, &took);
    checks.push(match tail.text().trim() {
        stderr if check.level > super::report::Level::Info && !stderr.is_empty() => {
            check.detail(format!("end of stderr: {stderr}"))
        }
        _ => check,
    });
    checks
}

fn end_check(ended: Option<Exit>, exit: Exit, took: &str) -> DoctorCheck {
    match ended {
        Some(exit) => CheckCode::StartEnded
            .check(format!("it ended by itself, with {exit}"))
            .hint("an adapter reads its stdin until that ends [process.1]"),
        None if exit.signal == Some(9) => CheckCode::StartKilled
            .check(format!(
                "it had to be killed, {took} after the end of its stdin"
            ))
            .hint("an adapter ends at the end of its stdin, and at SIGTERM [process.1]"),
        None => {
            CheckCode::StartStopped.check(format!("{took} after the end of its stdin, with {exit}"))
        }
    }
}

/// Returns the `session.start` with the extensions that this agent is offered.
fn start_line(offered: Extensions) -> Value {
    let mut line = json!({ "type": "session.start", "session_id": SESSION });
    let names: Vec<_> = offered.names().collect();
    if !names.is_empty() {
        line["protocol"] = json!(1);
        line["extensions"] = json!(names);
    }
    line
}

async fn write_line(
    stdin: &mut (impl AsyncWriteExt + Unpin),
    message: &Value,
) -> std::io::Result<()> {
    stdin.write_all(format!("{message}\n").as_bytes()).await
}

/// Reads until the session is ready. Returns false if the output ends before.
async fn wait_for_ready(stdout: &mut (impl AsyncBufReadExt + Unpin)) -> bool {
    let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
    let mut line = Vec::new();
    while let Ok(1..) = stdout.read_until(b'\n', &mut line).await {
        let message = serde_json::from_slice::<Value>(&line).unwrap_or_default();
        if message["type"] == "session.ready" && message["session_id"] == SESSION {
            return true;
        }
        line.clear();
    }
    if stdout.limit() == 0 {
        // The process sends output, but nothing about the session.
        std::future::pending::<()>().await;
    }
    false
}

fn elapsed_millis(since: Instant) -> String {
    format!("{} ms", since.elapsed().as_millis())
}
