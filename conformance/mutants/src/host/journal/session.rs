//! A session: its entries in a file, and the state that follows from them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Journal, Message, line_of, members, number, optional, text};
use crate::switches::{Mutant::*, broken};

/// Content of a session's file: its beginning and its entries.
#[derive(Default)]
pub(crate) struct JournalSession {
    pub(crate) id: String,
    /// The hub's `session.start`, without the members that are not stored.
    pub(crate) start: Message,
    /// The members of the start that are not stored.
    pub(crate) needs: Vec<String>,
    pub(crate) secrets: Message,
    file: Option<File>,
    /// The lines of its entries, in their order.
    pub(crate) lines: Vec<Vec<u8>>,
    epochs: Vec<u64>,
    pub(crate) turns: Vec<JournalTurn>,
    pub(crate) requests: Vec<String>,
    tools: Vec<String>,
    steers: Vec<Option<String>>,
    pub(crate) decided: HashMap<String, Message>,
    pub(crate) inputs: HashMap<String, KnownInput>,
    pub(crate) used: HashSet<String>,
    native: Option<Value>,
    was_served: bool,
    pub(crate) is_closed: bool,
    /// The title that a hub gave, or the empty string.
    pub(crate) title: String,
    pub(crate) is_archived: bool,
    /// True if the host below has it.
    pub(crate) is_open: bool,
    /// True if the hubs still need the fact about the agent's context.
    pub(crate) owes_context: bool,
    /// The fields of questions whose values are not stored, by request.
    pub(crate) secret_fields: HashMap<String, Vec<String>>,
    pub(crate) late: Option<Message>,
    unstored: Vec<u8>,
}

/// A turn that is open.
pub(crate) struct JournalTurn {
    pub(crate) id: String,
    is_answered: bool,
}

/// An input that the journal has.
pub(crate) struct KnownInput {
    pub(crate) content: String,
    pub(crate) turn: String,
    pub(crate) seq: u64,
}

/// Messages about a turn that the relay or its hubs send, not the agent.
const NOT_OF_AGENT: [&str; 7] = [
    "turn.begin",
    "input.steered",
    "file.delivered",
    "request.decided",
    "stop.requested",
    "host.fact",
    "session.edited",
];

/// Counts the processes that have opened a folder.
pub(crate) fn next_epoch(folder: &Path) -> io::Result<u64> {
    let path = folder.join("epoch");
    let before = fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    let epoch = if broken(EpochFixed) {
        1
    } else {
        before.unwrap_or_default() + 1
    };
    fs::write(path, epoch.to_string())?;
    Ok(epoch)
}

impl Journal {
    /// Reads every session, and closes what was open in it ([journal.10]).
    pub(crate) fn load(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "session") {
                if broken(FilesCleared) && path.extension().is_none() && !path.ends_with("epoch") {
                    fs::remove_file(&path)?;
                }
                continue;
            }
            let mut session = JournalSession::default();
            let mut lines = BufReader::new(File::open(&path)?).split(b'\n');
            let head: Message =
                serde_json::from_slice(&lines.next().transpose()?.unwrap_or_default())?;
            session.id = text(&head, "id").to_owned();
            session.start = head
                .get("start")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            session.needs = serde_json::from_value(head.get("needs").cloned().unwrap_or_default())?;
            for line in lines {
                let line = line?;
                // The last may be cut.
                let Ok(mut entry) = serde_json::from_slice::<Message>(&line) else {
                    break;
                };
                if broken(ReplayChanged) {
                    entry.insert("time".to_owned(), now().into());
                }
                session.learn(&entry);
                session.lines.push(line_of(entry));
            }
            session.file = Some(File::options().append(true).open(&path)?);
            session.recover(self.epoch);
            self.sessions.insert(session.id.clone(), session);
        }
        Ok(())
    }
}

impl JournalSession {
    /// A new one, whose file begins with what is known of its start.
    pub(crate) fn create(folder: &Path, start: &Message) -> io::Result<Self> {
        let mut session = Self {
            id: text(start, "session_id").to_owned(),
            start: start.clone(),
            ..Self::default()
        };
        for name in ["env", "mcp_servers"] {
            if let Some(secret) = start.get(name) {
                session.needs.push(name.to_owned());
                session.secrets.insert(name.to_owned(), secret.clone());
            }
            if !broken(EnvStored) {
                session.start.remove(name);
            }
        }
        let name = trunkline_conformance_mutants::hex(session.id.as_bytes());
        let mut file = File::create_new(folder.join(format!("{name}.session")))?;
        let head = members(json!({"id":session.id,"start":session.start,"needs":session.needs}));
        file.write_all(&line_of(head))?;
        session.file = Some(file);
        if !broken(OpenedLate) {
            session.late = Some(members(json!({"type":"host.fact","fact":"opened"})));
        }
        Ok(session)
    }

    /// The number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Returns its state.
    pub(crate) fn state(&self) -> &'static str {
        match () {
            () if self.is_closed => "closed",
            () if !self.turns.is_empty() => "running",
            () if self.is_open => "idle",
            () => "detached",
        }
    }

    pub(crate) fn epoch_at(&self, seq: u64) -> Option<u64> {
        let at = usize::try_from(seq).ok()?.checked_sub(1)?;
        self.epochs.get(at).copied()
    }

    /// Writes an entry, and then has it; its number.
    pub(crate) fn append(&mut self, entry: Message, epoch: u64) -> u64 {
        let seq = self.last() + 1;
        let shown = match () {
            () if broken(SeqFromZero) => seq - 1,
            () if broken(SeqGap) && seq > 3 => seq + 1,
            () => seq,
        };
        let mut whole = Message::new();
        whole.insert("type".to_owned(), text(&entry, "type").into());
        whole.insert("session_id".to_owned(), self.id.clone().into());
        whole.extend(
            entry
                .into_iter()
                .filter(|(name, _)| !matches!(name.as_str(), "type" | "session_id")),
        );
        whole.extend(members(json!({"seq":shown,"epoch":epoch,"time":now()})));
        self.learn(&whole);
        let is_end = text(&whole, "type") == "turn.complete";
        let line = line_of(whole);
        self.unstored.extend_from_slice(&line);
        if !broken(EntryUnstored) || is_end {
            self.store();
        }
        self.lines.push(line);
        seq
    }

    /// Takes over an entry of another session.
    pub(crate) fn copy(&mut self, mut entry: Message) {
        entry.insert("session_id".to_owned(), self.id.clone().into());
        self.learn(&entry);
        let line = line_of(entry);
        self.unstored.extend_from_slice(&line);
        self.store();
        self.lines.push(line);
    }

    fn store(&mut self) {
        let stored = self
            .file
            .as_mut()
            .map(|file| file.write_all(&self.unstored));
        if !matches!(stored, Some(Ok(()))) {
            crate::note("an entry is not stored");
        }
        self.unstored.clear();
    }

    /// Applies an entry.
    fn learn(&mut self, entry: &Message) {
        let kind = text(entry, "type");
        let turn = text(entry, "turn_id").to_owned();
        let request = text(entry, "request_id").to_owned();
        let message = text(entry, "message_id").to_owned();
        let seq = self.last() + 1;
        self.epochs.push(number(entry, "epoch").unwrap_or_default());
        if !NOT_OF_AGENT.contains(&kind)
            && let Some(open) = self.turns.iter_mut().find(|open| open.id == turn)
        {
            open.is_answered = true;
        }
        if let Some(native) = entry.get("native_session_id") {
            self.native = Some(native.clone());
        }
        match kind {
            "turn.begin" | "input.steered" => {
                let content = text(entry, "content").to_owned();
                if kind == "turn.begin" {
                    self.was_served = true;
                    self.used.insert(turn.clone());
                    self.turns.push(JournalTurn {
                        id: turn.clone(),
                        is_answered: false,
                    });
                } else {
                    self.steers
                        .push(Some(message.clone()).filter(|id| !id.is_empty()));
                }
                if !message.is_empty() {
                    self.inputs
                        .insert(message, KnownInput { content, turn, seq });
                }
            }
            "turn.complete" => self.turns.retain(|open| open.id != turn),
            "permission.request" | "input.request" => self.requests.push(request),
            "request.decided" => {
                self.requests.retain(|open| *open != request);
                self.decided.insert(request, entry.clone());
            }
            "tool.start" => self.tools.push(text(entry, "tool_call_id").to_owned()),
            "tool.end" => self
                .tools
                .retain(|open| open != text(entry, "tool_call_id")),
            "steer.result" => self
                .steers
                .retain(|open| open.as_deref().unwrap_or_default() != message),
            "session.closed" => self.is_closed = true,
            // A copy shares the agent's session with its source.
            "host.fact" if text(entry, "fact") == "forked_from" => self.native = None,
            "session.edited" => {
                if let Some(title) = optional(entry, "title") {
                    title.clone_into(&mut self.title);
                }
                let archived = entry.get("archived").and_then(Value::as_bool);
                self.is_archived = archived.unwrap_or(self.is_archived);
            }
            _ => {}
        }
    }

    /// Closes what a host that was killed has left open.
    fn recover(&mut self, epoch: u64) {
        if self.turns.is_empty()
            && self.requests.is_empty()
            && self.tools.is_empty()
            && self.steers.is_empty()
        {
            return;
        }
        self.append(
            members(json!({"type":"host.fact","fact":"host_restarted"})),
            epoch,
        );
        self.close_open("host_restart", "the host ended while this turn ran", epoch);
    }

    /// Closes what is open, for this reason.
    pub(crate) fn close_open(&mut self, category: &str, why: &str, epoch: u64) {
        let running = self.turns.first().map(|turn| turn.id.clone());
        for request in self.requests.clone() {
            let decided = json!({"type":"request.decided","request_id":request,"turn_id":running,"cancelled":true,"reason":"shutdown"});
            self.append(members(decided), epoch);
        }
        for tool in self.tools.clone() {
            let end =
                json!({"type":"tool.end","turn_id":running,"tool_call_id":tool,"is_error":true});
            self.append(members(end), epoch);
        }
        for steer in self.steers.clone() {
            let result =
                json!({"type":"steer.result","message_id":steer,"delivered":false,"reason":why});
            self.append(members(result), epoch);
        }
        self.steers.clear();
        let turns: Vec<(String, bool)> = self
            .turns
            .iter()
            .map(|turn| (turn.id.clone(), turn.is_answered))
            .collect();
        for (place, (turn, is_answered)) in turns.into_iter().enumerate() {
            let delivered = match (is_answered, place) {
                _ if broken(DeliveredUnknown) => "unknown",
                (true, _) => "yes",
                (false, 0) => "unknown",
                (false, _) => "no",
            };
            let error = json!({"category":category,"message":why});
            let end = json!({"type":"turn.complete","turn_id":turn,"status":"failed","error":error,"delivered":delivered});
            for _ in 0..if broken(TwoEnds) { 2 } else { 1 } {
                self.append(members(end.clone()), epoch);
            }
        }
    }

    /// Returns the first message of the session to the host below, if it does not have it.
    pub(crate) fn start_below(&mut self) -> Option<Message> {
        if std::mem::replace(&mut self.is_open, true) {
            return None;
        }
        let mut start = self.start.clone();
        start.extend(self.secrets.clone());
        start.insert("protocol".to_owned(), 1.into());
        // An entry is whole, whatever the hub knows of it; the other two are of its pipe.
        let names = [
            "turns",
            "events",
            "usage",
            "resume",
            "options",
            "questions",
            "control",
        ];
        start.insert("extensions".to_owned(), json!(names));
        if self.was_served {
            self.owes_context = true;
            if let Some(native) = &self.native {
                start.insert("resume".to_owned(), json!({"native_session_id":native}));
            }
        }
        Some(start)
    }

    /// Returns the members that the hub must send again before an input is accepted ([journal.2]).
    pub(crate) fn missing(&self) -> Vec<String> {
        self.needs
            .iter()
            .filter(|name| !self.secrets.contains_key(*name))
            .cloned()
            .collect()
    }
}

/// The time, by RFC 3339.
fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let days = since.as_secs() / 86_400;
    let second = since.as_secs() % 86_400;
    // Years are counted from March, so that the leap day is the last of one.
    let day = days + 719_468;
    let era = day / 146_097;
    let day = day % 146_097;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}
