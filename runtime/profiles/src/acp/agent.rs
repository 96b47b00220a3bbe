//! What differs between the agents that speak ACP, before they are started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_sdk::Error;

use super::session::Permissions;
use super::shared::Shared;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::settings::Common;
use crate::agent::skills::{self, Roster};
use crate::agent::variables;
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
    /// Whether the launch gives the session's MCP servers: the protocol then has none to name.
    pub(crate) has_servers: bool,
    /// Skills that are put into the inputs which call them, for want of a channel of the agent's own.
    pub(crate) skills: Roster,
}

impl Prepared {
    /// An agent whose instructions go before the first prompt.
    pub(crate) fn new(launch: Launch, options: &Options) -> Self {
        Self {
            launch,
            preface: options.system_prompt.clone(),
            kept: Vec::new(),
            warnings: Vec::new(),
            has_servers: false,
            skills: Roster::default(),
        }
    }

    /// Links the session's skills into a folder of the agent's own, beneath its home.
    pub(crate) fn install_skills(&mut self, options: &Options, folder: Option<&Path>) {
        let (skills, warnings) = skills::parse(&options.skills);
        self.warnings.extend(warnings);
        if skills.is_empty() {
            return;
        }
        let Some(folder) = folder else {
            return self
                .warnings
                .push("skills are left out: the agent's home is not known".to_owned());
        };
        match skills::install(&skills, folder) {
            Ok(installed) => {
                for name in installed.skipped() {
                    self.warnings.push(format!(
                        "skill {name}: the agent has another one of that name"
                    ));
                }
                self.kept.push(Box::new(installed));
            }
            Err(error) => self.warnings.push(format!(
                "skills are left out: {}: {error}",
                folder.display()
            )),
        }
    }
}

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

/// What is known of an agent and its configuration before any session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts<'k> {
    /// The profile's name.
    pub(crate) profile: &'static str,
    /// What it is good for, and what not.
    pub(crate) use_when: [&'static str; 2],
    /// The options of `session.start` that it honours besides those that every ACP agent does.
    pub(crate) honours: &'static [&'static str],
    /// How it is spoken to.
    pub(crate) transport: Transport,
    /// The first version that speaks ACP, where not all do.
    pub(crate) since: Option<Version>,
    /// Who decides on permissions.
    pub(crate) permissions: Permissions,
    /// Whether modes may be chosen in which the agent asks no one.
    pub(crate) is_dangerous: bool,
    /// Whether the agent may read and write files through the host.
    pub(crate) client_files: bool,
    /// The mode of sessions that ask for none; empty is the agent's own.
    pub(crate) mode: &'k str,
    /// The login that the configuration names; empty is one whose variables are set.
    pub(crate) auth_method: &'k str,
    /// Whether the model is given by the command line rather than within the protocol.
    pub(crate) starts_with_model: bool,
    /// Whether the agent hangs forever where it has no credentials.
    pub(crate) hangs_without_credentials: bool,
}

/// An agent that speaks ACP: one for each profile.
pub(crate) trait Kind: Send + Sync + 'static {
    /// What is known of it.
    fn facts(&self) -> Facts<'_>;

    /// The shared part of its configuration.
    fn common(&self) -> Common;

    /// How it is started for a session of these options. The version is asked for where [`Self::minds_version`] says so.
    ///
    /// # Errors
    /// What is missing.
    fn prepare(
        &self,
        options: &Options,
        version: Option<Version>,
        shared: &Shared,
    ) -> Result<Prepared, Error>;

    /// Whether the command line of such a session is another one for other versions. If so, the first session of all
    /// waits until the agent has told its version.
    fn minds_version(&self, options: &Options) -> bool {
        let _ = options;
        false
    }

    /// The agent's own word for a mode that a session or the configuration asks for.
    fn mode(&self, asked: &str) -> String {
        asked.to_owned()
    }

    /// The agent's own word for a model.
    fn model(&self, asked: &str) -> String {
        asked.to_owned()
    }

    /// How long a session of this id must not be resumed yet, lest the agent lose it.
    fn wait_to_resume(&self, options: &Options, id: &str) -> Option<Duration> {
        let _ = (options, id);
        None
    }
}

/// The value of a variable for the agent of a session: the session's, else this process's. An empty one is none.
pub(crate) fn variable(options: &Options, name: &str) -> Option<String> {
    variables::value(&options.env, name).filter(|value| !value.is_empty())
}

/// A folder that a variable names, or else one beneath the home.
pub(crate) fn home_folder(options: &Options, named: &str, in_home: &str) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(variable(options, "HOME")?).join(in_home));
    variable(options, named).map(PathBuf::from).or_else(home)
}
