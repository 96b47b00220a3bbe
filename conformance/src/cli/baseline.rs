//! `baseline check` and `baseline update`: a saved result and the file of what is known to fail.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::report::{read, read_baseline};
use crate::{
    baseline::{Candidate, CaseStanding, Expect, Update, update},
    class::Class,
    exit,
    printable::short,
    report::{CaseData, Document, compare},
    verdict::Verdict,
};

/// Arguments of `baseline`.
#[derive(Debug, Args)]
pub(super) struct BaselineArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Reports failures that the file does not excuse, and excuses without a failure; the status is
    /// that of a run
    Check(Files),
    /// Adds failures and removes passes; everything else stays unchanged
    Update {
        #[command(flatten)]
        files: Files,
        /// Also add cases that break a MUST of the published protocol
        #[arg(long)]
        accept_must: bool,
        /// The reason of new entries, instead of what was seen
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Files {
    /// A result.json, or a folder that holds one
    #[arg(default_value = "results/latest")]
    result: PathBuf,
    /// The baseline
    #[arg(long, value_name = "FILE", default_value = "conform-baseline.toml")]
    baseline: PathBuf,
}

pub(super) fn baseline(arguments: &BaselineArguments) -> Result<u8, String> {
    match &arguments.command {
        Command::Check(files) => check(files),
        Command::Update {
            files,
            accept_must,
            reason,
        } => write(files, *accept_must, reason.as_deref()),
    }
}

fn check(files: &Files) -> Result<u8, String> {
    let (mut document, _) = read(&files.result)?;
    compare(&mut document, Some(&read_baseline(&files.baseline)?));
    for case in &document.cases {
        let says = match case.standing {
            CaseStanding::Unexpected => "not excused",
            CaseStanding::Stale => "stale",
            CaseStanding::Undecided => "not decided",
            CaseStanding::Harness => "an error of the suite",
            CaseStanding::Known => "known",
            CaseStanding::Met | CaseStanding::NotScored => continue,
        };
        anstream::println!(
            "{says:<12} {}  {}",
            short(&case.id, 40),
            short(&case.title, 100)
        );
    }
    for notice in document
        .baseline
        .iter()
        .flat_map(|baseline| &baseline.notices)
    {
        anstream::println!("{}", short(notice, 400));
    }
    anstream::println!("{}", document.last_line());
    Ok(document.outcome.exit)
}

fn write(files: &Files, accept_must: bool, reason: Option<&str>) -> Result<u8, String> {
    if reason.is_some_and(|reason| reason.trim().is_empty()) {
        return Err("an entry needs a reason".to_owned());
    }
    let (mut document, _) = read(&files.result)?;
    let old = if files.baseline.exists() {
        Some(read_baseline(&files.baseline)?)
    } else {
        None
    };
    let text = match &old {
        Some(_) => std::fs::read_to_string(&files.baseline).map_err(|error| error.to_string())?,
        None => String::new(),
    };
    compare(&mut document, old.as_ref());
    let candidates: Vec<Candidate<'_>> = document
        .cases
        .iter()
        .map(|case| candidate(case, document.plan.class))
        .collect();
    let before = old.as_ref().map(|old| (text.as_str(), &old.baseline));
    let made = update(before, &candidates, &document.suite, accept_must, reason);
    if !(made.added.is_empty() && made.removed.is_empty()) {
        replace(&files.baseline, &made.text)
            .map_err(|error| format!("{} cannot be written: {error}", files.baseline.display()))?;
    }
    Ok(told(&made, &document, &files.baseline))
}

fn told(made: &Update, document: &Document, file: &Path) -> u8 {
    for (what, cases) in [
        ("added", &made.added),
        ("removed", &made.removed),
        ("not added", &made.refused),
    ] {
        for case in cases {
            let title = document
                .cases
                .iter()
                .find(|data| data.id == *case)
                .map_or("", |data| &data.title);
            anstream::println!("{what:<10} {}  {}", short(case, 40), short(title, 100));
        }
    }
    if made.refused.is_empty() {
        anstream::println!("{} agrees with this result", file.display());
        return exit::CONFORMANT;
    }
    anstream::println!(
        "Not added: a MUST of the published protocol needs --accept-must; an existing entry that differs \
         else is its author's to change."
    );
    exit::FAILED
}

fn candidate(case: &CaseData, class: Class) -> Candidate<'_> {
    let expect = match case.verdict {
        Verdict::Flaky => Expect::Flaky,
        Verdict::Inconclusive => Expect::Inconclusive,
        _ => Expect::Fail,
    };
    // Of rules at the same level, one of the published protocol is the gravest.
    let rules = case
        .findings
        .iter()
        .map(|finding| (finding.level, finding.basis));
    let gravest = rules.min_by_key(|(level, basis)| {
        (
            std::cmp::Reverse(*level),
            *basis != crate::clauses::Basis::Spec,
        )
    });
    Candidate {
        case: &case.id,
        standing: case.standing,
        expect,
        checks: case.failed_checks(class),
        gravest,
        got: case.because().to_owned(),
    }
}

/// Writes beside the file and renames, so that it is never half written.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut fresh, text.as_bytes())?;
    // A temporary file is private; this one is as readable as the source.
    std::fs::set_permissions(
        fresh.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )?;
    fresh.persist(file)?;
    Ok(())
}
