//! `trunkline dev wire show`.

use std::{
    fs::{self, File},
    io::{self, BufReader, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anstream::eprintln;
use anyhow::anyhow;
use clap::Args;
use serde_json::{Map, Value, json};
use trunkline_host::wirelog::{Entry, Reader, Record, RecordEvent, Text, not_understood};

use super::line::RecordFormatter;
use crate::{
    error::{CliError, CommandResult, without_error_numbers},
    exit, paint,
    terminal::one_line,
};

/// Interval of checks for new records.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Next step for a file that is no wire log.
pub(super) const USE_WIRE_LOG: &str = "use a file written by --wire-log FILE";

/// Prints a wire log, one message per line: time, process, direction, session, type and summary
///
/// → is to the adapter, ← from it, ! its stderr, ⇒ from a built-in adapter to the agent that it
/// wraps, ⇐ from that agent, · an event of the process. A line that is not a message is shown with
/// the reason, and so is an unreadable line of the log, such as the last one of a killed host.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Wire log
    file: PathBuf,

    /// Only this session, and events of processes
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Continues as the log grows, into its next files, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Prints one JSON object per line: the record with its `time`, the parsed `message`, and the
    /// reason why it was `not_understood`
    #[arg(long)]
    json: bool,
}

impl ShowArgs {
    pub(super) fn run(&self) -> CommandResult {
        let mut printer = RecordPrinter {
            show: self,
            lines: RecordFormatter::default(),
            out: anstream::stdout().lock(),
            records: 0,
            unreadable: 0,
        };
        loop {
            let file = open_log(&self.file)?;
            let inode = file.metadata()?.ino();
            // The same descriptor, for the position of the reads.
            let mut read = file.try_clone()?;
            let mut reader = Reader::new(BufReader::new(file));
            loop {
                // Checked before the file is read to its end: a log that was replaced or emptied is
                // opened again, and later records are in the new file.
                let place = read.stream_position()?;
                let is_another = |there: fs::Metadata| there.ino() != inode || there.len() < place;
                let is_left = fs::metadata(&self.file).is_ok_and(is_another);
                while let Some(entry) = reader.next()? {
                    printer.print(&entry)?;
                }
                printer.out.flush()?;
                if is_left || !self.follow {
                    break;
                }
                std::thread::sleep(CHECK_INTERVAL);
            }
            if let Some(entry) = reader.finish() {
                printer.print(&entry)?;
            }
            if !self.follow {
                return printer.end();
            }
        }
    }
}

/// Opens a log.
///
/// # Errors
/// The log cannot be read.
pub(super) fn open_log(path: &Path) -> Result<File, CliError> {
    let unusable = |why: String| {
        CliError::usage(anyhow!("failed to read {}: {why}", path.display())).next(USE_WIRE_LOG)
    };
    let file = File::open(path).map_err(|why| unusable(without_error_numbers(why.to_string())))?;
    if file.metadata()?.is_dir() {
        return Err(unusable("it is a folder".to_owned()));
    }
    Ok(file)
}

struct RecordPrinter<'a, W> {
    show: &'a ShowArgs,
    lines: RecordFormatter,
    out: W,
    records: u64,
    unreadable: u64,
}

impl<W: Write> RecordPrinter<'_, W> {
    /// Returns the result of the command, after the whole log.
    fn end(mut self) -> CommandResult {
        self.out.flush()?;
        let file = self.show.file.display();
        if self.records == 0 && self.unreadable > 0 {
            return Err(CliError::usage(anyhow!("{file} is not a wire log")).next(USE_WIRE_LOG));
        }
        if self.records == 0 {
            eprintln!(" note: {file} is empty");
        }
        Ok(exit::OK)
    }

    fn print(&mut self, entry: &Entry) -> io::Result<()> {
        match entry {
            Entry::Record(record) => {
                self.records += 1;
                // A header has the time of the following records, even if it is not shown.
                let time = self.lines.time(record);
                match (self.is_wanted(record), self.show.json) {
                    (false, _) => Ok(()),
                    (true, true) => writeln!(self.out, "{}", as_json(record, time.as_ref())),
                    (true, false) => writeln!(self.out, "{}", self.lines.line(record)),
                }
            }
            Entry::Unreadable { line, reason, text } => {
                self.unreadable += 1;
                if self.show.json {
                    let unreadable =
                        json!({"ev": "unreadable", "line": line, "reason": reason, "text": text});
                    return writeln!(self.out, "{unreadable}");
                }
                let bad = paint::BAD;
                writeln!(
                    self.out,
                    "{bad}line {line} is not a record{bad:#}: {reason}: {}",
                    one_line(text)
                )
            }
        }
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let Some(wanted) = &self.show.session else {
            return true;
        };
        match record.event {
            RecordEvent::Host { .. } | RecordEvent::Adapter { .. } => {
                record.session.as_ref() == Some(wanted)
            }
            RecordEvent::Stderr { .. }
            | RecordEvent::ToAgent { .. }
            | RecordEvent::FromAgent { .. } => false,
            _ => true,
        }
    }
}

fn as_json(record: &Record, time: Option<&String>) -> Value {
    let head = json!({ "time": time, "process": record.process, "session": record.session });
    let members = match &record.event {
        RecordEvent::Header(header) => json!({ "ev": "header", "header": header }),
        RecordEvent::Host { text } => line_members("host", text, Some(true)),
        RecordEvent::Adapter { text, cut } => {
            let mut members = line_members("adapter", text, Some(false));
            members["cut"] = cut.then_some(true).into();
            members
        }
        RecordEvent::Stderr { text } => line_members("stderr", text, None),
        RecordEvent::ToAgent {
            agent_process,
            text,
        }
        | RecordEvent::FromAgent {
            agent_process,
            text,
        } => {
            let is_to = matches!(record.event, RecordEvent::ToAgent { .. });
            let mut members =
                line_members(if is_to { "to_agent" } else { "from_agent" }, text, None);
            members["agent_process"] = (*agent_process).into();
            members
        }
        event => json!(event),
    };
    [head, members]
        .iter()
        .filter_map(Value::as_object)
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the members of a line; `from_host` is absent for lines outside the protocol.
fn line_members(kind: &str, text: &Text, from_host: Option<bool>) -> Value {
    let bytes = text.bytes();
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let parsed = serde_json::from_slice::<Map<String, Value>>(line).ok();
    let message = parsed.filter(|_| kind != "stderr");
    let said = message.is_none().then(|| String::from_utf8_lossy(line));
    let is_whole = text.omitted == 0;
    let why = from_host
        .filter(|_| is_whole)
        .and_then(|from_host| not_understood(line, from_host));
    let omitted = (!is_whole).then_some(text.omitted);
    json!({ "ev": kind, "message": message, "text": said, "omitted": omitted, "not_understood": why })
}
