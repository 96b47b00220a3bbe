//! `trunkline sessions`: lists, reads, continues, changes, checks and removes sessions of a
//! journal.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use trunkline_journal::{Damage, Journal, Options, ReadBatch, Reader};
use trunkline_protocol::{SessionId, SessionsList};
use trunkline_sessions::{Archive, EntryPrinter, ExportFormat};

use self::list::SessionFilter;
use super::{chat, print_json, run::SingleTurn};
use crate::{
    completion,
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal, listing,
    open_session::JournalAccess,
    screen::{OutputDetail, SessionScreen},
    session_backend::AttachMode,
    target::AgentTarget,
    terminal::count_text,
};

mod edit;
mod list;
mod live;

pub(crate) use self::list::time_ago;

/// Size of one read of the journal, in bytes.
const READ_BYTES: usize = 1024 * 1024;

/// Lists, reads, continues, changes, checks and removes the sessions of a journal
///
/// A journal is the folder of `trunkline up`, of `trunkline serve --journal FOLDER`, or of `run` and
/// `chat` with --journal. If a process serves it, that process runs the sessions. Otherwise
/// `attach` and `send` serve it themselves, with the agents of the configuration. The start of an
/// id is enough if no other session has it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline sessions --journal journal
  trunkline sessions --journal journal show s-1
  trunkline sessions --journal journal history s-1 --follow
  trunkline sessions --journal journal attach s-1
  trunkline sessions --journal journal send s-1 'Go on'
  trunkline sessions --journal journal stop s-1
  trunkline sessions --journal journal export s-1 > s-1.md
  trunkline sessions --journal journal fork s-1
  trunkline sessions --journal journal rename s-1 'Logs of March'
  trunkline sessions --journal journal archive s-1
  trunkline sessions list --native --agent coder
  trunkline sessions --journal journal check
  trunkline sessions --journal journal rm s-1")]
pub(crate) struct SessionsArgs {
    /// Folder of the journal [default: `runtime.journal` of the configuration, otherwise the
    /// daemon's]
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_JOURNAL", global = true)]
    journal: Option<PathBuf>,

    #[command(subcommand)]
    action: Option<SessionAction>,

    #[command(flatten)]
    filter: SessionFilter,

    /// Prints JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum SessionAction {
    /// Lists the sessions; the default
    List(SessionFilter),
    /// Shows the facts of a session
    Show(SessionIdArg),
    /// Prints the events of a session
    History {
        #[command(flatten)]
        id: SessionIdArg,
        /// Number of the first entry
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::option_value::parse_count)]
        from: u64,
        /// Format of the events
        #[arg(long, value_enum, default_value_t = HistoryFormat::Text)]
        format: HistoryFormat,
        /// Continues with new events until the session or its host ends
        #[arg(long)]
        follow: bool,
    },
    /// Continues a session as `chat` does, after its earlier events
    Attach {
        #[command(flatten)]
        id: SessionIdArg,
        /// Only watches
        #[arg(long, conflicts_with = "adapter")]
        observe: bool,
        #[command(flatten)]
        serving: ServingOptions,
    },
    /// Sends one input and prints the answer, as `run --session` does
    Send {
        #[command(flatten)]
        id: SessionIdArg,
        /// Text of the input
        text: String,
        /// Ends when the input is stored; the turn runs on
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        serving: ServingOptions,
    },
    /// Stops the running turn of a session
    Stop(SessionIdArg),
    /// Prints a session as Markdown
    Export(SessionIdArg),
    /// Copies a session, and prints the id of the copy
    ///
    /// The copy has the entries of its source. Nothing runs before its first input, files stay as
    /// they are, and permissions are requested again. An agent that can copy its own conversation
    /// does so. Another one starts a new conversation, with a transcript of the copied entries in
    /// its instructions. The command reports which applies.
    #[command(after_help = "\
Examples:
  trunkline sessions fork s-1
  trunkline sessions history s-1 --format json    finds the number of an entry, as `seq`
  trunkline sessions fork s-1 --at 42
  trunkline sessions attach $(trunkline sessions fork s-1)")]
    Fork {
        #[command(flatten)]
        id: SessionIdArg,
        /// Last entry of the copy; a turn that is open there ends in the copy [default: the last
        /// one]
        #[arg(long, value_name = "ENTRY", value_parser = crate::option_value::parse_count)]
        at: Option<u64>,
    },
    /// Sets the title of a session, which its agent then cannot change
    Rename {
        #[command(flatten)]
        id: SessionIdArg,
        /// Title of at most 200 bytes; '' removes it
        title: String,
    },
    /// Hides a session from lists; it can still be continued
    Archive {
        #[command(flatten)]
        id: SessionIdArg,
        /// Lists it again
        #[arg(long)]
        undo: bool,
    },
    /// Reads the whole journal, and reports missing and damaged entries
    Check,
    /// Removes sessions irrecoverably
    Rm {
        /// Ids of the sessions, or their starts
        #[arg(required = true, add = completion::sessions())]
        ids: Vec<String>,
    },
}

/// Session of a command.
#[derive(Debug, Args)]
struct SessionIdArg {
    /// Id of the session, or its start
    #[arg(add = completion::sessions())]
    id: String,
}

/// Options of the host that serves a session.
#[derive(Debug, Args)]
struct ServingOptions {
    /// Adapter of a session that was begun with --adapter, if no process serves the journal
    #[arg(long, value_name = "'CMD ARGS'")]
    adapter: Option<String>,

    /// Moves a session of a cluster to another host if no running host has its files; its agent
    /// then starts a new conversation
    #[arg(long, conflicts_with = "adapter")]
    relocate: bool,
}

/// Format of printed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HistoryFormat {
    /// Text
    Text,
    /// Entries, one per line
    Json,
    /// Markdown document
    Markdown,
}

impl SessionsArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let folder = journal::folder_or_daemons(self.journal.as_deref(), config)?;
        let reader = &JournalReader {
            folder: folder.ok_or_else(journal::no_journal_error)?,
            is_json: self.json,
        };
        let access = |adapter| {
            JournalAccess::new(
                reader.folder.clone(),
                AgentTarget::of_adapter(adapter),
                None,
            )
        };
        let Some(action) = self.action else {
            return list::list_sessions(reader, config, self.filter).await;
        };
        match action {
            SessionAction::List(filter) => {
                list::list_sessions(reader, config, filter.or(self.filter)).await
            }
            SessionAction::Show(id) => {
                list::show_session(reader, &reader.find_id(id.id).await?).await
            }
            SessionAction::History {
                id,
                from,
                format,
                follow,
            } => {
                let format = match format {
                    HistoryFormat::Text if reader.is_json => HistoryFormat::Json,
                    format => format,
                };
                live::follow_history(reader, &reader.find_id(id.id).await?, from, format, follow)
                    .await
            }
            SessionAction::Export(id) => {
                let format = if reader.is_json {
                    HistoryFormat::Json
                } else {
                    HistoryFormat::Markdown
                };
                live::follow_history(reader, &reader.find_id(id.id).await?, 1, format, false).await
            }
            SessionAction::Attach {
                id,
                observe,
                serving,
            } => {
                let id = reader.find_id(id.id).await?;
                serving.relocate(reader, &id).await?;
                if observe {
                    return live::observe_session(reader, &id).await;
                }
                let screen = SessionScreen::new(OutputDetail::Calm);
                chat::attach(access(serving.adapter), id.as_str(), config, screen, None).await
            }
            SessionAction::Send {
                id,
                text,
                no_wait,
                serving,
            } => {
                let id = reader.find_id(id.id).await?;
                serving.relocate(reader, &id).await?;
                if no_wait {
                    return live::submit_input(reader, &id, &text).await;
                }
                let mut interrupts = InterruptSignals::watch()?;
                let turn = SingleTurn {
                    prompt: text,
                    files: Vec::new(),
                    conversation: live::new_conversation(reader.is_json),
                    again: None,
                };
                let is_ad_hoc = serving.adapter.is_some();
                let mode = AttachMode::OwnTurns;
                let open = access(serving.adapter).attach(id.as_str(), mode, config);
                turn.run(open.await?, is_ad_hoc, config, &mut interrupts)
                    .await
            }
            SessionAction::Stop(id) => live::stop_turn(reader, &reader.find_id(id.id).await?).await,
            // Only reads the disk.
            SessionAction::Check => tokio::task::block_in_place(|| reader.check_journal()),
            SessionAction::Fork { id, at } => {
                edit::fork_session(reader, &reader.find_id(id.id).await?, at).await
            }
            SessionAction::Rename { id, title } => {
                edit::edit_session(reader, &reader.find_id(id.id).await?, Some(title), None).await
            }
            SessionAction::Archive { id, undo } => {
                edit::edit_session(reader, &reader.find_id(id.id).await?, None, Some(!undo)).await
            }
            SessionAction::Rm { ids } => {
                let mut found = Vec::with_capacity(ids.len());
                for id in ids {
                    found.push(reader.find_id(id).await?);
                }
                live::remove_sessions(reader, &found).await
            }
        }
    }
}

impl ServingOptions {
    /// Moves the session to another host, if the command line requests it.
    async fn relocate(&self, reader: &JournalReader, id: &SessionId) -> Result<(), CliError> {
        if self.relocate {
            live::relocate_session(&reader.folder, id).await?;
        }
        Ok(())
    }
}

/// Reader of a journal on disk, without its host.
struct JournalReader {
    folder: PathBuf,
    is_json: bool,
}

impl JournalReader {
    /// Returns the id that the command line names, in full or by its start.
    async fn find_id(&self, text: String) -> Result<SessionId, CliError> {
        let id = listing::complete_id(&self.folder, text).await?;
        SessionId::new(id).map_err(CliError::usage)
    }

    fn print_history(&self, id: &SessionId, from: u64, format: HistoryFormat) -> CommandResult {
        let archive = journal::open_archive(&self.folder)?;
        let session = archive.show(id).map_err(anyhow::Error::from)?;
        let session = session.ok_or_else(|| journal::no_session(id.as_str(), &self.folder))?;
        let Some(mut reader) = archive.read(id, from) else {
            return Ok(exit::OK);
        };
        let mut out = anstream::stdout().lock();
        let mut printer = EntryPrinter::new(format.into());
        printer.begin(&session, &mut out)?;
        let mut is_whole = true;
        print_entries(&mut reader, &mut printer, &mut out, |_, missing| {
            is_whole = false;
            anstream::eprintln!("note: {missing}; `trunkline sessions check` has details");
            Ok(())
        })?;
        printer.end(&mut out)?;
        Ok(if is_whole { exit::OK } else { exit::FAILED })
    }

    fn check_journal(&self) -> CommandResult {
        let archive = journal::open_archive(&self.folder)?;
        let report = trunkline_journal::check(&self.folder)
            .with_context(|| format!("failed to read the journal {}", self.folder.display()))?;
        let unreachable = find_unreachable(&archive)?.map(|id| {
            let damage = format!(
                "the id {id} does not find its session: the file `format` is damaged, or of another journal; \
                 restore it from a backup"
            );
            (None, damage)
        });
        let found = report.damaged.iter().map(|found| {
            let id = found.session.and_then(|key| archive.name(key));
            // The id is read from the last facts.
            let note = match (&id, found.damage) {
                (Some(_), Damage::Facts) => "; a later one is whole, so nothing is lost",
                (None, Damage::Facts) => "; its session is not listed, and cannot continue",
                _ => "",
            };
            (id, format!("{}{note}", found.damage))
        });
        let damaged: Vec<_> = unreachable.into_iter().chain(found).collect();
        let is_whole = damaged.is_empty();
        let code = if is_whole { exit::OK } else { exit::FAILED };
        if self.is_json {
            let damaged: Vec<_> = damaged
                .iter()
                .map(|(id, damage)| json!({ "session_id": id, "damage": damage }))
                .collect();
            print_json(&json!({
                "whole": is_whole,
                "sessions": report.sessions,
                "entries": report.entries,
                "bytes": report.bytes,
                "damaged": damaged,
            }))?;
            return Ok(code);
        }
        let mut out = anstream::stdout().lock();
        writeln!(
            out,
            "{}, {}, {} bytes",
            count_text(report.sessions, ["session", "sessions"]),
            count_text(report.entries, ["entry", "entries"]),
            report.bytes
        )?;
        for (id, damage) in &damaged {
            match id {
                Some(id) => writeln!(out, "session {id}: {damage}")?,
                None => writeln!(out, "the log: {damage}")?,
            }
        }
        if is_whole {
            writeln!(out, "the journal is whole")?;
        } else {
            let folder = self.folder.to_string_lossy();
            writeln!(
                out,
                "the journal is DAMAGED; what is not named can be read\n\
                 next: stop its host and restore the folder from a backup; without one, \
                 `trunkline sessions --journal {} export ID` writes what is left of a session",
                shell_words::quote(&folder)
            )?;
        }
        Ok(code)
    }

    fn remove(&self, ids: &[SessionId]) -> CommandResult {
        // A missing journal must not be created.
        journal::open_archive(&self.folder)?;
        let (journal, _) = Journal::open(&self.folder, Options::default())
            .map_err(|error| journal::refused(error, &self.folder))?;
        for (removed, id) in ids.iter().enumerate() {
            let known = journal
                .find(id.as_str())
                .filter(|key| journal.known(*key).is_some_and(|known| !known.is_removed));
            let key = known.ok_or_else(|| not_removed(id, removed))?;
            journal.remove(key).map_err(anyhow::Error::from)?;
        }
        journal.close().map_err(anyhow::Error::from)?;
        self.report_removed(ids)
    }

    fn report_removed(&self, ids: &[SessionId]) -> CommandResult {
        if self.is_json {
            return print_json(&json!({ "removed": ids }));
        }
        Ok(exit::OK)
    }
}

/// Prints the entries that a reader finds, and passes a sentence about each gap to `report_gap`.
pub(super) fn print_entries<W: Write>(
    reader: &mut Reader,
    printer: &mut EntryPrinter,
    out: &mut W,
    mut report_gap: impl FnMut(&mut W, String) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    loop {
        lines.clear();
        match reader.next(&mut lines, READ_BYTES)? {
            ReadBatch::End => return Ok(()),
            ReadBatch::Missing(numbers) => {
                let (first, last) = numbers.into_inner();
                report_gap(out, format!("entries {first} to {last} are missing"))?;
            }
            ReadBatch::Lines(_) => {
                let lines = lines.split(|byte| *byte == b'\n');
                for line in lines.filter(|line| !line.is_empty()) {
                    printer.entry(line, out)?;
                }
            }
        }
    }
}

/// Returns a listed session that its id does not find, because the salt of the ids is wrong.
fn find_unreachable(archive: &Archive) -> Result<Option<String>, CliError> {
    let page = archive.list(&SessionsList {
        limit: Some(1),
        ..listing::all()
    });
    let Some(first) = page.sessions.into_iter().flatten().next() else {
        return Ok(None);
    };
    let id = SessionId::new(&*first.session_id).map_err(CliError::usage)?;
    let found = archive.show(&id);
    let is_found = found.map_err(anyhow::Error::from)?.is_some();
    Ok((!is_found).then_some(first.session_id))
}

impl From<HistoryFormat> for ExportFormat {
    fn from(format: HistoryFormat) -> Self {
        match format {
            HistoryFormat::Text => Self::Text,
            HistoryFormat::Json => Self::Json,
            HistoryFormat::Markdown => Self::Markdown,
        }
    }
}

fn not_removed(id: &SessionId, removed: usize) -> CliError {
    CliError::usage(anyhow!(
        "the journal has no session {:?}; {removed} were removed",
        id.as_str()
    ))
    .next("`trunkline sessions` lists them")
}
