//! The one `codex app-server` that all sessions of the same environment share.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trunkline_sdk::protocol::Model;
use trunkline_sdk::{Category, Error};

use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::log::SessionLog;
use crate::agent::process::{ProcessEnd, last_lines};
use crate::agent::rpc::{
    Handler, Id, InboxMessage, JsonRpcVersion, METHOD_NOT_FOUND, ParamMembers, Peer,
};

/// A running app server that is initialized.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) peer: Arc<Peer>,
    /// The models that it offers, once they were requested.
    pub(super) models: OnceCell<Vec<Model>>,
}

impl AsRef<Peer> for Server {
    fn as_ref(&self) -> &Peer {
        &self.peer
    }
}

impl Server {
    /// Starts an app server and initializes it.
    ///
    /// # Errors
    /// Why it did not start, or did not answer.
    pub(super) async fn start(
        launch: &Launch,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Self, Error> {
        let greeting = json!({
            "clientInfo": { "name": "trunkline", "title": "Trunkline", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "experimentalApi": true },
        });
        let (peer, _) = Peer::start(
            launch,
            JsonRpcVersion::Bare,
            ThreadMessages,
            &greeting,
            deadline,
            log,
        )
        .await?;
        // If it could not be sent, the process has ended, and the next call fails.
        let _ = peer.notify("initialized", &Value::Null).await;
        Ok(Self {
            peer,
            models: OnceCell::new(),
        })
    }

    /// Refuses requests that no turn has read.
    pub(super) fn refuse(&self, unread: Vec<Id>) {
        for id in unread {
            refuse(&self.peer, &id);
        }
    }
}

/// Reason for the refusal of a request that no turn reads.
pub(super) const NOT_NOW: &str = "no turn of this thread can be asked now";

fn refuse(peer: &Peer, id: &Id) {
    peer.refuse(id, -32000, NOT_NOW);
}

/// Notifications without a thread that concern every session.
const FOR_ALL: &[&str] = &["account/rateLimits/updated", "configWarning"];

/// Notifications that are kept while no turn reads.
pub(super) const BETWEEN_TURNS: &[&str] = &[
    "thread/tokenUsage/updated",
    "mcpServer/startupStatus/updated",
    "turn/started",
    "turn/completed",
];

/// Gives each session the messages of its thread. Of the threads that a thread has begun it gets
/// the requests, and a sign of life for each notification.
struct ThreadMessages;

fn thread_of(members: &ParamMembers<'_>) -> Option<String> {
    let thread = members.text("threadId");
    thread.or_else(|| members.text("conversationId"))
}

impl Handler for ThreadMessages {
    fn notified(&self, peer: &Peer, method: &str, params: &RawValue) {
        let members = ParamMembers::read(params);
        if method == "thread/started" {
            let begun = members.members("thread");
            if let (Some(id), Some(parent)) = (begun.text("id"), begun.text("parentThreadId")) {
                peer.routes.add_alias(id, &parent);
            }
            return;
        }
        match thread_of(&members) {
            Some(thread) => {
                let mail = InboxMessage::notification(method, params);
                peer.routes.deliver(thread, mail);
            }
            None if FOR_ALL.contains(&method) => {
                for inbox in peer.routes.inboxes() {
                    inbox.put(InboxMessage::notification(method, params));
                }
            }
            None => {}
        }
    }

    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, params: &RawValue) {
        let is_known = super::approval::METHODS.contains(&method);
        let thread = thread_of(&ParamMembers::read(params)).filter(|_| is_known);
        let inbox = thread.and_then(|thread| {
            let inbox = peer.routes.inbox(&thread);
            inbox.or_else(|| peer.routes.inbox_by_alias(&thread))
        });
        let Some(inbox) = inbox else {
            return peer.refuse(&id, METHOD_NOT_FOUND, "method not found");
        };
        if let Some(id) = inbox.put(InboxMessage::request(id, method, params)) {
            refuse(peer, &id);
        }
    }
}

/// The failure of a turn whose app server ended.
pub(super) fn gone(ended: &ProcessEnd) -> Error {
    let last = last_lines(&ended.stderr);
    let text = format!(
        "codex app-server ended: {}; the next input starts it again",
        ended.exit
    );
    let text = if last.is_empty() {
        text
    } else {
        format!("{text}; its last output: {last}")
    };
    Error::new(Category::ProcessExit, failure::message(&text))
}
