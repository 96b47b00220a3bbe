//! Kilo Code: `kilo acp`, or `kilo run --format json` once a turn.

pub(crate) mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Transport};
use crate::agent::options::Options;
use crate::agent::settings::Wait;
use crate::agent::settings::{Common, settings};

settings! {
    /// The configuration, key `kilo`.
    struct Kilo, "kilo";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The longest turn, by the name that older configurations use; `turn_timeout` wins.
        timeout: Wait = Wait(None),
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Kilo) -> impl Adapter {
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Kilo {
    fn profile(&self) -> &'static str {
        "kilo-code"
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
