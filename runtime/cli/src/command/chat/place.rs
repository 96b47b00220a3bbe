//! A conversation that is kept in a journal: a new one, or one that is continued.

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

/// Where a conversation is kept, and with which agent this process serves it where no other host does.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) target: Target,
    pub(crate) overrides: Overrides,
    /// The command that comes back, where it need not name the folder; the id stands behind it.
    pub(crate) again: Option<&'static str>,
}

/// What comes back to a session of the daemon.
pub(super) const RESUME: &str = "trunkline chat --resume";

/// A host that has the journal.
pub(crate) struct Reached {
    pub(crate) client: Client,
    /// This process, where it is the host.
    pub(crate) own: Option<(Holder, Chosen)>,
    /// What a new session asks for.
    start: SessionStart,
}

impl Place {
    /// Begins a conversation.
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
            .remark(&format!("  kept in {} as {id}", self.folder.display()));
        chat.conversation.screen.space();
        talk(chat, session, holder, interrupts, &self.again()).await
    }

    /// Talks in a session that the daemon has just opened.
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

    /// Goes on with a session of the journal.
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
                "the session is there already: `{option}` was set when it began"
            ))
            .next("leave the option out; /model and /mode change a live session")),
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

    /// The command that comes back to a session, without its id.
    fn again(&self) -> String {
        let folder = self.folder.to_string_lossy();
        let words = ["trunkline", "sessions", "--journal", &folder, "attach"];
        self.again
            .map_or_else(|| shell_words::join(words), str::to_owned)
    }

    /// Takes the session's agent, where the command line names no adapter.
    ///
    /// # Errors
    /// Where there is no such session, or it has another agent than the command line says.
    pub(crate) fn choose_agent_of(&mut self, id: &str) -> Result<SessionId, CliError> {
        let id = SessionId::new(id).map_err(CliError::usage)?;
        let known = journal::look(&self.folder)?
            .show(&id)
            .map_err(anyhow::Error::from)?;
        let Some(known) = known else {
            if journal::has_host(&self.folder) {
                // It says itself whether it knows the session: another host of its cluster may have it.
                return Ok(id);
            }
            return Err(
                CliError::usage(anyhow!("the journal has no session {:?}", id.as_str())).next(
                    format!(
                        "list those that there are by `trunkline sessions --journal {}`",
                        self.folder.display()
                    ),
                ),
            );
        };
        match &self.target.agent {
            Some(agent) if *agent != known.agent_id => Err(CliError::usage(anyhow!(
                "session {:?} is of the agent {}, not of {agent}",
                id.as_str(),
                known.agent_id
            ))
            .next("leave out --agent")),
            _ => {
                if self.target.adapter.is_none() {
                    self.target.agent = Some(known.agent_id);
                }
                Ok(id)
            }
        }
    }

    /// Takes the agent of a conversation that it keeps, and the folder of the conversation unless
    /// the command line names one: an agent finds a conversation only in its folder. Returns the
    /// conversation's id.
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

    /// The host that has the journal: this process, where there is no other.
    ///
    /// # Errors
    /// Why there is none.
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
                        "a host has the journal {} already, so {option} has no effect here",
                        self.folder.display()
                    ))
                    .next(format!(
                        "leave {option} out for an agent of that host, or name another --journal"
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

/// Talks in a session, and leaves it. `again` is the command that comes back to it, without its id.
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
            Some(_) => format!("the session is kept; `{again} {id}` goes on"),
            None => format!("the session goes on without you; `{again} {id}` comes back"),
        });
    }
    session.leave().await;
    match (done, holder) {
        (Err(fault), holder) => Err(ended(holder, fault, &mut interrupts).await),
        (done, Some(holder)) => holder.end(&mut interrupts).await.and(done),
        (done, None) => done,
    }
}

/// The fault of a host in this process, where it has one, else that of its session.
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
            screen.remark("  no host has the journal: this process has it until you leave");
        }
        screen.space();
    }
}
