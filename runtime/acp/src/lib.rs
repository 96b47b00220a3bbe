//! A host as an agent of the [Agent Client Protocol](https://agentclientprotocol.com) (ACP), for
//! `trunkline acp` and the daemon's path `/acp`.
//!
//! An editor, or another client of ACP, speaks JSON-RPC, one message a line. [`serve`] answers it,
//! and is itself a [client](trunkline_client) of a host with a journal: sessions of ACP are sessions
//! of the journal, so they outlive editor and host, other hubs can attach to them, and any adapter
//! is an agent of ACP.
//!
//! # Theory of operation
//!
//! `agent` translates between the two protocols: lines of the editor and events of the sessions come
//! in, lines for the editor and calls on the sessions go out. `serve` moves the editor's bytes, with
//! bounded buffers. `trunkline-client` owns the connection to the host. `docs/acp.md` has the
//! translation of each message.

#![forbid(unsafe_code)]

mod agent;
mod ask;
mod content;
mod facts;
mod native;
mod picture;
mod rpc;
mod serve;
mod session;
mod update;

use std::{collections::BTreeMap, fmt, future::Future, path::PathBuf};

pub use serve::{Ended, serve};
use trunkline_client::Connect;
use trunkline_protocol::{SessionId, Sha256};

/// The longest line of an editor that is read by default, in bytes: a picture of 16 MiB fits.
pub const MAX_LINE: usize = 24 * 1024 * 1024;

/// Decides whether a session may work in a folder, an absolute path. An error is the reason, for a
/// person.
pub type MayWorkIn = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The presentation of an agent, and its limits.
#[non_exhaustive]
pub struct Options {
    /// Version of the program.
    pub version: String,
    /// The agent of new sessions, and the only one whose sessions are listed. `None`: the host's
    /// default, and all.
    pub agent: Option<String>,
    /// The folder for files of prompts, which are removed when their turns end. `None`: prompts have
    /// no files.
    pub files: Option<PathBuf>,
    /// True if the editor is on this machine, and may see its paths.
    pub is_local: bool,
    /// True if the end of the editor's messages denies its open requests. Otherwise others may still
    /// answer.
    pub denies_at_end: bool,
    /// True if the editor may answer permissions. Otherwise it is not asked, and they wait for
    /// another client.
    pub may_approve: bool,
    /// The check of the folders of sessions.
    pub may_work_in: MayWorkIn,
    /// The longest line of the editor that is read, in bytes.
    pub max_line: usize,
    /// True if the agent may have a logout, which [`Host::log_out`] asks it for.
    pub logs_out: bool,
    /// True to offer methods that ACP may still change or remove: `session/status`.
    pub offers_unstable: bool,
}

impl Options {
    /// An agent that works anywhere, for an editor on this machine that is its only user.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            agent: None,
            files: None,
            is_local: true,
            denies_at_end: true,
            may_approve: true,
            may_work_in: Box::new(|_| Ok(())),
            max_line: MAX_LINE,
            logs_out: false,
            offers_unstable: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// The host of an editor's sessions: connects to the relay of its journal, which it may start, and
/// has the operations on sessions that no message of the protocol covers.
pub trait Host: Connect + Clone {
    /// Closes a session and removes it from the journal. Removing an unknown session succeeds.
    ///
    /// # Errors
    /// The reason why it stays, for a person.
    fn remove(self, session: String) -> impl Future<Output = Result<(), String>> + Send;

    /// Stores a file of a prompt with its session until the session is removed. The file does not
    /// change after this.
    ///
    /// # Errors
    /// The reason why it is not stored, for a person.
    fn keep_file(
        self,
        session: SessionId,
        file: PathBuf,
        sha256: Sha256,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Reads a file that is stored with a session. `None` if the session has no such file.
    ///
    /// # Errors
    /// The reason why it cannot be read, for a person.
    fn read_file(
        self,
        session: SessionId,
        sha256: Sha256,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + Send;

    /// The folder of each agent, by its id: its sessions that name no folder work there.
    ///
    /// # Errors
    /// The reason why they are not known, for a person.
    fn work_dirs(self) -> impl Future<Output = Result<BTreeMap<String, String>, String>> + Send;

    /// Ends the login of the agent that [`Options::agent`] names.
    ///
    /// # Errors
    /// The reason why it is still logged in, for a person. By default that the host has no logout.
    fn log_out(self) -> impl Future<Output = Result<(), String>> + Send {
        async { Err("agents keep their logins here".to_owned()) }
    }
}
