//! `report`: shows a saved result again.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::report::{
    BaselineFile, Document, EvidenceCases, Format, ReportOutput, ReportSettings, SCHEMA_VERSION,
    Skipped, compare, tell,
};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArguments {
    /// A result.json, or a folder that holds one
    #[arg(default_value = "results/latest")]
    result: PathBuf,
    /// Write reports: json=FILE, junit=FILE, tap=FILE, md=FILE, html=FILE, summary=FILE, github
    #[arg(long, value_name = "KIND=FILE", value_delimiter = ',')]
    report: Vec<ReportOutput>,
    /// Write one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write TAP 14
    #[arg(long, value_name = "FILE")]
    tap: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Compare with this file of what is known to fail, instead of as the run did
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Name the cases that were skipped, and the clauses that were not judged
    #[arg(long)]
    list_skipped: bool,
}

pub(super) fn report(arguments: &ReportArguments) -> Result<u8, String> {
    let (mut document, folder) = read(&arguments.result)?;
    let listed = arguments
        .baseline
        .as_deref()
        .map(read_baseline)
        .transpose()?;
    if listed.is_some() {
        compare(&mut document, listed.as_ref());
    }
    let mut outputs = arguments.report.clone();
    for (format, file) in [
        (Format::Html, &arguments.html),
        (Format::Junit, &arguments.junit),
        (Format::Tap, &arguments.tap),
        (Format::Markdown, &arguments.md),
    ] {
        outputs.extend(file.iter().map(|file| ReportOutput {
            format,
            file: Some(file.clone()),
        }));
    }
    let telling = ReportSettings {
        keep: EvidenceCases::Failures,
        skipped: if arguments.list_skipped {
            Skipped::Listed
        } else {
            Skipped::Counted
        },
        listed,
        outputs,
        as_json: false,
    };
    Ok(tell(&document, Some(&folder), &telling))
}

/// Reads a result and returns it with the folder of its evidence.
pub(super) fn read(result: &Path) -> Result<(Document, PathBuf), String> {
    let file = if result.is_dir() {
        result.join("result.json")
    } else {
        result.to_owned()
    };
    let bad = |error: &dyn std::fmt::Display| format!("{} cannot be used: {error}", file.display());
    let text = std::fs::read(&file).map_err(|error| bad(&error))?;
    let mut document: Document = serde_json::from_slice(&text).map_err(|error| bad(&error))?;
    if !(1..=SCHEMA_VERSION).contains(&document.schema_version) {
        return Err(bad(&format!(
            "it follows version {} of the schema, this program knows 1 to {SCHEMA_VERSION}",
            document.schema_version
        )));
    }
    document.schema_version = SCHEMA_VERSION;
    Ok((
        document,
        file.parent().map(Path::to_owned).unwrap_or_default(),
    ))
}

pub(super) fn read_baseline(file: &Path) -> Result<BaselineFile, String> {
    let baseline = crate::baseline::Baseline::read(file).map_err(|error| error.to_string())?;
    Ok(BaselineFile {
        baseline,
        file: file.to_owned(),
    })
}
