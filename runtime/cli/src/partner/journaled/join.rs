//! How a session is attached or opened.

use std::time::Duration;

use anyhow::anyhow;
use tokio::time::timeout;
use trunkline_host::{
    Event, EventKind,
    protocol::{
        AdapterBody, AdapterMessage, AttachRefusal, HostBody, HubBody, HubMessage, PROTOCOL,
        RelayBody, RelayMessage, Role, SessionAttach, SessionAttached, SessionDetach, SessionId,
        SessionRefused, SessionStart, SessionState,
    },
};
use uuid::Uuid;

use super::{Access, Again, Journaled};
use crate::{
    fault::Fault,
    hub::{Hub, Message},
    partner::Heard,
};

/// The extensions that a person's session asks for.
const EXTENSIONS: [&str; 9] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
    "journal",
];

/// How long an agent may take to say what it applies of a new session's options.
const ANSWER: Duration = Duration::from_secs(15);

impl Journaled {
    /// Attaches to a session.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn attach(hub: Hub, id: &SessionId, access: Access) -> Result<Self, Fault> {
        let mut session = Self::new(hub, id.clone(), access);
        let role = if access == Access::Whole {
            Role::Control
        } else {
            Role::Observe
        };
        session.now = session.join(0, role).await?;
        if access == Access::FromNow {
            // Nothing of the first comes behind the answer to the second.
            session.now = session.join(session.now.last_seq, Role::Control).await?;
            session.seq = session.now.last_seq;
        }
        Ok(session)
    }

    /// Watches a session from behind an entry on.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn watch(hub: Hub, id: &SessionId, after: u64) -> Result<Self, Fault> {
        let mut session = Self::new(hub, id.clone(), Access::Observed);
        session.now = session.join(after, Role::Observe).await?;
        session.seq = after;
        Ok(session)
    }

    /// Opens a session of a new id, which begins with `kind`.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn start(
        hub: Hub,
        kind: &str,
        agent: Option<String>,
        start: SessionStart,
    ) -> Result<Self, Fault> {
        let mut session = Self::new(hub, new_id(kind)?, Access::Whole);
        session.agent = agent;
        session.open_new(start).await?;
        Ok(session)
    }

    /// Leaves this session, and opens one of a new id with the same agent.
    ///
    /// # Errors
    /// Why the host refuses.
    pub(crate) async fn anew(&mut self, start: SessionStart) -> Result<(), Fault> {
        self.hub.say(&HubMessage::new(
            self.id.clone(),
            HubBody::from(SessionDetach {}),
        ));
        self.id = new_id("chat")?;
        (self.seq, self.now, self.is_closed) = (0, SessionAttached::default(), false);
        self.open.clear();
        self.held.clear();
        self.unanswered.clear();
        self.open_new(start).await
    }

    async fn open_new(&mut self, start: SessionStart) -> Result<(), Fault> {
        let start = SessionStart {
            agent_id: self.agent.clone(),
            protocol: Some(PROTOCOL),
            extensions: Some(EXTENSIONS.map(str::to_owned).to_vec()),
            ..start
        };
        self.again = None;
        self.say(None, HostBody::SessionStart(Box::new(start)));
        // The first entry says that it is stored.
        while self.seq == 0 {
            let Some(told) = self.hear().await else {
                return Err(self.lost());
            };
            match &told.message {
                Message::Relay(RelayMessage {
                    body: RelayBody::SessionRefused(refused),
                    ..
                }) => {
                    return Err(self.refused(refused));
                }
                Message::Adapter(AdapterMessage {
                    body: AdapterBody::SessionClosed(closed),
                    ..
                }) if told.stamp.seq.is_none() => {
                    let why = closed
                        .error
                        .as_ref()
                        .and_then(|error| error.message.clone());
                    let why = why.unwrap_or_else(|| "the host opened no session".to_owned());
                    return Err(Fault::usage(anyhow!(why)));
                }
                _ => drop(self.take(told)),
            }
        }
        // Under which name it speaks, and with which agent.
        self.now = self.join(self.seq, Role::Control).await?;
        Ok(())
    }

    async fn join(&mut self, after: u64, role: Role) -> Result<SessionAttached, Fault> {
        self.again = None;
        self.say_attach(after, role);
        loop {
            let Some(told) = self.hear().await else {
                return Err(self.lost());
            };
            // Entries of an attach before are of no use.
            let Message::Relay(RelayMessage { body, .. }) = told.message else {
                continue;
            };
            match body {
                RelayBody::SessionAttached(attached) if attached.role == Some(role) => {
                    self.agent = Some(attached.agent_id.clone());
                    self.is_closed = attached.state == Some(SessionState::Closed);
                    self.again = Some(Again::default());
                    return Ok(*attached);
                }
                RelayBody::SessionRefused(refused) => return Err(self.refused(&refused)),
                _ => {}
            }
        }
    }

    pub(super) fn say_attach(&mut self, after: u64, role: Role) {
        let attach = SessionAttach {
            after,
            role: Some(role),
            protocol: Some(PROTOCOL),
            extensions: Some(EXTENSIONS.map(str::to_owned).to_vec()),
            ..SessionAttach::default()
        };
        self.hub
            .say(&HubMessage::new(self.id.clone(), HubBody::from(attach)));
    }

    fn refused(&self, refused: &SessionRefused) -> Fault {
        let why = refused
            .message
            .clone()
            .unwrap_or_else(|| "the host refuses the session".to_owned());
        let fault = Fault::usage(anyhow!("session {:?}: {why}", self.id.as_str()));
        match refused.reason {
            Some(AttachRefusal::Unknown | AttachRefusal::Gone) => {
                fault.next("list those that there are by `trunkline sessions`")
            }
            _ => fault,
        }
    }

    /// Waits until the agent has said that it works in the folder that a new session named. `false` where it does not,
    /// or says nothing within 15 s.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(crate) async fn works_there(&mut self) -> bool {
        let hears = async {
            while !self.is_closed {
                let Some(told) = self.hear().await else {
                    return false;
                };
                let (heard, _) = self.take(told);
                let applied = match &heard {
                    Heard::Event(Event {
                        kind: EventKind::Info(info),
                        ..
                    }) => info.options_applied.as_ref(),
                    _ => None,
                };
                let is_there =
                    applied.is_some_and(|applied| applied.iter().any(|name| name == "cwd"));
                self.held.push_back(heard);
                if is_there {
                    return true;
                }
            }
            false
        };
        timeout(ANSWER, hears).await.unwrap_or(false)
    }
}

/// An id that a person can type.
fn new_id(kind: &str) -> Result<SessionId, Fault> {
    let id = Uuid::new_v4().simple().to_string();
    SessionId::new(format!("{kind}-{}", &id[..8])).map_err(Fault::failed)
}
