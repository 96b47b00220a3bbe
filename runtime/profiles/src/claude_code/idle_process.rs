//! A process between turns: it is read on, since it may ask or tell something of work in the background, and its end is
//! noticed.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::Session;

use super::asking::{Asker, Asking};
use super::control::Answered;
use super::running_process::{ProcessEvent, RunningProcess};

/// A process that nobody uses at the moment. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct IdleProcess {
    wake: CancellationToken,
    task: JoinHandle<Option<RunningProcess>>,
}

impl IdleProcess {
    pub(super) fn new(process: RunningProcess, session: Session) -> Self {
        let wake = CancellationToken::new();
        Self { wake: wake.clone(), task: tokio::spawn(listen(process, session, wake)) }
    }

    /// The process, if it has not ended.
    pub(super) async fn wake(mut self) -> Option<RunningProcess> {
        self.wake.cancel();
        (&mut self.task).await.ok().flatten()
    }
}

impl Drop for IdleProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(
    mut process: RunningProcess,
    session: Session,
    wake: CancellationToken,
) -> Option<RunningProcess> {
    let mut asking = Asking::new(Asker::Session(session.clone()));
    loop {
        // To be woken comes first. What is open then is asked again by the turn.
        let line = tokio::select! {
            biased;
            () = wake.cancelled() => return Some(process),
            Some((id, answered)) = asking.next() => {
                answer(&mut process, &id, answered).await;
                continue;
            }
            line = process.next() => line,
        };
        let Some(line) = line else {
            let ended = process.ended().await;
            tracing::info!(session = %session.id(), exit = %ended.exit, "claude has ended between turns");
            return None;
        };
        for heard in process.hear(&line) {
            match heard {
                ProcessEvent::Event(event) => tokio::select! {
                    biased;
                    () = wake.cancelled() => process.keep(event),
                    () = session.emit(event.clone()) => {}
                },
                ProcessEvent::Info(info) => session.info(*info),
                ProcessEvent::Request(id) => {
                    if let Some(ask) = process.asks.get(&id) {
                        asking.ask(ask);
                    }
                }
                ProcessEvent::Withdrawn(id) => asking.withdraw(&id),
                // The host learns of an id by the end of the next turn.
                ProcessEvent::Native(_) | ProcessEvent::Ended(_) | ProcessEvent::Answered { .. } => {}
            }
        }
    }
}

async fn answer(process: &mut RunningProcess, id: &str, answered: Option<Answered>) {
    let (Some(ask), Some(answered)) = (process.asks.remove(id), answered) else { return };
    // Who takes no answer has ended, which its stdout tells.
    let _ = process.write(&ask.response(&answered)).await;
}
