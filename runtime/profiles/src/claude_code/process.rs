//! A running `claude`: its output, in a turn and between turns.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::{Error, Session};

use super::allow_list::AllowList;
use super::talk::{Idle, ProcessDialogue};
use crate::agent::launch::Launch;
use crate::agent::log::SessionLog;
use crate::agent::process::{Agent, ProcessEnd, Stdin};
use crate::agent::turn::{self, EndCause, Engine, IdleTask, Pipe};

/// Timeout of a request of ours.
const ANSWER: Duration = Duration::from_secs(10);

/// Time for an abandoned process to end after its stdin was closed, and after SIGTERM.
const END: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(300));

/// A process.
#[derive(Debug)]
pub(super) struct RunningProcess {
    pub(super) agent: Agent,
    pub(super) talk: ProcessDialogue,
}

impl RunningProcess {
    /// Starts it, and asks for what it can do. Inputs may follow at once.
    pub(super) async fn start(
        launch: &Launch,
        log: &Arc<SessionLog>,
        allow_list: Option<AllowList>,
    ) -> Result<Self, Error> {
        let mut agent = Agent::start(launch, Stdin::Owned, Some(log)).await?;
        let (talk, line) = ProcessDialogue::begin(allow_list);
        // If it cannot be sent, the process has ended, which its stdout shows.
        let _ = agent.send((&line).into()).await;
        Ok(Self { agent, talk })
    }

    /// Sends a request of ours between turns, and waits for the answer. Other messages are kept
    /// meanwhile.
    pub(super) async fn ask(
        &mut self,
        request: &Value,
        session: &Session,
    ) -> Result<Value, String> {
        let ended = || "claude has ended".to_owned();
        let (id, line) = self.talk.request(request);
        self.agent.send((&line).into()).await.map_err(|_| ended())?;
        let awaited = Some((id, Instant::now() + ANSWER));
        let engine = Engine::between_turns(Idle {
            talk: &mut self.talk,
            awaited,
            answer: None,
        });
        let never = CancellationToken::new();
        match turn::listen(engine, &mut self.agent, session, &never).await {
            (
                Idle {
                    answer: Some(answer),
                    ..
                },
                _,
            ) => answer,
            (_, finish) if finish.how == EndCause::Closed => Err(ended()),
            _ => Err("claude did not answer".to_owned()),
        }
    }

    /// Ends it: closes its stdin, then signals. One that has closed its stdout may live on.
    pub(super) async fn end(self) -> ProcessEnd {
        self.agent.end(END.0, END.1).await
    }

    /// Kills it, after its last output on SIGTERM.
    pub(super) async fn kill(self) -> ProcessEnd {
        self.agent.end(Duration::ZERO, END.1).await
    }
}

/// A process between turns; none once it has ended. Dropping it kills the process.
pub(super) type IdleProcess = IdleTask<Option<RunningProcess>>;

/// Reads a process between turns, and notices its end.
pub(super) fn spawn_idle(process: RunningProcess, session: Session) -> IdleProcess {
    IdleTask::spawn(|wanted| listen(process, session, wanted))
}

async fn listen(
    mut process: RunningProcess,
    session: Session,
    wanted: CancellationToken,
) -> Option<RunningProcess> {
    let idle = Idle {
        talk: &mut process.talk,
        awaited: None,
        answer: None,
    };
    let (_, finish) = turn::listen(
        Engine::between_turns(idle),
        &mut process.agent,
        &session,
        &wanted,
    )
    .await;
    if finish.how != EndCause::Closed {
        return Some(process);
    }
    let ended = process.end().await;
    tracing::info!(session = %session.id(), exit = %ended.exit, "claude has ended between turns");
    None
}
