//! The configuration of a host that runs, read again: the host gets the agents that are in it now.

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
    daemon::{Folder, Running, launch::DaemonLaunch},
    error::CliError,
    target::{self, Chosen, MODEL, Processes, Target, is_set},
};

/// What a configuration is read again with, and for whom.
#[derive(Debug)]
pub(crate) struct Reload {
    target: Target,
    also: Vec<String>,
    may: SessionMay,
    processes: Processes,
    file: Option<PathBuf>,
    host: Host,
    /// The configuration that the host was made of.
    began_with: Config,
    /// What tells whether another configuration is the same as the one that is in force. Held while
    /// it is read, so that what was read last is what counts.
    effective: Mutex<Option<String>>,
    /// Where a daemon notes that for commands.
    note: OnceLock<(Folder, Running)>,
    /// A daemon's certificate, which is read again beside.
    tls: OnceLock<Tls>,
    /// A daemon's webhooks.
    webhooks: OnceLock<Webhooks>,
}

impl Reload {
    /// Makes a host, and what reads its configuration again.
    ///
    /// # Errors
    /// As [`Target::config_beside`] and [`Target::host_of`].
    pub(crate) fn begin(
        target: &Target,
        file: Option<&Path>,
        also: &[String],
        may: SessionMay,
        processes: Processes,
        deadline: Option<Deadline>,
    ) -> Result<(Chosen, Arc<Self>), CliError> {
        let (config, agent, effective) = target.config_beside(file, also, &may, processes)?;
        let chosen = target.host_of(config.clone(), agent, deadline)?;
        let reload = Self {
            target: target.clone(),
            also: also.to_owned(),
            may,
            processes,
            file: file.map(Path::to_owned),
            host: chosen.host.clone(),
            began_with: config,
            effective: Mutex::new(effective),
            note: OnceLock::new(),
            tls: OnceLock::new(),
            webhooks: OnceLock::new(),
        };
        Ok((chosen, Arc::new(reload)))
    }

    fn effective(&self) -> MutexGuard<'_, Option<String>> {
        self.effective
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells whether another host has the same configuration.
    #[cfg(feature = "cluster")]
    pub(crate) fn digest(&self) -> String {
        let effective = self.effective().clone();
        let text = effective.unwrap_or_else(|| format!("{:?}", self.began_with.agents));
        crate::daemon::hex_digest(&text, 16)
    }

    /// Notes a daemon in its folder, with its configuration: now, and again when that changes. Blocks.
    ///
    /// # Errors
    /// When it cannot be written now.
    pub(crate) fn note(&self, folder: Folder, running: Running) -> io::Result<()> {
        let effective = self.effective();
        let (folder, running) = self.note.get_or_init(|| (folder, running));
        folder.note(&Running {
            configuration: effective.clone(),
            ..running.clone()
        })
    }

    /// The configuration file that only a variable or the user's folder leads to.
    pub(crate) fn configuration_to_name(&self) -> Option<PathBuf> {
        match &self.began_with.source {
            Source::Environment(path) | Source::UserDirectory(path) => {
                std::path::absolute(path).ok()
            }
            _ => None,
        }
    }

    /// The default agent that the command line or the environment names.
    pub(crate) fn named_agent(&self) -> Option<String> {
        self.target.named()
    }

    /// Names of the variables that this process has and the agents of its configuration use.
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

    /// Has a certificate read again beside the configuration.
    pub(crate) fn also_tls(&self, tls: Tls) {
        // There is one at most.
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

    /// Reads it again, and says what came of it. Blocks.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub(crate) fn once(&self) -> Result<String, CliError> {
        let mut in_force = self.effective();
        // First, so that a configuration that is wrong does not let a certificate run out.
        self.tls
            .get()
            .map_or(Ok(()), Tls::reload)
            .map_err(CliError::usage)?;
        self.check_file()?;
        let (config, _, effective) = self.target.config_beside(
            self.file.as_deref(),
            &self.also,
            &self.may,
            self.processes,
        )?;
        if config.source != self.began_with.source {
            let (before, now) = (&self.began_with.source, &config.source);
            return Err(CliError::usage(anyhow!(
                "the configuration was read from {before} at the start, and would now be read from {now}; to use the new one, start the host again: `trunkline down`, `trunkline up`"
            )));
        }
        let fixed = fixed(&self.began_with, &config);
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
                .note(&Running {
                    configuration: in_force.clone(),
                    ..running.clone()
                })
                .and_then(|()| note_variables(folder, variables))
        {
            tracing::warn!(
                "{} has the configuration of before: {error}",
                folder.0.display()
            );
        }
        let mut said = "the configuration was read again: ".to_owned();
        if changes.is_empty() {
            said.push_str("its agents are as before");
        } else {
            let kinds = [
                ("added", &changes.added),
                ("changed", &changes.changed),
                ("removed", &changes.removed),
            ];
            for (what, ids) in kinds.into_iter().filter(|(_, ids)| !ids.is_empty()) {
                said = format!("{said}{what} {}; ", ids.join(", "));
            }
            said.push_str("open sessions keep the agents that they have");
        }
        if !fixed.is_empty() {
            said = format!(
                "{said}; not changed before the next start: {}",
                fixed.join(", ")
            );
        }
        Ok(changes
            .notices
            .into_iter()
            .fold(said, |said, notice| format!("{said}; {notice}")))
    }

    /// Reads it again at each signal, and tells the log what came of it. Signals that come
    /// meanwhile count as one.
    ///
    /// # Cancel safety
    /// A reading that has begun goes on, and changes the host's agents or not.
    pub(crate) async fn at_each(self: Arc<Self>, mut signals: Signal) -> Infallible {
        loop {
            if signals.recv().await.is_none() {
                // No signal comes any more.
                std::future::pending::<()>().await;
            }
            let own = self.clone();
            let tell = move || match own.once() {
                Ok(said) => tracing::info!("{said}"),
                Err(fault) => {
                    tracing::error!(
                        "the configuration is not taken, and that of before stays: {}",
                        fault.text()
                    );
                }
            };
            // What panics has said so.
            let _ = spawn_blocking(tell).await;
        }
    }
}

/// Names of the variables that this process has and the agents of a configuration use.
fn used_variables(config: &Config) -> Vec<String> {
    let mut agents = config.agents.clone();
    agents.iter_mut().for_each(target::list_variables);
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

fn note_variables(folder: &Folder, variables: Vec<String>) -> io::Result<()> {
    match DaemonLaunch::read(folder)? {
        Some(launch) => DaemonLaunch {
            variables,
            ..launch
        }
        .write(folder),
        None => Ok(()),
    }
}

/// The keys of `runtime` that differ, and that a host takes at its start alone.
fn fixed(before: &Config, now: &Config) -> Vec<&'static str> {
    let keys = [
        ("state_dir", before.state_dir != now.state_dir),
        ("spool_dir", before.spool_dir != now.spool_dir),
        ("usage_log", before.usage_log != now.usage_log),
        ("wire_log", before.wire_log != now.wire_log),
        (
            "wire_log_content",
            before.wire_log_content != now.wire_log_content,
        ),
        (
            "wire_log_bytes",
            before.wire_log_bytes != now.wire_log_bytes,
        ),
        ("journal", before.journal != now.journal),
        ("journal_sync", before.journal_sync != now.journal_sync),
        (
            "journal_max_age, journal_max_bytes, journal_max_sessions",
            before.journal_limits != now.journal_limits,
        ),
        (
            "mailbox, mailboxes, backlog, spool, spools, session_files, host_files",
            before.buffers != now.buffers,
        ),
    ];
    keys.into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(key, _)| key)
        .collect()
}
