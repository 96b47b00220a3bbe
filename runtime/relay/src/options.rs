//! Options of a relay.

use std::{fmt, path::PathBuf, sync::Arc};

use trunkline_protocol::{HostMessage, HubMessage, MAX_LINE, ToolsAsOutput};
use trunkline_sessions::Sessions;

/// Decides which messages a hub may send, before the relay handles them.
pub trait MessageAuthorizer: fmt::Debug + Send + Sync {
    /// Checks a message to an adapter, or to the relay as one. `agent` is set for a `session.start`
    /// and a `session.update` if the relay knows it: the permitted options differ between agents.
    ///
    /// # Errors
    /// The reason for the refusal, for the hub to read.
    fn hear_host(&self, message: &HostMessage, agent: Option<&str>) -> Result<(), String>;

    /// Checks a message to a relay with a journal.
    ///
    /// # Errors
    /// The reason for the refusal, for the hub to read.
    fn hear_hub(&self, message: &HubMessage) -> Result<(), String>;
}

/// Options of a relay: its name, its limits and what it accepts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RelayOptions {
    /// The program's name in `session.ready`.
    pub name: String,
    /// The program's version in `session.ready`.
    pub version: String,
    /// Maximum length of a line from the hub, in bytes; a longer one is skipped and reported to its
    /// session. A smaller value than [`MIN_MAX_LINE`](trunkline_protocol::MIN_MAX_LINE) counts as
    /// that.
    pub max_line: usize,
    /// Display of tools to a hub without `events` ([ext.3]).
    pub tools_as_output: ToolsAsOutput,
    /// The sockets on which further hubs are accepted, besides stdin and stdout.
    pub sockets: Vec<PathBuf>,
    /// Keeps the relay running when stdin ends, for the hubs of its sockets.
    pub stays: bool,
    /// The sessions of a journal, for hubs that know `journal` ([journal.1]).
    pub sessions: Option<Sessions>,
    /// The judge of the hub's messages. `None`: all are allowed.
    pub judge: Option<Arc<dyn MessageAuthorizer>>,
    /// Set if all hubs belong to the relay's user, who may see what each of them does.
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
    /// Sets the name and version.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        (self.name, self.version) = (name.into(), version.into());
        self
    }

    /// Sets the maximum length of a line, in bytes.
    #[must_use]
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.max_line = bytes;
        self
    }

    /// Sets the sessions of a journal.
    #[must_use]
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Adds a socket on which further hubs of this user are accepted, but no process of an agent.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets.push(path.into());
        self
    }

    /// Keeps the relay running when stdin ends, until a signal stops it.
    #[must_use]
    pub fn stays(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Sets a judge that decides what the hub may send.
    #[must_use]
    pub fn judged(mut self, judge: Arc<dyn MessageAuthorizer>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Marks the hub as one of the relay's user, as on its socket: it may see what other hubs do.
    #[must_use]
    pub fn of_user(mut self) -> Self {
        self.is_of_user = true;
        self
    }

    /// Sets the display of tools to hubs without `events`.
    #[must_use]
    pub fn tools_as_output(mut self, tools: ToolsAsOutput) -> Self {
        self.tools_as_output = tools;
        self
    }
}
