//! A CLI that never ends: each prompt is answered by a recorded turn, in any number of sessions at once.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::Path,
    sync::mpsc::Receiver,
};

use serde_json::{Value, json};

use super::{
    dialect,
    events::Event,
    library::{Library, Shows, Turn, approves, command_in, requests},
    mode::Mode,
    player::{die, improvise, say},
    recording::{Step, option},
};

/// Members whose values name something that is new in each turn.
const NAMES: [&str; 14] = [
    "id",
    "uuid",
    "messageId",
    "message_id",
    "toolCallId",
    "tool_use_id",
    "itemId",
    "turnId",
    "rootTurnId",
    "api_message_id",
    "callId",
    "call_id",
    "expectedTurnId",
    "requestId",
];

/// The shortest name that is taken for one.
const SHORTEST: usize = 6;

/// The server.
pub(crate) struct Server {
    mode: Mode,
    library: Library,
    sessions: HashMap<String, Session>,
    /// The sessions that were begun here.
    begun: HashSet<String>,
    /// The one session of a CLI that has no other.
    own: String,
    count: usize,
}

#[derive(Default)]
struct Session {
    playing: Option<Playing>,
    waiting: VecDeque<Value>,
}

/// A turn on its way.
struct Playing {
    /// The live name of its session.
    session: String,
    shows: Shows,
    steps: Vec<Step>,
    at: usize,
    /// The live prompt.
    prompt: Value,
    /// Replacements of recorded names.
    names: HashMap<String, Value>,
    /// The recorded and the live command.
    command: Option<(String, String)>,
    /// The live id of the CLI's own request that waits for an answer.
    asked: Option<Value>,
    number: usize,
}

impl Server {
    pub(crate) fn new(folder: &Path, words: &[String]) -> Result<Self, String> {
        let mode = match Mode::of_arguments(words) {
            Mode::OneShot if words.is_empty() => Mode::Acp,
            mode => mode,
        };
        let given = option(words, &["--session-id"]).or_else(|| option(words, &["--resume"]));
        let own = given.map_or_else(
            || format!("00000000-0000-4000-8000-{:012}", std::process::id()),
            str::to_owned,
        );
        let library = Library::read(folder, mode)?;
        Ok(Self {
            mode,
            library,
            sessions: HashMap::new(),
            begun: HashSet::new(),
            own,
            count: 0,
        })
    }

    /// Serves until stdin ends.
    pub(crate) fn serve(mut self, events: &Receiver<Event>) -> i32 {
        loop {
            match events.recv().unwrap_or(Event::Eof) {
                Event::Line(live) => self.take(live),
                Event::Noise => {}
                Event::Eof => return 0,
                Event::Signal(signal) => return die(signal),
            }
        }
    }

    fn take(&mut self, live: Value) {
        if let Some(id) = dialect::answers(self.mode, &live) {
            let asked = |session: &&mut Session| {
                session
                    .playing
                    .as_ref()
                    .is_some_and(|turn| turn.asked.as_ref() == Some(id))
            };
            let session = self.sessions.values_mut().find(asked);
            if let Some(turn) = session.and_then(|session| session.playing.as_mut()) {
                answered(self.mode, &self.library, turn, &live);
            }
        } else if dialect::stops(self.mode, &live) {
            self.stop(&live);
        } else if dialect::prompts(self.mode, &live) {
            let session = self.session_of(&live);
            self.sessions
                .entry(session)
                .or_default()
                .waiting
                .push_back(live);
        } else {
            self.answer(&live);
        }
        self.go_on();
    }

    /// Plays every session as far as it goes.
    fn go_on(&mut self) {
        for (id, session) in &mut self.sessions {
            loop {
                if session.playing.is_none() {
                    let Some(prompt) = session.waiting.pop_front() else {
                        break;
                    };
                    self.count += 1;
                    session.playing = begin(&self.library, prompt, id, self.count);
                }
                let Some(turn) = &mut session.playing else {
                    break;
                };
                if turn.play(self.mode) {
                    session.playing = None;
                } else {
                    break;
                }
            }
        }
    }

    fn stop(&mut self, live: &Value) {
        let session = self.session_of(live);
        improvise(self.mode, live, self.count);
        let Some(turn) = self
            .sessions
            .get_mut(&session)
            .and_then(|session| session.playing.as_mut())
        else {
            return;
        };
        if turn.asked.take().is_some() {
            turn.cut_short(self.mode);
            return;
        }
        // What was recorded after the stop; the answer to it has been given.
        turn.at += 1;
    }

    /// A request that begins no turn.
    fn answer(&mut self, live: &Value) {
        self.count += 1;
        let given = dialect::session(live);
        let resumes = ["session/load", "session/resume", "thread/resume"]
            .contains(&dialect::kind(self.mode, live).as_str());
        // A session that this process did not begin is unknown.
        let unknown = resumes
            && given
                .and_then(Value::as_str)
                .is_some_and(|given| !self.begun.contains(given));
        let recorded = self.library.answer(self.mode, live, unknown).cloned();
        let recorded = recorded.or_else(|| {
            unknown.then(|| json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "Session not found"}}))
        });
        let (Some(mut answer), Some(id)) = (recorded, dialect::asks(self.mode, live)) else {
            return improvise(self.mode, live, self.count);
        };
        dialect::set_answered(self.mode, &mut answer, id.clone());
        let fresh = given
            .cloned()
            .unwrap_or_else(|| json!(format!("served-{}-{}", std::process::id(), self.count)));
        self.begun.extend(fresh.as_str().map(str::to_owned));
        for place in [
            "/result/thread/id",
            "/result/thread/sessionId",
            "/result/sessionId",
        ] {
            if let Some(place) = answer.pointer_mut(place) {
                *place = fresh.clone();
            }
        }
        say(answer);
    }

    fn session_of(&self, live: &Value) -> String {
        let named = dialect::session(live).and_then(Value::as_str);
        named.unwrap_or(&self.own).to_owned()
    }
}

fn begin(library: &Library, prompt: Value, session: &str, number: usize) -> Option<Playing> {
    let text = prompt.to_string();
    let shows = [
        ("FAKE:slow", Shows::Slow),
        ("FAKE:bash:", Shows::Allowed),
        ("FAKE:err", Shows::Error),
    ];
    let shows = shows
        .iter()
        .find(|(word, _)| text.contains(word))
        .map_or(Shows::Text, |(_, shows)| *shows);
    let turn = library.turn(shows).or_else(|| library.turn(Shows::Text))?;
    let command = turn.command().zip(command_in(&text));
    Some(Playing {
        session: session.to_owned(),
        shows: turn.shows,
        steps: turn.steps.clone(),
        at: 0,
        prompt,
        names: names(turn, session, number),
        command,
        asked: None,
        number,
    })
}

/// Handles an answer to a request of a playing turn, which continues as recorded for such an
/// answer.
fn answered(mode: Mode, library: &Library, turn: &mut Playing, answer: &Value) {
    turn.asked = None;
    turn.at += 1;
    if approves(answer) {
        let path = turn
            .command
            .as_ref()
            .and_then(|(_, live)| live.strip_prefix("touch ").map(str::to_owned));
        if let Some(path) = path {
            drop(std::fs::write(path.trim(), ""));
        }
        return;
    }
    let denied = library
        .turn(Shows::Denied)
        .filter(|_| turn.shows == Shows::Allowed);
    let request = requests(mode, &turn.steps).next();
    let (Some(denied), Some((_, request))) = (denied, request) else {
        return turn.cut_short(mode);
    };
    let Some((at, recorded)) = requests(mode, &denied.steps).next() else {
        return;
    };
    // The call in question continues under its present name.
    let mut other = names(denied, &turn.session, turn.number);
    for place in [
        "/params/itemId",
        "/params/turnId",
        "/params/toolCall/toolCallId",
        "/request/tool_use_id",
    ] {
        let now = request
            .pointer(place)
            .and_then(|name| turn.names.get(name.as_str()?))
            .cloned();
        if let (Some(old), Some(now)) = (recorded.pointer(place).and_then(Value::as_str), now) {
            other.insert(old.to_owned(), now);
        }
    }
    turn.command = denied
        .command()
        .zip(turn.command.take().map(|(_, live)| live));
    turn.names = other;
    // The peer's answer is between the request and the following steps.
    let answer_at = denied.steps[at..]
        .iter()
        .position(|step| step.input().is_some())
        .unwrap_or(0);
    turn.steps = denied.steps[at + answer_at + 1..].to_vec();
    turn.at = 0;
}

impl Playing {
    /// Plays on; true when the turn is over.
    fn play(&mut self, mode: Mode) -> bool {
        while let Some(step) = self.steps.get(self.at) {
            match step {
                Step::In(line) => {
                    let waits = dialect::stops(mode, line) || self.asked.is_some();
                    if waits {
                        return false;
                    }
                }
                Step::Out(line) => {
                    let json = line.json.clone();
                    self.say(mode, json);
                }
                Step::Signal | Step::Closed => {}
            }
            self.at += 1;
        }
        true
    }

    fn say(&mut self, mode: Mode, mut line: Value) {
        if line.is_null() {
            return;
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        if let (Some(recorded), Some(live)) = (
            line.get_mut("permissionMode"),
            option(&words, &["--permission-mode"]),
        ) {
            *recorded = live.into();
        }
        let answer = dialect::answers(mode, &line).is_some();
        if answer {
            let Some(live) = dialect::asks(mode, &self.prompt)
                .cloned()
                .filter(|_| mode != Mode::StreamJson)
            else {
                return;
            };
            // An answer to a stop is given when the stop comes.
            let about_the_prompt = line.pointer("/result/turn").is_some()
                || line.pointer("/result/stopReason").is_some()
                || line.get("error").is_some();
            if !about_the_prompt {
                return;
            }
            dialect::set_answered(mode, &mut line, live);
        } else if dialect::asks(mode, &line).is_some() {
            let id = match mode {
                Mode::StreamJson => json!(format!("asked-{}", self.number)),
                _ => json!(self.number),
            };
            let member = if mode == Mode::StreamJson {
                "request_id"
            } else {
                "id"
            };
            line[member] = id.clone();
            self.asked = Some(id);
        }
        say(self.renamed(line));
    }

    /// Ends the turn where nothing was recorded of how it ends.
    fn cut_short(&mut self, mode: Mode) {
        let turn = format!("turn-{}", self.number);
        say(dialect::stopped(mode, &self.prompt, &turn, "aborted_tools"));
        self.steps.clear();
        self.at = 0;
    }

    /// A line with live names in place of recorded ones.
    fn renamed(&self, line: Value) -> Value {
        match line {
            Value::String(text) => {
                if let Some(name) = self.names.get(&text) {
                    return name.clone();
                }
                let text = match &self.command {
                    Some((recorded, live)) => text.replace(recorded, live),
                    None => text,
                };
                Value::String(text)
            }
            Value::Array(items) => items.into_iter().map(|item| self.renamed(item)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| (name, self.renamed(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => line,
        }
    }
}

/// New names for what is new in a turn, and the live one of its session.
fn names(turn: &Turn, session: &str, number: usize) -> HashMap<String, Value> {
    let mut names = HashMap::new();
    let lines = || turn.steps.iter().filter_map(Step::output);
    for line in lines() {
        gather(&line.json, &mut |name| {
            names.insert(name.to_owned(), json!(format!("{name}.{number}")));
        });
    }
    let of_prompt = dialect::session(&turn.prompt);
    let of_lines = lines().find_map(|line| line.json.get("session_id"));
    if let Some(recorded) = of_prompt.or(of_lines).and_then(Value::as_str) {
        names.insert(recorded.to_owned(), json!(session));
    }
    names
}

fn gather(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                if let (true, Some(name)) = (NAMES.contains(&member.as_str()), value.as_str())
                    && name.len() >= SHORTEST
                {
                    found(name);
                }
                gather(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
