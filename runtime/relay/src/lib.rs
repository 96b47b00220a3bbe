//! A host that is an adapter: drives a [`Host`](trunkline_host::Host) over the protocol that the
//! host itself speaks.
//!
//! A hub in any language writes host-to-adapter messages into the relay's input and reads
//! adapter-to-host messages from its output, for any number of agents behind it ([relay.*]).
//! [`serve_stdio`] is the whole of `trunkline serve`; [`serve`] does the same over any streams.
//!
//! ```
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use trunkline_host::{Host, config::{AgentConfig, Command}};
//! use trunkline_relay::{RelayEnd, RelayOptions, serve};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().agent(AgentConfig::external("cat", Command::new("cat"))).build()?;
//! let (hub, relay) = tokio::io::duplex(64 * 1024);
//! let (input, output) = tokio::io::split(relay);
//! let relay = tokio::spawn(serve(host, input, output, RelayOptions::default()));
//!
//! let (answers, mut hub) = tokio::io::split(hub);
//! hub.write_all(b"{\"type\":\"agents.list\",\"session_id\":\"\",\"request_id\":\"1\"}\n").await?;
//! let mut answer = String::new();
//! BufReader::new(answers).read_line(&mut answer).await?;
//! assert!(answer.contains("\"agents\":[{\"id\":\"cat\""));
//!
//! hub.shutdown().await?;
//! assert_eq!(relay.await?.ended, RelayEnd::EndOfInput);
//! # Ok(())
//! # }
//! ```
//!
//! # Theory of operation
//!
//! One task reads the hub (`dispatch`): it finds lines, checks them by the protocol's tables, and
//! hands each message to the task of its session; it never waits for the pipe to the hub. The
//! sessions come from `trunkline-sessions`: in a journal, or in memory with one client. The client
//! (`hub_sink`) encodes each entry into the session's own queue towards the hub, and takes events
//! only while that has room: what a slow hub does not read waits in the host's spool. One task
//! writes (`upstream`): it takes from the sessions' queues in turn, by bytes
//! ([`Fair`](trunkline_pipe::Fair)).

#![forbid(unsafe_code)]

mod counters;
mod directory;
mod dispatch;
mod doors;
mod hub_sink;
mod journaled;
mod options;
mod serve;
mod stdio;
mod turn_order;
mod upstream;

pub use counters::Counters;
pub use directory::list_agents;
pub use doors::PrivateSocket;
pub use options::{MessageAuthorizer, RelayOptions};
pub use serve::{RelayEnd, RelayReport, end, serve, serve_beside_sockets, serve_hub, serve_until};
pub use stdio::serve_stdio;
pub use trunkline_protocol::ToolsAsOutput;
