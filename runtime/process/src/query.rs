//! Runs a program for a description of itself: empty stdin, bounded output, a deadline, nothing
//! left behind.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::{ChildSpec, Exit, Signal, SpawnError, StderrDrain, StderrTail, spawn};

/// Maximum of output that is read, in bytes; a description with a long schema fits.
const MOST: usize = 1024 * 1024;

/// Kept end of stderr, in bytes.
const TAIL: usize = 2048;

/// Time to read output after the program has ended, because a descendant may hold the pipe.
const REST: Duration = Duration::from_millis(200);

/// Output of a program.
#[derive(Debug)]
pub struct QueryOutput {
    /// Stdout of the program, at most 1 MiB.
    pub stdout: Vec<u8>,
    /// The end of its stderr.
    pub stderr: String,
    /// Exit of the program; `None` if it did not end in time and was killed.
    pub exit: Option<Exit>,
}

/// Runs a program to its end, or kills it and all it started when the time is over.
///
/// # Errors
/// When it does not start.
///
/// # Cancel safety
/// Dropping the future kills the program and all it started.
pub async fn query(mut spec: ChildSpec, within: Duration) -> Result<QueryOutput, SpawnError> {
    // It is gone before this program is, and is not recorded; what others have recorded stays hidden.
    spec.hidden.extend(spec.record_dir.take());
    let mut child = spawn(spec).await?;
    drop(child.take_stdin());
    let stdout = child.take_stdout();
    let stderr = child.take_stderr();
    let tail = StderrTail::new(TAIL);
    let mut said = Vec::new();
    let ended = {
        let output = async {
            if let Some(stdout) = stdout {
                read(stdout, &mut said).await;
            }
        };
        let errors = async {
            if let Some(stderr) = stderr {
                // Output that cannot be read is ignored.
                let _ = StderrDrain::new(stderr, tail.clone()).run(|_| {}).await;
            }
        };
        let mut reading = std::pin::pin!(async { tokio::join!(output, errors) });
        let mut read_all = false;
        let ended = timeout(within, async {
            tokio::select! {
                exit = child.wait() => exit,
                _ = &mut reading => {
                    read_all = true;
                    child.wait().await
                }
            }
        })
        .await;
        if ended.is_err() {
            // An error means that no process is left that we may signal.
            let _ = child.signal_tree(Signal::Kill);
        }
        if !read_all {
            let _ = timeout(REST, &mut reading).await;
        }
        ended
    };
    child.finish().await;
    Ok(QueryOutput {
        stderr: tail.text(),
        exit: ended.ok(),
        stdout: said,
    })
}

/// Reads to the end, and keeps the beginning.
async fn read(mut stdout: impl AsyncRead + Unpin, said: &mut Vec<u8>) {
    let mut space = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = stdout.read(&mut space).await {
        let room = MOST.saturating_sub(said.len());
        said.extend_from_slice(&space[..read.min(room)]);
    }
}
