//! opencode: `opencode acp`, or `opencode run --format json` once a turn.

mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Shared, Transport};
use crate::agent::model;
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::Version;
use crate::kilo_code::prepare;

settings! {
    /// The configuration, key `opencode`.
    struct Opencode, "opencode";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Opencode) -> impl Adapter {
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Opencode {
    fn profile(&self) -> &'static str {
        "opencode"
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn describe(&self, description: Description) -> Description {
        description.config::<Self>().use_when(
            "one agent is to work with many providers, with agents and commands of one's own",
            "a turn must begin at once: it starts slowly",
        )
    }

    fn prepare(&self, options: &Options, shared: &Shared) -> Result<Prepared, Error> {
        prepare(options, shared, "OPENCODE_CONFIG_CONTENT")
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }

    fn default_mode(&self) -> Option<String> {
        Some(self.mode.clone()).filter(|mode| !mode.is_empty())
    }

    fn model(&self, asked: &str) -> String {
        model::split(asked, Some(&self.provider)).full()
    }

    fn since(&self) -> Option<Version> {
        Some(Version(1, 0, 0))
    }

    fn honours(&self) -> &'static [&'static str] {
        &["skills"]
    }

    fn hangs_without_credentials(&self) -> bool {
        true
    }
}
