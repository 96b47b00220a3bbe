//! The adapter of an agent over the Agent Client Protocol, or else by one run a turn.

use serde::Serialize;
use trunkline_sdk::protocol::{SessionEntry, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, SessionUpdate,
    Turn,
};

use super::{Extras, Native, OneshotConversation, RunReader};
use crate::acp::{Acp, AcpAgent, Transport};
use crate::agent::launch::Launch;
use crate::agent::mcp::McpServer;
use crate::agent::options::Options;
use crate::agent::settings::Common;
use crate::agent::skills::Roster;
use crate::agent::version::Version;
use crate::agent::{describe, diagnose, resume};
use crate::agents;

/// Options that every agent run once a turn honours, beside the options of every wrapped agent.
const HONOURED: [&str; 2] = ["resume", "skills"];

/// A dialect: how an agent is run once a turn if it does not speak ACP.
pub(crate) trait Runs: Clone + Send + Sync + 'static {
    /// Options that the agent honours, beside [`HONOURED`].
    const HONOURS: &'static [&'static str];

    /// Reader of one run's lines.
    type OutputReader: RunReader + 'static;

    /// The agent, by its file and its configuration.
    fn agent(&self) -> &AcpAgent;

    /// Checks that the agent can be run for such a session.
    ///
    /// # Errors
    /// When the session asks for what the configuration does not allow, or the installed version
    /// cannot be run so.
    fn check(&self, options: &Options, version: Option<Version>) -> Result<(), Error>;

    /// The command line of the next run, and the reader of its lines. The prompt comes on stdin.
    fn launch(
        &self,
        options: &Options,
        version: Option<Version>,
        session: &Native,
    ) -> (Launch, Self::OutputReader);

    /// Returns true if this can be the agent's own id of a conversation.
    fn is_id(&self, id: &str) -> bool {
        self.agent().file().is_session_id(id)
    }

    /// Returns true if the agent takes the id that we choose for a new session.
    fn chooses_id(&self, version: Option<Version>) -> bool {
        let _ = version;
        false
    }

    /// The skills and servers that the agent takes by channels of its own. Inputs that call a skill
    /// get it anyway.
    fn give(&self, options: &Options, skills: &Roster, servers: &[McpServer]) -> Extras {
        let _ = (options, skills);
        Extras::nothing(servers)
    }
}

/// The agent of this name, by its file and its configuration.
pub(super) fn built_in(name: &str, common: Common, settings: &impl Serialize) -> AcpAgent {
    let file = agents::built_in(name);
    AcpAgent::new(&file.name, file, common, settings)
}

/// An agent that speaks ACP, and is run once a turn where that is configured or its version is too old.
struct ByTransport<K> {
    acp: Acp,
    profile: K,
}

/// A session of such an agent.
enum OneshotState<K> {
    Acp(Box<<Acp as Adapter>::State>),
    Json(Box<OneshotConversation<K>>),
}

impl<K> Default for OneshotState<K> {
    fn default() -> Self {
        Self::Acp(Box::default())
    }
}

/// The adapter of an agent over ACP, or by one run a turn.
pub(crate) fn adapter(profile: impl Runs) -> impl Adapter {
    ByTransport {
        acp: Acp::new(profile.agent().clone()),
        profile,
    }
}

impl<K: Runs> Adapter for ByTransport<K> {
    type State = OneshotState<K>;

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        match state {
            OneshotState::Acp(state) => self.acp.turn(turn, input, state).await,
            OneshotState::Json(conversation) => {
                conversation.turn(turn, input).await;
                Ok(())
            }
        }
    }

    async fn start(&self, session: &Session, start: SessionStart) -> Result<Self::State, Error> {
        let mut options = Options::read(session, self.profile.agent().common(), start).await?;
        resume::settle(session, &mut options, |_| true).await;
        if self.profile.agent().transport() == Transport::Acp {
            // The session begins to open while the version is asked: most speak ACP.
            let state = self.acp.begin(session, options.clone());
            if self.acp.is_spoken().await {
                return Ok(OneshotState::Acp(Box::new(Some(state))));
            }
        }
        let conversation = OneshotConversation::new(self.profile.clone(), session, options).await?;
        Ok(OneshotState::Json(Box::new(conversation)))
    }

    async fn update(
        &self,
        session: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> Result<SessionInfo, Error> {
        match state {
            OneshotState::Acp(state) => self.acp.update(session, update, state).await,
            OneshotState::Json(conversation) => conversation.update(update).await,
        }
    }

    async fn close(&self, session: &Session, state: Self::State) {
        if let OneshotState::Acp(state) = state {
            self.acp.close(session, *state).await;
        }
    }

    async fn sessions(&self, list: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        match self.profile.agent().transport() {
            Transport::Acp => self.acp.sessions(list).await,
            Transport::Json => Ok(Vec::new()),
        }
    }

    async fn log_out(&self) -> Result<(), Error> {
        self.acp.log_out().await
    }

    fn describe(&self) -> Description {
        let agent = self.profile.agent();
        let credentials = agent.file().credentials.as_ref();
        match agent.transport() {
            Transport::Acp => self.acp.describe(),
            Transport::Json => describe::wrapped(
                agent.profile(),
                credentials,
                "run-to-completion",
                Some(false),
            )
            .honours(HONOURED)
            .honours(K::HONOURS.iter().copied()),
        }
    }

    async fn diagnose(&self) -> Vec<Check> {
        let agent = self.profile.agent();
        match agent.transport() {
            Transport::Acp => self.acp.diagnose().await,
            Transport::Json => diagnose::checks(agent.file(), agent.common()).await,
        }
    }
}
