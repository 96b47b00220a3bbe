//! Handles a line of the host. Nothing here waits for a turn ([permission.5]).

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json, value::RawValue};
use trunkline_conformance_mutants::{
    json::{clean, depth, session_named_in},
    lines::{InputLine, LONGEST},
};

use crate::{
    fields::{Field, Fields},
    message::{Message, pong},
    negotiation::{Start, most_sessions},
    schema::ExtensionSet,
    session::{AdapterProcess, AdapterSession, AnnouncedFile, TurnInput, digest},
    switches::{
        Mutant::{self, *},
        Variant::*,
        broken, varied,
    },
};

/// A nonce that is nested deeper is not read ([frame.10]).
const DEEPEST: usize = 128;

/// Reads messages and hands each to its session.
#[derive(Debug)]
pub(crate) struct Inbox {
    process: Arc<AdapterProcess>,
}

impl Inbox {
    pub(crate) fn new(process: Arc<AdapterProcess>) -> Self {
        Self { process }
    }

    /// Takes a line. What is not a message is skipped and not answered ([frame.6], [msg.4]).
    pub(crate) fn take(&self, line: InputLine) {
        match line {
            InputLine::Whole(line) if line.len() > LONGEST => {}
            InputLine::Whole(line) => self.take_line(&line),
            InputLine::Unended(line) => {
                exit_if(CutLineExits);
                self.take_line(&line);
            }
            InputLine::TooLong(first) => {
                exit_if(ExitOnLongLine);
                let session = session_named_in(&first).and_then(|id| self.process.find(&id));
                if let Some(session) = session {
                    session.tell(too_long(&session));
                }
            }
        }
    }

    fn take_line(&self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            exit_if(BlankLineExits);
            return;
        }
        if broken(CrIsNoise) && line.ends_with(b"\r") {
            return;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            exit_if(BadUtf8Exits);
            return;
        };
        exit_if_whole_is_odd(text);
        let Some(fields) = Fields::of_line(text) else {
            self.noise();
            return;
        };
        if broken(TypeMustBeFirst) && !text.trim_start().starts_with("{\"type\":") {
            return;
        }
        if self.take_message(&fields).is_none() {
            exit_if(BadMessageExits);
            if broken(BadMessageAnswered) {
                self.process.send_of_pipe(
                    Message::new("error")
                        .with("message", "a bad message")
                        .line(""),
                );
            }
        }
    }

    fn noise(&self) {
        exit_if(NoiseExits);
        if broken(NoiseAnswered) {
            self.process
                .send_of_pipe(Message::new("error").with("message", "not JSON").line(""));
        }
        if broken(NoiseStopsTurns) {
            self.process.stop_all();
        }
    }

    /// Executes a message; does nothing if it is bad ([msg.3]).
    fn take_message(&self, fields: &Fields<'_>) -> Option<()> {
        let kind = required(fields.exact("type"))?;
        if !kind
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '.')
        {
            exit_if(OddTypeExits);
        }
        if is_of_pipe(&kind) {
            return self.take_of_pipe(&kind, fields);
        }
        let id = match fields.exact("session_id") {
            Field::Is(id) if broken(LongIdsServed) && !id.is_empty() => id,
            _ => required(fields.id("session_id"))?,
        };
        let id = match () {
            () if broken(CaseFolded) => id.to_lowercase(),
            () if broken(TrimsIds) => id.trim().to_owned(),
            () => id,
        };
        if broken(UnknownFieldsRefused) && fields.names().any(|name| !is_known(name)) {
            return Some(());
        }
        if broken(MetaMustBeGood) && bad_meta(fields) {
            return Some(());
        }
        if kind == "session.start" {
            self.start(id, fields);
            return Some(());
        }
        let Some(session) = self.process.find(&id) else {
            return self.take_unknown(&kind, &id, fields);
        };
        self.take_of_session(&session, &kind, fields)
    }

    fn take_of_session(
        &self,
        session: &Arc<AdapterSession>,
        kind: &str,
        fields: &Fields<'_>,
    ) -> Option<()> {
        match kind {
            "user.input" => self.input(session, fields)?,
            "file.input" => {
                let file = file(fields)?;
                if session.has(ExtensionSet::LARGE)
                    && !broken(DigestUnchecked)
                    && file.differs(fields)
                {
                    session.tell(refused(session, &file.name));
                    return Some(());
                }
                session.take_file(file);
                if broken(FileIsTurn) {
                    session.take_input(TurnInput {
                        content: Some(String::new()),
                        turn_id: None,
                    });
                }
            }
            "permission.response" => {
                let request_id = required(fields.id("request_id"))?;
                let session = if broken(AnySessionAnswers) {
                    self.process
                        .all()
                        .into_iter()
                        .find(|other| other.has_request(&request_id))
                } else {
                    Some(session.clone())
                };
                if let Some(session) = session {
                    session.answer_permission(&request_id, fields);
                }
                if broken(SessionsShareAnswers) {
                    let waiting = |other: &Arc<AdapterSession>| other.oldest_request();
                    let all = self
                        .process
                        .all()
                        .into_iter()
                        .filter_map(|other| waiting(&other).map(|id| (other, id)));
                    all.for_each(|(other, id)| other.answer_permission(&id, fields));
                }
            }
            "input.response" if session.has(ExtensionSet::QUESTIONS) => {
                session.answer_question(&required(fields.id("request_id"))?, fields);
            }
            "stop" => {
                let turn_id = turn_id(session, fields)?;
                let reason = fields
                    .text("reason")
                    .optional()
                    .filter(|reason| is_reason(reason));
                let reason = reason.filter(|_| session.has(ExtensionSet::TURNS));
                if broken(StopStopsAll) {
                    self.process.stop_all();
                }
                session.stop(turn_id, reason);
            }
            "session.close" => self.close(session),
            "session.update" if session.has(ExtensionSet::OPTIONS) => session.update(fields),
            "flow.pause" if session.has(ExtensionSet::FLOW) => session.pause(),
            "flow.resume" if session.has(ExtensionSet::FLOW) => {
                session.resume();
                if session.is_over() {
                    self.process.forget(session);
                }
            }
            _ => exit_if(UnknownTypeExits),
        }
        Some(())
    }

    fn input(&self, session: &Arc<AdapterSession>, fields: &Fields<'_>) -> Option<()> {
        let content = match fields.text("content") {
            Field::Is(content) => content,
            Field::Absent if broken(AbsentContentDropped) => return None,
            Field::Absent => String::new(),
            Field::Wrong if broken(WrongContentIsTurn) => String::new(),
            Field::Wrong => return None,
        };
        let content = if broken(TruncatesContent) {
            content.chars().take(65_535).collect()
        } else {
            content
        };
        let turn_id = turn_id(session, fields)?;
        let content = match in_a_file(fields).filter(|_| session.has(ExtensionSet::LARGE)) {
            Some(Ok(text)) if !broken(LargeUnread) => text,
            Some(Err(why)) if !broken(LargeUnread) => {
                session.refuse_input(turn_id, &why);
                return Some(());
            }
            _ => content,
        };
        let with_turns = session.has(ExtensionSet::TURNS);
        let message_id = if with_turns {
            some_id(fields.optional_id("message_id"))?
        } else {
            None
        };
        if broken(OptionalTypesMatter) && fields.raw("message_id").is_some() && message_id.is_none()
        {
            return Some(());
        }
        let mode = fields.text("mode").optional().filter(|_| with_turns);
        match mode.as_deref() {
            Some("steer") => session.steer(content, turn_id, message_id),
            Some(mode) if mode != "turn" && broken(UnknownModeDrops) => {}
            _ => session.take_input(TurnInput {
                content: Some(content),
                turn_id,
            }),
        }
        if broken(TurnBlocksReader) {
            session.wait_until_idle();
        }
        Some(())
    }

    fn start(&self, id: String, fields: &Fields<'_>) {
        let open = self.process.find(&id).filter(|session| !session.is_over());
        if open.is_some() && !broken(SecondStartOpens) {
            return;
        }
        let start = Start::read(fields);
        let world = &self.process.world;
        world
            .knows_control
            .fetch_or(start.agreed.has(ExtensionSet::CONTROL), Ordering::Relaxed);
        world
            .knows_resume
            .fetch_or(start.agreed.has(ExtensionSet::RESUME), Ordering::Relaxed);
        world.set_newest(&id);
        if broken(OneSession) {
            self.process
                .all()
                .iter()
                .for_each(|session| self.close(session));
        }
        let session = AdapterSession::open(id, start, &self.process);
        if let Some((_, most)) = most_sessions()
            && self.process.sessions().len() > most
        {
            session.end(
                "limit",
                Some(("busy", format!("{most} sessions are served at a time"))),
            );
        }
    }

    fn close(&self, session: &Arc<AdapterSession>) {
        if broken(CloseStopsAll) {
            self.process.stop_all();
        }
        if broken(ClosedServed) {
            return;
        }
        session.close();
        if !broken(CloseKeepsRequests) {
            self.process.forget(session);
        }
        if broken(ExitsWithLastSession) && self.process.sessions().is_empty() {
            std::process::exit(0);
        }
    }

    /// A message for a session that is not open: nothing ([session.5]).
    fn take_unknown(&self, kind: &str, id: &str, fields: &Fields<'_>) -> Option<()> {
        if kind == "user.input" && broken(UnknownServed) {
            self.start(id.to_owned(), fields);
            return self
                .process
                .find(id)
                .and_then(|session| self.take_of_session(&session, kind, fields));
        }
        match kind {
            "session.close" => exit_if(SecondCloseExits),
            "stop" => exit_if(UnknownStopExits),
            _ => {}
        }
        Some(())
    }

    /// Messages of the pipe, once a session has agreed on their extension ([ext.9]).
    fn take_of_pipe(&self, kind: &str, fields: &Fields<'_>) -> Option<()> {
        if fields.exact("session_id") != Field::Is(String::new()) {
            return None;
        }
        match kind {
            "ping" if self.process.world.knows_control.load(Ordering::Relaxed) => {
                let nonce = match fields.raw("nonce") {
                    Some(nonce) if depth(nonce) > DEEPEST => return None,
                    nonce => nonce.map(clean),
                };
                if broken(PongWaitsForTurns) {
                    self.process
                        .all()
                        .iter()
                        .for_each(|session| session.wait_until_idle());
                }
                self.process.send_of_pipe(pong(nonce));
            }
            "sessions.list" if self.process.world.knows_resume.load(Ordering::Relaxed) => {
                let request_id = required(fields.id("request_id"))?;
                let result = Message::new("sessions.list.result").with("request_id", request_id);
                let result = if varied(ListsNothing) {
                    result.with("error", "the agent keeps no sessions")
                } else {
                    result.with("entries", self.entries(fields))
                };
                if !broken(ListUnanswered) {
                    self.process.send_of_pipe(result.line(""));
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl Inbox {
    /// The sessions that a `sessions.list` asks for.
    fn entries(&self, fields: &Fields<'_>) -> Vec<Value> {
        let limit = fields
            .value("limit")
            .optional()
            .and_then(|limit| limit.as_u64());
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let most = limit
            .filter(|_| !broken(ListIgnoresLimit))
            .unwrap_or(usize::MAX);
        let most = if broken(ListOmitsSessions) { 0 } else { most };
        let cwd = fields
            .text("cwd")
            .optional()
            .filter(|_| !broken(ListIgnoresCwd));
        let known = self.process.world.remembered(most, cwd.as_deref());
        known
            .iter()
            .map(|(id, cwd)| json!({ "native_session_id": id, "cwd": cwd }))
            .collect()
    }
}

fn is_of_pipe(kind: &str) -> bool {
    matches!(kind, "ping" | "sessions.list" | "agents.list")
}

fn required<T>(field: Field<T>) -> Option<T> {
    field.optional()
}

/// Returns an optional id, unless it makes the message bad.
#[expect(
    clippy::option_option,
    reason = "the outer option is `None` if the message is dropped"
)]
fn some_id(field: Field<String>) -> Option<Option<String>> {
    match field {
        Field::Is(id) => Some(Some(id)),
        Field::Absent => Some(None),
        Field::Wrong => None,
    }
}

#[expect(
    clippy::option_option,
    reason = "the outer option is `None` if the message is dropped"
)]
fn turn_id(session: &AdapterSession, fields: &Fields<'_>) -> Option<Option<String>> {
    if session.has(ExtensionSet::TURNS) {
        some_id(fields.optional_id("turn_id"))
    } else {
        Some(None)
    }
}

fn file(fields: &Fields<'_>) -> Option<AnnouncedFile> {
    let path = required(fields.text("file_path")).filter(|path| path.starts_with('/'))?;
    if broken(MissingFileExits) && std::fs::File::open(&path).is_err() {
        std::process::exit(1);
    }
    let base = || {
        path.rsplit('/')
            .find(|part| !part.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let mut name = fields.text("file_name").optional().unwrap_or_else(base);
    if broken(LabelsCut) {
        name = name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let mime = fields.text("file_mime_type").optional();
    let mime = mime.unwrap_or_else(|| "application/octet-stream".to_owned());
    Some(AnnouncedFile { name, mime, path })
}

fn is_reason(reason: &str) -> bool {
    matches!(
        reason,
        "user" | "timeout" | "policy" | "stopped" | "shutdown"
    )
}

/// Returns the text of an input that is in a file, or the reason why it cannot be read ([large.3]).
fn in_a_file(fields: &Fields<'_>) -> Option<Result<String, String>> {
    let large = fields.value("large").optional()?;
    let member = large.get("content")?;
    let path = member["file_path"].as_str()?;
    let read = || {
        let (bytes, sha256) = digest(path).map_err(|error| error.to_string())?;
        if member["size"] != bytes || member["sha256"] != sha256 {
            return Err("the file is not what was announced".to_owned());
        }
        let text = std::fs::read(path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    };
    Some(read())
}

/// Reports to a session a file that is not what was announced ([large.1]).
fn refused(session: &AdapterSession, name: &str) -> Message {
    let text = format!("{name} was not taken: it is not what was announced");
    report_error(session, "file_refused", &text)
}

/// Reports to a session a line that was too long for it ([frame.5]).
fn too_long(session: &AdapterSession) -> Message {
    let text = "a line over the limit of 16 MiB was skipped";
    report_error(session, "oversize", text)
}

/// An `error` that ends nothing, or its text if the session does not take events.
fn report_error(session: &AdapterSession, category: &str, text: &str) -> Message {
    if !session.has(ExtensionSet::EVENTS) {
        return Message::system(text);
    }
    Message::new("error")
        .with("category", category)
        .with("message", text)
        .with("fatal", false)
}

fn exit_if(mutant: Mutant) {
    if broken(mutant) {
        std::process::exit(1);
    }
}

/// Behaves as a reader that parses the whole of a line at once.
fn exit_if_whole_is_odd(text: &str) {
    if broken(SurrogateExits)
        && text.contains("\\ud")
        && serde_json::from_str::<Value>(text).is_err()
    {
        std::process::exit(1);
    }
    if broken(DeepLineExits)
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|line| depth(line.get()) > DEEPEST)
    {
        std::process::exit(1);
    }
}

/// The fields that the core knows.
fn is_known(name: &str) -> bool {
    let core = ["type", "session_id", "content", "request_id", "approved"];
    core.contains(&name) || name.starts_with("file_") || name == "extensions" || name == "protocol"
}

fn bad_meta(fields: &Fields<'_>) -> bool {
    fields
        .raw("_meta")
        .is_some_and(|meta| !meta.starts_with('{') || meta.len() > 64 * 1024)
}
