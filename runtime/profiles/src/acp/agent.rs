//! What differs between the agents that speak ACP, before they are started.

use trunkline_sdk::Description;
use trunkline_sdk::Error;

use super::room::Permissions;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::settings::Common;
use crate::agent::version::Version;

/// A session's agent: how it is started, and what it is given besides the protocol.
pub(crate) struct Prepared {
    pub(crate) launch: Launch,
    /// Instructions that go before the first prompt, for want of a better channel.
    pub(crate) preface: Option<String>,
    /// Files that the agent reads; removed when the session's last use of them ends.
    pub(crate) kept: Vec<Box<dyn std::any::Any + Send + Sync>>,
    /// What could not be done as it was asked.
    pub(crate) warnings: Vec<String>,
}

impl Prepared {
    /// An agent whose instructions go before the first prompt.
    pub(crate) fn new(launch: Launch, options: &Options) -> Self {
        Self { launch, preface: options.system_prompt.clone(), kept: Vec::new(), warnings: Vec::new() }
    }
}

/// An agent that speaks ACP: one for each profile.
pub(crate) trait Kind: Send + Sync + 'static {
    /// The profile's name.
    fn profile(&self) -> &'static str;

    /// The shared part of its configuration.
    fn common(&self) -> Common;

    /// What the profile says of itself, but for what every ACP agent can.
    fn describe(&self, description: Description) -> Description {
        description
    }

    /// How it is started for a session of these options.
    ///
    /// # Errors
    /// What is missing.
    fn prepare(&self, options: &Options) -> Result<Prepared, Error>;

    /// The agent's own word for a mode that a session or the configuration asks for.
    fn mode(&self, asked: &str) -> String {
        asked.to_owned()
    }

    /// The mode of sessions that ask for none.
    fn default_mode(&self) -> Option<String> {
        None
    }

    /// Whether modes may be chosen in which the agent asks nobody.
    fn is_dangerous(&self) -> bool;

    /// Who decides on permissions.
    fn permissions(&self) -> Permissions {
        Permissions::Ask
    }

    /// The agent's own word for a model.
    fn model(&self, asked: &str) -> String {
        asked.to_owned()
    }

    /// Whether the model is given by the command line rather than within the protocol.
    fn starts_with_model(&self) -> bool {
        false
    }

    /// The first version that speaks ACP.
    fn since(&self) -> Option<Version> {
        None
    }

    /// Whether skills are given to the agent.
    fn takes_skills(&self) -> bool {
        false
    }
}
