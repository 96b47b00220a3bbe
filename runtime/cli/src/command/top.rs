//! `trunkline top`: the agents and sessions of a host, live.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use trunkline_protocol::{AgentEntry, OpenSession, SessionsList};

use self::{
    link::{HostConnection, HostReport},
    screen::AlternateScreen,
    state::{KeyAction, ScreenMode, TopState},
    transcript::{SessionTranscript, TranscriptReader},
};
use super::{print_json, print_text};
use crate::{
    daemon::{self, ANSWER_TIMEOUT, DaemonFolder},
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal, listing,
    terminal::columns_of,
};

mod draw;
mod figures;
mod keys;
mod link;
mod screen;
mod state;
mod transcript;

/// Interval of requests to the host.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Limit of sessions whose titles are read, the last active first.
const MAX_TITLES: u32 = 1000;

/// Minimum interval of reads of titles.
const TITLES_INTERVAL: Duration = Duration::from_secs(10);

/// Shows the agents and sessions of a host, live
///
/// The host is the daemon, or `trunkline serve --journal FOLDER`. Nothing is started or changed,
/// unless you stop a turn. Press ? for the keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline top --journal journal
  trunkline top --journal journal --once
  trunkline top --journal journal --once --json")]
pub(crate) struct TopArgs {
    /// Folder of the journal [default: the journal of the configuration or of the daemon]
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_JOURNAL")]
    journal: Option<PathBuf>,

    /// Prints the current state, and ends
    #[arg(long)]
    once: bool,

    /// Prints JSON
    #[arg(long, requires = "once")]
    json: bool,
}

impl TopArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let folder = journal::folder_or_daemons(self.journal.as_deref(), config)?
            .ok_or_else(journal::no_journal_error)?;
        let link = HostConnection::to(&folder)
            .await?
            .ok_or_else(|| no_host(&folder))?;
        if self.once {
            return self.print(&folder, link).await;
        }
        if !AlternateScreen::is_there() {
            return Err(
                CliError::usage(anyhow!("stdin and stdout are not a terminal"))
                    .next("add --once, or --once --json for programs"),
            );
        }
        run_live(&folder, link).await
    }

    /// Prints one report of the host.
    async fn print(&self, folder: &Path, link: HostConnection) -> CommandResult {
        let (agents, sessions) = request_report(folder, link).await?;
        let titles = tokio::task::block_in_place(|| read_titles(folder));
        if self.json {
            let sessions: Vec<_> = sessions
                .iter()
                .map(|session| {
                    let mut member = json!(session);
                    member["title"] = json!(titles.get(&session.id));
                    member
                })
                .collect();
            return print_json(&json!({"agents": agents, "sessions": sessions}));
        }
        let mut state = TopState::default();
        state.update(agents, sessions, None);
        state.take_titles(titles);
        print_text(draw::format_tables(&state, columns_of(io::stdout())))
    }
}

/// Lists the agents of the journal's host, with their health. `None` if no host is running.
///
/// # Errors
/// The host does not answer.
pub(super) async fn list_agents(folder: &Path) -> Result<Option<Vec<AgentEntry>>, CliError> {
    let Some(link) = HostConnection::to(folder).await? else {
        return Ok(None);
    };
    let (agents, _) = request_report(folder, link).await?;
    Ok(Some(agents))
}

/// Requests one report of the host.
async fn request_report(
    folder: &Path,
    mut link: HostConnection,
) -> Result<(Vec<AgentEntry>, Vec<OpenSession>), CliError> {
    link.request_health();
    let answered = timeout(ANSWER_TIMEOUT, async {
        loop {
            match link.next_report().await {
                Some(HostReport::List { agents, sessions }) => return Ok((agents, sessions)),
                Some(_) => {}
                None => return Err(no_host(folder)),
            }
        }
    });
    answered
        .await
        .map_err(|_| match DaemonFolder::of_journal(folder) {
            Some(daemon) => daemon.no_answer_error(),
            None => CliError::failed(anyhow!("the host of {} does not answer", folder.display()))
                .next("it is stopped or overloaded; try again, or end its process"),
        })?
}

fn no_host(folder: &Path) -> CliError {
    let shown = folder.display();
    let error = CliError::usage(anyhow!("no host serves the journal {shown}"));
    if daemon::journal().is_some_and(|journal| journal == folder) {
        return error.next("start the daemon by `trunkline up`");
    }
    error.next(format!("start one by `trunkline serve --journal {shown}`"))
}

/// Result of a read in the background.
enum BackgroundRead {
    Titles(HashMap<String, String>),
    Text(TranscriptReader, anyhow::Result<String>),
}

/// Runs the live view until the user leaves.
async fn run_live(folder: &Path, link: HostConnection) -> CommandResult {
    let mut interrupts = InterruptSignals::watch()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut screen = AlternateScreen::enter()?;
    let mut state = TopState::new(folder.display().to_string());
    state.is_connected = true;
    let mut link = Some(link);
    let mut asked: Option<Instant> = None;
    let mut answered: Option<Instant> = None;
    let mut tick = interval(REPORT_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reading: JoinSet<BackgroundRead> = JoinSet::new();
    let mut titled: Option<Instant> = None;
    let mut source: Option<TranscriptReader> = None;
    loop {
        screen.terminal.draw(|frame| {
            let area = frame.area();
            draw::draw_screen(&mut state, area, frame.buffer_mut());
        })?;
        let report = async {
            match &mut link {
                Some(link) => link.next_report().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            interrupt = interrupts.next() => return Ok(interrupt.exit_code()),
            key = screen.key() => {
                // The terminal is closed.
                let Some(key) = key else { return Ok(exit::TERMINATED) };
                match state.handle_key(key) {
                    None => {}
                    Some(KeyAction::Quit) => return Ok(exit::OK),
                    Some(KeyAction::Open(id)) => {
                        source = Some(TranscriptReader::new(folder, &id));
                        state.mode = ScreenMode::Transcript(SessionTranscript::new(&id));
                        read_more(&mut reading, &mut source);
                    }
                    Some(KeyAction::Stop(id)) => {
                        state.note = Some(match &mut link {
                            Some(link) => {
                                link.stop(&id);
                                format!("requested the end of the turn of {id}")
                            }
                            None => "no host is running".to_owned(),
                        });
                    }
                }
                if !matches!(state.mode, ScreenMode::Transcript(_)) {
                    source = None;
                }
            }
            _ = resized.recv() => {}
            report = report => match report {
                Some(HostReport::List { agents, sessions }) => {
                    let now = Instant::now();
                    let elapsed = answered.replace(now).map(|before| now - before);
                    asked = None;
                    let ms = elapsed.and_then(|elapsed| u64::try_from(elapsed.as_millis()).ok());
                    state.update(agents, sessions, ms);
                }
                Some(HostReport::Refused { id, why }) => {
                    state.note = Some(format!("{id} was not stopped: {why}"));
                }
                Some(HostReport::Stopped) => {}
                None => {
                    (link, asked, answered) = (None, None, None);
                    state.lose_host();
                }
            },
            Some(read) = reading.join_next() => match read {
                Ok(BackgroundRead::Titles(titles)) => state.take_titles(titles),
                Ok(BackgroundRead::Text(of, text)) => {
                    if let ScreenMode::Transcript(transcript) = &mut state.mode
                        && of.is_of(&transcript.id)
                    {
                        source = Some(of);
                        match text {
                            Ok(text) => transcript.append(&text),
                            Err(error) => transcript.fail(&error),
                        }
                    }
                }
                Err(error) => state.note = Some(error.to_string()),
            },
            _ = tick.tick() => {
                if link.is_none() {
                    // A host that accepts no connection counts as none.
                    link = HostConnection::to(folder).await.ok().flatten();
                }
                if let Some(link) = link.as_mut().filter(|_| asked.is_none()) {
                    link.request_health();
                    asked = Some(Instant::now());
                }
                read_more(&mut reading, &mut source);
                if state.lacks_titles() && titled.is_none_or(|at| at.elapsed() >= TITLES_INTERVAL) {
                    titled = Some(Instant::now());
                    let folder = folder.to_owned();
                    reading.spawn_blocking(move || BackgroundRead::Titles(read_titles(&folder)));
                }
            }
        }
    }
}

/// Continues to read the open transcript, unless a read is running.
fn read_more(reading: &mut JoinSet<BackgroundRead>, source: &mut Option<TranscriptReader>) {
    if let Some(mut source) = source.take() {
        reading.spawn_blocking(move || {
            let text = source.read_more();
            BackgroundRead::Text(source, text)
        });
    }
}

/// Reads the titles of the last active sessions. Blocks for the disk. Unreadable sessions have no
/// title.
fn read_titles(folder: &Path) -> HashMap<String, String> {
    let Ok(archive) = journal::open_archive(folder) else {
        return HashMap::new();
    };
    let asked = SessionsList {
        limit: Some(MAX_TITLES),
        ..listing::all()
    };
    let listed = archive.list(&asked).sessions.into_iter().flatten();
    listed
        .filter_map(|one| Some((one.session_id, one.title?)))
        .collect()
}
