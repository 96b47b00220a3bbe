//! Gemini CLI: `gemini --acp`, or `gemini --output-format stream-json` once a turn.

mod held;
mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Transport};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};

settings! {
    /// The configuration, key `gemini`.
    struct Gemini, "gemini";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// How tools are permitted: `default`, `auto_edit`, `plan`; `yolo` only with `dangerous`.
        approval_mode: String = String::new(),
        /// A file whose text takes the place of the agent's own instructions.
        system_prompt_file: String = String::new(),
        /// More directories that the agent may work in.
        include_directories: Vec<String> = Vec::new(),
        /// Runs the agent's tools in its own sandbox.
        sandbox: bool = false,
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Gemini) -> impl Adapter {
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Gemini {
    fn profile(&self) -> &'static str {
        "gemini-cli"
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
