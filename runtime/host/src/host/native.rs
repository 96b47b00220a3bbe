//! Conversations that an agent itself keeps, also those that began without a host.

use std::time::Duration;

use thiserror::Error;
use tokio::{sync::oneshot, time::timeout};
use trunkline_protocol::{RequestId, SessionEntry, SessionsList};

use crate::{EventKind, Host, OpenError, Session, SessionOptions, link::Command};

/// Timeout for a list, the start of the adapter's process included.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the adapter's declaration of what it can do. One that knows only the core never sends it.
const DECLARATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why the conversations of an agent were not listed. Each text is a sentence.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NativeListError {
    /// The session through which the adapter is asked was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The adapter has not declared `lists_sessions`.
    #[error("agent {agent:?} does not list its conversations; continue one by its id")]
    Unsupported {
        /// The agent.
        agent: String,
    },
    /// The adapter ended before it answered, or too many requests wait for it.
    #[error("agent {agent:?} gave no list of its conversations; try again")]
    Unanswered {
        /// The agent.
        agent: String,
    },
    /// The adapter did not answer in time.
    #[error(
        "agent {agent:?} gave no list of its conversations within {} s; try again",
        LIST_TIMEOUT.as_secs()
    )]
    Late {
        /// The agent.
        agent: String,
    },
    /// The adapter's own reason.
    #[error("agent {agent:?} listed no conversations: {reason}")]
    Refused {
        /// The agent.
        agent: String,
        /// The adapter's words.
        reason: String,
    },
}

impl Host {
    /// Lists the conversations that an agent itself keeps ([relay.10]), also those that began
    /// without this host. With a directory, only those that began there. Its adapter is asked
    /// through a session that gets no input; a process is started for it if none runs. A
    /// conversation is continued by its id in `resume` of a session.
    ///
    /// # Errors
    /// [`NativeListError`]; within 30 s.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn native_sessions(
        &self,
        agent: &str,
        cwd: Option<String>,
        limit: Option<u32>,
    ) -> Result<Vec<SessionEntry>, NativeListError> {
        let named = || agent.to_owned();
        let declared = self.agent(agent).and_then(|status| status.capabilities);
        if declared.is_some_and(|known| known.lists_sessions != Some(true)) {
            return Err(NativeListError::Unsupported { agent: named() });
        }
        let session = self.open(agent, SessionOptions::default())?;
        let listed = timeout(LIST_TIMEOUT, list_by(&session, cwd, limit)).await;
        session.close().await;
        match listed {
            Ok(Some(Ok(mut entries))) => {
                for entry in &mut entries {
                    entry.agent_id = Some(named());
                }
                Ok(entries)
            }
            Ok(Some(Err(reason))) => Err(NativeListError::Refused {
                agent: named(),
                reason,
            }),
            Ok(None) => {
                let declared = self.agent(agent).and_then(|status| status.capabilities);
                Err(
                    if declared.is_some_and(|known| known.lists_sessions != Some(true)) {
                        NativeListError::Unsupported { agent: named() }
                    } else {
                        NativeListError::Unanswered { agent: named() }
                    },
                )
            }
            Err(_) => Err(NativeListError::Late { agent: named() }),
        }
    }
}

/// Asks the adapter of a session, or returns its reason. `None` if it does not list or has ended.
async fn list_by(
    session: &Session,
    cwd: Option<String>,
    limit: Option<u32>,
) -> Option<Result<Vec<SessionEntry>, String>> {
    match timeout(DECLARATION_TIMEOUT, lists_sessions(session)).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) | Err(_) => return None,
        Ok(Err(reason)) => return Some(Err(reason)),
    }
    let request_id = RequestId::new(uuid::Uuid::new_v4().simple().to_string()).ok()?;
    let (reply, answer) = oneshot::channel();
    let list = Box::new(SessionsList {
        cwd,
        limit,
        ..SessionsList::new(request_id)
    });
    session.shared().command(Command::ListNative {
        session: session.shared().clone(),
        list,
        reply,
    });
    let result = answer.await.ok()?;
    Some(match result.error {
        Some(reason) => Err(reason),
        None => Ok(result.entries.unwrap_or_default()),
    })
}

/// Waits for the adapter's declaration, and returns true if it lists its conversations. An error is
/// the reason for which the session ended; without one the result is false.
async fn lists_sessions(session: &Session) -> Result<bool, String> {
    while let Some(event) = session.next_event().await {
        match event.kind {
            EventKind::Info(info) => {
                if let Some(declared) = info.capabilities {
                    return Ok(declared.lists_sessions == Some(true));
                }
            }
            EventKind::Closed(end) => {
                let failure = end.error.and_then(|failure| failure.message);
                return failure.map_or(Ok(false), Err);
            }
            _ => {}
        }
    }
    Ok(false)
}
