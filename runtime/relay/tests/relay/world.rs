//! A hub above, a relay, a scripted adapter below.

use std::{path::Path, sync::Arc};

use tokio::{sync::oneshot, task::JoinHandle};
use trunkline_host::{Host, HostBuilder, config::AgentConfig};
use trunkline_journal::{OpenError, Options};
use trunkline_relay::{MessageAuthorizer, RelayOptions, RelayReport, serve_until};
use trunkline_sessions::Sessions;

use crate::{
    adapter::{Adapter, Adapters},
    hub::Hub,
};

/// The hub, relay and adapter of a test.
pub struct World {
    pub host: Host,
    pub hub: Hub,
    pub adapters: Adapters,
    pub relay: JoinHandle<RelayReport>,
    pub stop: Option<oneshot::Sender<()>>,
}

impl World {
    pub fn new() -> Self {
        Self::with(|agent| agent)
    }

    /// Creates a world whose agent is configured by `configure`.
    pub fn with(configure: impl FnOnce(AgentConfig) -> AgentConfig) -> Self {
        Self::made(configure, |host| host, 64 * 1024)
    }

    /// Creates a world with further agents, and a pipe of the given number of bytes to the hub.
    pub fn made(
        configure: impl FnOnce(AgentConfig) -> AgentConfig,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
        pipe: usize,
    ) -> Self {
        Self::serving(configure, more, pipe, |_| RelayOptions::default())
    }

    /// Creates a world with the sessions of a journal in this folder. Waits for a journal that is
    /// being closed.
    pub async fn journaled(folder: &Path) -> Self {
        Self::serving_journal(folder, |agent| agent)
    }

    /// Creates a journaled world whose agent is configured by `configure`.
    pub fn serving_journal(
        folder: &Path,
        configure: impl FnOnce(AgentConfig) -> AgentConfig,
    ) -> Self {
        let folder = folder.to_owned();
        let open = move |host: &Host| loop {
            match Sessions::open(host.clone(), &folder, Options::default()) {
                Ok((sessions, damaged)) => {
                    assert_eq!(damaged, []);
                    return RelayOptions::default().sessions(sessions);
                }
                Err(OpenError::InUse { .. }) => std::thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
        };
        Self::serving(configure, |host| host, 64 * 1024, open)
    }

    /// Creates a world with a judge and a journal.
    pub fn judged(folder: &Path, judge: impl MessageAuthorizer + 'static) -> Self {
        let folder = folder.to_owned();
        Self::serving(
            |agent| agent,
            |host| host,
            64 * 1024,
            move |host| {
                let sessions = Sessions::open(host.clone(), &folder, Options::default())
                    .unwrap()
                    .0;
                RelayOptions::default()
                    .sessions(sessions)
                    .judged(Arc::new(judge))
            },
        )
    }

    /// Ends all of it as SIGKILL would, as far as one process can.
    pub async fn kill(self) {
        self.relay.abort();
        let _ = self.relay.await;
    }

    fn serving(
        configure: impl FnOnce(AgentConfig) -> AgentConfig,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
        pipe: usize,
        options: impl FnOnce(&Host) -> RelayOptions,
    ) -> Self {
        // Most tests drop everything at once: the leftovers stay in the build's own folder. The
        // second call finds it set.
        let _ = tempfile::env::override_temp_dir(env!("CARGO_TARGET_TMPDIR").as_ref());
        let (adapters, connect) = Adapters::new();
        let agent = configure(AgentConfig::external("scripted", "none"));
        let host = more(Host::builder().agent_over(agent, connect))
            .build()
            .unwrap();
        let options = options(&host);
        let (above, below) = tokio::io::duplex(pipe);
        let (input, output) = tokio::io::split(below);
        let below_it = host.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = tokio::spawn(serve_until(below_it, input, output, options, async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self {
            host,
            hub: Hub::new(above),
            adapters,
            relay,
            stop: Some(stop),
        }
    }

    /// Opens a session with all extensions on both sides, and returns its adapter.
    pub async fn open(&mut self, id: &str) -> Adapter {
        self.hub.start(id).await;
        let mut adapter = self.adapters.next().await;
        assert_eq!(adapter.ready().await, id);
        adapter
    }

    /// Opens a session of a hub that knows only the core, and returns its adapter.
    pub async fn open_core(&mut self, id: &str) -> Adapter {
        self.hub.start_core(id).await;
        let mut adapter = self.adapters.next().await;
        assert_eq!(adapter.ready().await, id);
        adapter
    }

    /// Hangs up and returns the relay's report.
    pub async fn end(mut self) -> RelayReport {
        self.hub.hang_up().await;
        self.hub.rest().await;
        self.relay.await.unwrap()
    }
}
