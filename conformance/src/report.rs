//! Reports of a run: for a person while it runs, and as data at its end.
//!
//! A run becomes a [`Document`] first, the content of `result.json`; every report is a function of
//! that.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    baseline::{Baseline, judge},
    calendar::{Day, Moment},
    exit,
    run::{Calibration, CaseResult, Plan, Repeated},
    subject::Subject,
};

mod diagram;
mod document;
mod drawing;
mod escape;
mod evidence;
mod gather;
mod github;
mod matrix;
mod output;
mod progress;
mod redact;
mod template;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    document::{BaselineData, CaseData, Document, SCHEMA_VERSION},
    evidence::EvidenceCases,
    matrix::{Matrix, MatrixRow, NotJudged},
    output::{Format, ReportOutput},
    progress::{Progress, Show},
    redact::Redactor,
    text::Skipped,
};

/// Everything about a run that is over.
#[derive(Debug)]
pub(crate) struct FinishedRun<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Selection of cases, as given by the user: `all`, `smoke`, or the selectors.
    pub selection: &'a [String],
    /// Subject of the test.
    pub subject: &'a Subject,
    /// First measurements.
    pub calibration: &'a Calibration,
    /// Result of each case, without secrets.
    pub results: &'a [Repeated],
    /// When it began.
    pub started: Moment,
    /// Duration.
    pub took: Duration,
    /// Factor of every bound.
    pub time_scale: f64,
    /// The options that a run of one case needs as well.
    pub again: &'a [String],
    /// True if the command was given as arguments.
    pub from_arguments: bool,
    /// Redactor of all output.
    pub redactor: &'a Redactor,
}

/// A baseline and the file that it was read from.
#[derive(Debug)]
pub(crate) struct BaselineFile {
    /// Content of the file.
    pub baseline: Baseline,
    /// The file.
    pub file: PathBuf,
}

/// Settings of a run's report.
#[derive(Debug)]
pub(crate) struct ReportSettings {
    /// Cases that leave evidence.
    pub keep: EvidenceCases,
    /// Display of skipped cases.
    pub skipped: Skipped,
    /// Known failures.
    pub listed: Option<BaselineFile>,
    /// Reports besides the text.
    pub outputs: Vec<ReportOutput>,
    /// Write the document to stdout instead of the text.
    pub as_json: bool,
}

/// Writes the evidence, the document and all reports, and returns the exit status.
pub(crate) fn conclude(run: &FinishedRun<'_>, telling: &ReportSettings) -> u8 {
    let (document, folder) = record(run, telling.keep, telling.listed.as_ref());
    tell(&document, folder.as_deref(), telling)
}

/// Writes the evidence and the document, and returns the document with its folder.
pub(crate) fn record(
    run: &FinishedRun<'_>,
    keep: EvidenceCases,
    listed: Option<&BaselineFile>,
) -> (Document, Option<PathBuf>) {
    let folder = run.plan.results.as_deref().and_then(|results| {
        let made = evidence::folder(results, run.started)
            .and_then(|folder| evidence::keep(&folder, run.results, keep).map(|()| folder));
        warned(made, results)
    });
    let mut document = gather::document(run, folder.as_deref());
    compare(&mut document, listed);
    if let Some(folder) = &folder {
        let written = std::fs::write(folder.join("result.json"), output::pretty(&document))
            .and_then(|()| evidence::point_latest(folder));
        warned(written, folder);
    }
    (document, folder)
}

/// Compares a document with what is known to fail.
pub(crate) fn compare(document: &mut Document, listed: Option<&BaselineFile>) {
    let os = document.platform.os.clone();
    let judgement = judge(
        &document.facts(),
        listed.map(|listed| &listed.baseline),
        Day::today(),
        &os,
    );
    let why = |case: &str| {
        listed?
            .baseline
            .find(case, &os)
            .map(|known| known.reason.clone())
    };
    document.take(&judgement, why);
    document.baseline = listed.map(|listed| {
        let mut notices = judgement.notices;
        if listed.baseline.is_of_another_suite(&document.suite) {
            notices.push(format!(
                "it was written for suite {}, this is {}",
                listed.baseline.suite, document.suite
            ));
        }
        BaselineData {
            file: listed.file.display().to_string(),
            notices,
        }
    });
}

/// Writes a document as text, or as JSON, and as every report that was asked for; returns the exit status.
pub(crate) fn tell(document: &Document, folder: Option<&Path>, telling: &ReportSettings) -> u8 {
    let mut status = document.outcome.exit;
    // Reports first: the last line stays the last.
    for output in &telling.outputs {
        if let Err(error) = output.write(document) {
            anstream::eprintln!(
                "error: the report {} could not be written: {error}",
                output.format
            );
            status = if status == exit::CONFORMANT {
                exit::USAGE
            } else {
                status
            };
        }
    }
    let written = if telling.as_json {
        io::Write::write_all(
            &mut io::stdout().lock(),
            format!("{}\n", line_of(document)).as_bytes(),
        )
    } else {
        let folder = folder.map(|folder| folder.display().to_string());
        text::write(
            document,
            folder.as_deref(),
            telling.skipped,
            &mut anstream::stdout().lock(),
        )
    };
    // A reader that has seen enough may close the pipe.
    let _ = written;
    status
}

fn line_of(document: &Document) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

fn warned<T>(done: io::Result<T>, place: &Path) -> Option<T> {
    done.inspect_err(|error| {
        anstream::eprintln!("warning: {} could not be written: {error}", place.display())
    })
    .ok()
}

/// Returns the failure of a case, in plain text.
pub(crate) fn failure_text(result: &CaseResult) -> String {
    let case = result.case;
    let mut text = format!(
        "{} {}: {} [{}]\n",
        case.id, case.title, result.verdict, case.clause
    );
    text.push_str(&format!("sent      {}\n", case.stimulus));
    for finding in &result.findings {
        text.push_str(&format!(
            "[{}] {} ({})\n",
            finding.clause, finding.level, finding.check
        ));
        text.push_str(&format!(
            "expected  {}\ngot       {}\n",
            finding.expected, finding.got
        ));
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("hint      {hint}\n"));
        }
    }
    if let Some(reason) = &result.reason {
        text.push_str(&format!("{reason}\n"));
    }
    text
}
