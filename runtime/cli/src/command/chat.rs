//! `trunkline chat`: a conversation.

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
mod talk;
mod transcript;
mod word;

pub(crate) use self::transcript::{Speaker, Transcript};

/// Talks with an agent, turn by turn
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline chat
  trunkline chat --agent claude-code
  trunkline chat --adapter 'python3 my_adapter.py' --debug
  trunkline chat --journal journal                a conversation that can be resumed
  trunkline chat --journal journal --resume       goes on with one of them
  trunkline chat --resume                         goes on with a session of the daemon
  trunkline chat --agent codex --native ID        goes on with a conversation that the agent keeps

While you type: arrows and Ctrl-R find what you said before, Tab completes.
While the agent works: Ctrl-C stops its turn, a second one leaves.
/help lists the commands.

Where a daemon runs with the same configuration (`trunkline up`), the session is
the daemon's and goes on when you leave; -v says so, or why not. An option of the
agent other than --cwd, --adapter, --journal, --debug and --no-daemon run it in
this process.")]
pub(crate) struct Chat {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    daemon: DaemonChoice,

    /// Where files that the agent gives are saved; without it they are gone at the end
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Keeps the conversation in the journal of this folder [default: `journal` in `runtime` of the configuration]
    ///
    /// It can be gone on with later, by --resume or `trunkline sessions attach`. Where a host has the folder already the
    /// session is that host's. See docs/sessions.md.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Goes on with a session of the journal, or of the daemon
    ///
    /// Without an ID you pick one from a list, which also has the conversations that agents themselves keep.
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    resume: Option<Option<String>>,

    /// Goes on with a conversation that the agent itself keeps, also one that began without trunkline
    ///
    /// `trunkline sessions list --native --agent NAME` lists them. The conversation becomes a session of the journal.
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    native: Option<String>,

    /// Shows what the adapter logs, and lines of it that are not understood, with the reason
    #[arg(long)]
    pub(super) debug: bool,

    // Last: its heading holds for what follows.
    #[command(flatten)]
    overrides: Overrides,
}

impl Chat {
    pub(super) async fn run(mut self, config: Option<&Path>) -> CommandResult {
        make_folder(self.save.as_deref())?;
        self.target.shows_unread = self.debug;
        let folder = match (&self.journal, &self.target.adapter) {
            // What an adapter of the command line gets is in no file.
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
        // What is not understood is seen by its host alone.
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

/// Where history is kept: the user's state folder.
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
