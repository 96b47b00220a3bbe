//! Conversation in a journal: a new one, or one that is continued.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use trunkline_client::Client;
use trunkline_host::protocol::{Resume, SessionEntry, SessionId, SessionStart};

use super::Talk;
use crate::{
    command::doctor::installed::must_be_here,
    error::{CliError, CommandResult},
    interrupt::Interrupts,
    journal::{self, Holder},
    matching_daemon::DaemonSession,
    overrides::Overrides,
    screen::Screen,
    session_backend::{AttachMode, SessionBackend},
    target::{Chosen, Target},
    terminal::Settings,
};

/// Journal of a conversation, and the agent with which this process serves it if no other host
/// does.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) target: Target,
    pub(crate) overrides: Overrides,
    /// Command that returns to the session, without its id. `None` if the command must name the
    /// folder.
    pub(crate) again: Option<&'static str>,
}

/// Command that returns to a session of the daemon.
pub(super) const RESUME: &str = "trunkline chat --resume";

/// Connection to the host that has the journal.
pub(crate) struct Reached {
    pub(crate) client: Client,
    /// Host in this process, if this process is the host.
    pub(crate) own: Option<(Holder, Chosen)>,
    /// Options of a new session.
    start: SessionStart,
}

impl Place {
    /// Starts a conversation.
    pub(super) async fn begin(
        self,
        config: Option<&Path>,
        screen: Screen,
        save: Option<PathBuf>,
        native: Option<String>,
    ) -> CommandResult {
        let Reached {
            client,
            own,
            mut start,
        } = self.reach(config).await?;
        start.resume = native.map(|native| Resume {
            native_session_id: Some(native),
            history: Some(true),
            ..Resume::default()
        });
        let agent = match &own {
            Some((_, chosen)) => Some(chosen.agent.id.clone()),
            None => self.target.named(),
        };
        let mut interrupts = Interrupts::watch()?;
        let session = SessionBackend::open(client, "chat", agent, start.clone()).await;
        let (holder, chosen) = own.unzip();
        let session = match session {
            Ok(session) => session,
            Err(fault) => return Err(ended(holder, fault, &mut interrupts).await),
        };
        let mut chat = Talk::new(chosen, start, screen, save);
        let id = session.id().clone();
        chat.greet();
        chat.conversation
            .screen
            .remark(&format!("  stored in {} as {id}", self.folder.display()));
        chat.conversation.screen.space();
        talk(chat, session, holder, interrupts, &self.again()).await
    }

    /// Starts a conversation in a session that the daemon has just opened.
    pub(super) async fn in_daemon(
        opened: DaemonSession,
        screen: Screen,
        save: Option<PathBuf>,
    ) -> CommandResult {
        let interrupts = Interrupts::watch()?;
        let mut chat = Talk::new(None, opened.start, screen, save);
        let about = format!("{} · in the daemon", opened.session.id());
        chat.conversation
            .screen
            .note_agent(&opened.agent.name, &about);
        chat.greet();
        talk(chat, opened.session, None, interrupts, RESUME).await
    }

    /// Continues a session of the journal.
    pub(crate) async fn go_on(
        mut self,
        id: &str,
        config: Option<&Path>,
        screen: Screen,
        save: Option<PathBuf>,
    ) -> CommandResult {
        let id = self.choose_agent_of(id)?;
        let Reached { client, own, start } = self.reach(config).await?;
        let mut interrupts = Interrupts::watch()?;
        let (holder, chosen) = own.unzip();
        let session = match start.options().next() {
            Some(option) => Err(CliError::usage(anyhow!(
                "`{option}` cannot be changed: it was set when the session was opened"
            ))
            .next("omit the option; /model and /mode change a live session")),
            None => SessionBackend::attach(client, &id, AttachMode::Control).await,
        };
        let session = match session {
            Ok(session) => session,
            Err(fault) => return Err(ended(holder, fault, &mut interrupts).await),
        };
        let mut chat = Talk::new(chosen, start, screen, save);
        chat.greet_attached(&session, holder.is_some());
        talk(chat, session, holder, interrupts, &self.again()).await
    }

    /// Returns the command that returns to a session, without its id.
    fn again(&self) -> String {
        let folder = self.folder.to_string_lossy();
        let words = ["trunkline", "sessions", "--journal", &folder, "attach"];
        self.again
            .map_or_else(|| shell_words::join(words), str::to_owned)
    }

    /// Selects the session's agent if the command line names no adapter.
    ///
    /// # Errors
    /// The journal has no such session, or the session has another agent than the command line
    /// names.
    pub(crate) fn choose_agent_of(&mut self, id: &str) -> Result<SessionId, CliError> {
        let id = SessionId::new(id).map_err(CliError::usage)?;
        let known = journal::look(&self.folder)?
            .show(&id)
            .map_err(anyhow::Error::from)?;
        let Some(known) = known else {
            if journal::has_host(&self.folder) {
                // Only the daemon can decide: another host of its cluster may have the session.
                return Ok(id);
            }
            return Err(
                CliError::usage(anyhow!("the journal has no session {:?}", id.as_str())).next(
                    format!(
                        "`trunkline sessions --journal {}` lists its sessions",
                        self.folder.display()
                    ),
                ),
            );
        };
        match &self.target.agent {
            Some(agent) if *agent != known.agent_id => Err(CliError::usage(anyhow!(
                "session {:?} belongs to the agent {}, not to {agent}",
                id.as_str(),
                known.agent_id
            ))
            .next("omit --agent")),
            _ => {
                if self.target.adapter.is_none() {
                    self.target.agent = Some(known.agent_id);
                }
                Ok(id)
            }
        }
    }

    /// Selects the agent of a stored conversation, and the folder of the conversation unless the
    /// command line names one, because an agent finds a conversation only in its folder. Returns
    /// the id of the conversation.
    pub(super) fn choose_conversation(&mut self, entry: SessionEntry) -> String {
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
    ///
    /// # Errors
    /// The cause of the failure.
    pub(crate) async fn reach(&self, config: Option<&Path>) -> Result<Reached, CliError> {
        let mut own = None;
        let (client, holder) = journal::reach(&self.folder, || {
            let (chosen, start) = self.target.host_for(config, &self.overrides)?;
            must_be_here(&chosen)?;
            let host = (chosen.host.clone(), chosen.journal.clone());
            own = Some((chosen, start));
            Ok(host)
        })
        .await?;
        match (holder, own) {
            (Some(holder), Some((chosen, start))) => Ok(Reached {
                client,
                own: Some((holder, chosen)),
                start,
            }),
            _ => {
                if let Some(option) = self.target.of_own_host() {
                    return Err(CliError::usage(anyhow!(
                        "another process serves the journal {}, so {option} has no effect",
                        self.folder.display()
                    ))
                    .next(format!(
                        "omit {option} to use an agent of that process, or name another --journal"
                    )));
                }
                Ok(Reached {
                    client,
                    own: None,
                    start: self.overrides.of_session()?,
                })
            }
        }
    }
}

/// Runs the conversation until the user leaves. `again` is the command that returns to the session,
/// without its id.
pub(super) async fn talk(
    mut chat: Talk,
    mut session: SessionBackend,
    holder: Option<Holder>,
    mut interrupts: Interrupts,
    again: &str,
) -> CommandResult {
    let settings = Settings::save();
    let done = chat.run(&mut session, &mut interrupts).await;
    chat.conversation.screen.pause();
    drop(settings);
    if done.is_ok() && session.is_kept() && !session.is_closed() {
        let id = session.id();
        chat.conversation.screen.remark(&match holder {
            Some(_) => format!("the session is stored; `{again} {id}` continues it"),
            None => format!("the session keeps running; `{again} {id}` returns to it"),
        });
    }
    session.leave().await;
    match (done, holder) {
        (Err(fault), holder) => Err(ended(holder, fault, &mut interrupts).await),
        (done, Some(holder)) => holder.end(&mut interrupts).await.and(done),
        (done, None) => done,
    }
}

/// Returns the error of a host in this process if it has one, otherwise the error of its session.
async fn ended(holder: Option<Holder>, fault: CliError, interrupts: &mut Interrupts) -> CliError {
    match holder {
        Some(holder) => holder.end(interrupts).await.err().unwrap_or(fault),
        None => fault,
    }
}

impl Talk {
    fn greet_attached(&mut self, session: &SessionBackend, is_own: bool) {
        let state = session.attached().and_then(|attached| attached.state);
        let state = state.map_or("", |state| state.as_str());
        let screen = &mut self.conversation.screen;
        screen.note_agent(session.agent(), &format!("{} · {state}", session.id()));
        screen.remark("  /help lists the commands · Ctrl-C stops a turn · Ctrl-D leaves");
        if is_own {
            screen.remark("  no other process serves the journal: this one does until you leave");
        }
        screen.space();
    }
}
