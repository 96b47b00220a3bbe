//! A session of an agent: its queue, its directories and terminals, and the answers to its requests.

use std::any::Any;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::task::JoinSet;

use super::files::Directories;
use super::process::AgentLink;
use super::requests::{AllowedCommands, Requests};
use super::terminals::Terminals;
use crate::agent::launch::Launch;
use crate::agent::locked;
use crate::agent::rpc::{INTERNAL_ERROR, Id, Inbox, METHOD_NOT_FOUND};

/// The most requests of a session that are being answered at a time.
pub(crate) const MOST_REQUESTS: usize = 64;

/// Authority for permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Permissions {
    /// The host is asked.
    #[default]
    Ask,
    /// Everything is denied.
    Deny,
    /// Everything is allowed without asking.
    DangerousAllow,
}

/// A session of an agent.
pub(crate) struct AcpSession {
    pub(crate) link: Arc<AgentLink>,
    /// The agent's own id of the session.
    pub(crate) id: String,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) directories: Directories,
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) launch: Launch,
    pub(crate) permissions: Permissions,
    allowed_commands: AllowedCommands,
    tasks: Mutex<JoinSet<()>>,
    /// Files that the agent reads while the session lives.
    _kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl AcpSession {
    pub(crate) fn new(
        link: Arc<AgentLink>,
        id: String,
        inbox: Arc<Inbox>,
        directories: Directories,
        launch: Launch,
        permissions: Permissions,
        kept: Vec<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        Self {
            link,
            id,
            inbox,
            directories,
            terminals: Arc::default(),
            launch,
            permissions,
            allowed_commands: AllowedCommands::default(),
            tasks: Mutex::default(),
            _kept: kept,
        }
    }

    /// Returns true if it can serve no turn: its agent has ended or was retired, or another session
    /// has its conversation.
    pub(crate) fn is_lost(&self) -> bool {
        !self.link.peer.is_fit() || self.inbox.is_taken()
    }

    /// A turn begins: what was allowed before is over.
    pub(crate) fn begin(&self) {
        self.allowed_commands.clear();
    }

    /// Answers a request about files, or about a terminal that there is. These need no permission: files are
    /// confined, and a terminal was permitted when it was made.
    pub(crate) fn serve(&self, id: Id, method: String, params: Value) {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MOST_REQUESTS {
            let many = format!("{MOST_REQUESTS} requests of this session are unanswered");
            return self.link.peer.refuse(&id, INTERNAL_ERROR, many);
        }
        let peer = self.link.peer.clone();
        let directories = self.directories.clone();
        let terminals = self.terminals.clone();
        let client_files = self.link.client_files;
        tasks.spawn(async move {
            let answer = match method.as_str() {
                // Some agents call what was not offered.
                "fs/read_text_file" | "fs/write_text_file" if !client_files => Err((
                    METHOD_NOT_FOUND,
                    "no files are offered: use your own tools".to_owned(),
                )),
                "fs/read_text_file" => blocking(move || directories.read(&params)).await,
                "fs/write_text_file" => blocking(move || directories.write(&params)).await,
                "terminal/output" => terminals.output(&params),
                "terminal/wait_for_exit" => terminals.wait(&params).await,
                "terminal/kill" => terminals.kill(&params),
                "terminal/release" => terminals.release(&params),
                _ => Err((METHOD_NOT_FOUND, "method not found".to_owned())),
            };
            // An agent that has ended needs no answer.
            let _ = peer.answer(&id, answer).await;
        });
    }

    /// The permissions that it waits for: none yet.
    pub(crate) fn requests(&self) -> Requests<'_> {
        Requests::new(self.permissions, &self.allowed_commands)
    }

    /// Answers requests that were not decided, and will not be.
    pub(crate) fn decline(&self, mut requests: Requests<'_>) {
        for (id, answer) in requests.declined() {
            self.link.peer.answer_now(&id, answer);
        }
    }
}

async fn blocking(
    work: impl FnOnce() -> super::files::RequestResult + Send + 'static,
) -> super::files::RequestResult {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err((INTERNAL_ERROR, "the request failed".to_owned())))
}
