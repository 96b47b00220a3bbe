//! Reads stdin, logs every line, and hands messages to the sessions; it never waits for one.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::action::Message;
use super::frame::message;
use super::session::{StubInput, StubSession, StubState, WorkerTask};
use super::state::Stub;
use super::turn::{first_worker, instructions, name_in, second_worker};
use crate::wire;

/// The longest line that is kept.
const MAX_LINE: usize = 64 << 20;
/// The most inputs or errands that wait in a session.
const MAX_WAITING: usize = 16_384;
/// Members that a `session.update` may change, and its answer repeats.
const UPDATABLE: [&str; 6] = [
    "model",
    "reasoning_effort",
    "mode",
    "permission_mode",
    "allowed_tools",
    "denied_tools",
];

/// Reads until the end of stdin.
pub(super) fn read_all(stub: &Arc<Stub>) {
    let mut line = PartialLine::default();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        stub.wait_for_resume();
        let stdin = rustix::stdio::stdin();
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None).is_err() {
            continue;
        }
        let read = stub.unless_held(|| rustix::io::read(stdin, &mut bytes[..]));
        let n = match read {
            None | Some(Err(Errno::INTR | Errno::AGAIN)) => continue,
            Some(Ok(0) | Err(_)) => break,
            Some(Ok(n)) => n,
        };
        for piece in wire::pieces(&bytes[..n]) {
            line.push(piece);
            if piece.ends_with(b"\n") {
                line.take(stub, InputLineEnd::ByLf);
            }
        }
    }
    if line.seen > 0 {
        line.take(stub, InputLineEnd::ByEof);
    }
}

/// A line that is being read.
#[derive(Default)]
struct PartialLine {
    bytes: Vec<u8>,
    seen: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputLineEnd {
    ByLf,
    ByEof,
}

impl PartialLine {
    fn push(&mut self, piece: &[u8]) {
        self.seen += piece.len();
        let room = MAX_LINE.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn take(&mut self, stub: &Arc<Stub>, ended: InputLineEnd) {
        let bytes = std::mem::take(&mut self.bytes);
        let seen = std::mem::take(&mut self.seen);
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let lf = match ended {
            InputLineEnd::ByLf => Value::Null,
            InputLineEnd::ByEof => false.into(),
        };
        if seen > bytes.len() {
            stub.log.add("in", [("over", seen.into()), ("lf", lf)]);
            return;
        }
        match std::str::from_utf8(line) {
            Ok(text) => {
                stub.log.add("in", [("line", text.into()), ("lf", lf)]);
                take(stub, text);
            }
            Err(_) => {
                let data = STANDARD.encode(line);
                stub.log.add("in64", [("data", data.into()), ("lf", lf)]);
            }
        }
    }
}

fn take(stub: &Arc<Stub>, line: &str) {
    let text = line.trim_start_matches('\u{feff}');
    let Ok(message) = serde_json::from_str::<Message>(text) else {
        return;
    };
    let (Some(kind), Some(id)) = (string(&message, "type"), string(&message, "session_id")) else {
        return;
    };
    if kind == "session.start" {
        start(stub, id, &message);
        return;
    }
    let session = if id.is_empty() {
        Some(Arc::clone(&stub.pipe))
    } else {
        stub.session(id)
    };
    if let Some(session) = session {
        let arrival = session.arrive(kind, string(&message, "request_id"));
        deliver(stub, &session, kind, &message, arrival);
    }
}

fn deliver(
    stub: &Arc<Stub>,
    session: &Arc<StubSession>,
    kind: &str,
    message: &Message,
    arrival: u64,
) {
    let rule = || WorkerTask::Rule {
        kind: kind.to_owned(),
        arrival,
    };
    match kind {
        "user.input" => input(stub, session, message, arrival),
        "session.close" => {
            if stub.script.rule(kind).is_some() {
                errand(stub, session, rule());
            }
            session.with(|state| state.closed = true);
            stub.close(&session.id);
        }
        _ if stub.script.rule(kind).is_some() => errand(stub, session, rule()),
        "stop" => stop(stub, session, string(message, "turn_id")),
        "ping" => errand(stub, session, WorkerTask::Emit(pong(message))),
        "session.update" => errand(stub, session, WorkerTask::Emit(info(message))),
        "flow.pause" => session.with(|state| state.paused = true),
        "flow.resume" => session.with(|state| state.paused = false),
        _ => {}
    }
}

fn start(stub: &Arc<Stub>, id: &str, message: &Message) {
    if id.is_empty() || stub.session(id).is_some() {
        return;
    }
    let offered = message.get("extensions").and_then(Value::as_array);
    let known = stub.script.extensions.as_ref();
    let agreed = match (offered, known) {
        (Some(offered), Some(known)) => known
            .iter()
            .filter(|name| offered.iter().any(|o| o.as_str() == Some(name)))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    let session = Arc::new(StubSession::new(
        id,
        StubState {
            agreed,
            ready: offered.is_some() && known.is_some(),
            exchange_dir: string(message, "exchange_dir").map(str::to_owned),
            ..StubState::default()
        },
    ));
    session.arrive("session.start", None);
    stub.open(Arc::clone(&session));
    stub.spawn(move |stub| first_worker(stub, &session));
}

fn input(stub: &Arc<Stub>, session: &Arc<StubSession>, message: &Message, arrival: u64) {
    let content = string(message, "content").unwrap_or("").to_owned();
    if let Some(name) = name_in(&content) {
        stub.name(&name, Arc::clone(session));
    }
    if string(message, "mode") == Some("steer") && session.agreed_on("turns") {
        steer(stub, session, message, arrival);
        return;
    }
    let input = StubInput {
        content,
        turn_id: string(message, "turn_id").map(str::to_owned),
        arrival,
        stopped: false,
    };
    let full = session.with(|state| {
        let full = state.inputs.len() >= MAX_WAITING;
        if !full {
            state.inputs.push_back(input);
        }
        full
    });
    if full {
        overrun(stub);
    }
}

/// A steer is carried out beside the running turn if it has instructions, else answered ([turn.10]).
fn steer(stub: &Arc<Stub>, session: &Arc<StubSession>, message: &Message, arrival: u64) {
    let content = string(message, "content").unwrap_or("");
    let running = session.look(|state| state.turn.as_ref().is_some_and(|turn| turn.open));
    let work = if stub.script.rule("steer").is_some() {
        WorkerTask::Rule {
            kind: "steer".to_owned(),
            arrival,
        }
    } else if running && instructions(content).is_some() {
        WorkerTask::Instructions {
            content: content.to_owned(),
            arrival,
        }
    } else {
        WorkerTask::Emit(super::frame::message(json!({
            "type": "steer.result",
            "message_id": message.get("message_id"),
            "delivered": running,
            "reason": (!running).then_some("no turn is running"),
        })))
    };
    errand(stub, session, work);
}

/// Marks the running turn as stopped, or ends a queued one ([turn.4], [turn.9]).
fn stop(stub: &Arc<Stub>, session: &Arc<StubSession>, turn_id: Option<&str>) {
    let queued = session.with(|state| {
        let named = |input: &StubInput| turn_id.is_some() && input.turn_id.as_deref() == turn_id;
        if let Some(at) = state.inputs.iter().position(named) {
            return state.inputs.remove(at);
        }
        state.stop(turn_id);
        None
    });
    if let Some(input) = queued {
        let end = json!({"type": "turn.complete", "turn_id": input.turn_id, "status": "stopped"});
        errand(stub, session, WorkerTask::Emit(message(end)));
    }
}

fn pong(ping: &Message) -> Message {
    message(json!({"type": "pong", "session_id": "", "nonce": ping.get("nonce")}))
}

fn info(update: &Message) -> Message {
    let mut info = message(json!({"type": "session.info"}));
    for key in UPDATABLE {
        if let Some(value) = update.get(key) {
            info.insert(key.to_owned(), value.clone());
        }
    }
    info
}

fn errand(stub: &Arc<Stub>, session: &Arc<StubSession>, errand: WorkerTask) {
    let (full, new) = session.with(|state| {
        let full = state.errands.len() >= MAX_WAITING;
        if !full {
            state.errands.push_back(errand);
        }
        (full, !std::mem::replace(&mut state.second_worker, true))
    });
    if full {
        overrun(stub);
    }
    if new {
        let session = Arc::clone(session);
        stub.spawn(move |stub| second_worker(stub, &session));
    }
}

fn overrun(stub: &Stub) {
    let error = "more waits than the stub holds";
    stub.log.add("bad", [("error", error.into())]);
}

fn string<'a>(message: &'a Message, key: &str) -> Option<&'a str> {
    message.get(key).and_then(Value::as_str)
}
