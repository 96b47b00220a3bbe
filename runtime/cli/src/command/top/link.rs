//! The way to the host: what it is asked, and what of its answers matters here.

use std::{io, path::Path};

use trunkline_protocol::{
    AdapterBody, AgentEntry, AgentsList, AttachRefusal, Extensions, HostMessage, HubMessage,
    OpenSession, PROTOCOL, RelayBody, RequestId, Role, SessionAttach, SessionDetach, SessionId,
    SessionRefused, Stop, StopReason,
};

use crate::{
    fault::Fault,
    hub::{Hub, Message},
    journal,
};

/// How many sessions the host is asked for.
const SESSIONS: u32 = 1000;

/// A connection to the host.
pub(super) struct Link {
    hub: Hub,
    /// The sessions whose turns are to be stopped, while their last entries are asked for.
    stopping: Vec<SessionId>,
    /// Numbers the requests.
    asked: u64,
}

/// What the host said.
#[derive(Debug)]
pub(super) enum Heard {
    /// How its agents are, and which sessions are open.
    List {
        agents: Vec<AgentEntry>,
        sessions: Vec<OpenSession>,
    },
    /// A session that is not stopped from here.
    Refused { id: String, why: String },
}

impl Link {
    /// Connects to the host that has a journal. `None` where no host listens.
    ///
    /// # Errors
    /// Where there is a host that takes no hub.
    pub(super) async fn to(folder: &Path) -> Result<Option<Self>, Fault> {
        let hub = journal::connect(folder).await?;
        Ok(hub.map(|hub| Self {
            hub,
            stopping: Vec::new(),
            asked: 0,
        }))
    }

    /// Asks how all is.
    pub(super) fn ask(&mut self) {
        self.asked += 1;
        let Ok(request_id) = RequestId::new(format!("top-{}", self.asked)) else {
            return;
        };
        let list = AgentsList {
            request_id,
            health: Some(true),
            sessions: Some(SESSIONS),
        };
        self.hub.say(&HostMessage::new(SessionId::none(), list));
    }

    /// Has the turn of a session stopped. The end of it is seen in the next list.
    pub(super) fn stop(&mut self, id: &str) {
        let Ok(id) = SessionId::new(id) else { return };
        // Behind every entry: the refusal names the last one, so that none has to be sent.
        self.attach(&id, u64::MAX);
        self.stopping.push(id);
    }

    fn attach(&mut self, id: &SessionId, after: u64) {
        let attach = SessionAttach {
            after,
            role: Some(Role::Control),
            protocol: Some(PROTOCOL),
            extensions: Some((Extensions::TURNS | Extensions::EVENTS).to_names()),
            epoch: None,
            on_slow: None,
            env: None,
            mcp_servers: None,
        };
        self.hub.say(&HubMessage::new(id.clone(), attach));
    }

    /// The next thing that matters here. `None` at the host's end.
    ///
    /// # Errors
    /// When the connection breaks.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub(super) async fn hear(&mut self) -> io::Result<Option<Heard>> {
        while let Some(told) = self.hub.hear().await? {
            match told.message {
                Message::Adapter(message) => {
                    if let AdapterBody::AgentsListResult(list) = message.body {
                        let sessions = list.sessions.unwrap_or_default();
                        return Ok(Some(Heard::List {
                            agents: list.agents,
                            sessions,
                        }));
                    }
                }
                Message::Relay(message) => {
                    if let RelayBody::SessionRefused(refused) = message.body
                        && let Some(refusal) = self.refused(message.session_id, refused)
                    {
                        return Ok(Some(refusal));
                    }
                }
            }
        }
        Ok(None)
    }

    /// A session was not attached: mostly since its last entry was asked for.
    fn refused(&mut self, id: SessionId, refused: SessionRefused) -> Option<Heard> {
        let place = self.stopping.iter().position(|stopping| *stopping == id)?;
        self.stopping.remove(place);
        match (refused.reason, refused.last_seq) {
            (Some(AttachRefusal::Ahead), Some(last)) => {
                self.attach(&id, last);
                let stop = Stop {
                    reason: Some(StopReason::User),
                };
                self.hub.say(&HostMessage::new(id.clone(), stop));
                self.hub.say(&HubMessage::new(id, SessionDetach::default()));
                None
            }
            (Some(AttachRefusal::Unknown), _) => {
                let why = "it is not in the journal, so its own hub alone can stop it".to_owned();
                Some(Heard::Refused {
                    id: id.to_string(),
                    why,
                })
            }
            _ => {
                let why = refused
                    .message
                    .unwrap_or_else(|| "the host refused it".to_owned());
                Some(Heard::Refused {
                    id: id.to_string(),
                    why,
                })
            }
        }
    }
}
