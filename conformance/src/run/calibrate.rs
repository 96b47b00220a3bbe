//! A-CAL: how fast this program is on this machine, and what it can be asked. Not scored.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    case::Case,
    clauses::{Level, Side},
    history::RecordedEvent,
    subject::{Bounds, ProbeUse, Subject},
    trial::{CaseSession, Trial},
    verdict::{Outcome, Stop},
};

/// All extensions of the protocol.
pub(crate) const EXTENSIONS: [&str; 9] = [
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
    "large",
];

/// Measurements and observations.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Calibration {
    /// From the start of the process to the end of its first turn, in milliseconds.
    pub start_ms: f64,
    /// The median of three ordinary turns, in milliseconds.
    pub turn_ms: f64,
    /// The quiet window, in milliseconds.
    pub quiet_ms: f64,
    /// The probe's operations.
    pub probe: BTreeSet<String>,
    /// The extensions that it agrees on.
    pub extensions: BTreeSet<String>,
    /// Name that the program reports, if it does.
    pub program: Option<String>,
}

/// Reason why nothing can be tested.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct NotStarted {
    /// Cause.
    pub reason: String,
    /// The end of what the program wrote to stderr.
    pub stderr: String,
}

static CASE: Case = Case::unlisted(Level::Must, "A-CAL", "turn.1", "calibration");
static HOST_CASE: Case = Case::unlisted(Level::Must, "H-CAL", "turn.7", "calibration");

/// Starts the program once, takes four turns, asks for the probe and offers all extensions. Fills
/// in what the subject learns of itself.
///
/// # Errors
///
/// When the program does not start or does not answer.
pub(crate) fn calibrate(
    subject: &mut Subject,
    scale: f64,
) -> Result<(Bounds, Calibration), NotStarted> {
    let loose = Bounds {
        start: Duration::ZERO,
        turn: Duration::ZERO,
        deadline: Duration::from_secs_f64(subject.limits.startup_s * scale),
        longest: Duration::from_secs_f64(subject.limits.turn_s * scale),
        quiet: Duration::from_millis(250),
        stop: Duration::from_secs_f64(subject.limits.stop_s * scale),
        scale,
    };
    let case = match subject.side {
        Side::Adapter => &CASE,
        Side::Host => &HOST_CASE,
    };
    let failed = |stop: Stop, stderr: String| {
        let reason = match stop {
            Stop::Fail(finding) => {
                let hint = finding
                    .hint
                    .map(|hint| format!("; {hint}"))
                    .unwrap_or_default();
                format!("expected {}; got {}{hint}", finding.expected, finding.got)
            }
            Stop::Harness(why)
            | Stop::Inconclusive(why)
            | Stop::Skip(why)
            | Stop::Unsupported(why) => why,
        };
        NotStarted { reason, stderr }
    };
    let mut trial =
        Trial::new(case, subject, loose, 0).map_err(|stop| failed(stop, String::new()))?;
    let measured = measure(&mut trial);
    let stderr = stderr_of(&trial);
    let (_, _) = {
        trial.expect_gone();
        trial.finish(Ok(()))
    };
    let Measured {
        start,
        turn,
        ready,
        probe,
        journal,
    } = measured.map_err(|stop| failed(stop, stderr))?;

    subject.probe_ops = if subject.probe == ProbeUse::Auto {
        probe
    } else {
        BTreeSet::new()
    };
    subject.extensions = ready.as_ref().map(agreed).unwrap_or_default();
    subject.journal = journal;
    let bounds = Bounds::from_measured(start, turn, &subject.limits, scale);
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let program = ready.as_ref().and_then(|ready| {
        let adapter = ready.get("adapter")?;
        let name = adapter.get("name")?.as_str()?;
        let version = adapter
            .get("version")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some(format!("{name} {version}").trim_end().to_owned())
    });
    let calibration = Calibration {
        start_ms: millis(bounds.start),
        turn_ms: millis(bounds.turn),
        quiet_ms: millis(bounds.quiet),
        probe: subject.probe_ops.clone(),
        extensions: subject.extensions.clone(),
        program,
    };
    Ok((bounds, calibration))
}

/// Measurements and observations of the trial.
struct Measured {
    start: Duration,
    turn: Duration,
    ready: Option<Value>,
    probe: BTreeSet<String>,
    journal: bool,
}

fn measure(trial: &mut Trial) -> Outcome<Measured> {
    let began = Instant::now();
    trial.start()?;
    let s = trial.open()?;
    trial.quick_turn(&s)?;
    let start = began.elapsed();
    let mut turns = Vec::new();
    for _ in 0..3 {
        // Fresh ones, so that what goes wrong late in a session is left to the cases.
        let s = trial.open()?;
        let began = Instant::now();
        trial.quick_turn(&s)?;
        turns.push(began.elapsed());
        trial.close(&s)?;
    }
    turns.sort_unstable();

    let s = trial.open()?;
    let hello = trial.turn(&s, Trial::script(&json!([["hello"]])))?;
    let ops = Trial::probe_answer(&hello.messages, "ops")
        .and_then(|answer| Some(answer.get("ops")?.as_array()?.clone()))
        .unwrap_or_default();
    let ops = ops
        .iter()
        .filter_map(|op| op.as_str().map(str::to_owned))
        .collect();

    let offered = trial.open_offering(&EXTENSIONS, &json!({}))?;
    trial.quick_turn(&offered)?;
    let ready = ready_of(trial, &offered);
    let mut journal = false;
    if trial.subject.keeps_journal() {
        let asked = trial.open_offering(&crate::trial::JOURNAL, &json!({}))?;
        trial.quick_turn(&asked)?;
        journal = ready_of(trial, &asked)
            .as_ref()
            .map(agreed)
            .unwrap_or_default()
            .contains("journal");
    }
    Ok(Measured {
        start,
        turn: turns[1],
        ready,
        probe: ops,
        journal,
    })
}

fn ready_of(trial: &Trial, session: &CaseSession) -> Option<Value> {
    let ready = trial
        .of_session(session)
        .into_iter()
        .find(|seen| seen.kind() == "session.ready");
    ready.map(|seen| Value::Object(seen.message().clone()))
}

fn agreed(ready: &Value) -> BTreeSet<String> {
    let names = ready
        .get("extensions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    names
        .iter()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// The end of what the program wrote to stderr.
fn stderr_of(trial: &Trial) -> String {
    let mut all = Vec::new();
    trial.history.scan(0, |_, record| {
        if let RecordedEvent::Stderr(bytes) = &record.event {
            all.extend_from_slice(bytes);
        }
        None::<()>
    });
    let from = all.len().saturating_sub(2_000);
    String::from_utf8_lossy(&all[from..]).into_owned()
}
