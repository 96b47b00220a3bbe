//! `--start`: the real process, started and stopped, with its timings.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use trunkline_host::config::AgentConfig;
use trunkline_host::process::{ChildSpec, Exit, StderrTail, spawn, stop};
use trunkline_host::protocol::Extensions;

use super::report::{Check, Code};
use crate::command::drain_stderr;

/// The session that is opened and closed again.
const SESSION: &str = "doctor";

/// How long a process without extensions must stay.
const STAYS: Duration = Duration::from_millis(500);

/// The most that is read before the process says that it is ready, in bytes.
const MOST: u64 = 1024 * 1024;

/// How much of the end of its stderr is kept, in bytes.
const TAIL: usize = 2048;

/// Starts the process, opens a session, waits for `session.ready`, closes the session and stops the process.
pub(super) async fn start(agent: &AgentConfig, spec: ChildSpec, within: Duration) -> Vec<Check> {
    let began = Instant::now();
    let mut child = match spawn(spec).await {
        Ok(child) => child,
        Err(error) => {
            let check = Check::new(Code::StartFailed, format!("failed to {error}"));
            return vec![match std::error::Error::source(&error) {
                Some(source) => check.detail(source.to_string()),
                None => check,
            }];
        }
    };
    let mut checks = vec![Check::new(
        Code::StartStarted,
        format!("after {}", millis(began)),
    )];
    let tail = StderrTail::new(TAIL);
    let draining = drain_stderr(&mut child, &tail);
    let (Some(mut stdin), Some(stdout)) = (child.take_stdin(), child.take_stdout()) else {
        return checks;
    };
    let mut stdout = BufReader::new(stdout);
    let offered = agent
        .extensions
        .as_ref()
        .map_or(Extensions::all(), Extensions::from_names);
    // Broken already: its end is found below.
    let _ = write(&mut stdin, &start_line(offered)).await;

    // Without an offer it has nothing to answer; that it stays is all there is to see.
    let within = if offered.is_empty() {
        within.min(STAYS)
    } else {
        within
    };
    let waited = timeout(within, ready(&mut stdout)).await;
    match waited {
        Ok(true) => checks.push(Check::new(
            Code::StartReady,
            format!("after {}", millis(began)),
        )),
        Ok(false) => {}
        Err(_) if child.exit().is_some() => {}
        Err(_) => checks.push(Check::new(
            Code::StartQuiet,
            match offered.is_empty() {
                true => {
                    "it runs; without extensions it says nothing before its first input".to_owned()
                }
                false => format!(
                    "no `session.ready` within {}",
                    humantime::format_duration(within)
                ),
            },
        )),
    }
    // One that closes its output ends within a moment, if it ends.
    let ended = match waited {
        Ok(false) => timeout(Duration::from_millis(500), child.wait()).await.ok(),
        _ => child.exit(),
    };
    if ended.is_none() {
        let _ = write(
            &mut stdin,
            &json!({ "type": "session.close", "session_id": SESSION }),
        )
        .await;
    }
    drop(stdin);
    let stopping = Instant::now();
    // Read on, so that nothing it still says holds it up.
    let reading =
        tokio::spawn(
            async move { drop(tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await) },
        );
    let exit = stop(child, agent.timeouts.shutdown).await;
    let took = millis(stopping);
    if let Some(draining) = draining {
        let _ = timeout(Duration::from_millis(200), draining).await;
    }
    reading.abort();
    let check = judge(ended, exit, &took);
    checks.push(match tail.text().trim() {
        said if check.level > super::report::Level::Info && !said.is_empty() => {
            check.detail(format!("its last words: {said}"))
        }
        _ => check,
    });
    checks
}

fn judge(ended: Option<Exit>, exit: Exit, took: &str) -> Check {
    match ended {
        Some(exit) => Check::new(Code::StartEnded, format!("it ended by itself, with {exit}"))
            .hint("an adapter reads its stdin until that ends [process.1]"),
        None if exit.signal == Some(9) => Check::new(
            Code::StartKilled,
            format!("it had to be killed, {took} after it was asked to end"),
        )
        .hint("an adapter ends at the end of its stdin, and at SIGTERM [process.1]"),
        None => Check::new(
            Code::StartStopped,
            format!("{took} after it was asked to, with {exit}"),
        ),
    }
}

/// A `session.start` with what is offered to this agent.
fn start_line(offered: Extensions) -> Value {
    let mut line = json!({ "type": "session.start", "session_id": SESSION });
    let names: Vec<_> = offered.names().collect();
    if !names.is_empty() {
        line["protocol"] = json!(1);
        line["extensions"] = json!(names);
    }
    line
}

async fn write(stdin: &mut (impl AsyncWriteExt + Unpin), message: &Value) -> std::io::Result<()> {
    stdin.write_all(format!("{message}\n").as_bytes()).await
}

/// Reads until the session is ready; false when the output ends before.
async fn ready(stdout: &mut (impl AsyncBufReadExt + Unpin)) -> bool {
    let mut stdout = stdout.take(MOST);
    let mut line = Vec::new();
    while let Ok(1..) = stdout.read_until(b'\n', &mut line).await {
        let message = serde_json::from_slice::<Value>(&line).unwrap_or_default();
        if message["type"] == "session.ready" && message["session_id"] == SESSION {
            return true;
        }
        line.clear();
    }
    if stdout.limit() == 0 {
        // It talks, and says nothing of the session.
        std::future::pending::<()>().await;
    }
    false
}

fn millis(since: Instant) -> String {
    format!("{} ms", since.elapsed().as_millis())
}
