//! `trunkline sessions`: the sessions of a journal, listed, read, copied, renamed, checked and removed.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use trunkline_journal::{Journal, Options, ReadBatch};
use trunkline_protocol::{ListedSession, RequestId, SessionId, SessionsList};
use trunkline_sessions::{Archive, EntryPrinter, ExportFormat};

use self::list::Filter;
use super::chat::Place;
use crate::{
    error::{CliError, CommandResult},
    exit, journal, listing,
    overrides::Overrides,
    screen::{Detail, Screen},
    target::Target,
    terminal::plain_line,
};

mod edit;
mod list;
mod live;

pub(super) use self::list::ago;

/// How much of the journal is read at once, in bytes.
const READ: usize = 1024 * 1024;

/// Lists the sessions of a journal, reads them, goes on with them, checks the journal and removes sessions
///
/// A journal is the folder of `trunkline serve --journal FOLDER`. Where a host has it, `attach`, `send`, `stop` and
/// `history --follow` are of that host; else `attach` and `send` open it themselves, with the agents of the
/// configuration. An archived session is not listed, except by `--archived`.
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
pub(crate) struct Sessions {
    /// The journal's folder [default: `journal` in `runtime` of the configuration, else that of `trunkline up`]
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_JOURNAL", global = true)]
    journal: Option<PathBuf>,

    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    filter: Filter,

    /// As JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the sessions, which is also what no command does
    List(Filter),
    /// Shows what is known of one
    Show {
        /// The session's id
        id: String,
    },
    /// Reads what happened in one
    History {
        /// The session's id
        id: String,
        /// The number of the first entry
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::option_value::parse_count)]
        from: u64,
        /// How
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        /// Goes on with what is new, while a host has the journal
        #[arg(long)]
        follow: bool,
    },
    /// Talks in one, as `chat` does: what was said first, then what is new
    Attach {
        /// The session's id
        id: String,
        /// Watches, and says nothing
        #[arg(long)]
        observe: bool,
        /// The adapter of a session that `--adapter` began, where no host has the journal
        #[arg(long, value_name = "'CMD ARGS'", conflicts_with = "observe")]
        adapter: Option<String>,
        #[command(flatten)]
        anew: Anew,
    },
    /// Sends one input, and shows the answer, as `run` does
    Send {
        /// The session's id
        id: String,
        /// What to say
        text: String,
        /// Ends when the journal has the input; the turn goes on
        #[arg(long)]
        no_wait: bool,
        /// The adapter of a session that `--adapter` began, where no host has the journal
        #[arg(long, value_name = "'CMD ARGS'")]
        adapter: Option<String>,
        #[command(flatten)]
        anew: Anew,
    },
    /// Stops the turn that runs in one
    Stop {
        /// The session's id
        id: String,
    },
    /// Writes one to stdout, as Markdown
    Export {
        /// The session's id
        id: String,
    },
    /// Opens a session as a copy of one, and prints its id: both go their own way from there
    ///
    /// The copy has the entries of its source. Nothing runs before its first input, files stay as they are, and every
    /// permission is asked for again. An agent that can copy its own conversation does so; another one begins anew, with
    /// a transcript of the copied entries among its instructions. The command prints which of the two it is.
    #[command(after_help = "\
Examples:
  trunkline sessions fork s-1
  trunkline sessions history s-1 --format json    finds the number of an entry, as `seq`
  trunkline sessions fork s-1 --at 42
  trunkline sessions attach $(trunkline sessions fork s-1)")]
    Fork {
        /// The session's id
        id: String,
        /// The last entry of the copy; a turn that runs there ends in the copy [default: the last one]
        #[arg(long, value_name = "ENTRY", value_parser = crate::option_value::parse_count)]
        at: Option<u64>,
    },
    /// Gives a session a title, which stays whatever its agent calls it later
    Rename {
        /// The session's id
        id: String,
        /// The title, of at most 200 bytes; '' removes it
        title: String,
    },
    /// Leaves a session out of lists; it is otherwise as before, and can be continued
    Archive {
        /// The session's id
        id: String,
        /// Lists it again
        #[arg(long)]
        undo: bool,
    },
    /// Reads the whole journal, and names what is missing or damaged
    Check,
    /// Removes sessions: nothing of them can be read any more
    Rm {
        /// The sessions' ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

impl Action {
    /// Returns the session ids of the command line, which may be shortened.
    fn ids_mut(&mut self) -> &mut [String] {
        match self {
            Self::List(_) | Self::Check => &mut [],
            Self::Show { id }
            | Self::History { id, .. }
            | Self::Attach { id, .. }
            | Self::Send { id, .. }
            | Self::Stop { id }
            | Self::Export { id }
            | Self::Fork { id, .. }
            | Self::Rename { id, .. }
            | Self::Archive { id, .. } => std::slice::from_mut(id),
            Self::Rm { ids } => ids,
        }
    }
}

/// Whether a session may begin anew.
#[derive(Debug, Args)]
struct Anew {
    /// In a cluster, where the session's files are on a storage that no host has that is up: has one of these take it over.
    /// Its agent begins anew there, without what it had on that storage
    #[arg(long, conflicts_with = "adapter")]
    relocate: bool,
}

/// How a session is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// Each entry as it is, one on a line
    Json,
    /// As a document
    Markdown,
}

impl Sessions {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let Some(folder) = journal::folder_or_daemons(self.journal.as_deref(), config)? else {
            return Err(journal::none_named());
        };
        let is_json = self.json;
        let of = |adapter| Place {
            folder: folder.clone(),
            target: Target::of_adapter(adapter),
            overrides: Overrides::default().for_a_live_session(),
            again: self
                .journal
                .is_none()
                .then_some("trunkline sessions attach"),
        };
        let mut action = self.action;
        for id in action.iter_mut().flat_map(Action::ids_mut) {
            *id = listing::complete_id(&folder, std::mem::take(id)).await?;
        }
        if let Some(Action::Attach { id, anew, .. } | Action::Send { id, anew, .. }) = &action
            && anew.relocate
        {
            live::relocate(&folder, &id_of(id)?).await?;
        }
        let read = Reading {
            folder: folder.clone(),
            is_json,
        };
        match action {
            None => list::list(&read, config, self.filter).await,
            Some(Action::List(filter)) => list::list(&read, config, filter.or(self.filter)).await,
            Some(Action::Show { id }) => list::show(&read, &id).await,
            Some(Action::History {
                id,
                from,
                format,
                follow,
            }) => {
                let format = if is_json && format == Format::Text {
                    Format::Json
                } else {
                    format
                };
                if follow {
                    live::follow(&read, &id, from, format, true).await
                } else {
                    live::history(&read, &id, from, format).await
                }
            }
            Some(Action::Export { id }) => {
                let format = if is_json {
                    Format::Json
                } else {
                    Format::Markdown
                };
                live::history(&read, &id, 1, format).await
            }
            Some(Action::Attach {
                id, observe: true, ..
            }) => live::observe(&read, &id).await,
            Some(Action::Attach { id, adapter, .. }) => {
                of(adapter)
                    .go_on(&id, config, Screen::new(Detail::Calm), None)
                    .await
            }
            Some(Action::Send {
                id,
                text,
                no_wait,
                adapter,
                ..
            }) => live::send(of(adapter), &id, &text, !no_wait, is_json, config).await,
            Some(Action::Stop { id }) => live::stop(&folder, &id_of(&id)?).await,
            // The disk, and nothing else of this process.
            Some(Action::Check) => tokio::task::block_in_place(|| read.check()),
            Some(Action::Fork { id, at }) => edit::fork(&read, &id, at).await,
            Some(Action::Rename { id, title }) => edit::edit(&read, &id, Some(title), None).await,
            Some(Action::Archive { id, undo }) => edit::edit(&read, &id, None, Some(!undo)).await,
            Some(Action::Rm { ids }) => live::remove(&read, &ids).await,
        }
    }
}

/// What is read of a journal on disk, without its host.
struct Reading {
    folder: PathBuf,
    is_json: bool,
}

impl Reading {
    fn one(&self, archive: &Archive, id: &str) -> Result<ListedSession, CliError> {
        self.known(archive.show(&id_of(id)?).map_err(anyhow::Error::from)?, id)
    }

    /// What was found of a session.
    fn known(&self, found: Option<ListedSession>, id: &str) -> Result<ListedSession, CliError> {
        found.ok_or_else(|| {
            CliError::usage(anyhow!("the journal has no session {id:?}")).next(format!(
                "list them by `trunkline sessions --journal {}`",
                self.folder.display()
            ))
        })
    }

    fn history(&self, id: &str, from: u64, format: Format) -> CommandResult {
        let archive = journal::look(&self.folder)?;
        let one = self.one(&archive, id)?;
        let Some(mut reader) = archive.read(&id_of(id)?, from) else {
            return Ok(exit::OK);
        };
        let mut out = anstream::stdout().lock();
        let mut printer = EntryPrinter::new(format.into());
        printer.begin(&one, &mut out)?;
        let mut lines = Vec::new();
        let mut is_whole = true;
        loop {
            lines.clear();
            match reader.next(&mut lines, READ).map_err(anyhow::Error::from)? {
                ReadBatch::End => break,
                ReadBatch::Missing(numbers) => {
                    is_whole = false;
                    anstream::eprintln!(
                        "note: entries {} to {} are missing; `trunkline sessions check` says more",
                        numbers.start(),
                        numbers.end()
                    );
                }
                ReadBatch::Lines(_) => {
                    let lines = lines
                        .split(|byte| *byte == b'\n')
                        .filter(|line| !line.is_empty());
                    lines
                        .into_iter()
                        .try_for_each(|line| printer.entry(line, &mut out))?;
                }
            }
        }
        printer.end(&mut out)?;
        Ok(if is_whole { exit::OK } else { exit::FAILED })
    }

    fn check(&self) -> CommandResult {
        let archive = journal::look(&self.folder)?;
        let report = trunkline_journal::check(&self.folder).map_err(|error| {
            CliError::failed(anyhow!(error).context(format!(
                "failed to read the journal {}",
                self.folder.display()
            )))
        })?;
        let mut damaged: Vec<_> = report
            .damaged
            .iter()
            .map(|found| {
                let id = found.session.and_then(|key| archive.name(key));
                (id, found.damage.to_string())
            })
            .collect();
        if let Some(id) = self.find_unreachable(&archive)? {
            let damage = format!(
                "the id {id} does not find its session: the file `format` is damaged, or of another journal; \
                 restore it from a backup"
            );
            damaged.insert(0, (None, damage));
        }
        let is_whole = damaged.is_empty();
        let mut out = anstream::stdout().lock();
        if self.is_json {
            let damaged: Vec<_> = damaged
                .iter()
                .map(|(id, damage)| json!({"session_id": id, "damage": damage}))
                .collect();
            let result = json!({
                "whole": is_whole,
                "sessions": report.sessions,
                "entries": report.entries,
                "bytes": report.bytes,
                "damaged": damaged,
            });
            writeln!(out, "{result}")?;
        } else {
            writeln!(
                out,
                "{} sessions, {} entries, {} bytes",
                report.sessions, report.entries, report.bytes
            )?;
            for (id, damage) in &damaged {
                match id {
                    Some(id) => writeln!(out, "session {id}: {damage}")?,
                    None => writeln!(out, "the log: {damage}")?,
                }
            }
            writeln!(
                out,
                "{}",
                if is_whole {
                    "the journal is whole"
                } else {
                    "the journal is DAMAGED; what is not named can be read"
                }
            )?;
        }
        Ok(if is_whole { exit::OK } else { exit::FAILED })
    }

    /// Returns a session that the list has and that its id does not find: the salt of the ids is wrong.
    fn find_unreachable(&self, archive: &Archive) -> Result<Option<String>, CliError> {
        let request = RequestId::new("check").expect("an id has 1 to 256 bytes");
        let page = archive.list(&SessionsList {
            limit: Some(1),
            ..SessionsList::new(request)
        });
        let Some(first) = page.sessions.into_iter().flatten().next() else {
            return Ok(None);
        };
        let found = archive
            .show(&id_of(&first.session_id)?)
            .map_err(anyhow::Error::from)?;
        Ok(found.is_none().then_some(first.session_id))
    }

    fn remove(&self, ids: &[String]) -> CommandResult {
        // One that is not there must not be made.
        journal::look(&self.folder)?;
        let (journal, _) = Journal::open(&self.folder, Options::default())
            .map_err(|error| journal::refused(error, &self.folder))?;
        for (removed, id) in ids.iter().enumerate() {
            let known = journal
                .find(id)
                .and_then(|key| Some((key, journal.known(key)?)));
            let Some((key, _)) = known.filter(|(_, known)| !known.is_removed) else {
                return Err(not_removed(id, removed));
            };
            journal.remove(key).map_err(anyhow::Error::from)?;
        }
        journal.close().map_err(anyhow::Error::from)?;
        self.told_removed(ids)
    }

    fn told_removed(&self, ids: &[String]) -> CommandResult {
        if self.is_json {
            return super::print_json(&json!({ "removed": ids }));
        }
        Ok(exit::OK)
    }
}

impl From<Format> for ExportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Markdown => Self::Markdown,
        }
    }
}

/// Puts a text on one line, without what steers a terminal.
fn shown(text: &str) -> String {
    plain_line(text, usize::MAX)
}

fn not_removed(id: &str, removed: usize) -> CliError {
    CliError::usage(anyhow!(
        "the journal has no session {id:?}; {removed} were removed"
    ))
    .next("`trunkline sessions` lists them")
}

fn id_of(id: &str) -> Result<SessionId, CliError> {
    SessionId::new(id).map_err(|error| CliError::usage(anyhow!(error)))
}
