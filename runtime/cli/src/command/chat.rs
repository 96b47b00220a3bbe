//! `trunkline chat`: a conversation.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use trunkline_host::{
    SessionEnd, TurnNo,
    config::StopSteps,
    protocol::{ClosedReason, SessionInfo, SessionStart},
};

pub(super) use self::journaled::Place;
use self::{
    journaled::RESUME,
    line::{Line, Prompt},
    word::Word,
};
use super::{
    doctor::installed::must_be_here,
    run::{next_after, own_path, shut_down},
};
use crate::{
    ask::Asker,
    conversation::{Conversation, Outcome, make_folder, session_options},
    daemon,
    door::{self, Use},
    exit,
    fault::{Done, Fault},
    interrupt::{Interrupt, Interrupts},
    journal,
    overrides::{Overrides, unapplied},
    paint,
    partner::{Heard, NotGiven, Partner},
    screen::{Detail, Screen, bytes},
    target::{Chosen, Target},
    terminal::Settings,
};

mod journaled;
mod line;
mod live;
mod pick;
mod transcript;
mod word;

pub(crate) use self::transcript::{Speaker, Transcript};

/// How long the adapters have after the last word: a person waits.
const LEAVING: StopSteps = StopSteps {
    close: Duration::from_millis(200),
    eof: Duration::from_secs(2),
    term: Duration::from_secs(1),
};

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
    daemon: Use,

    /// Where files that the agent gives are saved; without it they are gone at the end
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Keeps the conversation in the journal of this folder [default: `journal` in `runtime` of the configuration]
    ///
    /// It can be gone on with later, by --resume or `trunkline sessions attach`. Where a host has the folder already the
    /// session is that host's. See docs/sessions.md.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,

    /// Goes on with a session of the journal, or of the daemon; without an ID, one that is picked from a list
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    resume: Option<Option<String>>,

    /// Shows what the adapter logs, and lines of it that are not understood, with the reason
    #[arg(long)]
    pub(super) debug: bool,

    // Last: its heading holds for what follows.
    #[command(flatten)]
    overrides: Overrides,
}

impl Chat {
    pub(super) async fn run(mut self, config: Option<&Path>) -> Done {
        make_folder(self.save.as_deref())?;
        self.target.shows_unread = self.debug;
        let folder = match (&self.journal, &self.target.adapter) {
            // What an adapter of the command line gets is in no file.
            (None, Some(_)) => None,
            (given, _) => journal::folder(given.as_deref(), config)?,
        };
        let again = folder.is_none().then_some(RESUME);
        let daemons =
            || daemon::journal().filter(|_| !self.daemon.no_daemon && self.target.adapter.is_none());
        let resume = self.resume.clone();
        let folder = folder.or_else(|| resume.as_ref().and_then(|_| daemons()));
        let Some(folder) = folder else {
            if resume.is_some() {
                return Err(Fault::usage(anyhow!("no journal is named, so there is no session to resume"))
                    .next(
                        "name one by --journal FOLDER, or by `journal` in `runtime` of the configuration",
                    ));
            }
            return self.without_journal(config).await;
        };
        let overrides = self.overrides.for_a_live_session();
        let place = Place { folder, target: self.target, overrides, again };
        let screen = Screen::new(if self.debug { Detail::Debug } else { Detail::Calm });
        match resume {
            None => place.begin(config, screen, self.save).await,
            Some(id) => {
                let id = match id {
                    Some(id) => id,
                    None => match pick::session(&place.folder).await? {
                        Some(id) => id,
                        None => return Ok(exit::INTERRUPTED),
                    },
                };
                place.go_on(&id, config, screen, self.save).await
            }
        }
    }

    async fn without_journal(self, config: Option<&Path>) -> Done {
        let screen = Screen::new(if self.debug { Detail::Debug } else { Detail::Calm });
        // What is not understood is seen by its host alone.
        let may = Use { no_daemon: self.daemon.no_daemon || self.debug };
        if let Some(door) = door::find(may, &self.target, &self.overrides, config)
            && let Some(opened) = door.open("chat").await
        {
            return Place::in_daemon(opened, screen, self.save).await;
        }
        let (chosen, start) = self.target.host_for(config, &self.overrides.for_a_live_session())?;
        must_be_here(&chosen)?;
        let mut interrupts = Interrupts::watch()?;
        let settings = Settings::save();
        let mut partner = Partner::Own(chosen.open(session_options(start.clone()))?);
        let mut chat = Talk::new(Some(chosen), start, screen, self.save);
        chat.greet();
        let done = chat.run(&mut partner, &mut interrupts).await;
        chat.conversation.screen.pause();
        drop(settings);
        if let Some(chosen) = &chat.chosen {
            shut_down(&chosen.host, Some(LEAVING), &mut interrupts).await;
        }
        done
    }
}

/// A conversation under way.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    /// The host of this process and its agent, where the session is its.
    chosen: Option<Chosen>,
    /// What a session asks for.
    start: SessionStart,
    /// The options that the session relies on.
    asked: Vec<&'static str>,
    /// Lines of the adapter that were not messages, as far as they were told.
    noise: u64,
}

/// Whether the conversation goes on.
enum Next {
    Talk,
    /// On another session.
    Anew,
    Leave(u8),
}

/// What came while the prompt was shown.
enum Prompted {
    Line(Line),
    Interrupt(Interrupt),
    Heard(Option<Heard>),
}

impl Talk {
    pub(super) fn new(
        chosen: Option<Chosen>,
        start: SessionStart,
        screen: Screen,
        save: Option<PathBuf>,
    ) -> Self {
        let asker = Asker::new();
        let conversation = Conversation {
            screen: screen.with_markdown(),
            lines: None,
            asker: if Prompt::edits() { asker.keeping_early() } else { asker },
            save,
            lost_files: false,
            learned: SessionInfo::default(),
            transcript: None,
        };
        let asked = start.options().collect();
        Self { conversation, chosen, start, asked, noise: 0 }
    }

    pub(super) async fn run(&mut self, partner: &mut Partner, interrupts: &mut Interrupts) -> Done {
        let mut prompt = Prompt::new().context("failed to set up the line editor")?;
        self.conversation.transcript = Some(Transcript::new(&self.name_of(partner)));
        loop {
            if let Some(next) = self.catch_up(partner, interrupts).await? {
                return Ok(next);
            }
            let next = match partner.running() {
                Some(no) => self.follow(no, partner, interrupts).await?,
                None => match self.at_prompt(&mut prompt, partner, interrupts).await? {
                    Prompted::Line(Line::Text(text)) => self.said(&text, partner, interrupts).await?,
                    Prompted::Line(Line::Interrupted) => {
                        self.conversation.screen.remark("Ctrl-D or /quit leaves");
                        Next::Talk
                    }
                    Prompted::Line(Line::End) => Next::Leave(exit::OK),
                    Prompted::Interrupt(interrupt) => {
                        self.conversation.screen.disturbed();
                        Next::Leave(interrupt.exit_code())
                    }
                    Prompted::Heard(None) => Next::Talk,
                    Prompted::Heard(Some(heard)) => match self.conversation.outside(heard)? {
                        Some(end) => Next::Leave(self.code_of(&end)),
                        None => Next::Talk,
                    },
                },
            };
            match next {
                Next::Talk => {}
                Next::Anew => {
                    self.begin_anew(partner).await?;
                    self.anew(partner);
                }
                Next::Leave(code) => return Ok(code),
            }
        }
    }

    /// Shows what came outside turns, and of a session that was attached what was there before. Gives the exit code
    /// where nothing more can be said.
    async fn catch_up(
        &mut self,
        partner: &mut Partner,
        interrupts: &mut Interrupts,
    ) -> Result<Option<u8>, Fault> {
        while let Partner::Journaled(session) = &*partner
            && session.is_behind()
            && partner.running().is_none()
        {
            let heard = tokio::select! {
                biased;
                interrupt = interrupts.next() => return Ok(Some(interrupt.exit_code())),
                heard = partner.next() => heard,
            };
            let Some(heard) = heard else { break };
            if let Some(end) = self.conversation.outside(heard)? {
                return Ok(Some(self.code_of(&end)));
            }
        }
        if let Some(end) = self.conversation.catch_up(partner).await? {
            return Ok(Some(self.code_of(&end)));
        }
        match &*partner {
            Partner::Journaled(session) if session.is_lost() => Err(session.lost()),
            _ => Ok(None),
        }
    }

    /// Waits for a line of the person, and in a session that others may speak in for what they say.
    async fn at_prompt(
        &mut self,
        prompt: &mut Prompt,
        partner: &mut Partner,
        interrupts: &mut Interrupts,
    ) -> Result<Prompted, Fault> {
        prompt.complete(live::commands(&self.conversation.learned).map(|(typed, _)| typed).collect());
        prompt.begin_with(&self.conversation.asker.take_early());
        let is_shared = matches!(partner, Partner::Journaled(_));
        if is_shared && prompt.is_untouched() {
            // What others say is shown until a key is pressed; from then on it waits for the line.
            self.conversation.screen.pause();
            let shown = prompt.wait_for_key()?;
            tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    shown.hide();
                    return Ok(match interrupt {
                        Interrupt::Key => Prompted::Line(Line::Interrupted),
                        Interrupt::Terminate => Prompted::Interrupt(interrupt),
                    });
                }
                heard = partner.next() => {
                    shown.hide();
                    return Ok(Prompted::Heard(heard));
                }
                touched = shown.touched() => touched.context("failed to read the terminal")?,
            }
        }
        tokio::select! {
            said = prompt.line() => Ok(Prompted::Line(said?)),
            interrupt = terminated(interrupts) => Ok(Prompted::Interrupt(interrupt)),
            heard = partner.next(), if is_shared && !Prompt::edits() => Ok(Prompted::Heard(heard)),
        }
    }

    /// What the agent is called.
    fn name_of(&self, partner: &Partner) -> String {
        match (partner, &self.chosen) {
            (_, Some(chosen)) => chosen.agent.name.clone(),
            (Partner::Journaled(session), None) => session.agent().to_owned(),
            (Partner::Own(_), None) => String::new(),
        }
    }

    fn greet(&mut self) {
        if let Some(chosen) = &self.chosen {
            let (name, command) = (&chosen.agent.name, chosen.command_line());
            let (bold, dim) = (paint::STRONG, paint::DIM);
            let text = if *name == command {
                format!("{bold}{name}{bold:#}")
            } else {
                format!("{bold}{name}{bold:#} {dim}· {command}{dim:#}")
            };
            self.conversation.screen.note("●", paint::ACT, &text);
        }
        self.conversation.screen.remark("  /help lists the commands · Ctrl-C stops a turn · Ctrl-D leaves");
        self.conversation.screen.space();
    }

    async fn begin_anew(&mut self, partner: &mut Partner) -> Result<(), Fault> {
        match partner {
            Partner::Own(session) => {
                session.close().await;
                if let Some(chosen) = &self.chosen {
                    *session = chosen.open(session_options(self.start.clone()))?;
                }
            }
            Partner::Journaled(session) => session.anew(self.start.clone()).await?,
        }
        Ok(())
    }

    async fn said(
        &mut self,
        text: &str,
        session: &mut Partner,
        interrupts: &mut Interrupts,
    ) -> Result<Next, Fault> {
        let screen = &mut self.conversation.screen;
        match Word::of(text) {
            Word::Nothing => return Ok(Next::Talk),
            Word::Quit => return Ok(Next::Leave(exit::OK)),
            Word::Help => self.help(),
            Word::Stop => {
                screen.remark("nothing is running; Ctrl-C stops a turn that is");
            }
            Word::File(path) => self.give(session, &path).await,
            Word::Model(name) => return self.model(name, session, interrupts).await,
            Word::Mode(name) => return self.mode(name, session, interrupts).await,
            Word::Usage => {
                let usage = screen.usage();
                screen.remark(&usage);
            }
            Word::New => return Ok(Next::Anew),
            Word::Export(path) => self.export(&path),
            Word::Say(text) => return self.turn(&text, session, interrupts).await,
        }
        self.conversation.screen.space();
        Ok(Next::Talk)
    }

    async fn give(&mut self, session: &mut Partner, path: &Path) {
        let screen = &mut self.conversation.screen;
        let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
        match session.deliver_file(&own_path(path)).await {
            Ok(()) => {
                let text = format!("{} · {} · goes with what you say next", path.display(), bytes(size));
                screen.note("↑", paint::ACT, &text);
            }
            Err(NotGiven { why, next }) => {
                screen.note("✗", paint::BAD, &format!("failed to give {}: {why:#}", path.display()));
                next.iter().for_each(|next| screen.remark(&format!("  next: leave and begin again: {next}")));
            }
        }
    }

    async fn turn(
        &mut self,
        text: &str,
        session: &mut Partner,
        interrupts: &mut Interrupts,
    ) -> Result<Next, Fault> {
        let no = match session.send(text) {
            Ok(no) => no,
            Err(error) => {
                // It may have ended while the person wrote, and says why.
                if let Some(end) = self.conversation.catch_up(session).await? {
                    return Ok(Next::Leave(self.code_of(&end)));
                }
                self.conversation.screen.note("✗", paint::BAD, &error.to_string());
                return Ok(if session.is_closed() { Next::Leave(exit::FAILED) } else { Next::Talk });
            }
        };
        if let Some(transcript) = &mut self.conversation.transcript {
            transcript.add(Speaker::Person, text);
        }
        self.follow(no, session, interrupts).await
    }

    /// Shows a turn to its end.
    async fn follow(
        &mut self,
        no: TurnNo,
        session: &mut Partner,
        interrupts: &mut Interrupts,
    ) -> Result<Next, Fault> {
        let outcome = self.conversation.turn(session, no, interrupts).await?;
        if let Partner::Journaled(session) = &*session
            && session.is_lost()
        {
            return Err(session.lost());
        }
        if let (Outcome::Ended(end), Some(chosen)) = (&outcome, &self.chosen)
            && let Some(next) = next_after(end, &chosen.agent, &self.asked)
        {
            self.conversation.screen.remark(&next);
        }
        self.tell_noise();
        let closed = match &outcome {
            Outcome::Ended(_) => self.conversation.catch_up(session).await?,
            _ => None,
        };
        self.conversation.screen.space();
        Ok(match outcome {
            Outcome::Ended(_) => closed.map_or(Next::Talk, |end| Next::Leave(self.code_of(&end))),
            Outcome::Closed(_, end) => Next::Leave(self.code_of(&end)),
            Outcome::Leave(interrupt) => Next::Leave(interrupt.exit_code()),
        })
    }

    /// The exit code of a session's end, and what to do about a refused one.
    fn code_of(&mut self, end: &SessionEnd) -> u8 {
        let why = end.error.as_ref().and_then(|error| error.message.as_deref()).unwrap_or_default();
        match (end.reason, unapplied(&self.asked, why)) {
            (ClosedReason::Finished, _) => exit::OK,
            (ClosedReason::Refused, Some(next)) => {
                self.conversation.screen.remark(&next);
                exit::USAGE
            }
            _ => exit::FAILED,
        }
    }

    /// Says that the adapter wrote what is not a message: its author wants to know.
    fn tell_noise(&mut self) {
        let agent = self.chosen.as_ref().and_then(|chosen| chosen.host.agent(&chosen.agent.id));
        let Some(agent) = agent else { return };
        let noise = agent.counters.noise + agent.counters.bad + agent.counters.unknown_type;
        let more = noise.saturating_sub(self.noise);
        self.noise = noise;
        if more > 0 {
            let lines = if more == 1 { "1 line was".to_owned() } else { format!("{more} lines were") };
            self.conversation.screen.remark(&format!("{lines} not understood; --debug shows why"));
        }
    }
}

/// The next signal to end. Ctrl-C at the prompt is the line editor's.
async fn terminated(interrupts: &mut Interrupts) -> Interrupt {
    loop {
        let interrupt = interrupts.next().await;
        if interrupt == Interrupt::Terminate {
            return interrupt;
        }
    }
}

/// Where history is kept: the user's state folder.
fn history() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir()).join("trunkline");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}
