//! The evidence of a run: one folder a run with its `result.json`, in it one folder a case;
//! `latest` leads to it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::diagram;
use crate::{
    calendar::Moment,
    history::{RecordedEvent, write_transcript},
    printable::visible,
    run::{CaseResult, Repeated},
    verdict::Verdict,
};

/// The most rows of `diagram.txt`.
const ROWS: usize = 2_000;
/// Possible files in a case's folder.
const FILES: [&str; 3] = ["transcript.jsonl", "stderr.txt", "diagram.txt"];

/// Cases that leave evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvidenceCases {
    /// Cases that did not pass.
    Failures,
    /// All that ran.
    All,
}

/// Returns true if a verdict leaves evidence.
pub(super) fn worth_keeping(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Pass | Verdict::Skip)
}

/// Makes the folder of a run, of its own even where two begin in one second.
pub(super) fn folder(results: &Path, started: Moment) -> io::Result<PathBuf> {
    fs::create_dir_all(results)?;
    let name = started.folder_name();
    for number in 1..1_000 {
        let name = if number == 1 {
            name.clone()
        } else {
            format!("{name}-{number}")
        };
        match fs::create_dir(results.join(&name)) {
            Ok(()) => return Ok(results.join(name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "a thousand runs began in one second",
    ))
}

/// Writes what shows the cases of a run that did not pass, or of all.
pub(super) fn keep(folder: &Path, results: &[Repeated], keep: EvidenceCases) -> io::Result<()> {
    for held in results {
        let wanted = keep == EvidenceCases::All && !held.result.records.is_empty();
        if wanted || worth_keeping(held.result.verdict) {
            write(&folder.join(held.result.case.id), &held.result)?;
        }
    }
    Ok(())
}

fn write(folder: &Path, result: &CaseResult) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut transcript = io::BufWriter::new(fs::File::create(folder.join(FILES[0]))?);
    write_transcript(&result.records, &mut transcript)?;
    io::Write::flush(&mut transcript)?;
    let mut stderr = Vec::new();
    for record in &result.records {
        if let RecordedEvent::Stderr(bytes) = &record.event {
            stderr.extend_from_slice(bytes);
        }
    }
    fs::write(folder.join(FILES[1]), stderr)?;
    let mut text = format!(
        "{}  {}  {}\n",
        result.case.id, result.case.title, result.verdict
    );
    for finding in &result.findings {
        text.push_str(&format!(
            "[{}] {}: {}\n",
            finding.clause,
            finding.level,
            visible(&finding.got)
        ));
    }
    text.push('\n');
    for line in diagram::lines(&diagram::rows(&result.records, &result.findings, ROWS)) {
        text.push_str(&line);
        text.push('\n');
    }
    fs::write(folder.join(FILES[2]), text)
}

/// Returns the existing files of a case, relative to the folder of the run.
pub(super) fn files_of(folder: &Path, case: &str) -> Vec<String> {
    let there = FILES
        .iter()
        .filter(|file| folder.join(case).join(file).is_file());
    there.map(|file| format!("{case}/{file}")).collect()
}

/// Points `latest` to a folder of the same parent. Anything else of that name is left unchanged.
pub(super) fn point_latest(folder: &Path) -> io::Result<()> {
    let (Some(results), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Ok(());
    };
    let latest = results.join("latest");
    let fresh = results.join(format!(".latest-{}", std::process::id()));
    if fs::symlink_metadata(&latest).is_ok_and(|there| !there.is_symlink()) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "`latest` exists and is not a link",
        ));
    }
    // A link that is replaced as a whole is never missing.
    std::os::unix::fs::symlink(name, &fresh)?;
    fs::rename(&fresh, &latest).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}
