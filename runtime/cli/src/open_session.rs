//! The session of a command: a new or a stored one, at the host of its journal or at a host in this
//! process.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use trunkline_client::Client;
use trunkline_host::{
    Host,
    config::{AgentConfig, StopSteps},
    protocol::{ListedSession, Resume, SessionEntry, SessionId, SessionStart, SessionState},
};

use crate::{
    command::{must_be_here, time_ago},
    daemon::DaemonFolder,
    error::{CliError, CommandResult},
    interrupt::InterruptSignals,
    journal::{self, HostTask},
    listing,
    overrides::AgentOverrides,
    session_backend::{AttachMode, SessionBackend},
    target::{self, AgentTarget, ChosenHost, print_notices},
};

/// A session that a command has opened or attached.
pub(crate) struct OpenSession {
    pub(crate) session: SessionBackend,
    own: Option<OwnHost>,
    /// Configuration of the agent, if this process has it.
    pub(crate) agent: Option<AgentConfig>,
    /// Options that the session was opened with.
    pub(crate) start: SessionStart,
    /// True if this command has opened the session.
    pub(crate) is_new: bool,
    /// True if the command could have allowed a tool by `--allow`.
    pub(crate) takes_allow: bool,
}

/// A host in this process that serves the session.
struct OwnHost {
    host: Host,
    holder: HostTask,
}

/// State of a session after its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetachMode {
    /// The session continues as it is, if it is stored.
    Leave,
    /// Own turns are stopped, and the agent's session is closed; the next input resumes it.
    Release,
    /// The session is closed.
    Close,
}

impl OpenSession {
    /// Takes a session that the daemon has opened for an agent that is configured equally here.
    pub(crate) fn in_daemon(
        session: SessionBackend,
        agent: AgentConfig,
        start: SessionStart,
    ) -> Self {
        Self {
            session,
            own: None,
            agent: Some(agent),
            start,
            is_new: true,
            // With `--allow` the command runs the agent itself.
            takes_allow: true,
        }
    }

    /// Opens a session of a host in this process, without a journal.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) async fn without_journal(
        chosen: ChosenHost,
        start: SessionStart,
        prefix: &str,
    ) -> Result<Self, CliError> {
        let (session, holder) = chosen.open_session(prefix, start.clone()).await?;
        Self::new(Ok(session), Some((holder, chosen)), start, true).await
    }

    /// Takes an opened session with its host. If it was not opened, the host in this process ends. An
    /// error of that host has precedence.
    async fn new(
        opened: Result<SessionBackend, CliError>,
        own: Option<(HostTask, ChosenHost)>,
        start: SessionStart,
        is_new: bool,
    ) -> Result<Self, CliError> {
        let (own, agent) = own
            .map(|(holder, chosen)| {
                let host = chosen.host;
                (OwnHost { host, holder }, chosen.agent)
            })
            .unzip();
        match (opened, own) {
            (Ok(session), own) => Ok(Self {
                session,
                takes_allow: own.is_some(),
                own,
                agent,
                start,
                is_new,
            }),
            (Err(error), Some(own)) => {
                own.holder.end(&mut InterruptSignals::watch()?).await?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the host in this process, if it serves the session.
    pub(crate) fn own_host(&self) -> Option<&Host> {
        self.own.as_ref().map(|own| &own.host)
    }

    /// Parts from the session, and ends the host in this process, within `steps` if they are given.
    /// Returns the failure of that host, otherwise `done`.
    pub(crate) async fn end(
        self,
        mode: DetachMode,
        steps: Option<StopSteps>,
        done: CommandResult,
        interrupts: &mut InterruptSignals,
    ) -> CommandResult {
        if let (Some(own), Some(_)) = (&self.own, steps) {
            shut_down(&own.host, steps, interrupts).await;
        }
        match mode {
            DetachMode::Leave => self.session.leave().await,
            DetachMode::Release => self.session.release().await,
            DetachMode::Close => self.session.close().await,
        }
        match self.own {
            Some(own) => own.holder.end(interrupts).await.and(done),
            None => done,
        }
    }
}

/// Ends the adapters of a host; an interrupt skips the wait.
pub(crate) async fn shut_down(
    host: &Host,
    steps: Option<StopSteps>,
    interrupts: &mut InterruptSignals,
) {
    tokio::select! {
        () = host.shutdown_within(steps) => {}
        // Remaining processes end with this one.
        _ = interrupts.next() => {}
    }
}

/// Journal of a command, and the agent with which this process serves it if no other host does.
pub(crate) struct JournalAccess {
    pub(crate) folder: PathBuf,
    pub(crate) target: AgentTarget,
    overrides: AgentOverrides,
    /// True if the command has the options of the agent.
    has_agent_options: bool,
    /// True if the session was found by the working folder, which then changes nothing.
    is_found_by_folder: bool,
}

/// Client of the host that has the journal, the host in this process if it is that one, and the
/// options of a new session.
type ReachedHost = (Client, Option<(HostTask, ChosenHost)>, SessionStart);

impl JournalAccess {
    /// Creates the access of a command, with the options of the agent if the command has them.
    pub(crate) fn new(
        folder: PathBuf,
        target: AgentTarget,
        overrides: Option<AgentOverrides>,
    ) -> Self {
        Self {
            folder,
            target,
            has_agent_options: overrides.is_some(),
            overrides: overrides.unwrap_or_default(),
            is_found_by_folder: false,
        }
    }

    /// Opens a session whose id starts with `prefix`. It resumes a conversation of the agent if one
    /// is named.
    ///
    /// # Errors
    /// There is no host, or it refuses.
    pub(crate) async fn open(
        &self,
        prefix: &str,
        resume: Option<Resume>,
        config: Option<&Path>,
    ) -> Result<OpenSession, CliError> {
        let (client, own, mut start) = self.connect_or_serve(config).await?;
        start.resume = resume;
        let agent = match &own {
            Some((_, chosen)) => Some(chosen.agent.id.clone()),
            None => self.target.named_agent(),
        };
        let opened = SessionBackend::open(client, prefix, agent, start.clone()).await;
        OpenSession::new(opened, own, start, true).await
    }

    /// Attaches to a session.
    ///
    /// # Errors
    /// The command line names another agent or an option that cannot be changed, there is no host, or
    /// it refuses.
    pub(crate) async fn attach(
        mut self,
        id: &str,
        mode: AttachMode,
        config: Option<&Path>,
    ) -> Result<OpenSession, CliError> {
        let id = self.choose_agent_of(id)?;
        let (client, own, start) = self.connect_or_serve(config).await?;
        let mut options = start.options();
        let attached = match options.find(|option| !self.is_found_by_folder || *option != "cwd") {
            Some(option) => Err(CliError::usage(anyhow!(
                "`{option}` cannot be changed: it was set when the session was opened"
            ))
            .next("omit the option; /model and /mode of a chat change a live session")),
            None => SessionBackend::attach(client, &id, mode).await,
        };
        let open = OpenSession::new(attached, own, start, false).await?;
        Ok(OpenSession {
            takes_allow: open.takes_allow && self.has_agent_options,
            ..open
        })
    }

    /// Returns the id of the last active session of the folder in which the agent would work: of the
    /// named agent, or of any. A note has the session and its agent.
    ///
    /// # Errors
    /// The journal has none, or cannot be listed.
    pub(crate) async fn find_newest(&mut self, config: Option<&Path>) -> Result<String, CliError> {
        let config = target::read(config, target::UNCHECKED)?;
        let current = std::env::current_dir()?;
        let here = self.overrides.cwd();
        let here = here.map_or_else(|| current.clone(), |folder| current.join(folder));
        // A session without a folder works in the folder of its host.
        let daemon =
            DaemonFolder::of_journal(&self.folder).and_then(|daemon| daemon.running().ok());
        let host_folder = daemon.map_or_else(|| here.clone(), |running| running.folder);
        let works_here = |session: &ListedSession| {
            let agent = config.agent(&session.agent_id);
            let work_dir = agent.map_or(Path::new(""), |agent| &agent.command.work_dir);
            let named = session.cwd.as_ref().map(PathBuf::from);
            let works_in = named.unwrap_or_else(|| host_folder.join(work_dir));
            works_in.canonicalize().ok() == here.join(work_dir).canonicalize().ok()
        };
        let agent = match &self.target.adapter {
            Some(line) => Some(target::parse_adapter_line(line)?.id),
            None => self.target.named_agent(),
        };
        let newest = listing::list_newest(&self.folder, agent.clone()).await?;
        let mut open = newest
            .into_iter()
            .filter(|session| session.state != Some(SessionState::Closed));
        self.is_found_by_folder = true;
        let found = open.find(works_here).ok_or_else(|| {
            let of_agent = agent.as_ref().map(|agent| format!(" of the agent {agent}"));
            let of_agent = of_agent.unwrap_or_default();
            let missing = anyhow!("no stored session{of_agent} works in {}", here.display());
            CliError::usage(missing).next(
                "omit --continue to begin one; `trunkline sessions` lists the sessions, and --session ID continues any",
            )
        })?;
        let id = found.session_id;
        let owner = &found.agent_id;
        let active = found.active.as_deref().map(time_ago).unwrap_or_default();
        let mut note = format!("continues {id} of the agent {owner}, last active {active}");
        let default = config.first_choice().map(|agent| &agent.id);
        if let Some(default) = default.filter(|default| agent.is_none() && *default != owner) {
            note = format!("{note}; --agent {default} selects a session of the default agent");
        }
        print_notices(&[note]);
        Ok(id)
    }

    /// Selects the session's agent if the command line names no adapter.
    ///
    /// # Errors
    /// The journal has no such session, or the session has another agent than the command line
    /// names.
    fn choose_agent_of(&mut self, id: &str) -> Result<SessionId, CliError> {
        let id = SessionId::new(id).map_err(CliError::usage)?;
        let known = tokio::task::block_in_place(|| {
            let found = journal::open_archive(&self.folder)?.show(&id);
            found.map_err(|error| CliError::failed(anyhow!(error)))
        })?;
        let Some(known) = known else {
            if journal::has_host(&self.folder) {
                // Only the daemon can decide: another host of its cluster may have the session.
                return Ok(id);
            }
            return Err(journal::no_session(id.as_str(), &self.folder));
        };
        let owner = known.agent_id;
        match &self.target.agent {
            Some(agent) if *agent != owner => {
                let id = id.as_str();
                let other = anyhow!("session {id:?} belongs to the agent {owner}, not to {agent}");
                return Err(CliError::usage(other).next("omit --agent"));
            }
            _ if self.target.adapter.is_none() => self.target.agent = Some(owner),
            _ => {}
        }
        Ok(id)
    }

    /// Selects the agent of a stored conversation, and the folder of the conversation unless the
    /// command line names one, because an agent finds a conversation only in its folder. Returns
    /// the id of the conversation.
    pub(crate) fn choose_conversation(&mut self, entry: SessionEntry) -> String {
        if self.target.adapter.is_none() {
            self.target.agent = entry.agent_id;
        }
        let folder = entry.cwd.map(PathBuf::from);
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            self.overrides.work_in(folder);
        }
        entry.native_session_id
    }

    /// Connects to the host of the journal, which is this process if there is no other.
    async fn connect_or_serve(&self, config: Option<&Path>) -> Result<ReachedHost, CliError> {
        let mut own = None;
        let (client, holder) = journal::connect_or_serve(&self.folder, || {
            let (chosen, start) = self.target.host_for(config, &self.overrides)?;
            must_be_here(&chosen)?;
            let host = (chosen.host.clone(), chosen.journal.clone());
            own = Some((chosen, start));
            Ok(host)
        })
        .await?;
        if let (Some(holder), Some((chosen, start))) = (holder, own) {
            return Ok((client, Some((holder, chosen)), start));
        }
        if let Some(option) = self.target.own_host_option() {
            return Err(CliError::usage(anyhow!(
                "another process serves the journal {}, so {option} has no effect",
                self.folder.display()
            ))
            .next(format!(
                "omit {option} to use an agent of that process, or name another --journal"
            )));
        }
        Ok((client, None, self.overrides.session_start()?))
    }
}
