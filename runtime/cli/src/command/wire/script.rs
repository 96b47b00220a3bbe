//! Messages of a wire log, for one run of an adapter.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufReader,
    path::Path,
};

use anyhow::anyhow;
use serde_json::{Map, Value};
use trunkline_host::wirelog::{Entry, Reader, RecordEvent};

use super::show::{USE_WIRE_LOG, open_log};
use crate::error::CliError;

/// A JSON message.
pub(super) type JsonMessage = Map<String, Value>;

/// One run of an adapter.
#[derive(Debug, Default)]
pub(super) struct ReplayScript {
    pub(super) steps: Vec<ReplayStep>,
    /// True if the log has its end, after which nothing is missing.
    pub(super) is_ended: bool,
    /// Number of sessions that are omitted because parts are missing.
    pub(super) left_out: usize,
}

/// A logged message, in order.
#[derive(Debug)]
pub(super) enum ReplayStep {
    Host { line: Vec<u8>, message: JsonMessage },
    Adapter(JsonMessage),
    StdinClosed,
}

/// Missing parts of the log.
#[derive(Debug, Default)]
struct MissingParts {
    why: Option<String>,
    sessions: BTreeSet<String>,
    started: BTreeSet<String>,
    open: BTreeSet<String>,
    has_gap: bool,
}

impl MissingParts {
    /// Records missing lines, which affect every open session.
    fn gap(&mut self, why: impl FnOnce() -> String) {
        self.why.get_or_insert_with(why);
        self.sessions.extend(self.open.iter().cloned());
        self.has_gap = true;
    }

    fn of_session(&mut self, session: &str, why: impl FnOnce() -> String) {
        self.why.get_or_insert_with(why);
        self.sessions.insert(session.to_owned());
    }

    fn follow(&mut self, message: &JsonMessage, is_host: bool) {
        let session = session_id(message);
        match (is_host, message_type(message)) {
            _ if session.is_empty() => {}
            (true, "session.start") => {
                self.started.insert(session.to_owned());
                self.open.insert(session.to_owned());
            }
            // After its end, a session misses nothing.
            (true, "session.close") | (false, "session.closed")
                if self.started.contains(session) =>
            {
                self.open.remove(session);
            }
            _ if !self.started.contains(session) => {
                self.sessions.insert(session.to_owned());
            }
            _ => {}
        }
    }

    fn is_left_out(&self, message: &JsonMessage) -> bool {
        match session_id(message) {
            // A message without a session may answer a missing one.
            "" => self.has_gap,
            session => self.sessions.contains(session),
        }
    }
}

/// Returns a text of a message, which is empty if the message has none.
pub(super) fn text_member<'m>(message: &'m JsonMessage, name: &str) -> &'m str {
    let text = message.get(name).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Returns the session that a message names, or an empty text.
pub(super) fn session_id(message: &JsonMessage) -> &str {
    text_member(message, "session_id")
}

/// Returns the type of a message, or an empty text.
pub(super) fn message_type(message: &JsonMessage) -> &str {
    text_member(message, "type")
}

impl ReplayScript {
    /// Reads one run of an adapter from a log: this one, or the first. From an incomplete log, only
    /// the complete sessions.
    ///
    /// # Errors
    /// The log cannot be read, has no such run, or is incomplete and `is_partial` is false.
    pub(super) fn read(
        path: &Path,
        process: Option<u32>,
        is_partial: bool,
    ) -> Result<Self, CliError> {
        let mut reader = Reader::new(BufReader::new(open_log(path)?));
        let mut runs = BTreeMap::<u32, (Self, MissingParts)>::new();
        // Parts that every run misses, including later ones.
        let mut of_all = None;
        let mut cut_sessions = Vec::new();
        let mut unread = None;
        while let Some(entry) = reader.next()? {
            if let Some(why) = unread.take() {
                of_all.get_or_insert(why);
                runs.values_mut()
                    .for_each(|(_, missing)| missing.gap(String::new));
            }
            let record = match entry {
                Entry::Record(record) => record,
                Entry::Unreadable { line, reason, .. } => {
                    unread = Some(format!("line {line} cannot be read: {reason}"));
                    continue;
                }
            };
            let mut run = record
                .process
                .map(|process| runs.entry(process).or_default());
            match (&record.event, &mut run) {
                (RecordEvent::Header(header), _) if !header.complete => {
                    of_all.get_or_insert_with(|| match header.file {
                        1 => "it does not store whole lines".to_owned(),
                        _ => "its beginning is in an older file".to_owned(),
                    });
                    cut_sessions.extend(header.sessions.clone());
                }
                (RecordEvent::Dropped { lines, .. }, Some((_, missing))) => {
                    missing.gap(|| format!("{lines} lines are missing"));
                }
                (RecordEvent::Dropped { lines, .. }, None) => {
                    of_all.get_or_insert_with(|| format!("{lines} lines are missing"));
                    runs.values_mut()
                        .for_each(|(_, missing)| missing.gap(String::new));
                }
                (
                    RecordEvent::Host { text } | RecordEvent::Adapter { text, .. },
                    Some((_, missing)),
                ) if text.omitted > 0 => {
                    let why = || format!("{} bytes of a line are missing", text.omitted);
                    match &record.session {
                        Some(session) => missing.of_session(session, why),
                        None => missing.gap(why),
                    }
                }
                (RecordEvent::Host { text }, Some((script, missing))) => {
                    let line = text.bytes();
                    let message: JsonMessage = serde_json::from_slice(&line).unwrap_or_default();
                    missing.follow(&message, true);
                    script.steps.push(ReplayStep::Host { line, message });
                }
                (RecordEvent::Adapter { text, .. }, Some((script, missing))) => {
                    // Invalid messages are not compared.
                    if let Ok(message) = serde_json::from_slice(&text.bytes()) {
                        missing.follow(&message, false);
                        script.steps.push(ReplayStep::Adapter(message));
                    }
                }
                (RecordEvent::StdinClosed, Some((script, _))) => {
                    script.steps.push(ReplayStep::StdinClosed)
                }
                (RecordEvent::StdoutEnded, Some((script, _))) => script.is_ended = true,
                _ => {}
            }
        }
        let nothing = || match process {
            Some(process) => anyhow!("{} has no run {process} of an adapter", path.display()),
            None => anyhow!("no adapter runs in {}", path.display()),
        };
        let chosen = process.or_else(|| runs.keys().next().copied());
        let (number, (mut script, mut missing)) = chosen
            .and_then(|number| runs.remove_entry(&number))
            .ok_or_else(|| CliError::usage(nothing()).next(USE_WIRE_LOG))?;
        let own = cut_sessions
            .into_iter()
            .filter(|open| open.process == number);
        missing.sessions.extend(own.map(|open| open.session));
        missing.has_gap |= of_all.is_some();
        let Some(why) = of_all.or(missing.why.take()) else {
            return Ok(script);
        };
        if !is_partial {
            let error = anyhow!("{} is incomplete: {why}", path.display());
            return Err(CliError::usage(error).next("--partial replays only the complete sessions"));
        }
        script.steps.retain(|step| match step {
            ReplayStep::Host { message, .. } | ReplayStep::Adapter(message) => {
                !missing.is_left_out(message)
            }
            ReplayStep::StdinClosed => true,
        });
        script.left_out = missing.sessions.len();
        Ok(script)
    }
}
