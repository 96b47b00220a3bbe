//! A place for a process that lives from turn to turn, and is listened to in between.

use std::time::Duration;

use tokio::{process::ChildStdin, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use trunkline_sdk::Session;

use crate::raw_process::{ProcessEvent, RawProcess};

/// A process, or the place for one.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The process, while a turn has it.
    pub(super) running: Option<RunningProgram>,
    /// Number of processes so far.
    pub(super) number: u64,
    resting: Option<Resting>,
}

/// A process and its input.
#[derive(Debug)]
pub(super) struct RunningProgram {
    pub(super) process: RawProcess,
    pub(super) stdin: Option<ChildStdin>,
    /// An input was not written to its end.
    pub(super) cut: bool,
}

/// A process between turns: a task reads its output, so that it neither blocks nor appears in the
/// next turn.
#[derive(Debug)]
struct Resting {
    task: JoinHandle<Option<RunningProgram>>,
    /// Dropping it wakes the task.
    _until: DropGuard,
    token: CancellationToken,
}

impl Slot {
    /// Takes in a new process.
    pub(super) fn start(&mut self, mut process: RawProcess) {
        self.number += 1;
        let stdin = process.take_stdin();
        self.running = Some(RunningProgram {
            process,
            stdin,
            cut: false,
        });
    }

    /// Takes the process back from its rest. There is none if it has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call continues.
    pub(super) async fn wake(&mut self) {
        let Some(resting) = &mut self.resting else {
            return;
        };
        resting.token.cancel();
        let woken = (&mut resting.task).await;
        self.resting = None;
        self.running = woken.ok().flatten();
    }

    /// Passes on the process's output until the next turn, as output outside of turns.
    pub(super) fn rest(&mut self, session: Session) {
        let Some(running) = self.running.take() else {
            return;
        };
        let token = CancellationToken::new();
        let task = tokio::spawn(listen(running, session, token.clone()));
        self.resting = Some(Resting {
            task,
            _until: token.clone().drop_guard(),
            token,
        });
    }

    /// The process has ended.
    pub(super) async fn gone(&mut self) {
        if let Some(running) = self.running.take() {
            running.process.finish().await;
        }
    }

    /// Ends the process.
    pub(super) async fn end(&mut self, term: Duration) {
        self.wake().await;
        if let Some(RunningProgram { process, stdin, .. }) = self.running.take() {
            drop(stdin);
            process.end(term).await;
        }
    }
}

async fn listen(
    mut running: RunningProgram,
    session: Session,
    until: CancellationToken,
) -> Option<RunningProgram> {
    loop {
        let heard = tokio::select! {
            biased;
            () = until.cancelled() => return Some(running),
            heard = running.process.next() => heard,
        };
        match heard {
            ProcessEvent::Text(channel, text) => session.output_on(channel, text).await,
            ProcessEvent::Ended(_) => {
                running.process.finish().await;
                return None;
            }
        }
    }
}
