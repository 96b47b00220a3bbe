//! opencode: `opencode acp`, or `opencode run --format json` once a turn.

mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Transport};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};

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
        description.config::<Self>()
    }

    fn prepare(&self, options: &Options) -> Result<Prepared, Error> {
        let launch = options.launch().args(["acp"]);
        Ok(Prepared::new(launch, options))
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }
}
