//! `trunkline chat`: an interactive conversation.

use std::path::{Path, PathBuf};

use clap::Args;

pub(super) use self::place::Place;
use self::{pick::PickedConversation, place::RESUME, talk::Talk};
use super::doctor::installed::must_be_here;
use crate::{
    conversation::make_folder,
    daemon,
    error::CommandResult,
    exit,
    interrupt::Interrupts,
    journal,
    matching_daemon::{self, DaemonChoice},
    overrides::Overrides,
    screen::{Detail, Screen},
    target::Target,
};

mod line;
mod live;
mod pick;
mod place;
mod slash_command;
mod talk;
mod transcript;

pub(crate) use self::transcript::{Speaker, Transcript};

/// Starts an interactive conversation with an agent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline chat
  trunkline chat --agent claude-code
  trunkline chat --adapter 'python3 my_adapter.py' --debug
  trunkline chat --journal journal                store the conversation, to resume it later
  trunkline chat --journal journal --resume       pick a stored conversation and resume it
trunkline chat --resume                         resume a session of the daemon
  trunkline chat --agent codex --native ID        resume a conversation stored by the agent

While you type: arrow keys and Ctrl-R search your earlier inputs, Tab completes. \
While the agent works: Ctrl-C stops the turn, a second Ctrl-C leaves. \
/help lists the commands.

If a daemon runs with the same configuration (`trunkline up`), it runs the session, \
which continues when you leave; -v logs which process runs it, and why. With --adapter, \
--journal, --debug, --no-daemon, or an agent option other than --cwd, this process \
runs the session.")]
pub(crate) struct Chat {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    daemon: DaemonChoice,

    /// Folder for files that the agent provides [default: they are deleted at the end]
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Stores the conversation in the journal of this folder [default: `runtime.journal` of the
    /// configuration]
    ///
    /// Continue it later by --resume or `trunkline sessions attach`. If another process already
    /// serves this folder, that process runs the session. See docs/sessions.md.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Continues a session of the journal or of the daemon
    ///
    /// Without an ID, lists the sessions to pick from, together with the conversations that agents
    /// store themselves.
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    resume: Option<Option<String>>,

    /// Continues a conversation that the agent itself stores, even if it was started without
    /// trunkline
    ///
    /// `trunkline sessions list --native --agent NAME` lists these conversations. The conversation
    /// becomes a session of the journal.
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    native: Option<String>,

    /// Shows the log lines of the adapter, and the lines that are not understood, with the reason
    #[arg(long)]
    pub(super) debug: bool,

    // Last, because its heading applies to all options that follow.
    #[command(flatten)]
    overrides: Overrides,
}

impl Chat {
    pub(super) async fn run(mut self, config: Option<&Path>) -> CommandResult {
        make_folder(self.save.as_deref())?;
        self.target.shows_unread = self.debug;
        let folder = match (&self.journal, &self.target.adapter) {
            // No configuration file applies to an adapter of the command line.
            (None, Some(_)) => None,
            (given, _) => journal::folder(given.as_deref(), config)?,
        };
        let again = folder.is_none().then_some(RESUME);
        let daemons = || {
            daemon::journal().filter(|_| !self.daemon.no_daemon && self.target.adapter.is_none())
        };
        let resume = self.resume.clone();
        let folder = folder.or_else(|| {
            let continues = resume.is_some() || self.native.is_some();
            continues.then(daemons).flatten()
        });
        let Some(folder) = folder else {
            if resume.is_some() || self.native.is_some() {
                return Err(journal::none_named());
            }
            return self.without_journal(config).await;
        };
        let overrides = self.overrides.for_a_live_session();
        let mut place = Place {
            folder,
            target: self.target,
            overrides,
            again,
        };
        let screen = Screen::new(if self.debug {
            Detail::Debug
        } else {
            Detail::Calm
        });
        let picked = match resume {
            None => return place.begin(config, screen, self.save, self.native).await,
            Some(Some(id)) => PickedConversation::Session(id),
            Some(None) => match pick::pick(&place, config).await? {
                Some(picked) => picked,
                None => return Ok(exit::INTERRUPTED),
            },
        };
        match picked {
            PickedConversation::Session(id) => place.go_on(&id, config, screen, self.save).await,
            PickedConversation::Native(entry) => {
                let id = place.choose_conversation(entry);
                place.begin(config, screen, self.save, Some(id)).await
            }
        }
    }

    async fn without_journal(self, config: Option<&Path>) -> CommandResult {
        let screen = Screen::new(if self.debug {
            Detail::Debug
        } else {
            Detail::Calm
        });
        // Only the adapter's host has the lines that are not understood.
        let choice = DaemonChoice {
            no_daemon: self.daemon.no_daemon || self.debug,
        };
        if let Some(daemon) = matching_daemon::find(choice, &self.target, &self.overrides, config)
            && let Some(opened) = daemon.open("chat").await
        {
            return Place::in_daemon(opened, screen, self.save).await;
        }
        let (chosen, start) = self
            .target
            .host_for(config, &self.overrides.for_a_live_session())?;
        must_be_here(&chosen)?;
        let interrupts = Interrupts::watch()?;
        let (session, holder) = chosen.open_session("chat", start.clone()).await?;
        let mut chat = Talk::new(Some(chosen), start, screen, self.save);
        chat.greet();
        place::talk(chat, session, Some(holder), interrupts, "").await
    }
}

/// Returns the history file in the user's state folder.
fn history() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders
        .state_dir()
        .unwrap_or_else(|| folders.data_dir())
        .join("trunkline");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}
