//! `trunkline chat`: a conversation.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use trunkline_host::{
    Session, SessionEnd,
    config::StopSteps,
    protocol::{ClosedReason, SessionInfo, SessionStart},
};

use self::{
    line::{Line, Prompt},
    word::Word,
};
use super::{
    doctor::installed::must_be_here,
    run::{after_refused_file, next_after, own_path, shut_down},
};
use crate::{
    ask::Asker,
    conversation::{Conversation, Outcome, make_folder, session_options},
    exit,
    fault::{Done, Fault},
    interrupt::{Interrupt, Interrupts},
    overrides::{Overrides, unapplied},
    paint,
    screen::{Detail, Screen, bytes},
    target::{Chosen, Target},
    terminal::Settings,
};

mod line;
mod live;
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

While you type: arrows and Ctrl-R find what you said before, Tab completes.
While the agent works: Ctrl-C stops its turn, a second one leaves.
/help lists the commands.")]
pub(crate) struct Chat {
    #[command(flatten)]
    target: Target,

    /// Where files that the agent gives are saved; without it they are gone at the end
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

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
        let (chosen, start) = self.target.host_for(config, &self.overrides.for_a_live_session())?;
        must_be_here(&chosen)?;
        let mut interrupts = Interrupts::watch()?;
        let settings = Settings::save();
        let detail = if self.debug { Detail::Debug } else { Detail::Calm };
        let asker = Asker::new();
        let conversation = Conversation {
            screen: Screen::new(detail).with_markdown(),
            lines: None,
            asker: if Prompt::edits() { asker.keeping_early() } else { asker },
            save: self.save,
            lost_files: false,
            learned: SessionInfo::default(),
            transcript: Some(Transcript::new(&chosen.agent.name)),
        };
        let asked = start.options().collect();
        let mut chat = Talk { conversation, asked, noise: 0 };
        let done = chat.run(&chosen, start, &mut interrupts).await;
        chat.conversation.screen.pause();
        drop(settings);
        shut_down(&chosen.host, Some(LEAVING), &mut interrupts).await;
        done
    }
}

/// A conversation under way.
struct Talk {
    conversation: Conversation,
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

impl Talk {
    async fn run(&mut self, chosen: &Chosen, start: SessionStart, interrupts: &mut Interrupts) -> Done {
        let mut prompt = Prompt::new().context("failed to set up the line editor")?;
        let mut session = chosen.open(session_options(start.clone()))?;
        self.greet(chosen);
        loop {
            if let Some(end) = self.conversation.catch_up(&session).await? {
                return Ok(self.code_of(&end));
            }
            prompt.complete(live::commands(&self.conversation.learned).map(|(typed, _)| typed).collect());
            prompt.begin_with(&self.conversation.asker.take_early());
            let said = tokio::select! {
                said = prompt.line() => said?,
                interrupt = terminated(interrupts) => {
                    self.conversation.screen.disturbed();
                    return Ok(interrupt.exit_code());
                }
            };
            let next = match said {
                Line::Text(text) => self.said(&text, chosen, &session, interrupts).await?,
                Line::Interrupted => {
                    self.conversation.screen.remark("Ctrl-D or /quit leaves");
                    Next::Talk
                }
                Line::End => Next::Leave(exit::OK),
            };
            match next {
                Next::Talk => {}
                Next::Anew => {
                    session.close().await;
                    session = chosen.open(session_options(start.clone()))?;
                    self.anew(chosen);
                }
                Next::Leave(code) => return Ok(code),
            }
        }
    }

    fn greet(&mut self, chosen: &Chosen) {
        let (name, command) = (&chosen.agent.name, chosen.command_line());
        let (bold, dim) = (paint::STRONG, paint::DIM);
        let text = if *name == command {
            format!("{bold}{name}{bold:#}")
        } else {
            format!("{bold}{name}{bold:#} {dim}· {command}{dim:#}")
        };
        self.conversation.screen.note("●", paint::ACT, &text);
        self.conversation.screen.remark("  /help lists the commands · Ctrl-C stops a turn · Ctrl-D leaves");
        self.conversation.screen.space();
    }

    async fn said(
        &mut self,
        text: &str,
        chosen: &Chosen,
        session: &Session,
        interrupts: &mut Interrupts,
    ) -> Result<Next, Fault> {
        let screen = &mut self.conversation.screen;
        match Word::of(text) {
            Word::Nothing => return Ok(Next::Talk),
            Word::Quit => return Ok(Next::Leave(exit::OK)),
            Word::Help => self.help(),
            Word::Stop => {
                session.stop();
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
            Word::Say(text) => return self.turn(&text, chosen, session, interrupts).await,
        }
        self.conversation.screen.space();
        Ok(Next::Talk)
    }

    async fn give(&mut self, session: &Session, path: &Path) {
        let screen = &mut self.conversation.screen;
        let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
        match session.deliver_file(own_path(path), None, None).await {
            Ok(()) => {
                let text = format!("{} · {} · goes with what you say next", path.display(), bytes(size));
                screen.note("↑", paint::ACT, &text);
            }
            Err(error) => {
                let next = after_refused_file(&error);
                let error = anyhow!(error);
                screen.note("✗", paint::BAD, &format!("failed to give {}: {error:#}", path.display()));
                next.iter().for_each(|next| screen.remark(&format!("  next: leave and begin again: {next}")));
            }
        }
    }

    async fn turn(
        &mut self,
        text: &str,
        chosen: &Chosen,
        session: &Session,
        interrupts: &mut Interrupts,
    ) -> Result<Next, Fault> {
        let turn = match session.send(text) {
            Ok(turn) => turn,
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
        let no = turn.no();
        turn.detach();
        let outcome = self.conversation.turn(session, no, interrupts).await?;
        if let Outcome::Ended(end) = &outcome
            && let Some(next) = next_after(end, &chosen.agent, &self.asked)
        {
            self.conversation.screen.remark(&next);
        }
        self.tell_noise(chosen);
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
    fn tell_noise(&mut self, chosen: &Chosen) {
        let Some(agent) = chosen.host.agent(&chosen.agent.id) else { return };
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
