//! The scripted adapter that a host under test launches.
//!
//! It follows a script file, and the inputs that the runner sends through the host: content that is
//! a JSON object `{"$stub":[action, …],"as":"name"}` is a list of actions (see `stub/action.rs`),
//! any other content is echoed by one `output` and ended. Actions run in order on the session's own
//! worker; the thread that reads stdin never waits for them. A turn whose actions do not complete
//! it stays open until `stop`, which the stub then answers.
//!
//! The script is a JSON object, every member optional:
//!
//! | member | meaning |
//! |---|---|
//! | `at_start` | actions before anything is read |
//! | `extensions` | names to agree on if they are offered; absent means core-only |
//! | `ready`, `ready_delay_ms` | further members of `session.ready`, and its delay |
//! | `on` | actions by message type, which replace the stub's own; also `steer`, `eof`, `term` |
//! | `lists` | actions by name, for `["do",name]`, if they are too long for an input |
//! | `starts` | members that override the script at the nth start, counted by the log |
//!
//! The log is one JSON object per line with `ev`, `t` (nanoseconds of the monotonic clock; of a
//! write, its beginning), `start` and `n`. A process of the stub is identified by its `start`,
//! counted from 1 in the log, and never by a pid: a host may put its adapters into PID namespaces.
//! While it runs it holds a lock on `LOG.START.lock`:
//!
//! | `ev` | members |
//! |---|---|
//! | `start` | `argv`, `cwd`, `env` (names) |
//! | `in`, `in64` | `line` or `data` (base64), as received without the LF; `lf: false` if none ended it |
//! | `out` | `line`; beyond 4 KiB `type`, `session_id`, `turn_id`, `channel`, `bytes`, and `len` and `sha256` of `content` |
//! | `burst` | `from`, `count`, `size`, `channel`, ids: that many numbered outputs |
//! | `raw`, `raw64` | `text`, `data`, or beyond 256 KiB `len`, `sha256`, `lf`: bytes that were not whole messages |
//! | `unsent` | `len`: a write after `close_stdout` |
//! | `endless` | `len`: bytes without an LF, after the `raw` that began the line |
//! | `act` | `name`, `session_id`: an action begins |
//! | `child` | `kind`: a sleeper was started, whose command line names the log |
//! | `pid` | `pid`: its own id as it sees it, which may belong to another process elsewhere |
//! | `file`, `report`, `env`, `timeout`, `bad` | findings of an action |
//! | `eof`, `term`, `broken`, `exit` | the end of stdin, SIGTERM, a broken stdout, the end with its `code` |

mod action;
mod args;
mod children;
mod cue;
mod files;
mod frame;
mod input;
mod life;
mod line;
mod log;
mod out;
mod perform;
mod script;
mod session;
mod state;
mod turn;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

use self::frame::Frame;
use self::log::Log;
use self::script::Script;
use self::state::Stub;

pub(crate) use self::args::ScriptError;
pub use self::children::is_child;
pub use self::cue::give as give_cue;
pub use self::life::is_running;

/// Usage text of the stub's own command line.
const USAGE: &str = "usage: stub --script FILE --log FILE";

/// Runs the stub until its stdin ends or an action ends it.
#[must_use]
pub(crate) fn run(script: &Path, log: &Path) -> ExitCode {
    match prepare(script, log) {
        Ok(stub) => serve(&stub),
        Err(error) => complain(&error),
    }
}

/// Checks the text of a script file.
///
/// # Errors
///
/// Names the place and the action that is wrong.
pub(crate) fn check_script(text: &str) -> Result<(), ScriptError> {
    Script::parse(text, 1).map(|_| ())
}

/// Checks a list of actions, such as the runner puts into `$stub`.
///
/// # Errors
///
/// Names the place and the action that is wrong.
pub(crate) fn check_actions(actions: &Value) -> Result<(), ScriptError> {
    action::list(actions, "$stub").map(|_| ())
}

/// Runs the stub by the arguments that follow `stub`: `--script FILE --log FILE`, or one of the
/// forms by which the stub starts its own children.
#[must_use]
pub fn command_line(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match words.as_slice() {
        ["--script", script, "--log", log] | ["--log", log, "--script", script] => {
            run(Path::new(script), Path::new(log))
        }
        ["--sleep", seconds, "--log", _] => children::sleep(seconds.parse().unwrap_or(0)),
        ["--orphan", seconds, pipes, "--log", log] => {
            children::orphan(seconds, pipes, Path::new(log))
        }
        _ => complain(USAGE),
    }
}

fn complain(what: &(impl std::fmt::Display + ?Sized)) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "stub: {what}");
    ExitCode::from(2)
}

fn prepare(script: &Path, log: &Path) -> Result<Arc<Stub>, String> {
    let argv = std::env::args_os().map(|arg| arg.to_string_lossy().into());
    let log = Log::begin(log, argv.collect()).map_err(|error| format!("the log: {error}"))?;
    let log = Arc::new(log);
    let read = std::fs::read_to_string(script).map_err(|error| format!("the script: {error}"));
    let parsed = read.and_then(|text| Script::parse(&text, log.start()).map_err(|e| e.to_string()));
    let script = parsed.inspect_err(|error| log.add("bad", [("error", error.as_str().into())]))?;
    Ok(Arc::new(Stub::new(script, log)))
}

fn serve(stub: &Arc<Stub>) -> ExitCode {
    stub.watch_for_term();
    let _ = Frame::of_pipe(stub).perform(&stub.script.at_start);
    input::read_all(stub);
    stub.log.add("eof", []);
    if let Some(actions) = stub.script.rule("eof") {
        let _ = Frame::of_pipe(stub).perform(actions);
    }
    stub.outlive_eof();
    stub.exit(0)
}
