//! Reloads the configuration of a running host, which gets the agents of the new configuration.

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use anyhow::anyhow;
use tokio::{signal::unix::Signal, task::spawn_blocking};
use trunkline_gateway::{Tls, Webhooks};
use trunkline_host::{
    Host, ReconfigureError,
    config::{Config, SessionMay, Source},
    process::Deadline,
};

use crate::{
    daemon::{DaemonFolder, RunningDaemon, launch::DaemonLaunch},
    error::CliError,
    target::{self, AgentTarget, ChosenHost, EffectiveConfig, HostUse, MODEL, is_set},
};

/// Inputs of a reload, and the host to change.
#[derive(Debug)]
pub(crate) struct ConfigReload {
    target: AgentTarget,
    also: Vec<String>,
    may: SessionMay,
    host_use: HostUse,
    file: Option<PathBuf>,
    host: Host,
    /// Configuration of the host at its start.
    began_with: Config,
    /// Agents that a configuration or the command line names; `None` for all.
    named: Option<Vec<String>>,
    /// Configuration in force, if another host can have it. Locked during a reload, so that the last
    /// reload is the one in force.
    effective: Mutex<Option<EffectiveConfig>>,
    /// Record of the daemon for commands.
    note: OnceLock<(DaemonFolder, RunningDaemon)>,
    /// Certificate of a daemon, which is reloaded together with the configuration.
    tls: OnceLock<Tls>,
    /// A daemon's webhooks.
    webhooks: OnceLock<Webhooks>,
}

impl ConfigReload {
    /// Creates a host, and the reload of its configuration.
    ///
    /// # Errors
    /// As for [`AgentTarget::config_with_adapters`] and [`AgentTarget::host_of`].
    pub(crate) fn begin(
        target: &AgentTarget,
        file: Option<&Path>,
        also: &[String],
        may: SessionMay,
        host_use: HostUse,
        deadline: Option<Deadline>,
    ) -> Result<(ChosenHost, Arc<Self>), CliError> {
        let begun = target.config_with_adapters(file, also, &may, host_use)?;
        let chosen = target.host_of(begun.config.clone(), begun.agent, deadline)?;
        let reload = Self {
            target: target.clone(),
            also: also.to_owned(),
            may,
            host_use,
            file: file.map(Path::to_owned),
            host: chosen.host.clone(),
            began_with: begun.config,
            named: begun.named,
            effective: Mutex::new(begun.effective),
            note: OnceLock::new(),
            tls: OnceLock::new(),
            webhooks: OnceLock::new(),
        };
        Ok((chosen, Arc::new(reload)))
    }

    fn effective(&self) -> MutexGuard<'_, Option<EffectiveConfig>> {
        self.effective
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a text that differs between different configurations.
    #[cfg(feature = "cluster")]
    pub(crate) fn digest(&self) -> String {
        let text = match &*self.effective() {
            Some(effective) => format!("{effective:?}"),
            None => format!("{:?}", self.began_with.agents),
        };
        crate::daemon::hex_digest(&text, 16)
    }

    /// Records the daemon in its folder, with its configuration, and again when the configuration
    /// changes. Blocks.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(crate) fn note(&self, folder: DaemonFolder, running: RunningDaemon) -> io::Result<()> {
        let effective = self.effective();
        let (folder, running) = self.note.get_or_init(|| (folder, running));
        folder.note(&RunningDaemon {
            effective: effective.clone(),
            ..running.clone()
        })
    }

    /// Returns the source of the configuration.
    pub(crate) fn source(&self) -> &Source {
        &self.began_with.source
    }

    /// Returns the agents that a configuration or the command line names; `None` for all. It is the
    /// same after each reload, because a configuration from another source needs a restart.
    pub(crate) fn named_agents(&self) -> Option<&Vec<String>> {
        self.named.as_ref()
    }

    /// Returns the configuration file if only a variable or the user's folder leads to it.
    pub(crate) fn unnamed_config_file(&self) -> Option<PathBuf> {
        match &self.began_with.source {
            Source::Environment(path) | Source::UserDirectory(path) => {
                std::path::absolute(path).ok()
            }
            _ => None,
        }
    }

    /// Returns the default agent that the command line or the environment names.
    pub(crate) fn named_agent(&self) -> Option<String> {
        self.target.named_agent()
    }

    /// Returns the names of the variables that this process has and the agents of its configuration
    /// use.
    pub(crate) fn used_variables(&self) -> Vec<String> {
        used_variables(&self.began_with)
    }

    /// Returns the webhooks of the configuration, which are replaced when it is read again. Blocks.
    ///
    /// # Errors
    /// The reason that one cannot be used.
    pub(crate) fn webhooks(&self) -> Result<Webhooks, CliError> {
        let webhooks = self.webhooks.get_or_init(Webhooks::default).clone();
        let prepared = webhooks.prepare(&self.began_with.webhooks);
        webhooks.replace(prepared.map_err(|error| CliError::usage(anyhow!(error)))?);
        Ok(webhooks)
    }

    /// Adds a certificate to the reload.
    pub(crate) fn add_tls(&self, tls: Tls) {
        // There is at most one.
        let _ = self.tls.set(tls);
    }

    /// Refuses a pipe as the configuration, which would be read without end.
    fn check_file(&self) -> Result<(), CliError> {
        let path = self.began_with.source.path();
        let is_file = |path: &Path| path.metadata().map_or(true, |found| found.is_file());
        match path.filter(|path| !is_file(path)) {
            None => Ok(()),
            Some(path) => Err(CliError::usage(anyhow!(
                "the configuration {} is not a regular file, so it cannot be read again; start the host again to use another one",
                path.display()
            ))),
        }
    }

    /// Reloads the configuration, logs the result, and returns it. Blocks.
    ///
    /// # Errors
    /// Nothing has changed, for this reason.
    pub(crate) fn reload_config(&self) -> Result<String, CliError> {
        let reloaded = self.try_reload();
        match &reloaded {
            Ok(report) => tracing::info!("{report}"),
            Err(error) => tracing::error!(
                "the configuration was rejected, and the previous one stays in force: {}",
                error.text()
            ),
        }
        reloaded
    }

    fn try_reload(&self) -> Result<String, CliError> {
        let mut in_force = self.effective();
        // First, so that an invalid configuration does not let a certificate expire.
        self.tls
            .get()
            .map_or(Ok(()), Tls::reload)
            .map_err(CliError::usage)?;
        self.check_file()?;
        let file = self.file.as_deref();
        let target::HostConfig {
            config, effective, ..
        } = self
            .target
            .config_with_adapters(file, &self.also, &self.may, self.host_use)?;
        if config.source != self.began_with.source {
            let before = &self.began_with.source;
            let now = &config.source;
            return Err(CliError::usage(anyhow!(
                "the configuration was read from {before} at the start, and would now be read from {now}; restart the host to use the new one: `trunkline down`, `trunkline up`"
            )));
        }
        let fixed = restart_only_keys(&self.began_with, &config);
        let variables = used_variables(&config);
        let webhooks = self.webhooks.get();
        let prepared = webhooks.map(|webhooks| webhooks.prepare(&config.webhooks));
        let prepared = prepared
            .transpose()
            .map_err(|error| CliError::usage(anyhow!(error)))?;
        let changes =
            self.host
                .reconfigure(target::builder(config))
                .map_err(|error| match error {
                    ReconfigureError::Policy(_) => CliError::usage(error),
                    error => CliError::failed(error),
                })?;
        webhooks
            .zip(prepared)
            .into_iter()
            .for_each(|(webhooks, prepared)| webhooks.replace(prepared));
        *in_force = effective;
        if let Some((folder, running)) = self.note.get()
            && let Err(error) = folder
                .note(&RunningDaemon {
                    effective: in_force.clone(),
                    ..running.clone()
                })
                .and_then(|()| record_variables(folder, variables))
        {
            tracing::warn!(
                "{} records the previous configuration: {error}",
                folder.0.display()
            );
        }
        let mut report = "the configuration was reloaded: ".to_owned();
        if changes.is_empty() {
            report.push_str("its agents are unchanged");
        } else {
            let kinds = [
                ("added", &changes.added),
                ("changed", &changes.changed),
                ("removed", &changes.removed),
            ];
            for (what, ids) in kinds.into_iter().filter(|(_, ids)| !ids.is_empty()) {
                report = format!("{report}{what} {}; ", ids.join(", "));
            }
            report.push_str("open sessions keep their agents");
        }
        if !fixed.is_empty() {
            report = format!("{report}; changes after a restart: {}", fixed.join(", "));
        }
        Ok(changes
            .notices
            .into_iter()
            .fold(report, |report, notice| format!("{report}; {notice}")))
    }

    /// Reloads the configuration at each signal. Signals during a reload count
    /// as one.
    ///
    /// # Cancel safety
    /// A started reload completes.
    pub(crate) async fn reload_at_signals(self: Arc<Self>, mut signals: Signal) -> Infallible {
        loop {
            if signals.recv().await.is_none() {
                // No further signals can arrive.
                std::future::pending::<()>().await;
            }
            let own = self.clone();
            // Errors are logged, and a panic was already reported.
            let _ = spawn_blocking(move || own.reload_config()).await;
        }
    }
}

/// Returns the names of the variables that this process has and the agents of a configuration use.
fn used_variables(config: &Config) -> Vec<String> {
    let mut agents = config.agents.clone();
    agents.iter_mut().for_each(target::complete_entry);
    let mut names: Vec<_> = agents
        .into_iter()
        .flat_map(|agent| agent.env_passthrough.into_iter().chain(agent.credentials))
        .chain([MODEL.to_owned()])
        .filter(|name| is_set(name))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn record_variables(folder: &DaemonFolder, variables: Vec<String>) -> io::Result<()> {
    match DaemonLaunch::read(folder)? {
        Some(launch) => DaemonLaunch {
            variables,
            ..launch
        }
        .write(folder),
        None => Ok(()),
    }
}

/// Returns the changed keys of `runtime` that a host reads only at its start.
fn restart_only_keys(before: &Config, now: &Config) -> Vec<&'static str> {
    macro_rules! compare {
        ($prefix:literal, $before:expr, $now:expr, $($key:ident)*) => {
            [$((concat!($prefix, stringify!($key)), $before.$key != $now.$key)),*]
        };
    }
    let keys = compare!(
        "", before, now,
        state_dir spool_dir usage_log wire_log wire_log_content wire_log_bytes journal journal_sync
    );
    let limits = compare!(
        "journal_", before.journal_limits, now.journal_limits, max_age max_bytes max_sessions
    );
    let buffers = compare!(
        "", before.buffers, now.buffers,
        mailbox mailboxes backlog spool spools session_files host_files
    );
    let all = keys.into_iter().chain(limits).chain(buffers);
    all.filter(|(_, is_changed)| *is_changed)
        .map(|(key, _)| key)
        .collect()
}
