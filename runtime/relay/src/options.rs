//! How a relay presents itself.

use std::{fmt, path::PathBuf, sync::Arc};

use trunkline_protocol::{HostMessage, HubMessage, MAX_LINE, ToolsAsOutput};
use trunkline_sessions::Sessions;

/// Decides what a hub may say, before the relay takes it.
pub trait Judge: fmt::Debug + Send + Sync {
    /// Whether a message to an adapter, or to the relay as one, may be said. `agent` is that of a
    /// `session.start` and a `session.update`, where the relay knows it: what may be set differs between agents.
    ///
    /// # Errors
    /// Why not, for the hub to read.
    fn hear_host(&self, message: &HostMessage, agent: Option<&str>) -> Result<(), String>;

    /// Whether a message to a relay with a journal may be said.
    ///
    /// # Errors
    /// Why not, for the hub to read.
    fn hear_hub(&self, message: &HubMessage) -> Result<(), String>;
}

/// How a relay presents itself and what it takes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RelayOptions {
    /// The program's name in `session.ready`.
    pub name: String,
    /// Its version there.
    pub version: String,
    /// The longest line that is read from the hub, in bytes; a longer one is skipped and reported to its session. Less
    /// than [`MIN_MAX_LINE`](trunkline_protocol::MIN_MAX_LINE) counts as that.
    pub max_line: usize,
    /// Whether tools are shown to a hub without `events` ([ext.3]).
    pub tools_as_output: ToolsAsOutput,
    /// The sockets on which further hubs are taken, besides stdin and stdout.
    pub sockets: Vec<PathBuf>,
    /// Whether the relay stays when stdin ends, for the hubs of its sockets.
    pub stays: bool,
    /// The sessions of a journal, which hubs that know `journal` get ([journal.1]).
    pub sessions: Option<Sessions>,
    /// Who decides what the hub may say. `None`: it may say all.
    pub judge: Option<Arc<dyn Judge>>,
    /// Whether its hubs are all of the relay's user, who may see what each of them does.
    pub(crate) is_of_user: bool,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_line: MAX_LINE,
            tools_as_output: ToolsAsOutput::No,
            sockets: Vec::new(),
            stays: false,
            sessions: None,
            judge: None,
            is_of_user: false,
        }
    }
}

impl RelayOptions {
    /// Under this name and version.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        (self.name, self.version) = (name.into(), version.into());
        self
    }

    /// With lines of up to so many bytes.
    #[must_use]
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.max_line = bytes;
        self
    }

    /// With the sessions of a journal.
    #[must_use]
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// With a socket on which further hubs are taken: those of this user, and no process of an agent.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets.push(path.into());
        self
    }

    /// That stays when stdin ends, until a signal stops it.
    #[must_use]
    pub fn stays(mut self) -> Self {
        self.stays = true;
        self
    }

    /// For a hub that may not say all.
    #[must_use]
    pub fn judged(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// For a hub that is known to be of the relay's user, as on its socket: it may see what other hubs do.
    #[must_use]
    pub fn of_user(mut self) -> Self {
        self.is_of_user = true;
        self
    }

    /// With tools shown to hubs without `events`, or not.
    #[must_use]
    pub fn tools_as_output(mut self, tools: ToolsAsOutput) -> Self {
        self.tools_as_output = tools;
        self
    }
}
