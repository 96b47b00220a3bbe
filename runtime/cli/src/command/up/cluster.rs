//! `trunkline up --cluster`: this daemon is one of several, whose sessions outlive each of them.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::Args;

use crate::error::CliError;

/// A cluster of daemons, over NATS.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct Cluster {
    /// Joins the daemons at a NATS server with JetStream: any of them then reaches any session, and the others go on with
    /// those of one that ends. Several servers with commas; tls:// encrypts
    #[arg(long, value_name = "nats://HOST:PORT")]
    cluster: Option<String>,

    /// The name of this host among the others, the same after each start [default: the machine's name]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    host_id: Option<String>,

    /// What you call this host, as `trunkline daemon status` shows it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "cluster", value_parser = pair)]
    label: Vec<(String, String)>,

    /// The files of this host's sessions are at PATH, which other hosts name by the same ID where they have it, too; may be
    /// repeated. A session then goes only where its files are. Without it a session may go on at any host
    #[arg(long, value_name = "ID=PATH", requires = "cluster", value_parser = pair)]
    storage: Vec<(String, String)>,

    /// A credentials file for the server, or one with the seed of an NKey
    #[arg(long, value_name = "FILE", requires = "cluster")]
    creds: Option<PathBuf>,

    /// The certificates, in PEM, of the authority that the server's certificate is of [default: those of this machine]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    cluster_ca: Option<PathBuf>,

    /// How long the others wait for this host when it is silent. With several servers 30s; they choose a leader meanwhile
    #[arg(long, value_name = "TIME", requires = "cluster", default_value = "30s", value_parser = crate::option_value::parse_time)]
    lease_ttl: Duration,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`")?;
    match key.is_empty() || value.is_empty() {
        true => Err("one side of the `=` is empty".to_owned()),
        false => Ok((key.to_owned(), value.to_owned())),
    }
}

/// What a daemon is in a cluster before it joins.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, reason = "nothing joins a cluster without it")
)]
pub(super) struct Wanted {
    servers: String,
    host: String,
    labels: BTreeMap<String, String>,
    storage: Vec<String>,
    creds: Option<PathBuf>,
    ca: Option<PathBuf>,
    ttl: Duration,
}

impl Cluster {
    /// What is wanted; `None`: no cluster.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn wanted(&self) -> Result<Option<Wanted>, CliError> {
        let Some(servers) = self.cluster.clone() else {
            return Ok(None);
        };
        for (id, path) in &self.storage {
            if !std::path::Path::new(path).is_dir() {
                return Err(CliError::usage(anyhow::anyhow!(
                    "--storage {id}={path}: there is no folder {path}"
                )));
            }
        }
        let host = self.host_id.clone().unwrap_or_else(machine);
        Ok(Some(Wanted {
            servers,
            host,
            labels: self.label.iter().cloned().collect(),
            storage: self.storage.iter().map(|(id, _)| id.clone()).collect(),
            creds: self.creds.clone(),
            ca: self.cluster_ca.clone(),
            ttl: self.lease_ttl,
        }))
    }
}

/// The machine's name, up to its first dot.
fn machine() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(feature = "cluster")]
pub(super) use joined::Joined;

#[cfg(not(feature = "cluster"))]
pub(super) use absent::Joined;

#[cfg(feature = "cluster")]
mod joined {
    use std::{path::Path, sync::Arc, time::Duration};

    use anyhow::anyhow;
    use trunkline_cluster::{
        marks::{self, Marks},
        nats::{Nats, Options as NatsOptions},
        node::{JoinError, Node, Options},
    };
    use trunkline_gateway::{Gateway, Peers, TokenFile};
    use trunkline_host::{
        Host,
        process::{BootInstant, Deadline},
    };
    use trunkline_journal::{OpenError, Options as JournalOptions};
    use trunkline_sessions::Sessions;

    use super::Wanted;
    use crate::{error::CliError, journal, reload::Reload};

    /// A daemon that is one of several.
    #[derive(Debug)]
    pub(crate) struct Joined {
        node: Node,
    }

    impl Joined {
        /// Joins the cluster. The deadline is put off with each renewal of the lease.
        ///
        /// # Errors
        /// Why it does not.
        pub(crate) async fn join(
            wanted: Wanted,
            host: &Host,
            reload: &Reload,
            deadline: Deadline,
            state: &Path,
        ) -> Result<Self, CliError> {
            let Wanted {
                servers,
                host: name,
                labels,
                storage,
                creds,
                ca,
                ttl,
            } = wanted;
            let file = state.join("cluster.json");
            let marks = Marks::of(&file).map_err(|error| {
                CliError::usage(anyhow!("failed to read {}: {error}", file.display()))
                    .next("start with an empty state folder: the cluster has the sessions")
            })?;
            let options = NatsOptions {
                servers,
                creds,
                ca,
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
            let options = Options {
                host: name,
                labels,
                storage,
                ttl,
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
                    // What was to start meanwhile waits.
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
                    JoinError::Silent(_) => "look whether the server runs and has room, and start the daemon again",
                    _ => "`trunkline up --help` says what these may be",
                };
                CliError::usage(error).next(next)
            })?;
            Ok(Self { node })
        }

        /// Opens this machine's copy of the cluster's sessions.
        ///
        /// # Errors
        /// Why it was not opened.
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

        /// Shares the tokens of this daemon's folder, which from then on has those of all hosts.
        ///
        /// # Errors
        /// When they cannot be compared.
        pub(crate) async fn share_tokens(&self, state: &Path) -> Result<(), CliError> {
            let shared = self.node.share_tokens(TokenFile::in_folder(state)).await;
            shared.map_err(|why| CliError::failed(anyhow!(why)))
        }

        /// Serves the sessions that this host has, and takes the connections of the other hosts.
        ///
        /// # Errors
        /// When the cluster does not answer.
        pub(crate) async fn serve(
            &self,
            sessions: Sessions,
            gateway: Arc<Gateway>,
        ) -> Result<(), CliError> {
            let door = Box::new(move |stream, who| {
                let served = gateway.serve_peer(Box::new(stream), who);
                Box::pin(served) as futures_util::future::BoxFuture<'static, ()>
            });
            self.node
                .serve(sessions, door)
                .await
                .map_err(|why| CliError::failed(anyhow!(why)))
        }

        /// Hands its sessions to others as far as that can be done in time.
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

    use super::Wanted;
    use crate::{error::CliError, reload::Reload};

    /// There is none: this program was built without clusters.
    #[derive(Debug)]
    pub(crate) enum Joined {}

    impl Joined {
        pub(crate) async fn join(
            wanted: Wanted,
            _: &Host,
            _: &Reload,
            _: Deadline,
            _: &Path,
        ) -> Result<Self, CliError> {
            let Wanted { servers, .. } = wanted;
            Err(CliError::usage(anyhow!("this program was built without clusters, and cannot join {servers}"))
                .next(
                    "take a release, or build it with `cargo install --path runtime/cli --features cluster`",
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
