//! GitHub Copilot CLI: `copilot --acp`, or `copilot -p` with JSON output once a turn.

mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Transport};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};

settings! {
    /// The configuration, key `copilot`.
    struct Copilot, "copilot";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// Tools that run unasked.
        allowed_tools: Vec<String> = Vec::new(),
        /// Tools that never run.
        denied_tools: Vec<String> = Vec::new(),
        /// The most turns that the agent takes by itself in autopilot.
        max_autopilot_continues: u32 = 0,
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Copilot) -> impl Adapter {
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Copilot {
    fn profile(&self) -> &'static str {
        "github-copilot"
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn describe(&self, description: Description) -> Description {
        description.config::<Self>()
    }

    fn prepare(&self, options: &Options) -> Result<Prepared, Error> {
        let launch = options.launch().args(["--acp"]);
        Ok(Prepared::new(launch, options))
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }
}
