//! The configuration of agents that speak ACP and have no options of their own: the profile `acp`,
//! which names a program or an agent's file, and the agents that are known by name.

use std::path::Path;

use serde::Deserialize;
use trunkline_sdk::{Adapter, Description};

use super::agent::AcpAgent;
use super::session::Permissions;
use super::{Acp, PROFILE};
use crate::agent::settings::settings;
use crate::agents::{self, AgentFile};

settings! {
    /// The configuration, key `acp`.
    struct AcpSettings, "";
    {
        /// A file that describes the agent, for one that is not known by name; `command` then takes
        /// the place of its program.
        agent_file: String = String::new(),
        /// Authority for permissions: `ask` the host, `deny` all, or `dangerous-allow` all.
        permission: Permissions = Permissions::Ask,
        /// Offers the agent to read and write files in the session's directories through the host,
        /// without a question.
        client_files: bool = false,
        /// Lets sessions choose modes in which the agent never asks.
        dangerous: bool = false,
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The agent's login, by its id, when a session needs one. Empty: one whose variables are set.
        auth_method: String = String::new(),
    }
}

/// The configuration of an agent that is known by name: it needs no program, and has a file.
#[derive(Clone, Deserialize)]
#[serde(try_from = "AcpSettings")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NamedSettings(AcpSettings);

impl TryFrom<AcpSettings> for NamedSettings {
    type Error = &'static str;

    fn try_from(settings: AcpSettings) -> Result<Self, Self::Error> {
        if settings.agent_file.is_empty() {
            Ok(Self(settings))
        } else {
            Err("`agent_file` is for the profile `acp`: this agent is known by name")
        }
    }
}

/// The configuration of the profile `acp`: it names a program or an agent's file.
#[derive(Deserialize)]
#[serde(try_from = "AcpSettings")]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(rename = "Acp", description = "")
)]
pub(crate) struct Settings(
    AcpSettings,
    #[cfg_attr(test, schemars(skip))] Option<AgentFile>,
);

impl TryFrom<AcpSettings> for Settings {
    type Error = String;

    fn try_from(settings: AcpSettings) -> Result<Self, Self::Error> {
        if !settings.agent_file.is_empty() {
            let file = agents::read(Path::new(&settings.agent_file))?;
            return Ok(Self(settings, Some(file)));
        }
        if settings.command.is_empty() {
            return Err(
                "`command` is missing: the program of an agent that speaks the Agent Client Protocol"
                    .to_owned(),
            );
        }
        Ok(Self(settings, None))
    }
}

/// The adapter of the profile `acp`.
pub(crate) fn adapter(Settings(settings, file): Settings) -> impl Adapter {
    let file = file.map_or_else(|| agents::built_in(PROFILE), agents::adopt);
    Acp::new(AcpAgent::new(PROFILE, file, settings.common(), &settings))
}

/// The adapter of an agent that is known by name.
pub(crate) fn named_adapter(
    file: &'static AgentFile,
    NamedSettings(settings): NamedSettings,
) -> impl Adapter {
    Acp::new(AcpAgent::new(
        &file.name,
        file,
        settings.common(),
        &settings,
    ))
}

/// Description of the profile `acp` without a configuration.
pub(crate) fn description() -> Description {
    let file = agents::built_in(PROFILE);
    let settings = AcpSettings::default();
    Acp::new(AcpAgent::new(PROFILE, file, settings.common(), &settings)).describe()
}
