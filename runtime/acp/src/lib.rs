//! A host as an agent of the [Agent Client Protocol](https://agentclientprotocol.com) (ACP): what `trunkline acp` runs.
//!
//! A client of ACP, an editor say, speaks JSON-RPC, one message a line. [`serve`] answers it, and is itself a hub of a
//! relay with a journal: sessions of ACP are sessions of the journal, so they outlive client and host, other hubs can
//! attach to them, and any adapter is an agent of ACP.
//!
//! # Theory of operation
//!
//! `core` translates: a line of either side goes in, lines to both come out. It has no clock and does no input or output.
//! `shell` moves the bytes in one task, keeps what waits bounded, and finds the relay again when its pipe ends.
//! `docs/acp.md` has what becomes of each message.

#![forbid(unsafe_code)]

mod ask;
mod content;
mod core;
mod facts;
mod picture;
mod rpc;
mod session;
mod shell;
mod update;

use std::{fmt, future::Future, io, path::PathBuf, pin::Pin};

use tokio::io::{AsyncRead, AsyncWrite};

pub use shell::{Ended, serve};

/// The longest line of a client that is read by default, in bytes: a picture of 16 MiB fits.
pub const MAX_LINE: usize = 24 * 1024 * 1024;

/// Decides whether a session may work in a folder, an absolute path. An error says why not, for a person.
pub type MayWorkIn = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// How an agent presents itself and what it takes.
#[non_exhaustive]
pub struct Options {
    /// Its version.
    pub version: String,
    /// The agent of new sessions, and the only one whose sessions are listed. `None`: the host's default, and all.
    pub agent: Option<String>,
    /// The folder of sessions that name none.
    pub home: String,
    /// Where the files of prompts are kept until their turns end. `None`: prompts have no files.
    pub files: Option<PathBuf>,
    /// Whether the client is on this machine, and may see its paths.
    pub is_local: bool,
    /// Whether the end of the client's messages denies what the client was asked. Otherwise others may still answer.
    pub denies_at_end: bool,
    /// Where sessions may work.
    pub may_work_in: MayWorkIn,
    /// The longest line of the client that is read, in bytes.
    pub max_line: usize,
}

impl Options {
    /// An agent that works anywhere, for a client on this machine that is its only user.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            agent: None,
            home: "/".to_owned(),
            files: None,
            is_local: true,
            denies_at_end: true,
            may_work_in: Box::new(|_| Ok(())),
            max_line: MAX_LINE,
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

/// Something awaited.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is read from a relay, and what is written to it.
pub type Pipe = (
    Box<dyn AsyncRead + Send + Unpin>,
    Box<dyn AsyncWrite + Send + Unpin>,
);

/// The host whose sessions a client gets.
pub trait Host: Send + Sync {
    /// Connects to a relay of the host's journal, which may have to be started.
    ///
    /// # Errors
    /// Why there is none.
    fn connect(&self) -> Boxed<'_, io::Result<Pipe>>;

    /// Closes a session and removes it from the journal. One that is not there is removed.
    ///
    /// # Errors
    /// Why it stays, for a person.
    fn remove(&self, session: String) -> Boxed<'static, Result<(), String>>;
}
