//! The actions of the stub, in scripts and in instructions.
//!
//! An action is a JSON array that begins with its name:
//!
//! | action | effect |
//! |---|---|
//! | `["say",text,channel?]` | one `output` |
//! | `["emit",{message}]` | one message; an absent `session_id` and `turn_id` are filled in, null leaves a member out |
//! | `["many",[messages]]` | several messages in one write |
//! | `["raw",text]`, `["raw64",base64]` | unchanged bytes; in `raw` `{session_id}` and `{turn_id}` are replaced |
//! | `["split",text or message,[offsets] or "chars",gap_ms?]` | one line in several writes, `"chars"` inside each character of several bytes |
//! | `["bytewise",text or message,gap_us?]` | one write for each byte |
//! | `["burst",n,size,channel?]` | outputs `00000001xxx…` of `size` bytes |
//! | `["flood",total,piece]` | a burst of that many bytes of content |
//! | `["endless",bytes,beginning?]` | a line that does not end; it begins as an output of the session |
//! | `["complete",{members}?]` | the turn's `turn.complete` |
//! | `["done"]` | the turn counts as ended; nothing is written |
//! | `["delay",ms]` | time passes |
//! | `["wait",type,request_id?,timeout_ms?]` | waits until such a message of the session has arrived since its turn began |
//! | `["until",cue]` | waits until the runner gives this cue |
//! | `["repeat",n,[actions]]` | n times |
//! | `["do",name]` | the script's list of that name |
//! | `["to",name,[actions]]` | in the session that was named so by `"as"` |
//! | `["session",id,[actions]]` | for a literal session id |
//! | `["later",ms,[actions]]` | in the background, whatever happens to turn and session |
//! | `["ask",{members}]`, `["question",{members}]` | `permission.request`, `input.request` |
//! | `["file",name,mime,bytes,where?]` | writes and announces a file in `tmpdir`, `cwd` or `exchange_dir` |
//! | `["file_at",path,name?,mime?]` | announces a path |
//! | `["write_file",path,bytes]`, `["mkfifo",path]`, `["symlink",target,path]`, `["hardlink",target,path]` | prepares hostile files |
//! | `["report_file",path]` | logs size and SHA-256 |
//! | `["hold_stdin",bool]`, `["close_stdout"]`, `["stderr",bytes]` | the pipes |
//! | `["ignore_eof"]`, `["ignore_term"]`, `["ignore_stop"]` | from now on; the last for the running turn |
//! | `["exit",n]`, `["abort","kill" or "abrt"?]` | the end |
//! | `["grandchild",s,"hold" or "free"?]`, `["orphan",s,…]` | a child, one in a session of its own; `hold` keeps stdout and stderr open |
//! | `["env"]`, `["pid"]` | logged; the pid as the stub itself sees it |
//!
//! In paths `{tmpdir}`, `{cwd}` and `{exchange_dir}` are replaced.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::args::{Args, ScriptError};

/// The members of a message.
pub(super) type Message = Map<String, Value>;

/// A step of a script.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Say {
        text: String,
        channel: Option<String>,
    },
    Emit(Message),
    Many(Vec<Message>),
    Raw(String),
    RawBytes(Vec<u8>),
    Split {
        what: WrittenPiece,
        at: LineCuts,
        gap_ms: u64,
    },
    Bytewise {
        what: WrittenPiece,
        gap_us: u64,
    },
    Burst {
        count: u64,
        size: u64,
        channel: Option<String>,
    },
    Endless {
        bytes: u64,
        beginning: Option<String>,
    },
    Complete(Message),
    Done,
    Delay(u64),
    Wait(WaitCondition),
    Until(String),
    Repeat(u64, Vec<Self>),
    Do(String),
    To(String, Vec<Self>),
    Session(String, Vec<Self>),
    Later(u64, Vec<Self>),
    File {
        name: String,
        mime: String,
        bytes: u64,
        place: TargetFolder,
    },
    FileAt {
        path: String,
        name: Option<String>,
        mime: Option<String>,
    },
    WriteFile {
        path: String,
        bytes: u64,
    },
    Mkfifo(String),
    Symlink {
        target: String,
        path: String,
    },
    Hardlink {
        target: String,
        path: String,
    },
    ReportFile(String),
    HoldStdin(bool),
    CloseStdout,
    Stderr(u64),
    IgnoreEof,
    IgnoreTerm,
    IgnoreStop,
    Exit(i32),
    Abort(DeathSignal),
    Child {
        seconds: u64,
        kind: Kinship,
        pipes: Pipes,
    },
    Env,
    Pid,
}

/// Data that is written in pieces: bytes, or a message with its LF.
#[derive(Clone, Debug)]
pub(super) enum WrittenPiece {
    Text(String),
    Message(Message),
}

/// Cuts of a line that is written in several pieces.
#[derive(Clone, Debug)]
pub(super) enum LineCuts {
    Offsets(Vec<usize>),
    InsideCharacters,
}

/// Condition of a `wait`.
#[derive(Clone, Debug)]
pub(super) struct WaitCondition {
    pub(super) kind: String,
    pub(super) request_id: Option<String>,
    pub(super) timeout_ms: u64,
}

/// The folder that a file is written to.
#[derive(Clone, Copy, Debug)]
pub(super) enum TargetFolder {
    Tmpdir,
    Cwd,
    ExchangeDir,
}

/// The signal that the stub ends itself by.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeathSignal {
    Kill,
    Abort,
}

/// Relation of a child to the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinship {
    Grandchild,
    Orphan,
}

/// Effect of a child on the stub's stdout and stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipes {
    Hold,
    Free,
}

/// Default timeout of a `wait`.
const WAIT_MS: u64 = 60_000;
/// The most bytes that one number of a script may ask for.
const MAX_BYTES: u64 = 4 << 30;

/// Reads a list of actions; `at` is its place, for errors.
pub(super) fn list(value: &Value, at: &str) -> Result<Vec<Action>, ScriptError> {
    let actions = value
        .as_array()
        .ok_or_else(|| ScriptError::new(at, "wants an array of actions"))?;
    let numbered = actions.iter().enumerate();
    numbered
        .map(|(i, action)| one(action, &format!("{at}[{i}]")))
        .collect()
}

fn one(action: &Value, at: &str) -> Result<Action, ScriptError> {
    let mut args = Args::parse(action, at)?;
    let action = match args.name {
        "say" => Action::Say {
            text: args.text()?,
            channel: args.optional_text()?,
        },
        "emit" => Action::Emit(args.object()?),
        "many" => Action::Many(messages(&mut args)?),
        "raw" => Action::Raw(args.text()?),
        "raw64" => {
            let bytes = STANDARD.decode(args.text()?);
            Action::RawBytes(bytes.map_err(|_| args.wrong("wants base64 as argument 1"))?)
        }
        "split" => Action::Split {
            what: piece(&mut args)?,
            at: cuts(&mut args)?,
            gap_ms: args.optional_number()?.unwrap_or(0),
        },
        "bytewise" => Action::Bytewise {
            what: piece(&mut args)?,
            gap_us: args.optional_number()?.unwrap_or(0),
        },
        "burst" => Action::Burst {
            count: args.number()?,
            size: bytes(&mut args)?,
            channel: args.optional_text()?,
        },
        "flood" => {
            let total = bytes(&mut args)?;
            let size = bytes(&mut args)?.max(1);
            Action::Burst {
                count: total.div_ceil(size),
                size,
                channel: None,
            }
        }
        "endless" => Action::Endless {
            bytes: bytes(&mut args)?,
            beginning: args.optional_text()?,
        },
        "complete" => Action::Complete(args.optional_object()?.unwrap_or_default()),
        "done" => Action::Done,
        "delay" => Action::Delay(args.number()?),
        "wait" => Action::Wait(wanted(&mut args)?),
        "until" => Action::Until(args.text()?),
        "repeat" => Action::Repeat(args.number()?, nested(&mut args)?),
        "do" => Action::Do(args.text()?),
        "to" => Action::To(args.text()?, nested(&mut args)?),
        "session" => Action::Session(args.text()?, nested(&mut args)?),
        "later" => Action::Later(args.number()?, nested(&mut args)?),
        "ask" => Action::Emit(typed("permission.request", args.object()?)),
        "question" => Action::Emit(typed("input.request", args.object()?)),
        "file" => Action::File {
            name: args.text()?,
            mime: args.text()?,
            bytes: bytes(&mut args)?,
            place: place(&mut args)?,
        },
        "file_at" => Action::FileAt {
            path: args.text()?,
            name: args.optional_text()?,
            mime: args.optional_text()?,
        },
        "write_file" => Action::WriteFile {
            path: args.text()?,
            bytes: bytes(&mut args)?,
        },
        "mkfifo" => Action::Mkfifo(args.text()?),
        "symlink" => Action::Symlink {
            target: args.text()?,
            path: args.text()?,
        },
        "hardlink" => Action::Hardlink {
            target: args.text()?,
            path: args.text()?,
        },
        "report_file" => Action::ReportFile(args.text()?),
        "hold_stdin" => Action::HoldStdin(args.truth()?),
        "close_stdout" => Action::CloseStdout,
        "stderr" => Action::Stderr(bytes(&mut args)?),
        "ignore_eof" => Action::IgnoreEof,
        "ignore_term" => Action::IgnoreTerm,
        "ignore_stop" => Action::IgnoreStop,
        "exit" => Action::Exit(
            u8::try_from(args.number()?)
                .map_err(|_| args.wrong("wants a status up to 255"))?
                .into(),
        ),
        "abort" => Action::Abort(match args.optional_text()?.as_deref() {
            None | Some("kill") => DeathSignal::Kill,
            Some("abrt") => DeathSignal::Abort,
            Some(_) => return Err(args.wrong("wants \"kill\" or \"abrt\"")),
        }),
        "grandchild" => child(&mut args, Kinship::Grandchild)?,
        "orphan" => child(&mut args, Kinship::Orphan)?,
        "env" => Action::Env,
        "pid" => Action::Pid,
        _ => return Err(args.wrong("is not an action")),
    };
    args.end()?;
    Ok(action)
}

fn nested(args: &mut Args<'_>) -> Result<Vec<Action>, ScriptError> {
    let at = args.place();
    list(args.value("an array of actions")?, &at)
}

fn messages(args: &mut Args<'_>) -> Result<Vec<Message>, ScriptError> {
    let wrong = "wants an array of messages";
    let list = args.value("an array of messages")?;
    let list = list.as_array().ok_or_else(|| args.wrong(wrong))?;
    let objects = list.iter().map(|m| m.as_object().cloned());
    objects
        .collect::<Option<_>>()
        .ok_or_else(|| args.wrong(wrong))
}

fn typed(kind: &str, mut message: Message) -> Message {
    message.insert("type".to_owned(), kind.into());
    message
}

fn piece(args: &mut Args<'_>) -> Result<WrittenPiece, ScriptError> {
    match args.value("a text or a message")? {
        Value::String(text) => Ok(WrittenPiece::Text(text.clone())),
        Value::Object(message) => Ok(WrittenPiece::Message(message.clone())),
        _ => Err(args.wrong("wants a text or a message as argument 1")),
    }
}

fn cuts(args: &mut Args<'_>) -> Result<LineCuts, ScriptError> {
    let wrong = "wants an array of offsets or \"chars\" as argument 2";
    match args.value("an array of offsets or \"chars\"")? {
        Value::String(word) if word == "chars" => Ok(LineCuts::InsideCharacters),
        Value::Array(list) => {
            let offset = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
            let offsets: Option<Vec<_>> = list.iter().map(offset).collect();
            Ok(LineCuts::Offsets(offsets.ok_or_else(|| args.wrong(wrong))?))
        }
        _ => Err(args.wrong(wrong)),
    }
}

fn bytes(args: &mut Args<'_>) -> Result<u64, ScriptError> {
    match args.number()? {
        n if n <= MAX_BYTES => Ok(n),
        _ => Err(args.wrong("wants at most 4 GiB")),
    }
}

fn wanted(args: &mut Args<'_>) -> Result<WaitCondition, ScriptError> {
    let kind = args.text()?;
    let mut wanted = WaitCondition {
        kind,
        request_id: None,
        timeout_ms: WAIT_MS,
    };
    for _ in 0..2 {
        match args.next() {
            None => {}
            Some(Value::String(id)) => wanted.request_id = Some(id.clone()),
            Some(value) => {
                let wrong = || args.wrong("wants a request id and a timeout in ms");
                wanted.timeout_ms = value.as_u64().ok_or_else(wrong)?;
            }
        }
    }
    Ok(wanted)
}

fn place(args: &mut Args<'_>) -> Result<TargetFolder, ScriptError> {
    match args.optional_text()?.as_deref() {
        None | Some("tmpdir") => Ok(TargetFolder::Tmpdir),
        Some("cwd") => Ok(TargetFolder::Cwd),
        Some("exchange_dir") => Ok(TargetFolder::ExchangeDir),
        Some(_) => Err(args.wrong("wants \"tmpdir\", \"cwd\" or \"exchange_dir\"")),
    }
}

fn child(args: &mut Args<'_>, kind: Kinship) -> Result<Action, ScriptError> {
    let seconds = args.number()?;
    let pipes = match (args.optional_text()?.as_deref(), kind) {
        (Some("hold"), _) | (None, Kinship::Grandchild) => Pipes::Hold,
        (Some("free"), _) | (None, Kinship::Orphan) => Pipes::Free,
        (Some(_), _) => return Err(args.wrong("wants \"hold\" or \"free\"")),
    };
    Ok(Action::Child {
        seconds,
        kind,
        pipes,
    })
}

/// Returns true if a list waits for `stop` itself, so that the default answer would interfere.
pub(super) fn handles_stop(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Wait(wanted) => wanted.kind == "stop",
        Action::IgnoreStop => true,
        Action::Repeat(_, nested) => handles_stop(nested),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(list_of: &Value) -> String {
        list(list_of, "on.stop").unwrap_err().to_string()
    }

    #[test]
    fn an_error_names_the_place_and_the_action() {
        assert_eq!(
            refused(&json!([["delay", 1], ["burst", "x", 2]])),
            "on.stop[1]: \"burst\" wants a number as argument 1"
        );
        assert_eq!(
            refused(&json!([["to", "a", [["shout"]]]])),
            "on.stop[0].to[0]: \"shout\" is not an action"
        );
        assert_eq!(
            refused(&json!([["pid", 1]])),
            "on.stop[0]: \"pid\" takes no argument 1"
        );
        assert_eq!(
            refused(&json!(["pid"])),
            "on.stop[0]: an action is an array that begins with its name"
        );
    }

    #[test]
    fn a_wait_takes_an_id_or_a_timeout_or_both() {
        let wait = |action: Value| match list(&json!([action]), "x").unwrap().remove(0) {
            Action::Wait(wanted) => (wanted.request_id, wanted.timeout_ms),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(json!(["wait", "stop"])), (None, WAIT_MS));
        assert_eq!(wait(json!(["wait", "stop", 5])), (None, 5));
        assert_eq!(wait(json!(["wait", "p", "r"])), (Some("r".into()), WAIT_MS));
        assert_eq!(wait(json!(["wait", "p", "r", 5])), (Some("r".into()), 5));
    }

    #[test]
    fn a_list_that_waits_for_stop_handles_it() {
        let handles = |actions: Value| handles_stop(&list(&actions, "x").unwrap());
        assert!(handles(json!([["wait", "stop"], ["complete"]])));
        assert!(!handles(json!([["later", 1, [["wait", "stop"]]]])));
        assert!(!handles(json!([["delay", 5]])));
    }
}
