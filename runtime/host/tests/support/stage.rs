//! Agents that a test plays over in-memory pipes, one configuration after the other.

use tokio::{io::split, sync::mpsc};
use trunkline_host::{AgentHealth, Cause, Host, HostBuilder, Session, config::AgentConfig};

use super::{Peer, soon};

/// Plays agents; each start of one yields a [`Peer`] with the name of its configuration.
#[derive(Clone)]
pub struct Stage {
    starts: mpsc::Sender<(String, Peer)>,
}

impl Stage {
    pub fn new() -> (Self, mpsc::Receiver<(String, Peer)>) {
        let (starts, started) = mpsc::channel(1024);
        (Self { starts }, started)
    }

    /// A builder with these agents.
    pub fn with(&self, agents: impl IntoIterator<Item = AgentConfig>) -> HostBuilder {
        agents.into_iter().fold(Host::builder(), |builder, agent| {
            let starts = self.starts.clone();
            let name = agent.name.clone();
            builder.agent_over(agent, move || {
                let (host, adapter) = tokio::io::duplex(1 << 16);
                starts
                    .try_send((name.clone(), Peer::new(adapter)))
                    .expect("few starts");
                split(host)
            })
        })
    }
}

/// An agent of this id whose configuration has a name of its own.
pub fn called(id: &str, name: &str) -> AgentConfig {
    let mut agent = AgentConfig::external(id, "played");
    agent.name = name.to_owned();
    agent
}

/// The process that was started last.
pub async fn started(peers: &mut mpsc::Receiver<(String, Peer)>, name: &str) -> Peer {
    let (of, peer) = soon(peers.recv()).await.expect("a start");
    assert_eq!(of, name);
    peer
}

/// Runs a turn of a session.
pub async fn turn(session: &Session, peer: &mut Peer, id: &str) {
    let turn = session.send("hello").expect("an open session");
    assert_eq!(peer.read("user.input").await["session_id"], id);
    peer.say("turn.complete", id, "").await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
}

/// The host has closed the input; the adapter ends.
pub async fn ends(mut peer: Peer) {
    while peer.read_line().await.is_some() {}
}

/// Waits for what is known of the agents.
pub async fn health_when(
    host: &Host,
    is_there: impl Fn(&[AgentHealth]) -> bool,
) -> Vec<AgentHealth> {
    let looks = async {
        loop {
            let health = host.health().await;
            if is_there(&health) {
                return health;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(looks).await
}
