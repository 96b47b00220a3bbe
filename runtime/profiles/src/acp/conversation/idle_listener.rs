//! Listens to an agent between turns.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::Session;
use trunkline_sdk::protocol::AdapterBody;

use super::super::asks::Asks;
use super::super::inbox::{Arrival, Item};
use super::super::session::{AcpSession, Voice};
use super::super::update::{Reader, UpdateEvent, When};
use super::Task;

/// Listens to the agent between turns, in a task of its own.
pub(super) struct IdleListener {
    stop: CancellationToken,
    task: Task<Reader>,
}

impl IdleListener {
    /// Begins to listen. What the last turn left is not told where that is muted.
    pub(super) fn begin(
        session: Session,
        acp_session: Arc<AcpSession>,
        reader: Reader,
        is_mute: bool,
    ) -> Self {
        let stop = CancellationToken::new();
        let listening = listen(session, acp_session, reader, stop.clone(), is_mute);
        Self { stop, task: Task(tokio::spawn(listening)) }
    }

    /// Listens no more.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Listens no more. What it has read with, unless it has failed.
    pub(super) async fn end(&mut self) -> Option<Reader> {
        self.stop();
        (&mut self.task.0).await.ok()
    }
}

/// Listens between turns: what is learnt of the session is told, and what the agent does on its own.
async fn listen(
    session: Session,
    acp_session: Arc<AcpSession>,
    mut reader: Reader,
    stop: CancellationToken,
    is_mute: bool,
) -> Reader {
    let mut asks = Asks::new(&acp_session, Voice::Session(&session));
    loop {
        let arrival = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            settled = asks.settled() => {
                if let Some(call) = &settled.denied {
                    reader.denied(call);
                }
                continue;
            }
            arrival = acp_session.inbox.next() => arrival,
        };
        let mut told = Vec::new();
        match arrival {
            Arrival::Item(Item::Update(params)) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                let update = params.get("update").unwrap_or(&Value::Null);
                reader.update(update, When::Now, &|id| acp_session.terminals.shown(id), &mut told);
            }
            Arrival::Item(Item::Request { id, method, params }) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                asks.take(id, method, params, &mut reader, &mut told);
            }
            Arrival::Lost(lost) => tracing::warn!(lost, "updates of an agent between turns are lost"),
            // The next turn resumes it.
            Arrival::Taken => {}
        }
        for told in told {
            let event = match told {
                UpdateEvent::Info(info) => AdapterBody::from(*info),
                UpdateEvent::Text(output) | UpdateEvent::File(_, Some(output)) if !is_mute => output.into(),
                UpdateEvent::Event(event) if !is_mute => event,
                UpdateEvent::Text(_)
                | UpdateEvent::File(..)
                | UpdateEvent::Event(_)
                | UpdateEvent::SystemError
                | UpdateEvent::BrokeOff(_) => {
                    continue;
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = session.emit(event) => {}
            }
        }
    }
    asks.withdraw();
    reader
}
