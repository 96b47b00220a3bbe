//! Running conversation: input of the user, and events of the session.

use std::path::{Path, PathBuf};

use anyhow::Context;
use trunkline_host::{
    Cause, Host, SessionEnd, TurnNo,
    config::AgentConfig,
    protocol::{ClosedReason, SessionStart},
};

use super::{
    ExportTranscript, Speaker,
    line::{LinePrompt, PromptLine},
    live,
    slash_command::SlashCommand,
};
use crate::{
    command::run::{after_refused_file, next_after, own_path},
    conversation::{ConversationView, TurnOutcome},
    error::{CliError, CommandResult},
    exit,
    interrupt::{InterruptSignal, InterruptSignals},
    open_session::OpenSession,
    overrides::omit_unapplied,
    paint,
    screen::{SessionScreen, bytes},
    session_backend::{DisplayEvent, SessionBackend},
    target::command_line,
};

/// A running conversation.
pub(super) struct ChatSession {
    pub(super) conversation: ConversationView,
    /// Configuration of the agent, if known.
    agent: Option<AgentConfig>,
    /// Host in this process, if it serves the session.
    host: Option<Host>,
    /// Options of a new session.
    start: SessionStart,
    /// Number of the adapter's invalid lines that were reported to the user.
    noise: u64,
}

/// Next step of the conversation.
pub(super) enum NextStep {
    Talk,
    /// Continue in a new session.
    Anew,
    Leave(u8),
}

impl ChatSession {
    pub(super) fn new(open: &OpenSession, screen: SessionScreen, save: Option<PathBuf>) -> Self {
        let mut conversation = ConversationView::new(screen.with_markdown());
        if LinePrompt::can_edit() {
            conversation.asker = conversation.asker.keeping_early();
        }
        conversation.save = save;
        conversation.takes_allow = open.takes_allow;
        Self {
            conversation,
            agent: open.agent.clone(),
            host: open.own_host().cloned(),
            start: open.start.clone(),
            noise: 0,
        }
    }

    pub(super) async fn run(
        &mut self,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> CommandResult {
        let mut prompt = LinePrompt::new().context("failed to set up the line editor")?;
        self.conversation.transcript = Some(ExportTranscript::new(&self.name_of(session)));
        loop {
            if let Some(next) = self.catch_up(session, interrupts).await? {
                return Ok(next);
            }
            let next = match session.running() {
                Some(no) => self.follow_turn(no, session, interrupts).await?,
                None => self.at_prompt(&mut prompt, session, interrupts).await?,
            };
            match next {
                NextStep::Talk => {}
                NextStep::Anew => {
                    session.restart(self.start.clone()).await?;
                    self.reset_conversation(session);
                }
                NextStep::Leave(code) => return Ok(code),
            }
        }
    }

    /// Shows events between turns, and the earlier entries of an attached session. Returns the exit
    /// code if the session is closed.
    async fn catch_up(
        &mut self,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<Option<u8>, CliError> {
        while session.is_behind() && session.running().is_none() {
            let event = tokio::select! {
                biased;
                interrupt = interrupts.next() => return Ok(Some(interrupt.exit_code())),
                event = session.next() => event,
            };
            let Some(event) = event else { break };
            if let Some(end) = self.conversation.show_between_turns(event)? {
                return Ok(Some(self.code_of(&end)));
            }
        }
        if let Some(end) = self.conversation.catch_up(session).await? {
            return Ok(Some(self.code_of(&end)));
        }
        session.check_host()?;
        Ok(None)
    }

    /// Waits for a line of the user or for an event of the session, and handles it.
    async fn at_prompt(
        &mut self,
        prompt: &mut LinePrompt,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<NextStep, CliError> {
        prompt.complete(
            live::agent_commands(&self.conversation.learned)
                .map(|(typed, _)| typed)
                .collect(),
        );
        prompt.begin_with(&self.conversation.asker.take_early());
        if prompt.is_untouched() {
            // Events are shown until a key is pressed; then they wait for the end of the line.
            self.conversation.screen.pause();
            let shown = prompt.wait_for_key()?;
            tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    shown.hide();
                    return Ok(match interrupt {
                        InterruptSignal::Key => self.hint_at_end(),
                        InterruptSignal::Terminate => self.leave_by(interrupt),
                    });
                }
                event = session.next() => {
                    shown.hide();
                    return self.between_turns(event, session);
                }
                touched = shown.wait_for_touch() => touched.context("failed to read the terminal")?,
            }
        }
        let line = tokio::select! {
            line = prompt.line() => line?,
            interrupt = wait_for_termination(interrupts) => return Ok(self.leave_by(interrupt)),
            event = session.next(), if !LinePrompt::can_edit() => {
                return self.between_turns(event, session);
            }
        };
        match line {
            PromptLine::Text(text) => self.handle_line(&text, session, interrupts).await,
            PromptLine::Interrupted => Ok(self.hint_at_end()),
            PromptLine::End => Ok(NextStep::Leave(exit::OK)),
        }
    }

    fn hint_at_end(&mut self) -> NextStep {
        self.conversation.screen.remark("Ctrl-D or /quit leaves");
        NextStep::Talk
    }

    fn leave_by(&mut self, interrupt: InterruptSignal) -> NextStep {
        self.conversation.screen.mark_disturbed();
        NextStep::Leave(interrupt.exit_code())
    }

    fn between_turns(
        &mut self,
        event: Option<DisplayEvent>,
        session: &SessionBackend,
    ) -> Result<NextStep, CliError> {
        Ok(match event {
            None if session.is_closed() => NextStep::Leave(exit::OK),
            None => NextStep::Talk,
            Some(event) => match self.conversation.show_between_turns(event)? {
                Some(end) => NextStep::Leave(self.code_of(&end)),
                None => NextStep::Talk,
            },
        })
    }

    /// Returns the name of the agent.
    pub(super) fn name_of(&self, session: &SessionBackend) -> String {
        let agent = self.agent.as_ref().map(|agent| &*agent.name);
        agent.unwrap_or(session.agent()).to_owned()
    }

    /// Shows the agent with details, by default with its command, and notes.
    pub(super) fn show_greeting(&mut self, session: &SessionBackend, about: &str, notes: &[&str]) {
        let name = self.name_of(session);
        let command = self.agent.as_ref().filter(|_| about.is_empty());
        let command = command.map_or_else(String::new, command_line);
        let about = if about.is_empty() && command != name {
            &*command
        } else {
            about
        };
        let screen = &mut self.conversation.screen;
        screen.note_agent(&name, about);
        screen.remark("  /help lists the commands · Ctrl-C stops a turn · Ctrl-D leaves");
        for note in notes {
            screen.remark(&format!("  {note}"));
        }
        screen.space();
    }

    async fn handle_line(
        &mut self,
        text: &str,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<NextStep, CliError> {
        let screen = &mut self.conversation.screen;
        match SlashCommand::parse(text) {
            SlashCommand::Nothing => return Ok(NextStep::Talk),
            SlashCommand::Quit => return Ok(NextStep::Leave(exit::OK)),
            SlashCommand::Help => self.show_help(),
            SlashCommand::Stop => {
                screen.remark("no turn is running; Ctrl-C stops a running turn");
            }
            SlashCommand::File(path) => self.attach_file(session, &path).await,
            SlashCommand::Model(None) => self.list_models(),
            SlashCommand::Mode(None) => self.list_modes(),
            SlashCommand::Model(model) => {
                return self.change_options(model, None, session, interrupts).await;
            }
            SlashCommand::Mode(mode) => {
                return self.change_options(None, mode, session, interrupts).await;
            }
            SlashCommand::Usage => {
                let usage = screen.usage();
                screen.remark(&usage);
            }
            SlashCommand::New => return Ok(NextStep::Anew),
            SlashCommand::Export(path) => self.export(&path),
            SlashCommand::Input(text) => return self.turn(&text, session, interrupts).await,
        }
        self.conversation.screen.space();
        Ok(NextStep::Talk)
    }

    async fn attach_file(&mut self, session: &mut SessionBackend, path: &Path) {
        let screen = &mut self.conversation.screen;
        let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
        match session.deliver_file(&own_path(path)).await {
            Ok(()) => {
                let text = format!(
                    "{} · {} · will be sent with your next input",
                    path.display(),
                    bytes(size)
                );
                screen.note("↑", paint::ACT, &text);
            }
            Err(error) => {
                let agent = self.agent.as_ref();
                let next = agent.and_then(|agent| after_refused_file(agent, path));
                screen.note(
                    "✗",
                    paint::BAD,
                    &format!("failed to attach {}: {error:#}", path.display()),
                );
                next.iter().for_each(|next| {
                    screen.remark(&format!("  next: leave and start again: {next}"))
                });
            }
        }
    }

    async fn turn(
        &mut self,
        text: &str,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<NextStep, CliError> {
        let no = match session.send(text).await {
            Ok(no) => no,
            Err(error) => {
                // The session may have ended while the user typed; its end has the reason.
                if let Some(end) = self.conversation.catch_up(session).await? {
                    return Ok(NextStep::Leave(self.code_of(&end)));
                }
                self.conversation
                    .screen
                    .note("✗", paint::BAD, &error.to_string());
                return Ok(if session.is_closed() {
                    NextStep::Leave(exit::FAILED)
                } else {
                    NextStep::Talk
                });
            }
        };
        if let Some(transcript) = &mut self.conversation.transcript {
            transcript.add(Speaker::Person, text);
        }
        self.follow_turn(no, session, interrupts).await
    }

    /// Shows a turn until its end.
    async fn follow_turn(
        &mut self,
        no: TurnNo,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<NextStep, CliError> {
        let outcome = self.conversation.turn(session, no, interrupts).await?;
        session.check_host()?;
        // The end of a refused session may arrive only after the next prompt.
        let mut is_refused = false;
        if let (TurnOutcome::Ended(end), Some(agent)) = (&outcome, &self.agent)
            && let Some(next) = next_after(end, agent, &self.start)
        {
            self.conversation.screen.remark(&next);
            is_refused = end.cause == Cause::Refused;
        }
        self.report_noise();
        let closed = match &outcome {
            TurnOutcome::Ended(_) => self.conversation.catch_up(session).await?,
            _ => None,
        };
        self.conversation.screen.space();
        Ok(match outcome {
            TurnOutcome::Ended(_) if is_refused => NextStep::Leave(exit::USAGE),
            TurnOutcome::Ended(_) => {
                closed.map_or(NextStep::Talk, |end| NextStep::Leave(self.code_of(&end)))
            }
            TurnOutcome::Closed(_, end) => NextStep::Leave(self.code_of(&end)),
            TurnOutcome::Leave(interrupt) => NextStep::Leave(interrupt.exit_code()),
        })
    }

    /// Returns the exit code for a session's end, and shows the next step for a refused session.
    pub(super) fn code_of(&mut self, end: &SessionEnd) -> u8 {
        let why = end
            .error
            .as_ref()
            .and_then(|error| error.message.as_deref())
            .unwrap_or_default();
        match (
            end.reason,
            omit_unapplied(&self.start.options().collect::<Vec<_>>(), why),
        ) {
            (ClosedReason::Finished, _) => exit::OK,
            (ClosedReason::Refused, Some(next)) => {
                self.conversation.screen.remark(&next);
                exit::USAGE
            }
            _ => exit::FAILED,
        }
    }

    /// Reports lines of the adapter that are not messages, for its author.
    fn report_noise(&mut self) {
        let (Some(host), Some(agent)) = (&self.host, &self.agent) else {
            return;
        };
        let Some(agent) = host.agent(&agent.id) else {
            return;
        };
        let noise = agent.counters.noise + agent.counters.bad + agent.counters.unknown_type;
        let more = noise.saturating_sub(self.noise);
        self.noise = noise;
        if more > 0 {
            let lines = if more == 1 {
                "1 line of the adapter was".to_owned()
            } else {
                format!("{more} lines of the adapter were")
            };
            self.conversation
                .screen
                .remark(&format!("{lines} not understood; --debug shows them"));
        }
    }
}

/// Waits for the next signal to end. Ctrl-C at the prompt belongs to the line editor.
async fn wait_for_termination(interrupts: &mut InterruptSignals) -> InterruptSignal {
    loop {
        let interrupt = interrupts.next().await;
        if interrupt == InterruptSignal::Terminate {
            return interrupt;
        }
    }
}
