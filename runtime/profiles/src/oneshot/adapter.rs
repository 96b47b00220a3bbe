//! The adapter of an agent that runs once a turn.

use trunkline_sdk::protocol::Capabilities;
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, SessionUpdate, Turn,
};

use super::{AgentCli, Conversation, Extras};
use crate::acp::{Acp, AcpOr, Kind, Transport};
use crate::agent::mcp::McpServer;
use crate::agent::options::Options;
use crate::agent::skills::Roster;
use crate::agent::started::started;
use crate::agent::version::{self, Version};
use crate::agent::{diagnose, model, resume};

/// What every agent that runs once a turn is given of what a session asks for.
const HONOURED: [&str; 8] =
    ["cwd", "variables", "env", "extra_args", "model", "system_prompt", "resume", "skills"];

/// A profile whose agent can be run once a turn, where it does not speak ACP.
pub(crate) trait Runs: Kind {
    /// What it is given of what a session asks for, beside [`HONOURED`].
    const HONOURS: &'static [&'static str];

    /// How it is run.
    type Cli: AgentCli;

    /// How it is run for one session.
    ///
    /// # Errors
    /// When the session asks for what the configuration does not allow, or the installed version cannot be run so.
    fn cli(&self, options: &Options, version: Option<Version>) -> Result<Self::Cli, Error>;

    /// What it is given of these skills and servers by channels of its own. The inputs that call a skill get it anyway.
    fn give(&self, options: &Options, skills: &Roster, servers: &[McpServer]) -> Extras {
        let _ = (options, skills);
        Extras::nothing(servers)
    }
}

/// Serves a profile by one run of its agent a turn.
struct OneShot<K> {
    profile: K,
}

/// The adapter of an agent over ACP, or by one run a turn.
pub(crate) fn beside_acp(profile: impl Runs + Clone, transport: Transport) -> impl Adapter {
    let acp = Acp::new(profile.clone());
    AcpOr::new(acp, OneShot { profile }, transport)
}

impl<K: Runs> Adapter for OneShot<K> {
    type State = Option<Conversation<K::Cli>>;

    fn describe(&self) -> Description {
        let capabilities = Capabilities {
            native_session_ids: Some(true),
            turn_completion: Some(true),
            exec_model: Some("run-to-completion".to_owned()),
            ..Capabilities::default()
        };
        Description::new(self.profile.profile(), env!("CARGO_PKG_VERSION"))
            .capabilities(capabilities)
            .resumes()
            .honours(HONOURED)
            .honours(K::HONOURS.iter().copied())
    }

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        started(state)?.turn(turn, input).await
    }

    async fn start(&self, session: &Session, start: SessionStart) -> Result<Self::State, Error> {
        let mut options = Options::of(&self.profile.common(), start)?;
        resume::settle(session, &mut options).await;
        let version = version::of(&self.profile.common()).await;
        let cli = self.profile.cli(&options, version)?;
        let given = Extras::of(&self.profile, &options);
        Ok(Some(Conversation::new(session, cli, options, given)))
    }

    /// Holds from the next run on.
    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> Result<SessionInfo, Error> {
        let conversation = started(state)?;
        let mut options = conversation.options().clone();
        let honours = |name| K::HONOURS.contains(&name);
        if let Some(name) = update.model {
            options.model = Some(model::resolve(&name, &self.profile.common().model_aliases));
        }
        if honours("reasoning_effort") {
            options.reasoning_effort = update.reasoning_effort.or(options.reasoning_effort);
        }
        if honours("mode") {
            options.mode = update.mode.or(options.mode);
        }
        if honours("permission_mode") {
            options.permission_mode = update.permission_mode.or(options.permission_mode);
        }
        if honours("denied_tools") {
            options.denied_tools = update.denied_tools.or(options.denied_tools);
        }
        let version = version::of(&self.profile.common()).await;
        let cli = self.profile.cli(&options, version)?;
        let info = SessionInfo {
            model: options.model.clone(),
            reasoning_effort: options.reasoning_effort.clone().filter(|_| honours("reasoning_effort")),
            mode: options.mode.clone().filter(|_| honours("mode")),
            permission_mode: options.permission_mode.clone().filter(|_| honours("permission_mode")),
            denied_tools: options.denied_tools.clone().filter(|_| honours("denied_tools")),
            ..SessionInfo::default()
        };
        conversation.change(cli, options);
        Ok(info)
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose::checks(self.profile.profile(), &self.profile.common()).await
    }
}
