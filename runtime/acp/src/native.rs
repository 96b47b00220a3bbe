//! Conversations that an agent itself keeps, as sessions of an editor.

use tokio::time::{Duration, timeout};
use trunkline_client::{Client, ClientError};
use trunkline_protocol::{SessionEntry, SessionId};

/// Conversations of the agent's own in one answer to `session/list`.
const CONVERSATIONS_PER_LIST: u32 = 50;

/// Timeout for the agent's list. Later ones are left out: the sessions of the journal are known at
/// once.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Beginning of the ids of sessions that continue conversations.
const PREFIX: &str = "native:";

/// A conversation that an agent itself keeps.
///
/// An editor gets `native:AGENT:ID` as its id. The session that continues it has the same id, so an
/// editor keeps the id that it was given, and a session of the journal comes before a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NativeConversation<'a> {
    pub(crate) agent: &'a str,
    pub(crate) native_session_id: &'a str,
}

impl<'a> NativeConversation<'a> {
    /// Reads the id of a session, if it is one of a conversation.
    pub(crate) fn parse(id: &'a SessionId) -> Option<Self> {
        let (agent, native_session_id) = id.as_str().strip_prefix(PREFIX)?.split_once(':')?;
        let is_named = !agent.is_empty() && !native_session_id.is_empty();
        is_named.then_some(Self {
            agent,
            native_session_id,
        })
    }

    /// Returns the id of the session that continues it, unless that would be too long or name
    /// another conversation.
    pub(crate) fn session_id(&self) -> Option<SessionId> {
        let id = format!("{PREFIX}{}:{}", self.agent, self.native_session_id);
        let id = SessionId::new(id).ok()?;
        let is_exact = NativeConversation::parse(&id).as_ref() == Some(self);
        is_exact.then_some(id)
    }
}

/// Lists the conversations of an agent, or of the default one, that no session of the journal
/// continues. An agent that lists none, or not in time, has none here.
pub(crate) async fn list_conversations(
    client: Client,
    agent: Option<String>,
    cwd: Option<String>,
) -> Vec<SessionEntry> {
    let listed = client.native_sessions(agent, cwd, Some(CONVERSATIONS_PER_LIST));
    let listed = match timeout(LIST_TIMEOUT, listed).await {
        Ok(listed) => listed,
        Err(_) => Err(ClientError::RequestFailed(format!(
            "there was no answer within {} s",
            LIST_TIMEOUT.as_secs()
        ))),
    };
    let mut entries = listed.unwrap_or_else(|why| {
        tracing::debug!("the agent's own conversations are not listed: {why}");
        Vec::new()
    });
    entries.retain(|entry| entry.session_id.is_none());
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_conversation_and_is_no_other_sessions() {
        let conversation = |agent, native_session_id| NativeConversation {
            agent,
            native_session_id,
        };
        let id = conversation("codex", "a:b").session_id().unwrap();
        assert_eq!(id.as_str(), "native:codex:a:b");
        assert_eq!(
            NativeConversation::parse(&id),
            Some(conversation("codex", "a:b"))
        );
        // The id would name the conversation `b:c` of the agent `a`.
        assert_eq!(conversation("a:b", "c").session_id(), None);
        let long = "n".repeat(256);
        assert_eq!(conversation("a", &long).session_id(), None);
        assert_eq!(conversation("", "n").session_id(), None);
        for other in [
            "acp-1",
            "native",
            "native:",
            "native:a",
            "native:a:",
            "native::n",
        ] {
            let other = SessionId::new(other).unwrap();
            assert_eq!(NativeConversation::parse(&other), None);
        }
    }
}
