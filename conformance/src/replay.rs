//! Sends the host's messages of a transcript to a program, in step with its answers, and judges the
//! answers.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    history::{History, PipePair, Record, RecordedEvent},
    oracle::{self, HistoryEnd, OracleJudgement},
    process::{Inherited, Launch, Process, StderrMode, sweep},
};

/// The longest pause of a transcript that is kept.
const PAUSE: Duration = Duration::from_secs(10);

/// Result of a replay.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Events of this replay.
    pub records: Vec<Record>,
    /// Judgement of the oracles.
    pub judgement: OracleJudgement,
}

/// Replays the host's side of a transcript against a program.
///
/// Before each line it waits, for at most `deadline`, until the program has written for each
/// session as many messages as it had at that point of the transcript; then it keeps the
/// transcript's own pause.
///
/// # Errors
///
/// When the program cannot be started.
pub(crate) fn replay(
    transcript: &[Record],
    command: &[String],
    cwd: &Path,
    env: &[(String, String)],
    deadline: Duration,
) -> std::io::Result<Replayed> {
    let folder = tempfile::Builder::new().prefix("conformance-").tempdir()?;
    let mark = folder
        .path()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut variables = env.to_vec();
    variables.push(("CONFORM_PROBE".to_owned(), "1".to_owned()));
    let launch = Launch {
        command: command.to_vec(),
        env: variables,
        inherited: Inherited::AsOfHost,
        cwd: cwd.to_owned(),
        stderr: StderrMode::Recorded,
        mark: mark.clone(),
        link: PipePair::Upper,
    };
    let history = History::begin();
    let process = Process::start(&launch, &history)?;
    let group = process.pid();

    let mut before = BTreeMap::<String, usize>::new();
    let mut last = Duration::ZERO;
    for record in transcript
        .iter()
        .filter(|record| record.link == PipePair::Upper)
    {
        match &record.event {
            RecordedEvent::Adapter { .. } => {
                if let Some(message) = record.adapter_message() {
                    *before
                        .entry(crate::wire::session(message).to_owned())
                        .or_default() += 1;
                }
                last = record.at;
            }
            RecordedEvent::Host { bytes, intent, .. } => {
                await_counts(&history, &before, deadline, &process);
                std::thread::sleep(record.at.saturating_sub(last).min(PAUSE));
                process.write(bytes.to_vec(), *intent);
                process.flushed(deadline);
                last = record.at;
            }
            RecordedEvent::StdinClosed => {
                await_counts(&history, &before, deadline, &process);
                process.close_stdin();
                last = record.at;
            }
            RecordedEvent::Fence { upto } => {
                history.push(
                    PipePair::Upper,
                    RecordedEvent::Note(format!("a fence of record {upto} stood here")),
                );
            }
            _ => {}
        }
    }
    await_counts(&history, &before, deadline, &process);
    std::thread::sleep(Duration::from_millis(500));
    let alive = process.exit().is_none();
    process.close_stdin();
    process.wait_exit(Duration::from_secs(5));
    process.kill();
    sweep(group, &mark, folder.path());
    drop(process);
    let records = history.snapshot();
    // It was judged at rest if nothing had ended it: what is owed after the deadline is missing.
    let upto = records
        .iter()
        .position(|record| matches!(record.event, RecordedEvent::StdinClosed));
    let judged = &records[..upto.filter(|_| alive).unwrap_or(records.len())];
    let ending = if alive {
        HistoryEnd::AtRest
    } else {
        HistoryEnd::Cut
    };
    let judgement = oracle::judge(judged, crate::clauses::Side::Adapter, ending);
    Ok(Replayed { records, judgement })
}

/// Waits until as much has come for each session as had come in the transcript.
fn await_counts(
    history: &Arc<History>,
    wanted: &BTreeMap<String, usize>,
    deadline: Duration,
    process: &Process,
) {
    let until = Instant::now() + deadline;
    let mut missing = wanted.clone();
    let mut from = 0;
    while missing.values().any(|count| *count > 0) && process.exit().is_none() {
        let left = until
            .saturating_duration_since(Instant::now())
            .min(Duration::from_millis(200));
        if left.is_zero() {
            return;
        }
        let seen = history.wait(from, left, |index, record| {
            let message = record.adapter_message()?;
            Some((index, crate::wire::session(message).to_owned()))
        });
        if let Some((index, session)) = seen {
            from = index + 1;
            if let Some(count) = missing.get_mut(&session) {
                *count = count.saturating_sub(1);
            }
        }
    }
}
