//! Expected events of a recording, derived from its files and from known facts about the CLIs. No
//! code of the profiles is used here: the two should agree by being right.

use serde_json::Value;

use super::{
    expected::{Expected, Session, Turn},
    mode::Mode,
    recording::{Exit, Recording, Step},
};

mod acp;
mod app_server;
mod claude;
mod copilot;
mod dialogue;
mod exec;
mod gemini;
mod kilo;

/// Texts of the CLIs if a session to resume does not exist.
const UNKNOWN_SESSION: [&str; 5] = [
    "No conversation found",
    "no rollout found",
    "Session not found",
    "Invalid session identifier",
    "No session, task, or name matched",
];

/// Returns the expected result of a recording.
pub(crate) fn expect(recording: &Recording) -> Expected {
    let mut expected = match (Mode::from_recording(recording), recording.cli()) {
        (Mode::AppServer, _) => app_server::expect(recording),
        (Mode::Acp, _) => acp::expect(recording),
        (Mode::StreamJson | Mode::OneShot, cli) if cli.starts_with("claude") => {
            claude::expect(recording)
        }
        (_, "codex") => exec::expect(recording),
        (_, "gemini") => gemini::expect(recording),
        (_, "copilot") => copilot::expect(recording),
        (_, "kilo") => kilo::expect(recording),
        (_, _) => claude::expect(recording),
    };
    if expected.sessions.is_empty() {
        // Nothing that a session would begin with was recorded: an input must end all the same.
        let mut turn = Turn::new("FAKE:text");
        turn.status = vec!["completed", "failed"];
        expected.sessions.push(Session {
            turns: vec![turn],
            ..Session::default()
        });
    }
    expected
}

/// A one-shot run: its one turn, with what is common to all that end so.
fn one_turn(
    recording: &Recording,
    rule: &'static str,
    mut session: Session,
    mut turn: Turn,
) -> Expected {
    session.resume = recording.resumes().map(str::to_owned);
    session.model = recording.option(&["--model", "-m"]).map(str::to_owned);
    if session.resume.is_some() && refused_to_resume(recording) {
        return begun_afresh(recording, &session, turn);
    }
    turn.prompt = prompt(recording);
    let (rule, warned) = match recording.exit {
        _ if recording.steps.contains(&Step::Signal) => {
            turn.stopped = true;
            turn.status = vec!["stopped"];
            ("stopped by a signal", true)
        }
        Exit::Never
        | Exit::Signal {
            after_eof: true, ..
        } => {
            turn.stopped = true;
            turn.status = vec!["stopped"];
            ("hangs, is stopped", true)
        }
        Exit::Code(0) if turn.status.is_empty() => {
            // It ended well without any line of its machine format.
            turn.status = vec!["failed", "completed"];
            ("not in the machine format", false)
        }
        Exit::Code(0) => (rule, false),
        Exit::Code(_) | Exit::Signal { .. } => {
            if turn.status.first() != Some(&"failed") && !turn.status.contains(&"limit") {
                turn.fails(&[], first_words(&recording.stderr));
            }
            if recording.outputs().next().is_some() {
                (rule, false)
            } else {
                turn.status.push("refused");
                ("refuses to start", false)
            }
        }
    };
    if warned {
        turn.usage = None;
        turn.cost = None;
    }
    session.turns.push(turn);
    Expected {
        rule,
        sessions: vec![session],
        or: None,
    }
}

/// Returns true if the session on the command line did not exist.
fn refused_to_resume(recording: &Recording) -> bool {
    !matches!(recording.exit, Exit::Code(0))
        && (UNKNOWN_SESSION
            .iter()
            .any(|words| recording.stderr.contains(words))
            || recording.outputs().any(|line| {
                UNKNOWN_SESSION
                    .iter()
                    .any(|words| line.text.contains(words))
            })
            || recording
                .outputs()
                .all(|line| line.str("/type") == Some("result")))
}

/// Returns the expectation if the session to resume does not exist: the profile reports that,
/// begins another, and continues the turn in that.
fn begun_afresh(recording: &Recording, session: &Session, mut turn: Turn) -> Expected {
    let clear = |words: &str| {
        recording.stderr.contains(words)
            || recording.outputs().any(|line| line.text.contains(words))
    };
    turn.prompt = prompt(recording);
    turn.fails(&["session_not_found"], []);
    let failed = Expected {
        rule: "unknown session, failed",
        sessions: vec![Session {
            turns: vec![turn],
            ..session.clone()
        }],
        or: None,
    };
    let Some(fresh) = recording.begun_afresh() else {
        return failed;
    };
    let mut expected = expect(&fresh);
    expected.rule = "unknown session, begun afresh";
    for session in &mut expected.sessions {
        session.resume = recording.resumes().map(str::to_owned);
        session.context = Some("lost");
    }
    // If the CLI does not report the session as unknown, a profile may also fail.
    expected.or = (!UNKNOWN_SESSION.iter().any(|words| clear(words))).then(|| Box::new(failed));
    expected
}

/// Returns the recorded user's text.
fn prompt(recording: &Recording) -> String {
    let last = recording
        .argv
        .last()
        .filter(|word| word.starts_with("FAKE:"));
    last.cloned().unwrap_or_else(|| "FAKE:text".to_owned())
}

/// The words of stderr of which an error should have at least one: how its lines begin, but for
/// what is not an error.
fn first_words(stderr: &str) -> Vec<String> {
    const WORDS: usize = 16;
    let code = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == ';');
    let mut told = Vec::new();
    for line in stderr
        .lines()
        .map(str::trim)
        .filter(|line| line.len() > 8)
        .take(40)
    {
        // Colours go, and so does what a terminal would show of them.
        let plain: String = line
            .split("\u{1b}[")
            .map(|part| {
                part.split_once('m')
                    .filter(|(begin, _)| code(begin))
                    .map_or(part, |(_, rest)| rest)
            })
            .collect();
        told.push(plain.trim().chars().take(WORDS).collect());
    }
    let errors: Vec<String> = told
        .iter()
        .filter(|words: &&String| !words.starts_with("Reading "))
        .cloned()
        .collect();
    if errors.is_empty() { told } else { errors }
}

/// The categories that fit an HTTP status.
fn category_of(status: Option<u64>) -> &'static [&'static str] {
    match status {
        Some(401 | 403) => &["auth"],
        Some(429) => &["rate_limit"],
        Some(529 | 503) => &["overloaded"],
        _ => &[],
    }
}

/// Returns an HTTP status that is a word of its own in a message.
fn status_in(text: &str) -> Option<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
}

/// Returns the words of a CLI's message: of a provider's JSON the sentence in it.
fn in_words(message: &str) -> String {
    let object: Value = serde_json::from_str(message).unwrap_or_default();
    object
        .pointer("/error/message")
        .and_then(Value::as_str)
        .unwrap_or(message)
        .to_owned()
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
