//! An agent process, which serves many sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;
use trunkline_sdk::{Category, Error};

use super::initialize::InitializeResponse;
use super::request;
use crate::agent::launch::Launch;
use crate::agent::log::SessionLog;
use crate::agent::rpc::{
    CallError, Handler, INTERNAL_ERROR, INVALID_PARAMS, Id, InboxMessage, JsonRpcVersion,
    METHOD_NOT_FOUND, ParamMembers, Peer,
};

/// A method that no agent has: its refusal is a sign of life.
const ALIVE: &str = "_trunkline/alive";

/// Timeout for that refusal.
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// Timeout for the writing of a notification.
pub(crate) const WRITE: Duration = Duration::from_millis(200);

/// The notifications that are read.
pub(crate) const UPDATE: &str = "session/update";
pub(crate) const COMPLETE: &str = "elicitation/complete";

/// The requests that an agent may send.
const REQUESTS: &[&str] = &[
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
    "elicitation/create",
];

/// A running agent.
pub(crate) struct AgentLink {
    pub(crate) peer: Arc<Peer>,
    pub(crate) initialized: InitializeResponse,
    /// True if the agent was offered files.
    pub(crate) client_files: bool,
}

impl AsRef<Peer> for AgentLink {
    fn as_ref(&self) -> &Peer {
        &self.peer
    }
}

/// Gives each session its messages.
struct SessionMessages;

impl Handler for SessionMessages {
    fn notified(&self, peer: &Peer, method: &str, params: &RawValue) {
        let members = ParamMembers::read(params);
        let mail = InboxMessage::notification(method, params);
        match method {
            UPDATE => match members.text("sessionId") {
                Some(session) => peer.routes.deliver(session, mail),
                None => tracing::debug!("an update of no session"),
            },
            // It does not name the session.
            COMPLETE => {
                let elicitation = members.text("elicitationId");
                match elicitation.and_then(|id| peer.routes.inbox_by_alias(&id)) {
                    Some(inbox) => drop(inbox.put(mail)),
                    None => tracing::debug!("no open elicitation is complete"),
                }
            }
            _ => tracing::debug!(method, "a notification of an unknown kind"),
        }
    }

    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, params: &RawValue) {
        if !REQUESTS.contains(&method) {
            let unknown = format!(
                "method not found: {}",
                method.chars().take(100).collect::<String>()
            );
            return peer.refuse(&id, METHOD_NOT_FOUND, unknown);
        }
        let members = ParamMembers::read(params);
        let session = members.text("sessionId");
        let found = session.and_then(|session| Some((peer.routes.inbox(&session)?, session)));
        let Some((inbox, session)) = found else {
            return peer.refuse(&id, INVALID_PARAMS, "no such session");
        };
        if method == "elicitation/create"
            && let Some(elicitation) = members.text("elicitationId")
        {
            peer.routes.add_alias(elicitation, &session);
        }
        if let Some(id) = inbox.put(InboxMessage::request(id, method, params)) {
            peer.refuse(&id, INTERNAL_ERROR, "too much of this session is unread");
        }
    }
}

impl AgentLink {
    /// Starts an agent and initializes it.
    ///
    /// # Errors
    /// Why it did not start, or did not answer.
    pub(crate) async fn start(
        launch: &Launch,
        client_files: bool,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Self, Error> {
        let (peer, answer) = Peer::start(
            launch,
            JsonRpcVersion::V2,
            SessionMessages,
            &request::initialize(client_files),
            deadline,
            log,
        )
        .await?;
        Ok(Self {
            peer,
            initialized: InitializeResponse::parse(&answer)?,
            client_files,
        })
    }

    /// Notifies the agent to cancel what a session runs. An agent that takes no more input ends the
    /// turn by its own end, or not in time.
    pub(crate) async fn cancel(&self, session: &str) {
        let params = json!({ "sessionId": session });
        let _ = timeout(WRITE, self.peer.notify("session/cancel", &params)).await;
    }

    /// Retires an agent that answers nothing. Returns true if it was retired.
    pub(crate) async fn retire_if_mute(&self) -> bool {
        let answer = self
            .peer
            .call::<_, Value>(ALIVE, &json!({}), Some(ALIVE_WITHIN))
            .await;
        let is_mute = matches!(answer, Err(CallError::Late { .. }));
        if is_mute {
            self.peer.retire();
        }
        is_mute
    }
}

/// The failure of a session's use of its agent, by the answer to a call.
pub(crate) fn failure(
    error: &CallError,
    what: &str,
    initialized: &InitializeResponse,
    kind_hint: Option<&str>,
) -> Error {
    match error {
        CallError::Rpc(rpc) if rpc.code == -32000 => {
            let hint = kind_hint.map_or_else(|| initialized.login_hint(), str::to_owned);
            Error::new(Category::Auth, format!("{what}: {}; {hint}", rpc.message)).code("-32000")
        }
        error => error.error(what),
    }
}
