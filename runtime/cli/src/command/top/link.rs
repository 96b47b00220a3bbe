//! The connection to the host: requests for its health, and stops of turns.

use std::path::Path;

use tokio::task::JoinSet;
use trunkline_client::{Client, ClientError};
use trunkline_protocol::{AgentEntry, AttachRefusal, OpenSession, Role, SessionId};

use crate::{error::CliError, journal};

/// Maximum number of sessions that are requested.
const MAX_SESSIONS: u32 = 1000;

/// Connection to the host, and its pending calls.
pub(super) struct HostConnection {
    client: Client,
    calls: JoinSet<Result<HostReport, ClientError>>,
}

/// Answer of the host.
#[derive(Debug)]
pub(super) enum HostReport {
    /// Health of its agents, and the open sessions.
    List {
        agents: Vec<AgentEntry>,
        sessions: Vec<OpenSession>,
    },
    /// A stop was sent. The end of the turn appears in a later list.
    Stopped,
    /// A session that cannot be stopped from here.
    Refused { id: String, why: String },
}

impl HostConnection {
    /// Connects to the host of a journal. `None` if no host listens.
    ///
    /// # Errors
    /// The host accepts no connection.
    pub(super) async fn to(folder: &Path) -> Result<Option<Self>, CliError> {
        let client = journal::connect(folder).await?;
        Ok(client.map(|client| Self {
            client,
            calls: JoinSet::new(),
        }))
    }

    /// Requests the health of agents and sessions.
    pub(super) fn request_health(&mut self) {
        let client = self.client.clone();
        self.calls.spawn(async move {
            let list = client.health(MAX_SESSIONS).await?;
            Ok(HostReport::List {
                agents: list.agents,
                sessions: list.sessions.unwrap_or_default(),
            })
        });
    }

    /// Stops the running turn of a session.
    pub(super) fn stop(&mut self, id: &str) {
        let Ok(session_id) = SessionId::new(id) else {
            return;
        };
        let client = self.client.clone();
        self.calls.spawn(async move {
            let why = match stop_turn(&client, session_id.clone()).await {
                Ok(()) | Err(ClientError::AlreadyOpen(_)) => return Ok(HostReport::Stopped),
                Err(ClientError::SessionRefused {
                    reason: Some(AttachRefusal::Unknown),
                    ..
                }) => "it is not in the journal, so only its own hub can stop it".to_owned(),
                Err(ClientError::SessionRefused { message, .. }) => message,
                Err(error) => return Err(error),
            };
            let id = session_id.to_string();
            Ok(HostReport::Refused { id, why })
        });
    }

    /// Waits for the next answer. `None` if the host has ended.
    ///
    /// # Cancel safety
    /// Cancelling loses no answer.
    pub(super) async fn next_report(&mut self) -> Option<HostReport> {
        tokio::select! {
            biased;
            Some(called) = self.calls.join_next() => called.ok()?.ok(),
            _ = self.client.ended() => None,
        }
    }
}

async fn stop_turn(client: &Client, id: SessionId) -> Result<(), ClientError> {
    let (session, events) = client.attach_at_end(id, Role::Control).await?;
    drop(events);
    if let Some(turn) = session.attached().and_then(|it| it.turn_id.clone()) {
        session.stop(turn).await?;
    }
    session.detach().await
}
