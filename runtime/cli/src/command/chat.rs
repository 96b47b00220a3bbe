//! `trunkline chat`: an interactive conversation.

use std::path::{Path, PathBuf};

use clap::Args;
use trunkline_host::{config::state_dir, protocol::Resume};

use self::{pick::PickedConversation, talk::ChatSession};
use super::must_be_here;
use crate::{
    completion,
    conversation::make_folder,
    daemon,
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal, listing,
    matching_daemon::{self, DaemonChoice},
    open_session::{DetachMode, JournalAccess, OpenSession},
    overrides::AgentOverrides,
    screen::{OutputDetail, SessionScreen},
    session_backend::AttachMode,
    target::AgentTarget,
    terminal::TerminalSettings,
};

mod line;
mod live;
mod pick;
mod slash_command;
mod talk;
mod transcript;

pub(crate) use self::transcript::{ExportTranscript, Speaker};

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
which continues when you leave; a note has the reason if it does not. With --adapter, \
--journal, --debug, --no-daemon, or an agent option other than --cwd, this process \
runs the session.")]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    target: AgentTarget,

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
    #[arg(long, value_name = "ID", num_args = 0..=1, add = completion::sessions())]
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
    overrides: AgentOverrides,
}

impl ChatArgs {
    pub(super) async fn run(mut self, config: Option<&Path>) -> CommandResult {
        make_folder(self.save.as_deref())?;
        self.target.shows_unread = self.debug;
        let mut interrupts = InterruptSignals::watch()?;
        let screen = SessionScreen::new(if self.debug {
            OutputDetail::Debug
        } else {
            OutputDetail::Calm
        });
        let folder = if self.resume.is_some() || self.native.is_some() {
            let given = self.journal.as_deref();
            Some(journal::folder_to_continue(
                given,
                config,
                &self.target,
                self.daemon,
            )?)
        } else {
            journal::folder_for_target(self.journal.as_deref(), config, &self.target)?
        };
        let Some(folder) = folder else {
            let save = self.save.take();
            let open = self.open_without_journal(config).await?;
            let about = match open.own_host() {
                Some(_) => String::new(),
                None => format!("{} · in the daemon", open.session.id()),
            };
            return run_chat(open, screen, save, (&about, &[]), RESUME, &mut interrupts).await;
        };
        let overrides = self.overrides.for_a_live_session();
        let mut access = JournalAccess::new(folder, self.target, Some(overrides));
        let mut native = self.native;
        let session = match self.resume {
            None => None,
            Some(Some(id)) => Some(listing::complete_id(&access.folder, id).await?),
            Some(None) => match pick::pick(&access, config).await? {
                None => return Ok(exit::INTERRUPTED),
                Some(PickedConversation::Session(id)) => Some(id),
                Some(PickedConversation::Native(entry)) => {
                    native = Some(access.choose_conversation(entry));
                    None
                }
            },
        };
        if let Some(id) = session {
            return attach(access, &id, config, screen, self.save).await;
        }
        let resume = native.map(|native| Resume {
            native_session_id: Some(native),
            history: Some(true),
            ..Resume::default()
        });
        let open = access.open("chat", resume, config).await?;
        let stored = format!(
            "stored in {} as {}",
            access.folder.display(),
            open.session.id()
        );
        let again = resume_command(&access.folder);
        let note = ("", &[&*stored][..]);
        run_chat(open, screen, self.save, note, &again, &mut interrupts).await
    }

    async fn open_without_journal(self, config: Option<&Path>) -> Result<OpenSession, CliError> {
        // Only the adapter's host has the lines that are not understood.
        let choice = DaemonChoice {
            no_daemon: self.daemon.no_daemon || self.debug,
        };
        let opened =
            matching_daemon::open("chat", choice, &self.target, &self.overrides, config).await;
        if let Some(open) = opened {
            return Ok(open);
        }
        let overrides = self.overrides.for_a_live_session();
        let (chosen, start) = self.target.host_for(config, &overrides)?;
        must_be_here(&chosen)?;
        OpenSession::without_journal(chosen, start, "chat").await
    }
}

/// Command that returns to a session of the daemon.
const RESUME: &str = "trunkline chat --resume";

/// Returns the command that returns to a session of a journal, without its id.
fn resume_command(folder: &Path) -> String {
    if daemon::journal().is_some_and(|journal| journal == folder) {
        return RESUME.to_owned();
    }
    let folder = folder.to_string_lossy();
    shell_words::join(["trunkline", "sessions", "--journal", &folder, "attach"])
}

/// Continues a session of a journal.
pub(super) async fn attach(
    access: JournalAccess,
    id: &str,
    config: Option<&Path>,
    screen: SessionScreen,
    save: Option<PathBuf>,
) -> CommandResult {
    let again = resume_command(&access.folder);
    let open = access.attach(id, AttachMode::Control, config).await?;
    let mut interrupts = InterruptSignals::watch()?;
    let state = open.session.attached().and_then(|attached| attached.state);
    let state = state.map_or("", |state| state.as_str());
    let about = format!("{} · {state}", open.session.id());
    let notes: &[&str] = match open.own_host() {
        Some(_) => &["no other process serves the journal: this one does until you leave"],
        None => &[],
    };
    run_chat(open, screen, save, (&about, notes), &again, &mut interrupts).await
}

/// Runs the conversation until the user leaves. The greeting has details of the session, or the
/// agent's command if they are empty, and notes. `again` is the command that returns to the
/// session, without its id.
async fn run_chat(
    mut open: OpenSession,
    screen: SessionScreen,
    save: Option<PathBuf>,
    (about, notes): (&str, &[&str]),
    again: &str,
    interrupts: &mut InterruptSignals,
) -> CommandResult {
    let mut talk = ChatSession::new(&open, screen, save);
    talk.show_greeting(&open.session, about, notes);
    let settings = TerminalSettings::save();
    let done = talk.run(&mut open.session, interrupts).await;
    talk.conversation.screen.pause();
    drop(settings);
    if done.is_ok() && open.session.is_kept() && !open.session.is_closed() {
        let id = open.session.id();
        talk.conversation.screen.remark(&match open.own_host() {
            Some(_) => format!("the session is stored; `{again} {id}` continues it"),
            None => format!("the session keeps running; `{again} {id}` returns to it"),
        });
    }
    open.end(DetachMode::Leave, None, done, interrupts).await
}

/// Returns the history file in the user's state folder.
fn history_file() -> Option<PathBuf> {
    let folder = state_dir(|name| std::env::var_os(name))?;
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}
