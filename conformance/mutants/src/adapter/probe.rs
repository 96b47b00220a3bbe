//! The work of a turn: an ordinary answer or, with `CONFORM_PROBE=1` in the environment, a script.

mod asking;
mod events;
mod script;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use trunkline_conformance_mutants::hex;

use self::script::{Operation, Script};
use crate::{
    message::{Members, Message},
    schema::ExtensionSet,
    session::{AdapterTurn, TurnAbort, TurnEnd},
    switches::{Mutant::*, Variant::*, broken, varied},
};

const TICK: Duration = Duration::from_millis(50);

/// The longest piece of an answer, in bytes: a line stays within 1 MiB even where each takes six ([frame.5]).
const PIECE: usize = 128 * 1024;

/// The most that one piece of a `burst`, or one file, holds.
const MOST: u64 = 64 * 1024 * 1024;

/// The operations, as `hello` names them.
const NAMES: [&str; 22] = [
    "hello",
    "say",
    "echo",
    "burst",
    "sleep",
    "until_stop",
    "report",
    "set",
    "get",
    "remember",
    "recall",
    "ask",
    "question",
    "file",
    "event",
    "info",
    "ready",
    "complete",
    "fail",
    "close_session",
    "exit",
    "abort",
];

/// The value that `remember` keeps.
const REMEMBERED: &str = "remembered";

/// Serves one turn. An input for which there was no room has no content.
pub(crate) fn answer(turn: &AdapterTurn, content: Option<String>) -> Result<TurnEnd, TurnAbort> {
    turn.over()?;
    let Some(content) = content else {
        return Ok(TurnEnd::failed("busy", "too much waits in this session"));
    };
    let probing = turn.session.process.world.probing || broken(ProbeAlwaysOn);
    match Script::in_content(&content).filter(|_| probing) {
        Some(script) => run(turn, script),
        None => ordinary(turn, &content),
    }
}

fn ordinary(turn: &AdapterTurn, content: &str) -> Result<TurnEnd, TurnAbort> {
    if broken(EmptyContentLeftOut) && content.is_empty() {
        turn.emit(Message::output(""))?;
    }
    if varied(AsksFirst) {
        asking::ask_and_stand_back(turn)?;
    }
    if varied(NoOutput) || content.is_empty() {
        return Ok(TurnEnd::completed());
    }
    let content = if broken(StopsAtNul) {
        content.split('\0').next().unwrap_or_default()
    } else {
        content
    };
    let most = if varied(OutputPerCharacter) {
        1
    } else {
        (content.len() / 2 + 1).min(PIECE)
    };
    let names = Names::for_turn(turn);
    if let Some(call) = names.call {
        turn.emit(
            Message::new("tool.start")
                .with("tool_call_id", call.as_str())
                .with("tool", "look"),
        )?;
        turn.emit(Message::new("tool.end").with("tool_call_id", call))?;
    }
    let mut rest = content;
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(most);
        turn.emit(Message::output(&rest[..end]).with_some("message_id", names.message.clone()))?;
        rest = &rest[end..];
    }
    Ok(TurnEnd::completed())
}

/// The names of an answer and of a call that belongs to it, for those that give any.
#[derive(Debug, Default)]
struct Names {
    message: Option<String>,
    call: Option<String>,
}

impl Names {
    fn for_turn(turn: &AdapterTurn) -> Self {
        let names = |message: u64, call: u64| Self {
            message: Some(format!("m-{message}")),
            call: Some(format!("c-{call}")),
        };
        let serial = || turn.session.process.world.serial();
        match () {
            () if !turn.has(ExtensionSet::EVENTS) => Self::default(),
            () if varied(NamesMessages) => names(serial(), serial()),
            () if broken(MessageIdsRestart) => names(1, serial()),
            () if broken(ToolCallIdsRestart) => names(serial(), 1),
            () => Self::default(),
        }
    }
}

fn run(turn: &AdapterTurn, script: Script) -> Result<TurnEnd, TurnAbort> {
    for step in script.steps {
        turn.over()?;
        if let Some(end) = take(turn, Operation::from_step(step), &script.text)? {
            return Ok(end);
        }
    }
    Ok(TurnEnd::completed())
}

/// Executes one step. If the turn ends with it, returns the end.
fn take(
    turn: &AdapterTurn,
    mut operation: Operation,
    text: &str,
) -> Result<Option<TurnEnd>, TurnAbort> {
    match operation.name.as_str() {
        "hello" => {
            let version = env!("CARGO_PKG_VERSION");
            say(
                turn,
                &json!({ "$probe": 1, "ops": NAMES, "adapter": "reference", "version": version }),
            )?;
        }
        "say" => {
            let said = operation.text().unwrap_or_default();
            let channel = operation.text().filter(|channel| !channel.is_empty());
            turn.emit(Message::output(&said).with_some("channel", channel))?;
        }
        "echo" => {
            let said = operation.text().unwrap_or_else(|| text.to_owned());
            let said = if broken(StopsAtNul) {
                said.split('\0').next().unwrap_or_default()
            } else {
                &said
            };
            turn.emit(Message::output(said))?;
        }
        "burst" => burst(
            turn,
            operation.number(),
            operation.number(),
            operation.text(),
        )?,
        "sleep" => busy(turn, Some(Duration::from_millis(operation.number())))?,
        "until_stop" => busy(turn, None)?,
        "report" => {
            let files: Vec<_> = turn
                .session
                .files()
                .iter()
                .map(|file| file.judged())
                .collect();
            say(turn, &turn.session.report(&files))?;
        }
        "set" => {
            let key = operation.text().unwrap_or_default();
            let value = operation.value();
            turn.with_values(|values| {
                if values.len() < 4096 || values.contains_key(&key) {
                    values.insert(key, value);
                }
            });
        }
        "get" => {
            let key = operation.text().unwrap_or_default();
            let value = turn.with_values(|values| values.get(&key).cloned().unwrap_or_default());
            say(turn, &json!({ "$probe": 1, "key": key, "value": value }))?;
        }
        "remember" => {
            let text = operation.value();
            turn.with_values(|values| values.insert(REMEMBERED.to_owned(), text));
        }
        "recall" => {
            let text =
                turn.with_values(|values| values.get(REMEMBERED).cloned().unwrap_or_default());
            say(turn, &json!({ "$probe": 1, "recalled": text }))?;
        }
        "ask" => asking::ask(turn, operation.objects())?,
        "question" => asking::question(turn, &operation.object())?,
        "file" => return file(turn, &mut operation),
        "event" => events::send(turn, operation.object())?,
        "info" => events::info(turn, operation.object())?,
        "ready" => say(
            turn,
            &json!({ "$probe": 1, "extensions": turn.session.agreed.names() }),
        )?,
        "complete" => return Ok(Some(completed(operation.value()))),
        "fail" => return Ok(Some(fail(operation.text().as_deref()))),
        "close_session" => {
            let reason = operation
                .text()
                .filter(|reason| REASONS.contains(&reason.as_str()));
            turn.session
                .end(reason.as_deref().unwrap_or("finished"), None);
            return Err(TurnAbort::Closed);
        }
        "exit" => std::process::exit(i32::try_from(operation.number()).unwrap_or(1)),
        "abort" => std::process::abort(),
        unknown => {
            say(turn, &json!({ "$probe": 1, "unsupported": unknown }))?;
            return Ok(Some(TurnEnd::completed()));
        }
    }
    Ok(None)
}

/// The reasons of `session.closed`.
const REASONS: [&str; 7] = [
    "finished",
    "failed",
    "refused",
    "unknown_agent",
    "limit",
    "protocol",
    "shutdown",
];

/// Says data.
fn say(turn: &AdapterTurn, data: &Value) -> Result<(), TurnAbort> {
    turn.emit(Message::output(&data.to_string()))
}

fn completed(end: Value) -> TurnEnd {
    match end {
        Value::Object(members) => TurnEnd::with(members),
        Value::String(status) => {
            TurnEnd::with(Members::from_iter([("status".to_owned(), status.into())]))
        }
        _ => TurnEnd::completed(),
    }
}

fn fail(why: Option<&str>) -> TurnEnd {
    if broken(FailureExits) {
        std::process::exit(1);
    }
    TurnEnd::failed("other", why.unwrap_or("the script fails"))
}

fn burst(
    turn: &AdapterTurn,
    pieces: u64,
    bytes: u64,
    letter: Option<String>,
) -> Result<(), TurnAbort> {
    let letter = letter
        .filter(|letter| letter.len() == 1)
        .unwrap_or_else(|| "x".to_owned());
    let fill = usize::try_from(bytes.min(MOST))
        .unwrap_or(0)
        .saturating_sub("00000001 ".len());
    let fill = letter.repeat(fill);
    let mut held = String::new();
    for number in 1..=pieces {
        held.push_str(&format!("{number:08} {fill}"));
        if !varied(Joins) || number.is_multiple_of(2) || number == pieces {
            // Each in a line that every host reads ([frame.11]).
            let most = if broken(LinesUncut) {
                usize::MAX
            } else {
                PIECE
            };
            let mut rest = held.as_str();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(most));
                turn.emit(Message::output(piece))?;
                rest = after;
            }
            held.clear();
        }
    }
    Ok(())
}

fn busy(turn: &AdapterTurn, time: Option<Duration>) -> Result<(), TurnAbort> {
    let until = time.map(|time| Instant::now() + time.min(Duration::from_secs(86_400)));
    loop {
        let left = until.map_or(TICK, |until| {
            until.saturating_duration_since(Instant::now()).min(TICK)
        });
        if left.is_zero() {
            return Ok(());
        }
        turn.rest(left)?;
        if left == TICK {
            turn.emit(Message::output("tick"))?;
        }
    }
}

/// Writes a file and announces it once it is complete ([file.3]).
fn file(turn: &AdapterTurn, operation: &mut Operation) -> Result<Option<TurnEnd>, TurnAbort> {
    let name = operation.text().unwrap_or_else(|| "probe.bin".to_owned());
    let mime = operation
        .text()
        .unwrap_or_else(|| "application/octet-stream".to_owned());
    let bytes = usize::try_from(operation.number().min(MOST)).unwrap_or(0);
    let folder = match turn.session.folder() {
        Ok(folder) => folder,
        Err(error) => {
            return Ok(Some(TurnEnd::failed(
                "other",
                &format!("no folder for files: {error}"),
            )));
        }
    };
    let path = folder.join(format!("file-{}", turn.session.process.world.serial()));
    let shown = if broken(RelativeFilePath) {
        path.file_name()
            .map(std::path::PathBuf::from)
            .unwrap_or_default()
    } else {
        path.clone()
    };
    let announcement = Message::new("file.output")
        .with("file_name", name)
        .with("file_path", shown.to_string_lossy().into_owned());
    let announcement = if broken(FileWithoutMime) {
        announcement
    } else {
        announcement.with("file_mime_type", mime)
    };
    let announcement = if turn.session.has(ExtensionSet::LARGE) {
        announcement
            .with("size", bytes)
            .with("sha256", hex(&hmac_sha256::Hash::hash(&vec![b'x'; bytes])))
    } else {
        announcement
    };
    if broken(FileAnnouncedEarly) {
        turn.emit(announcement.clone())?;
        turn.rest(Duration::from_millis(300))?;
    }
    if let Err(error) = std::fs::write(&path, vec![b'x'; bytes]) {
        return Ok(Some(TurnEnd::failed(
            "other",
            &format!("the file was not written: {error}"),
        )));
    }
    if !broken(FileAnnouncedEarly) {
        turn.emit(announcement)?;
    }
    if broken(FileRemovedAtEnd) {
        let _ = std::fs::remove_file(path);
    }
    Ok(None)
}
