//! Agents that speak the Agent Client Protocol, or else run once a turn: one adapter of two.

use trunkline_sdk::{
    Adapter, Check, Description, Error, FileInput, Input, Session, SessionInfo, SessionStart, Turn,
    protocol::{SessionEntry, SessionUpdate, SessionsList},
};

use super::Acp;

/// How such an agent is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Over the Agent Client Protocol; over JSON lines where the installed version lacks it.
    #[default]
    Acp,
    /// One process a turn, which writes JSON lines.
    Json,
}

/// An adapter that speaks ACP, and falls back to `json`, an adapter of its own.
pub(crate) struct AcpOr<J> {
    acp: Acp,
    json: J,
    transport: Transport,
}

/// A session of either.
pub(crate) enum Either<J> {
    /// Over the Agent Client Protocol.
    Acp(Box<<Acp as Adapter>::State>),
    /// Over JSON lines.
    Json(J),
}

impl<J> Default for Either<J> {
    fn default() -> Self {
        Self::Acp(Box::default())
    }
}

impl<J: Adapter> AcpOr<J> {
    pub(crate) fn new(acp: Acp, json: J, transport: Transport) -> Self {
        Self { acp, json, transport }
    }
}

impl<J: Adapter> Adapter for AcpOr<J> {
    type State = Either<J::State>;

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        match state {
            Either::Acp(state) => self.acp.turn(turn, input, state).await,
            Either::Json(state) => self.json.turn(turn, input, state).await,
        }
    }

    async fn start(&self, session: &Session, options: SessionStart) -> Result<Self::State, Error> {
        if self.transport == Transport::Json {
            return self.json.start(session, options).await.map(Either::Json);
        }
        // The session begins to open while the version is asked: most speak ACP.
        let state = self.acp.start(session, options.clone()).await?;
        if self.acp.is_spoken().await {
            return Ok(Either::Acp(Box::new(state)));
        }
        drop(state);
        self.json.start(session, options).await.map(Either::Json)
    }

    async fn update(
        &self,
        session: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> Result<SessionInfo, Error> {
        match state {
            Either::Acp(state) => self.acp.update(session, update, state).await,
            Either::Json(state) => self.json.update(session, update, state).await,
        }
    }

    async fn file(&self, session: &Session, file: FileInput, state: &mut Self::State) -> Result<(), Error> {
        match state {
            Either::Acp(state) => self.acp.file(session, file, state).await,
            Either::Json(state) => self.json.file(session, file, state).await,
        }
    }

    async fn close(&self, session: &Session, state: Self::State) {
        match state {
            Either::Acp(state) => self.acp.close(session, *state).await,
            Either::Json(state) => self.json.close(session, state).await,
        }
    }

    async fn sessions(&self, list: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        match self.transport {
            Transport::Acp => self.acp.sessions(list).await,
            Transport::Json => self.json.sessions(list).await,
        }
    }

    fn describe(&self) -> Description {
        match self.transport {
            Transport::Acp => self.acp.describe(),
            Transport::Json => self.json.describe(),
        }
    }

    fn greet(&self, options: &SessionStart) -> SessionInfo {
        match self.transport {
            Transport::Acp => self.acp.greet(options),
            Transport::Json => self.json.greet(options),
        }
    }

    async fn diagnose(&self) -> Vec<Check> {
        match self.transport {
            Transport::Acp => self.acp.diagnose().await,
            Transport::Json => self.json.diagnose().await,
        }
    }
}
