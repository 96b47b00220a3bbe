//! `matrix`: many implementations, one after another, beside one another in one table.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;

use super::run::RunOptions;
use crate::{
    build::Build,
    calendar::Moment,
    case::Case,
    clauses::Side,
    exit,
    printable::short,
    report::{self, EvidenceCases, FinishedRun, Matrix, MatrixRow, NotJudged, Redactor},
    run::{self, CaseResult, Observer, Plan, Rounds},
    subject::{Subject, read_config, sides_of},
    verdict::Verdict,
};

/// Arguments of `matrix`.
#[derive(Debug, Args)]
pub(super) struct MatrixArguments {
    /// Configurations of adapters and hosts, each FILE or NAME=FILE
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<String>,
    /// Cases to run: ids (A-STP-07), families (A-STP) or patterns (A-FRM-1*); all without any
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    cases: Vec<String>,
    #[command(flatten)]
    manner: RunOptions,
    /// Also write the table as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write it as JSON; `-` is stdout, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn matrix(arguments: &MatrixArguments) -> Result<u8, String> {
    let seed = arguments.manner.seed()?;
    let selected = selected(arguments)?;
    let started = Moment::now();
    let began = Instant::now();
    let mut rows = Vec::new();
    let named = named(&arguments.configs);
    let count = named.len();
    for (number, (name, file)) in named.into_iter().enumerate() {
        anstream::eprintln!("[{}/{count}] {}", number + 1, short(&name, 80));
        for (side, subject) in subjects(&file) {
            let judged = match (side, subject) {
                (Some(side), Ok(subject)) => {
                    let cases = selected.get(&side).cloned().unwrap_or_default();
                    judge(
                        subject,
                        cases,
                        seed,
                        &arguments.manner.results.join(folder_of(&name)),
                        arguments,
                    )
                }
                (_, Err(reason)) => Err(NotJudged {
                    result: "NOT READ",
                    reason,
                    exit: exit::USAGE,
                }),
                (None, Ok(_)) => continue,
            };
            match &judged {
                Ok(document) => anstream::eprintln!("    {}", document.last_line()),
                Err(why) => anstream::eprintln!("    {}: {}", why.result, short(&why.reason, 400)),
            }
            rows.push(MatrixRow {
                name: name.clone(),
                config: file.display().to_string(),
                side,
                judged,
            });
        }
    }
    let matrix = Matrix {
        started_at: started.to_string(),
        took: began.elapsed(),
        rows,
    };
    Ok(write(&matrix, arguments))
}

/// Reads a configuration: a subject for each side that it has, or the reason why there is none.
fn subjects(file: &Path) -> Vec<(Option<Side>, Result<Subject, String>)> {
    match sides_of(file) {
        Err(error) => vec![(None, Err(super::with_source(&error)))],
        Ok(sides) => {
            let read = |side| read_config(file, side).map_err(|error| super::with_source(&error));
            sides
                .into_iter()
                .map(|side| (Some(side), read(side)))
                .collect()
        }
    }
}

fn selected(arguments: &MatrixArguments) -> Result<BTreeMap<Side, Vec<&'static Case>>, String> {
    let mut selected = BTreeMap::new();
    for side in [Side::Adapter, Side::Host] {
        let of_side = |selectors: &[String]| -> Vec<String> {
            selectors
                .iter()
                .filter(|one| run::select(side, std::slice::from_ref(one)).is_ok())
                .cloned()
                .collect()
        };
        let wanted = of_side(&arguments.cases);
        let except = of_side(&arguments.manner.except);
        let mut cases = if wanted.is_empty() && !arguments.cases.is_empty() {
            Vec::new()
        } else {
            run::select(side, &wanted)?
        };
        if !except.is_empty() {
            let except = run::select(side, &except)?;
            cases.retain(|case| except.iter().all(|left_out| left_out.id != case.id));
        }
        selected.insert(side, cases);
    }
    let known = |selector: &&String| {
        let one = std::slice::from_ref(*selector);
        [Side::Adapter, Side::Host]
            .into_iter()
            .any(|side| run::select(side, one).is_ok())
    };
    match arguments
        .cases
        .iter()
        .chain(&arguments.manner.except)
        .find(|selector| !known(selector))
    {
        Some(selector) => Err(format!(
            "no case is called `{selector}`; `list` shows them all"
        )),
        None => Ok(selected),
    }
}

/// Returns the configurations with their names: the given one, or the name of the file or folder.
fn named(configs: &[String]) -> Vec<(String, PathBuf)> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for config in configs {
        let (name, file) = match config.split_once('=') {
            Some((name, file)) if !name.is_empty() && !Path::new(config).exists() => {
                (Some(name), file)
            }
            _ => (None, config.as_str()),
        };
        let file = PathBuf::from(file);
        let name = name.map_or_else(|| name_of(&file), str::to_owned);
        // Files distinguish two of one name.
        let name = if named.iter().any(|(known, _)| *known == name) {
            file.display().to_string()
        } else {
            name
        };
        named.push((name, file));
    }
    named
}

/// The name `conform.toml` is not descriptive; its folder's is.
fn name_of(file: &Path) -> String {
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = text(file.file_stem()).filter(|stem| !stem.starts_with("conform"));
    let folder = || text(file.canonicalize().ok()?.parent()?.file_name());
    stem.or_else(folder)
        .unwrap_or_else(|| file.display().to_string())
}

/// A name as one folder.
fn folder_of(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let folder: String = name.chars().map(plain).take(80).collect();
    if folder.trim_matches('.').is_empty() {
        "unnamed".to_owned()
    } else {
        folder
    }
}

/// Runs the cases with one implementation.
fn judge(
    mut subject: Subject,
    cases: Vec<&'static Case>,
    seed: u64,
    results: &Path,
    arguments: &MatrixArguments,
) -> Result<Box<report::Document>, NotJudged> {
    let not_started = |reason: String| NotJudged {
        result: "NOT STARTED",
        reason,
        exit: exit::NOT_STARTED,
    };
    if let Some(class) = arguments.manner.class {
        subject.class = class;
    }
    let redactor = Redactor::for_subject(&subject);
    let started = Moment::now();
    let began = Instant::now();
    if let Some(Err(error)) = subject.build.as_ref().map(Build::run) {
        return Err(not_started(redactor.text(&error.to_string())));
    }
    let (bounds, calibration) =
        run::calibrate(&mut subject, arguments.manner.time_scale).map_err(|error| {
            let last = error
                .stderr
                .lines()
                .last()
                .map(|line| format!("; its stderr ends: {line}"));
            not_started(redactor.text(&format!("{}{}", error.reason, last.unwrap_or_default())))
        })?;
    let selection = if arguments.cases.is_empty() {
        vec!["all".to_owned()]
    } else {
        arguments.cases.clone()
    };
    let plan = Plan {
        cases,
        class: subject.class,
        jobs: arguments.manner.jobs,
        seed,
        results: Some(results.to_owned()),
        fail_fast: false,
    };
    let mut results = run::run_rounds(&plan, Rounds::Times(1), &subject, &bounds, &FailurePrinter);
    results
        .iter_mut()
        .for_each(|held| redactor.result(&mut held.result));
    let run = FinishedRun {
        plan: &plan,
        selection: &selection,
        subject: &subject,
        calibration: &calibration,
        results: &results,
        started,
        took: began.elapsed(),
        time_scale: arguments.manner.time_scale,
        again: &[],
        from_arguments: false,
        redactor: &redactor,
    };
    Ok(Box::new(
        report::record(&run, EvidenceCases::Failures, None).0,
    ))
}

/// Says on stderr what did not pass.
#[derive(Debug)]
struct FailurePrinter;

impl Observer for FailurePrinter {
    fn ends(&self, result: &CaseResult) {
        if !matches!(result.verdict, Verdict::Pass | Verdict::Skip) {
            anstream::eprintln!(
                "    {:<12} {}  {}",
                result.verdict,
                result.case.id,
                result.case.title
            );
        }
    }
}

fn write(matrix: &Matrix, arguments: &MatrixArguments) -> u8 {
    let on_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    let mut status = matrix.exit();
    let json = arguments
        .json
        .as_deref()
        .filter(|_| !on_stdout)
        .map(|file| (file, matrix.json()));
    let html = arguments.html.as_deref().map(|file| (file, matrix.html()));
    for (file, text) in json.into_iter().chain(html) {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let written = folder
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(file, text));
        if let Err(error) = written {
            anstream::eprintln!("error: {} could not be written: {error}", file.display());
            status = if status == exit::CONFORMANT {
                exit::USAGE
            } else {
                status
            };
        }
    }
    // A reader that has seen enough may close the pipe.
    let text = if on_stdout {
        matrix.json()
    } else {
        matrix.text()
    };
    let _ = std::io::Write::write_all(&mut anstream::stdout().lock(), text.as_bytes());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(folder.path().join("echo")).unwrap();
        std::fs::write(file("echo/conform.toml"), "").unwrap();
        let configs = [
            file("acp.toml"),
            file("echo/conform.toml"),
            format!("go={}", file("x.toml")),
            file("b/acp.toml"),
        ];
        let names: Vec<String> = named(&configs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["acp", "echo", "go", &*file("b/acp.toml")]);
        assert_eq!(folder_of("../a b"), "..-a-b");
        assert_eq!(folder_of(".."), "unnamed");
    }
}
