//! `trunkline up --cluster`: one of several daemons, whose sessions outlive each of them.

use std::{path::PathBuf, time::Duration};

use anyhow::anyhow;
use clap::Args;

use crate::error::CliError;

/// Options of a cluster of daemons over NATS.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// Joins the daemons at a NATS server with JetStream, which share their sessions: when one
    /// ends, the others continue its sessions. Commas separate servers; tls:// encrypts
    #[arg(long, value_name = "nats://HOST:PORT")]
    cluster: Option<String>,

    /// Unique name of this host, the same after each start [default: the machine's name]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    host_id: Option<String>,

    /// Label of this host, shown by `trunkline daemon status`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "cluster", value_parser = parse_pair)]
    label: Vec<(String, String)>,

    /// Folder with the files of sessions; other hosts that share it use the same ID; may be
    /// repeated. A session then moves only to hosts with its files. Without it, a session may move
    /// to any host
    #[arg(long, value_name = "ID=PATH", requires = "cluster", value_parser = parse_pair)]
    storage: Vec<(String, String)>,

    /// Credentials file for the server, or a file with the seed of an NKey
    #[arg(long, value_name = "FILE", requires = "cluster")]
    creds: Option<PathBuf>,

    /// Certificates of the server's authority, in PEM [default: the certificates of this machine]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    cluster_ca: Option<PathBuf>,

    /// Time after which other hosts take over the sessions of this silent host; 30s with several
    /// servers, which choose a leader meanwhile
    #[arg(long, value_name = "TIME", requires = "cluster", default_value = "30s", value_parser = crate::option_value::parse_time)]
    lease_ttl: Duration,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`")?;
    if key.is_empty() || value.is_empty() {
        return Err("one side of the `=` is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

impl ClusterArgs {
    /// Returns true if the daemon must join a cluster.
    ///
    /// # Errors
    /// A folder of --storage does not exist.
    pub(super) fn is_wanted(&self) -> Result<bool, CliError> {
        let missing = |path: &String| !std::path::Path::new(path).is_dir();
        match self.storage.iter().find(|(_, path)| missing(path)) {
            Some((id, path)) if self.cluster.is_some() => Err(CliError::usage(anyhow!(
                "--storage {id}={path}: no such folder"
            ))),
            _ => Ok(self.cluster.is_some()),
        }
    }
}

#[cfg(feature = "cluster")]
pub(super) use joined::ClusterMember;

#[cfg(not(feature = "cluster"))]
pub(super) use absent::ClusterMember;

#[cfg(feature = "cluster")]
mod joined {
    use std::{path::Path, sync::Arc, time::Duration};

    use anyhow::anyhow;
    use trunkline_cluster::{
        marks::{self, Marks},
        nats::{Nats, NatsOptions},
        node::{JoinError, Node, NodeOptions},
    };
    use trunkline_gateway::{Gateway, Peers, TokenFile};
    use trunkline_host::{
        Host,
        process::{BootInstant, Deadline},
    };
    use trunkline_journal::{OpenError, Options as JournalOptions};
    use trunkline_sessions::Sessions;

    use super::ClusterArgs;
    use crate::{error::CliError, journal, reload::ConfigReload};

    /// Membership of this daemon in a cluster.
    #[derive(Debug)]
    pub(crate) struct ClusterMember {
        node: Node,
    }

    /// Returns the machine's name up to its first dot.
    fn machine_name() -> String {
        let name = rustix::system::uname();
        let name = name.nodename().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    }

    impl ClusterMember {
        /// Joins the cluster. Each renewal of the lease extends the deadline.
        ///
        /// # Errors
        /// The cluster is not reached, or refuses this host.
        pub(in super::super) async fn join(
            cluster: &ClusterArgs,
            host: &Host,
            reload: &ConfigReload,
            deadline: Deadline,
            state: &Path,
        ) -> Result<Self, CliError> {
            let name = cluster.host_id.clone().unwrap_or_else(machine_name);
            let file = state.join("cluster.json");
            let marks = Marks::load(&file).map_err(|error| {
                CliError::usage(anyhow!("failed to read {}: {error}", file.display()))
                    .next("start with an empty state folder: the cluster has the sessions")
            })?;
            let options = NatsOptions {
                servers: cluster.cluster.clone().unwrap_or_default(),
                creds: cluster.creds.clone(),
                ca: cluster.cluster_ca.clone(),
                prefix: "trunkline".to_owned(),
                host: name.clone(),
                marks: marks.clone(),
                replicas: None,
            };
            let nats = Nats::connect(&options).await.map_err(|error| {
                let next = error.next();
                CliError::usage(error).next(next)
            })?;
            let nats = Arc::new(nats);
            let options = NodeOptions {
                host: name,
                labels: cluster.label.iter().cloned().collect(),
                storage: cluster.storage.iter().map(|(id, _)| id.clone()).collect(),
                ttl: cluster.lease_ttl,
                agents: host
                    .agents()
                    .into_iter()
                    .map(|agent| agent.config.id)
                    .collect(),
                digest: reload.digest(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                marks,
            };
            let host = host.clone();
            let on_lease = Box::new(move |until: Option<BootInstant>| {
                let Some(until) = until else { return };
                let had_passed = deadline.until().has_passed_by(BootInstant::now());
                deadline.extend(until);
                if had_passed {
                    // Starts that were due meanwhile are waiting.
                    host.agents()
                        .iter()
                        .for_each(|agent| host.retry(&agent.config.id));
                }
            });
            let node = Node::join(nats.clone(), nats, options, on_lease).await.map_err(|error| {
                let next = match &error {
                    JoinError::Lost(_) => marks::NEXT,
                    JoinError::Taken(_) => {
                        "give this host a name of its own by --host-id NAME, or end the other daemon by `trunkline down`"
                    }
                    JoinError::Silent(_) => "check that the server runs and has room, and start the daemon again",
                    _ => "`trunkline up --help` describes the options of a cluster",
                };
                CliError::usage(error).next(next)
            })?;
            Ok(Self { node })
        }

        /// Opens this machine's copy of the cluster's sessions.
        ///
        /// # Errors
        /// The journal was not opened.
        pub(crate) async fn open(
            &self,
            host: Host,
            folder: &Path,
            options: JournalOptions,
        ) -> Result<Result<Sessions, OpenError>, CliError> {
            journal::open_recorded(host, folder, options, self.node.record()).await
        }

        pub(crate) fn peers(&self) -> Arc<dyn Peers> {
            Arc::new(self.node.clone())
        }

        /// Shares the tokens of this daemon's folder, which then contains the tokens of all hosts.
        ///
        /// # Errors
        /// The tokens cannot be compared.
        pub(crate) async fn share_tokens(&self, state: &Path) -> Result<(), CliError> {
            let shared = self.node.share_tokens(TokenFile::in_folder(state)).await;
            shared.map_err(|why| CliError::failed(anyhow!(why)))
        }

        /// Serves this host's sessions, and accepts connections from the other hosts.
        ///
        /// # Errors
        /// The cluster does not answer.
        pub(crate) async fn serve(
            &self,
            sessions: Sessions,
            gateway: Arc<Gateway>,
        ) -> Result<(), CliError> {
            let forward = Box::new(move |stream, who| {
                let served = gateway.serve_peer(Box::new(stream), who);
                Box::pin(served) as futures_util::future::BoxFuture<'static, ()>
            });
            self.node
                .serve(sessions, forward)
                .await
                .map_err(|why| CliError::failed(anyhow!(why)))
        }

        /// Hands sessions over to other hosts until the deadline.
        pub(crate) async fn drain(&self, deadline: Duration) {
            let drained = self.node.drain(deadline).await;
            tracing::info!(?drained, "sessions were handed over");
        }

        /// Leaves the cluster.
        pub(crate) async fn leave(self) {
            self.node.leave().await;
        }
    }
}

#[cfg(not(feature = "cluster"))]
mod absent {
    use std::{path::Path, sync::Arc, time::Duration};

    use anyhow::anyhow;
    use trunkline_gateway::{Gateway, Peers};
    use trunkline_host::{Host, process::Deadline};
    use trunkline_journal::{OpenError, Options};
    use trunkline_sessions::Sessions;

    use super::ClusterArgs;
    use crate::{error::CliError, reload::ConfigReload};

    /// Uninhabited, because this program was built without clusters.
    #[derive(Debug)]
    pub(crate) enum ClusterMember {}

    impl ClusterMember {
        pub(in super::super) async fn join(
            cluster: &ClusterArgs,
            _: &Host,
            _: &ConfigReload,
            _: Deadline,
            _: &Path,
        ) -> Result<Self, CliError> {
            let servers = cluster.cluster.as_deref().unwrap_or_default();
            Err(CliError::usage(anyhow!("this program was built without clusters, and cannot join {servers}"))
                .next(
                    "use a release, or build it with `cargo install --path runtime/cli --features cluster`",
                ))
        }

        pub(crate) async fn open(
            &self,
            _: Host,
            _: &Path,
            _: Options,
        ) -> Result<Result<Sessions, OpenError>, CliError> {
            match *self {}
        }

        pub(crate) fn peers(&self) -> Arc<dyn Peers> {
            match *self {}
        }

        pub(crate) async fn share_tokens(&self, _: &Path) -> Result<(), CliError> {
            match *self {}
        }

        pub(crate) async fn serve(&self, _: Sessions, _: Arc<Gateway>) -> Result<(), CliError> {
            match *self {}
        }

        pub(crate) async fn drain(&self, _: Duration) {
            match *self {}
        }

        pub(crate) async fn leave(self) {
            match self {}
        }
    }
}
