//! The profile `acp`: any agent that speaks the Agent Client Protocol, named by its command.

use serde::Deserialize;
use trunkline_sdk::{Adapter, Description, Error};

use super::Acp;
use super::agent::{Facts, Kind, Prepared};
use super::session::Permissions;
use super::shared::Shared;
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::skills::Roster;
use crate::agent::version::Version;

settings! {
    /// The configuration, key `acp`, but for what is required.
    struct Keys, "";
    {
        /// Who decides when the agent asks for a permission: `ask` the host, `deny` all, or `dangerous-allow` all.
        permission: Permissions = Permissions::Ask,
        /// Offers the agent to read and write files in the session's directories through the host, without a question.
        client_files: bool = false,
        /// Lets sessions choose modes in which the agent asks no one.
        dangerous: bool = false,
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The agent's login, by its id, when a session needs one. Empty: one whose variables are set.
        auth_method: String = String::new(),
    }
}

/// The configuration, key `acp`. `command` is required.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Keys")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Acp", description = "", extend("required" = ["command"])))]
pub(crate) struct Settings(Keys);

impl TryFrom<Keys> for Settings {
    type Error = &'static str;

    fn try_from(keys: Keys) -> Result<Self, Self::Error> {
        match keys.command.is_empty() {
            true => Err(
                "`command` is missing: the program of an agent that speaks the Agent Client Protocol",
            ),
            false => Ok(Self(keys)),
        }
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Settings) -> impl Adapter {
    Acp::new(settings)
}

/// What the profile is for.
pub(crate) fn description() -> Description {
    Acp::new(Settings(Keys::default())).describe()
}

impl Kind for Settings {
    fn facts(&self) -> Facts<'_> {
        Facts {
            profile: "acp",
            use_when: [
                "an agent speaks the Agent Client Protocol and has no profile of its own",
                "it has one: that one knows its surprises",
            ],
            honours: &["skills"],
            permissions: self.0.permission,
            is_dangerous: self.0.dangerous,
            client_files: self.0.client_files,
            mode: &self.0.mode,
            auth_method: &self.0.auth_method,
            ..Facts::default()
        }
    }

    fn common(&self) -> Common {
        self.0.common()
    }

    fn prepare(
        &self,
        options: &Options,
        _: Option<Version>,
        _: &Shared,
    ) -> Result<Prepared, Error> {
        let mut prepared = Prepared::new(options.launch(), options);
        prepared.skills = Roster::of(&options.skills, &mut prepared.warnings);
        Ok(prepared)
    }
}
