//! A turn on the terminal: its events, its requests, and Ctrl-C.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use rustix::fs::Access;
use trunkline_host::{
    Event, EventKind, File, SessionEnd, TurnEnd, TurnNo,
    protocol::{Channel, SessionInfo},
};

use crate::{
    ask::{RequestPrompter, SettledRequest, ShownRequest},
    command::{ExportTranscript, Speaker},
    error::CliError,
    interrupt::{InterruptSignal, InterruptSignals},
    jsonl::EventWriter,
    paint,
    screen::SessionScreen,
    session_backend::{DisplayEvent, SessionBackend},
    terminal::TerminalSettings,
};

/// Limit of events that are held while a request is shown; later events stay with the host.
const MAX_HELD_EVENTS: usize = 1024;

/// Limit of tried names for a saved file.
const MAX_FILE_NAMES: u32 = 1000;

/// Time without events after which the spinner appears.
const SPINNER_DELAY: Duration = Duration::from_millis(300);

/// Shows a session and answers its requests.
pub(crate) struct ConversationView {
    pub(crate) screen: SessionScreen,
    /// Writer of JSON lines, which replaces the screen for programs.
    pub(crate) lines: Option<EventWriter>,
    pub(crate) asker: RequestPrompter,
    /// Folder to which files of the agent are copied.
    pub(crate) save: Option<PathBuf>,
    /// True if a file could not be saved.
    pub(crate) lost_files: bool,
    /// True if `--allow` of this command can allow a tool of the session.
    pub(crate) takes_allow: bool,
    /// Models, modes and commands that the session reported.
    pub(crate) learned: SessionInfo,
    /// Text of the conversation, if it can be exported.
    pub(crate) transcript: Option<ExportTranscript>,
}

/// Outcome of a turn for the conversation.
#[derive(Debug)]
pub(crate) enum TurnOutcome {
    /// The turn has ended; the session continues.
    Ended(Box<TurnEnd>),
    /// The session has ended too.
    Closed(Option<Box<TurnEnd>>, Box<SessionEnd>),
    /// The user leaves, or the program must end.
    Leave(InterruptSignal),
}

/// Creates the folder for the agent's files if it is missing, before the turn, because the files
/// are deleted after it.
///
/// # Errors
/// The folder cannot be created or written to.
pub(crate) fn make_folder(folder: Option<&Path>) -> Result<(), CliError> {
    let Some(folder) = folder else { return Ok(()) };
    let made = fs::create_dir_all(folder).and_then(|()| {
        rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
    });
    made.map_err(|error| {
        let failed = anyhow!(error).context(format!(
            "failed to create the folder {} for files",
            folder.display()
        ));
        CliError::usage(failed).next("set --save to a folder that you can write to")
    })
}

impl ConversationView {
    pub(crate) fn new(screen: SessionScreen) -> Self {
        Self {
            screen,
            lines: None,
            asker: RequestPrompter::new(),
            save: None,
            lost_files: false,
            takes_allow: true,
            learned: SessionInfo::default(),
            transcript: None,
        }
    }

    /// Shows a running turn until it ends. The first Ctrl-C stops the turn, the second leaves.
    ///
    /// # Errors
    /// A write to stdout fails.
    pub(crate) async fn turn(
        &mut self,
        session: &mut SessionBackend,
        turn: TurnNo,
        interrupts: &mut InterruptSignals,
    ) -> io::Result<TurnOutcome> {
        let _calm = TerminalSettings::calm();
        let began = Instant::now();
        let mut asking: Option<ShownRequest> = None;
        let mut held: VecDeque<DisplayEvent> = VecDeque::new();
        let mut stopped = false;
        let mut quiet_until = tokio::time::Instant::now() + SPINNER_DELAY;
        let mut asked_at: Option<Instant> = None;
        loop {
            // Time that the user needs does not count as the agent's.
            match asking {
                Some(_) => drop(asked_at.get_or_insert_with(Instant::now)),
                None => self
                    .screen
                    .add_wait(asked_at.take().map_or(Duration::ZERO, |at| at.elapsed())),
            }
            if asking.is_none()
                && let Some(shown) = held.pop_front()
            {
                match self.handle(shown, turn, &mut asking)? {
                    Some(end) => return self.add_session_end(session, end).await,
                    None => continue,
                }
            }
            // Signals come first, to bypass a flood of events. Answers come before the events that
            // wait for them.
            tokio::select! {
                biased;
                interrupt = interrupts.next() => match interrupt {
                    InterruptSignal::Key if !stopped => {
                        stopped = true;
                        session.stop_turn(turn);
                        self.cancel_prompt(&mut asking).await;
                        self.screen.show_stopping();
                    }
                    _ => {
                        self.cancel_prompt(&mut asking).await;
                        return Ok(TurnOutcome::Leave(interrupt));
                    }
                },
                settled = next_answer(&mut asking) => {
                    asking = None;
                    if let Some(settled) = settled {
                        self.write_decision(&settled)?;
                    }
                }
                shown = session.next(), if held.len() < MAX_HELD_EVENTS => {
                    let Some(shown) = shown else {
                        let reason = trunkline_host::protocol::ClosedReason::Failed;
                        let lost = SessionEnd { reason, error: None };
                        return Ok(TurnOutcome::Closed(None, Box::new(lost)));
                    };
                    if asking.as_ref().is_some_and(|asking| settles(&shown, asking, turn)) {
                        self.cancel_prompt(&mut asking).await;
                        if let DisplayEvent::Event(_) = shown {
                            self.screen.note("✗", paint::CARE, "the request was withdrawn");
                        }
                    }
                    held.push_back(shown);
                }
                () = tokio::time::sleep_until(quiet_until), if asking.is_none() => {
                    self.screen.wait(began);
                    self.screen.tick(began);
                }
            }
            quiet_until = tokio::time::Instant::now() + SPINNER_DELAY;
        }
    }

    /// Shows events between turns, usually none.
    ///
    /// # Errors
    /// A write to stdout fails.
    pub(crate) async fn catch_up(
        &mut self,
        session: &mut SessionBackend,
    ) -> io::Result<Option<Box<SessionEnd>>> {
        while session.running().is_none() {
            let shown = tokio::select! {
                biased;
                shown = session.next() => shown,
                () = std::future::ready(()) => return Ok(None),
            };
            let Some(shown) = shown else { return Ok(None) };
            if let Some(end) = self.show_between_turns(shown)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Shows an event between turns. Returns the session's end.
    ///
    /// # Errors
    /// A write to stdout fails.
    pub(crate) fn show_between_turns(
        &mut self,
        shown: DisplayEvent,
    ) -> io::Result<Option<Box<SessionEnd>>> {
        // A request outside a turn stays pending, because the user has no prompt for it.
        self.show(&shown)?;
        match shown {
            DisplayEvent::Event(Event {
                kind: EventKind::Closed(end),
                ..
            }) => Ok(Some(end)),
            _ => Ok(None),
        }
    }

    /// Shows an event, or asks about a request. Returns the end of the turn or of the session.
    fn handle(
        &mut self,
        shown: DisplayEvent,
        turn: TurnNo,
        asking: &mut Option<ShownRequest>,
    ) -> io::Result<Option<TurnOutcome>> {
        self.show(&shown)?;
        let request = match shown {
            DisplayEvent::Request(request) => *request,
            DisplayEvent::Event(event) => {
                return Ok(match event.kind {
                    EventKind::End(end) if end.turn == turn => Some(TurnOutcome::Ended(end)),
                    EventKind::Closed(end) => Some(TurnOutcome::Closed(None, end)),
                    _ => None,
                });
            }
            _ => return Ok(None),
        };
        self.screen.pause();
        let headline = request.request.headline();
        let (settled_as, next) = request.request.without_terminal(self.takes_allow);
        match self.asker.ask(request) {
            Ok(begun) => *asking = Some(begun),
            Err(settled) => {
                let text = format!("{settled_as}: {headline}");
                self.screen.note("✗", paint::CARE, &text);
                let hint = format!("  no terminal for the question; {next}");
                self.screen.remark(&hint);
                self.write_decision(&settled)?;
            }
        }
        Ok(None)
    }

    /// Adds the session's end to the turn's, if the session has ended too.
    async fn add_session_end(
        &mut self,
        session: &mut SessionBackend,
        outcome: TurnOutcome,
    ) -> io::Result<TurnOutcome> {
        Ok(match outcome {
            TurnOutcome::Ended(turn) if session.is_closed() => {
                match self.catch_up(session).await? {
                    Some(end) => TurnOutcome::Closed(Some(turn), end),
                    None => TurnOutcome::Ended(turn),
                }
            }
            outcome => outcome,
        })
    }

    /// Shows an event.
    fn show(&mut self, shown: &DisplayEvent) -> io::Result<()> {
        match shown {
            DisplayEvent::Event(event) => return self.show_of_session(event),
            DisplayEvent::Request(request) => {
                return self
                    .lines
                    .as_mut()
                    .map_or(Ok(()), |lines| lines.write_request(request));
            }
            _ if self.lines.is_some() => {}
            DisplayEvent::Input(text) => {
                if let Some(transcript) = &mut self.transcript {
                    transcript.add(Speaker::Person, text);
                }
                self.screen.show_input(text);
            }
            DisplayEvent::Decided { text, .. } => self.screen.remark(text),
            DisplayEvent::Note { mark, style, text } => self.screen.note(mark, *style, text),
            DisplayEvent::Nothing => {}
        }
        Ok(())
    }

    fn show_of_session(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::Info(info) => self.record_options(info),
            EventKind::Output(output)
                if *output.channel() == Channel::Stdout && output.history != Some(true) =>
            {
                if let Some(transcript) = &mut self.transcript {
                    transcript.add(Speaker::Agent, &output.content);
                }
            }
            _ => {}
        }
        self.show_event(event)?;
        if let (EventKind::File(file), Some(folder)) = (&event.kind, &self.save) {
            match copy_file(file, folder) {
                Ok(path) => self.screen.remark(&format!("saved as {}", path.display())),
                Err(error) => {
                    self.lost_files = true;
                    let text = format!("failed to save the file in {}: {error}", folder.display());
                    self.screen.note("✗", paint::BAD, &text);
                }
            }
        }
        Ok(())
    }

    fn record_options(&mut self, info: &SessionInfo) {
        let learned = &mut self.learned;
        replace_known(&mut learned.model, &info.model);
        replace_known(&mut learned.mode, &info.mode);
        replace_known(&mut learned.models, &info.models);
        replace_known(&mut learned.modes, &info.modes);
        replace_known(&mut learned.commands, &info.commands);
    }

    fn show_event(&mut self, event: &Event) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.write_event(event),
            None => {
                if let EventKind::End(_) = event.kind {
                    self.screen.end_answer()?;
                }
                self.screen.event(event)
            }
        }
    }

    /// Cancels the prompt; the cursor stays within its line.
    async fn cancel_prompt(&mut self, asking: &mut Option<ShownRequest>) {
        if let Some(asking) = asking.take() {
            asking.end().await;
            self.screen.mark_disturbed();
        }
    }

    fn write_decision(&mut self, settled: &SettledRequest) -> io::Result<()> {
        match &mut self.lines {
            Some(lines) => lines.write_decision(settled),
            None => Ok(()),
        }
    }
}

fn replace_known<T: Clone>(known: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        known.clone_from(new);
    }
}

/// Returns true if an event settles the displayed request.
fn settles(shown: &DisplayEvent, asking: &ShownRequest, turn: TurnNo) -> bool {
    let event = match shown {
        DisplayEvent::Event(event) => event,
        DisplayEvent::Decided { request_id, .. } => return asking.is_about(request_id),
        _ => return false,
    };
    match &event.kind {
        EventKind::Withdrawn { request_id, .. } => asking.is_about(request_id),
        EventKind::End(end) => end.turn == turn,
        EventKind::Closed(_) => true,
        _ => false,
    }
}

/// Copies a file of the agent into a folder, under its own name or a similar one. Never replaces a
/// file.
fn copy_file(file: &File, folder: &Path) -> io::Result<PathBuf> {
    let name = Path::new(&file.name).file_name().unwrap_or("file".as_ref());
    let stem = Path::new(name).file_stem().unwrap_or(name);
    let extension = Path::new(name).extension();
    for number in 0..MAX_FILE_NAMES {
        let mut name = stem.to_owned();
        if number > 0 {
            name.push(format!("-{number}"));
        }
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        let path = folder.join(name);
        match fs::File::create_new(&path) {
            Ok(mut copy) => {
                io::copy(&mut fs::File::open(&file.path)?, &mut copy)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

async fn next_answer(asking: &mut Option<ShownRequest>) -> Option<SettledRequest> {
    match asking {
        Some(asking) => asking.answered().await,
        None => std::future::pending().await,
    }
}
