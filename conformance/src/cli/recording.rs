//! `tap`, `check` and `replay`: recordings of real conversations.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde_json::json;

use crate::{
    exit,
    history::{ProcessRun, Record, RecordedEvent, Recording, read_recording},
    oracle::{self, HistoryEnd, OracleJudgement},
    verdict::Finding,
};

/// Arguments of `tap`.
#[derive(Debug, Args)]
pub(super) struct TapArguments {
    /// File for the recording
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The adapter and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// A recording of `tap`, the transcript of a case, or a host's wire log
    recording: PathBuf,
    /// Judges an incomplete wire log by the sessions that are whole
    #[arg(long)]
    partial: bool,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// A recording of `tap`, a transcript, or a host's wire log
    transcript: PathBuf,
    /// Replays of an incomplete wire log the sessions that are whole
    #[arg(long)]
    partial: bool,
    /// Number of an adapter's run in a wire log; without it, the first
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Timeout for messages that the transcript contains, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        alias = "patience"
    )]
    deadline: f64,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Forwards and records; the exit status is the adapter's.
pub(super) fn tap(arguments: &TapArguments) -> std::process::ExitCode {
    match crate::tap::tap(&arguments.out, &arguments.command) {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!(
                "error: cannot tap `{}` into {}: {error}",
                arguments.command.join(" "),
                arguments.out.display()
            );
            std::process::ExitCode::from(exit::NOT_STARTED)
        }
    }
}

/// Judges both sides of a recording.
pub(super) fn check(arguments: &CheckArguments) -> Result<u8, String> {
    let recording = read(&arguments.recording, arguments.partial)?;
    // A log ends where its host did.
    let ending = if recording.is_log() {
        HistoryEnd::Cut
    } else {
        HistoryEnd::AtRest
    };
    let mut judgement = OracleJudgement::default();
    let mut left_out = 0;
    for run in recording.runs() {
        let mut of_run = oracle::judge_both(&run.records, ending);
        for finding in &mut of_run.findings {
            finding.record = finding
                .record
                .and_then(|index| run.places.get(index).copied());
        }
        judgement.findings.append(&mut of_run.findings);
        left_out += run.left_out;
    }
    Ok(tell(
        &judgement,
        &recording.records,
        left_out,
        arguments.json,
    ))
}

/// Says it again to a program, and judges what comes.
pub(super) fn replay(arguments: &ReplayArguments) -> Result<u8, String> {
    let recording = read(&arguments.transcript, arguments.partial)?;
    let ProcessRun {
        records: transcript,
        left_out,
        ..
    } = chosen(&recording, arguments.process)?;
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let deadline = Duration::from_secs_f64(arguments.deadline.clamp(0.0, 3_600.0));
    let status = match crate::replay::replay(&transcript, &arguments.command, &cwd, &[], deadline) {
        Ok(replayed) => tell(
            &replayed.judgement,
            &replayed.records,
            left_out,
            arguments.json,
        ),
        Err(error) => {
            anstream::eprintln!(
                "error: `{}` does not start: {error}",
                arguments.command.join(" ")
            );
            exit::NOT_STARTED
        }
    };
    Ok(status)
}

fn read(path: &Path, is_partial: bool) -> Result<Recording, String> {
    let file =
        File::open(path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let recording = read_recording(BufReader::new(file))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    match recording.missing() {
        Some(why) if !is_partial => Err(format!(
            "{} is incomplete: {why}; --partial takes the sessions that are whole",
            path.display()
        )),
        _ => Ok(recording),
    }
}

/// The run of an adapter that is meant.
fn chosen(recording: &Recording, process: Option<u32>) -> Result<ProcessRun, String> {
    let is_meant = |run: &ProcessRun| process.is_none() || run.process == process;
    recording
        .runs()
        .into_iter()
        .find(is_meant)
        .ok_or_else(|| match process {
            Some(process) => format!("there is no run {process} of an adapter in it"),
            None => "no adapter runs in it".to_owned(),
        })
}

/// Prints what was found, and returns the exit status: only a broken MUST fails.
fn tell(judgement: &OracleJudgement, records: &[Record], left_out: usize, as_json: bool) -> u8 {
    let failed = judgement
        .findings
        .iter()
        .any(|finding| finding.level == crate::clauses::Level::Must);
    let messages = records
        .iter()
        .filter(|record| record.host_message().is_some() || record.adapter_message().is_some())
        .count();
    let status = if failed {
        exit::FAILED
    } else {
        exit::CONFORMANT
    };
    if as_json {
        let mut result =
            json!({"messages": messages, "findings": judgement.findings, "exit": status});
        if left_out > 0 {
            result["sessions_left_out"] = left_out.into();
        }
        anstream::println!("{result}");
        return status;
    }
    for finding in &judgement.findings {
        show(finding, records);
    }
    let verdict = if failed {
        "NOT CONFORMANT"
    } else {
        "CONFORMANT"
    };
    let left_out = match left_out {
        0 => String::new(),
        1 => ", 1 session left out".to_owned(),
        more => format!(", {more} sessions left out"),
    };
    anstream::println!(
        "result: {verdict}: {messages} messages, {} findings{left_out}   exit {status}",
        judgement.findings.len()
    );
    status
}

fn show(finding: &Finding, records: &[Record]) {
    let level = finding.level.to_string().to_uppercase();
    anstream::println!("{level} [{}] ({})", finding.clause, finding.check);
    anstream::println!("      expected  {}", finding.expected);
    anstream::println!("      got       {}", finding.got);
    if let Some(hint) = &finding.hint {
        anstream::println!("      hint      {hint}");
    }
    let Some(record) = finding
        .record
        .and_then(|index| records.get(index).map(|record| (index, record)))
    else {
        return;
    };
    let (index, record) = record;
    let (mark, bytes) = match &record.event {
        RecordedEvent::Host { bytes, .. } => (">", bytes),
        RecordedEvent::Adapter { bytes, .. } => ("<", bytes),
        _ => return,
    };
    let line = String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
        .trim_end()
        .to_owned();
    anstream::println!(
        "      at        line {} of the recording, t={:.3} s",
        index + 1,
        record.at.as_secs_f64()
    );
    anstream::println!("                {mark} {line}");
}
