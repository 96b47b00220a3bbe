//! `trunkline sessions`: the sessions of a journal, listed, read, checked and removed.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use trunkline_journal::{Batch, Journal, OpenError, Options};
use trunkline_protocol::SessionId;
use trunkline_sessions::{Archive, Summary};

use self::conversation::Conversation;
use super::table;
use crate::{
    exit,
    fault::{Done, Fault},
};

mod conversation;

/// How many sessions a list has, unless `--limit` says more.
const LISTED: usize = 50;

/// How much of the journal is read at once, in bytes.
const READ: usize = 1024 * 1024;

/// Lists the sessions of a journal, reads them, checks the journal and removes sessions
///
/// A journal is the folder of `trunkline serve --journal FOLDER`. Listing, reading and checking work while a host has
/// it; removing does not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline sessions --journal journal
  trunkline sessions --journal journal show s-1
  trunkline sessions --journal journal history s-1
  trunkline sessions --journal journal export s-1 > s-1.md
  trunkline sessions --journal journal check
  trunkline sessions --journal journal rm s-1")]
pub(crate) struct Sessions {
    /// The journal's folder
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_JOURNAL")]
    journal: PathBuf,

    #[command(subcommand)]
    action: Option<Action>,

    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// How many are listed, the last active first
    #[arg(long, value_name = "N", default_value_t = LISTED)]
    limit: usize,

    /// As JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the sessions, which is also what no command does
    List,
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
        #[arg(long, value_name = "N", default_value_t = 1)]
        from: u64,
        /// How
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Writes one to stdout, as Markdown
    Export {
        /// The session's id
        id: String,
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
    pub(super) fn run(&self) -> Done {
        match &self.action {
            None | Some(Action::List) => self.list(),
            Some(Action::Show { id }) => self.show(id),
            Some(Action::History { id, format, .. }) if self.json && *format == Format::Text => {
                self.history(id, self.from(), Format::Json)
            }
            Some(Action::History { id, from, format }) => self.history(id, *from, *format),
            Some(Action::Export { id }) => {
                self.history(id, 1, if self.json { Format::Json } else { Format::Markdown })
            }
            Some(Action::Check) => self.check(),
            Some(Action::Rm { ids }) => self.remove(ids),
        }
    }

    fn from(&self) -> u64 {
        match &self.action {
            Some(Action::History { from, .. }) => *from,
            _ => 1,
        }
    }

    fn archive(&self) -> Result<Archive, Fault> {
        Archive::open(&self.journal).map_err(|error| refused(error, &self.journal))
    }

    fn list(&self) -> Done {
        let archive = self.archive()?;
        let (mut behind, mut found) = (None, Vec::new());
        while found.len() < self.limit {
            let page = archive.list(behind, LISTED.max(self.limit)).map_err(anyhow::Error::from)?;
            let Some((last, _)) = page.last() else { break };
            behind = Some(*last);
            let wanted = page.into_iter().map(|(_, summary)| summary);
            found.extend(wanted.filter(|one| self.agent.as_ref().is_none_or(|agent| one.agent_id == *agent)));
        }
        found.truncate(self.limit);
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!({ "sessions": found }))?;
            return Ok(exit::OK);
        }
        if found.is_empty() {
            writeln!(out, "no sessions")?;
            return Ok(exit::OK);
        }
        let mut list = table::of(&["session", "agent", "active", "entries", "title"]);
        for one in &found {
            list.add_row([
                one.session_id.clone(),
                one.agent_id.clone(),
                ago(&one.active),
                one.entries.to_string(),
                conversation::shown(one.title.as_deref().unwrap_or("-")),
            ]);
        }
        out.write_all(table::lines(&list).as_bytes())?;
        Ok(exit::OK)
    }

    fn show(&self, id: &str) -> Done {
        let one = self.one(&self.archive()?, id)?;
        let mut out = anstream::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!(one))?;
            return Ok(exit::OK);
        }
        let state = match (one.is_closed, one.open_turns) {
            (true, _) => "closed".to_owned(),
            (false, 0) => "open: its next input goes on".to_owned(),
            (false, turns) => format!("open, with {turns} turns that have no end yet"),
        };
        let mut list = table::plain();
        for (name, value) in [
            ("session", one.session_id.clone()),
            ("title", conversation::shown(one.title.as_deref().unwrap_or("-"))),
            ("agent", one.agent_id.clone()),
            ("state", state),
            ("directory", one.cwd.clone().unwrap_or_else(|| "-".to_owned())),
            ("created", one.created.clone()),
            ("active", format!("{} ({})", one.active, ago(&one.active))),
            ("entries", one.entries.to_string()),
            ("bytes", one.bytes.to_string()),
        ] {
            list.add_row([name.to_owned(), value]);
        }
        out.write_all(table::lines(&list).as_bytes())?;
        Ok(exit::OK)
    }

    fn one(&self, archive: &Archive, id: &str) -> Result<Summary, Fault> {
        let id = id_of(id)?;
        archive.show(&id).map_err(anyhow::Error::from)?.ok_or_else(|| {
            Fault::usage(anyhow!("the journal has no session {id:?}"))
                .next(format!("list them by `trunkline sessions --journal {}`", self.journal.display()))
        })
    }

    fn history(&self, id: &str, from: u64, format: Format) -> Done {
        let archive = self.archive()?;
        let one = self.one(&archive, id)?;
        let Some(mut reader) = archive.read(&id_of(id)?, from) else { return Ok(exit::OK) };
        let mut out = anstream::stdout().lock();
        let mut conversation = Conversation::new(format == Format::Markdown);
        if format == Format::Markdown {
            writeln!(out, "# {}\n", conversation::shown(one.title.as_deref().unwrap_or(&one.session_id)))?;
            writeln!(out, "Session `{}` with `{}`, begun {}.", one.session_id, one.agent_id, one.created)?;
        }
        let mut lines = Vec::new();
        let mut is_whole = true;
        loop {
            lines.clear();
            match reader.next(&mut lines, READ).map_err(anyhow::Error::from)? {
                Batch::End => break,
                Batch::Missing(numbers) => {
                    is_whole = false;
                    anstream::eprintln!(
                        "note: entries {} to {} are missing; `trunkline sessions check` says more",
                        numbers.start(),
                        numbers.end()
                    );
                }
                Batch::Lines(_) if format == Format::Json => out.write_all(&lines)?,
                Batch::Lines(_) => {
                    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                        if let Ok(entry) = serde_json::from_slice::<Value>(line) {
                            out.write_all(conversation.take(&entry).as_bytes())?;
                        }
                    }
                }
            }
        }
        out.write_all(conversation.end().as_bytes())?;
        Ok(if is_whole { exit::OK } else { exit::FAILED })
    }

    fn check(&self) -> Done {
        let archive = self.archive()?;
        let report = trunkline_journal::check(&self.journal).map_err(|error| {
            Fault::failed(
                anyhow!(error).context(format!("failed to read the journal {}", self.journal.display())),
            )
        })?;
        let damaged: Vec<_> = report
            .damaged
            .iter()
            .map(|found| (found.session.and_then(|key| archive.name(key)), found.damage.to_string()))
            .collect();
        let is_whole = damaged.is_empty();
        let mut out = anstream::stdout().lock();
        if self.json {
            let damaged: Vec<_> =
                damaged.iter().map(|(id, damage)| json!({"session_id": id, "damage": damage})).collect();
            let (sessions, entries, bytes) = (report.sessions, report.entries, report.bytes);
            writeln!(
                out,
                "{}",
                json!({"whole": is_whole, "sessions": sessions, "entries": entries, "bytes": bytes, "damaged": damaged})
            )?;
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

    fn remove(&self, ids: &[String]) -> Done {
        // One that is not there must not be made.
        self.archive()?;
        let (journal, _) = Journal::open(&self.journal, Options::default())
            .map_err(|error| refused(error, &self.journal))?;
        for (removed, id) in ids.iter().enumerate() {
            let known = journal.find(id).and_then(|key| Some((key, journal.known(key)?)));
            let Some((key, _)) = known.filter(|(_, known)| !known.is_removed) else {
                return Err(Fault::usage(anyhow!(
                    "the journal has no session {id:?}; {removed} were removed"
                )));
            };
            journal.remove(key).map_err(anyhow::Error::from)?;
        }
        journal.close().map_err(anyhow::Error::from)?;
        if self.json {
            writeln!(anstream::stdout().lock(), "{}", json!({ "removed": ids }))?;
        }
        Ok(exit::OK)
    }
}

fn id_of(id: &str) -> Result<SessionId, Fault> {
    SessionId::new(id).map_err(|error| Fault::usage(anyhow!(error)))
}

fn refused(error: OpenError, folder: &Path) -> Fault {
    let fault = Fault::usage(anyhow!(error));
    match folder.exists() {
        true => fault,
        false => fault.next("name the folder of `trunkline serve --journal FOLDER`"),
    }
}

/// How long ago a time was, in one unit.
fn ago(time: &str) -> String {
    let then = humantime::parse_rfc3339(time).ok();
    let past = then.and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or(Duration::ZERO);
    let seconds = past.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
