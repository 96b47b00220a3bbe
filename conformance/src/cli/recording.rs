//! `tap`, `check` and `replay`: recordings of real conversations.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde_json::json;

use super::usage;
use crate::{
    exit,
    history::{Event, Record, read_transcript},
    oracle::{self, Ending, Judgement},
    verdict::Finding,
};

/// Arguments of `tap`.
#[derive(Debug, Args)]
pub(super) struct TapArguments {
    /// Where the recording goes
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The adapter and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// A recording of `tap`, or the transcript of a case
    recording: PathBuf,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// A transcript
    transcript: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// How long to wait for what the transcript says that came, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, alias = "patience")]
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
pub(super) fn check(arguments: &CheckArguments) -> u8 {
    let records = match read(&arguments.recording) {
        Ok(records) => records,
        Err(error) => return usage(error),
    };
    let judgement = oracle::judge_both(&records, Ending::AtRest);
    tell(&judgement, &records, arguments.json)
}

/// Says it again to a program, and judges what comes.
pub(super) fn replay(arguments: &ReplayArguments) -> u8 {
    let transcript = match read(&arguments.transcript) {
        Ok(records) => records,
        Err(error) => return usage(error),
    };
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let deadline = Duration::from_secs_f64(arguments.deadline.clamp(0.0, 3_600.0));
    match crate::replay::replay(&transcript, &arguments.command, &cwd, &[], deadline) {
        Ok(replayed) => tell(&replayed.judgement, &replayed.records, arguments.json),
        Err(error) => {
            anstream::eprintln!("error: `{}` does not start: {error}", arguments.command.join(" "));
            exit::NOT_STARTED
        }
    }
}

fn read(path: &Path) -> Result<Vec<Record>, String> {
    let file = File::open(path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    read_transcript(BufReader::new(file)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Prints what was found, and returns the exit status: only a broken MUST fails.
fn tell(judgement: &Judgement, records: &[Record], as_json: bool) -> u8 {
    let failed = judgement.findings.iter().any(|finding| finding.level == crate::clauses::Level::Must);
    let messages = records
        .iter()
        .filter(|record| record.host_message().is_some() || record.adapter_message().is_some())
        .count();
    let status = if failed { exit::FAILED } else { exit::CONFORMANT };
    if as_json {
        let result = json!({"messages": messages, "findings": judgement.findings, "exit": status});
        anstream::println!("{result}");
        return status;
    }
    for finding in &judgement.findings {
        show(finding, records);
    }
    let verdict = if failed { "NOT CONFORMANT" } else { "CONFORMANT" };
    anstream::println!(
        "result: {verdict}: {messages} messages, {} findings   exit {status}",
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
    let Some(record) = finding.record.and_then(|index| records.get(index).map(|record| (index, record)))
    else {
        return;
    };
    let (index, record) = record;
    let (mark, bytes) = match &record.event {
        Event::Host { bytes, .. } => (">", bytes),
        Event::Adapter { bytes, .. } => ("<", bytes),
        _ => return,
    };
    let line = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim_end().to_owned();
    anstream::println!(
        "      at        line {} of the recording, t={:.3} s",
        index + 1,
        record.at.as_secs_f64()
    );
    anstream::println!("                {mark} {line}");
}
