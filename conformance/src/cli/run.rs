//! `smoke`, `adapter` and `host`: a run, from the arguments to the exit status.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use clap::Args;

use super::report::read_baseline;
use crate::{
    build::Build,
    calendar::Moment,
    case::Case,
    class::Class,
    clauses::Side,
    exit,
    needs::Ability,
    printable::short,
    process::{end_descendants_at_signals, is_missing},
    report::{
        self, EvidenceCases, FinishedRun, Progress, Redactor, ReportOutput, ReportSettings, Show,
        Skipped,
    },
    run::{self, Plan, Rounds},
    subject::{ProbeUse, Subject, read_config},
    verdict::Verdict,
};

/// The most rounds of `--until-failure` without `--repeat`.
const ROUNDS: u32 = 1_000_000;

/// Arguments of `adapter` and `host`.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Cases to run: ids (A-STP-07), families (A-STP) or patterns (A-FRM-1*); all without any
    selectors: Vec<String>,
    #[command(flatten)]
    shared: SharedArguments,
}

/// Arguments of `smoke`.
#[derive(Debug, Args)]
pub(super) struct SmokeArguments {
    /// The command is a host
    #[arg(long)]
    host: bool,
    #[command(flatten)]
    shared: SharedArguments,
}

/// Options for running cases, shared by all commands.
#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Demands that count as failures; without it the class in each configuration, or robust
    #[arg(long, alias = "profile", value_enum)]
    pub(super) class: Option<Class>,
    /// Cases at a time
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(super) jobs: usize,
    /// Seed of all random choices, in hexadecimal; printed with each run
    #[arg(long, value_name = "HEX")]
    pub(super) seed: Option<String>,
    /// Multiply every bound, for a slow machine
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(super) time_scale: f64,
    /// Cases to leave out, as they are named to be run, separated by commas; may be repeated
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    pub(super) except: Vec<String>,
    /// Folder for results and the evidence of failures, with one folder per run; `latest` leads to
    /// the newest
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(super) results: PathBuf,
}

impl RunOptions {
    /// The seed of the run, fresh where none was given.
    ///
    /// # Errors
    /// What is wrong with `--seed` or `--time-scale`.
    pub(super) fn seed(&self) -> Result<u64, String> {
        let seed = self
            .seed
            .as_deref()
            .map_or_else(|| Ok(fresh_seed()), read_seed)?;
        check_time_scale(self.time_scale)?;
        Ok(seed)
    }
}

#[derive(Debug, Args)]
struct SharedArguments {
    /// The program under test and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The author's description of it: command, limits, abilities, recipes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    manner: RunOptions,
    /// Declare abilities, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    abilities: Vec<String>,
    /// Unix socket on which a host with a journal accepts further hubs, with {journal} for the
    /// folder
    #[arg(long, value_name = "SOCKET")]
    hubs: Option<String>,
    /// Do not use the probe, even where the adapter has one
    #[arg(long)]
    no_probe: bool,
    /// A case that is skipped fails: for a program that must show everything
    #[arg(long)]
    complete: bool,
    /// Stop after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Run everything so many times, each time with another seed; what fails at times is flaky
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Run again and again until something fails
    #[arg(long)]
    until_failure: bool,
    /// Keep the evidence of the cases that pass, too
    #[arg(long)]
    keep: bool,
    /// Known failures: any other failure, and any listed case that passes, fails the run
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Also write reports: json=FILE, junit=FILE, tap=FILE, md=FILE, html=FILE, summary=FILE, github
    #[arg(long, value_name = "KIND=FILE", value_delimiter = ',')]
    report: Vec<ReportOutput>,
    /// Show each case's wire when the case is over, in columns
    #[arg(long)]
    trace: bool,
    /// Name the cases that were skipped, and the clauses that were not judged
    #[arg(long)]
    list_skipped: bool,
    /// Write the result as one JSON object to stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

/// `smoke`.
pub(super) fn smoke(arguments: &SmokeArguments) -> Result<u8, String> {
    let side = if arguments.host {
        Side::Host
    } else {
        Side::Adapter
    };
    let cases = crate::cases::cases_of_side(side)
        .filter(|case| case.smoke)
        .collect();
    execute(side, cases, &["smoke".to_owned()], &arguments.shared)
}

/// `adapter`.
pub(super) fn adapter(arguments: &RunArguments) -> Result<u8, String> {
    of_side(Side::Adapter, arguments)
}

/// `host`.
pub(super) fn host(arguments: &RunArguments) -> Result<u8, String> {
    of_side(Side::Host, arguments)
}

fn of_side(side: Side, arguments: &RunArguments) -> Result<u8, String> {
    let all = ["all".to_owned()];
    let selection = if arguments.selectors.is_empty() {
        &all[..]
    } else {
        &arguments.selectors
    };
    let cases = selected(side, arguments)?;
    execute(side, cases, selection, &arguments.shared)
}

fn selected(side: Side, arguments: &RunArguments) -> Result<Vec<&'static Case>, String> {
    let mut cases = run::select(side, &arguments.selectors)?;
    if !arguments.shared.manner.except.is_empty() {
        let except = run::select(side, &arguments.shared.manner.except)?;
        cases.retain(|case| except.iter().all(|left_out| left_out.id != case.id));
    }
    Ok(cases)
}

fn execute(
    side: Side,
    cases: Vec<&'static Case>,
    selection: &[String],
    shared: &SharedArguments,
) -> Result<u8, String> {
    let mut subject = subject(side, shared)?;
    let seed = shared.manner.seed()?;
    let listed = shared.baseline.as_deref().map(read_baseline).transpose()?;
    let redactor = Redactor::for_subject(&subject);
    let started = Moment::now();
    let began = Instant::now();
    if let Some(Err(error)) = subject.build.as_ref().map(Build::run) {
        let reason = error.to_string();
        return Ok(not_started(
            &subject,
            &redactor,
            &reason,
            "output",
            &error.output,
        ));
    }
    end_descendants_at_signals();
    let (bounds, calibration) = match run::calibrate(&mut subject, shared.manner.time_scale) {
        Ok(measured) => measured,
        Err(error) => {
            let status = not_started(&subject, &redactor, &error.reason, "stderr", &error.stderr);
            let next = match subject.build {
                Some(_) if is_missing(&subject.command, &subject.cwd) => {
                    "`build` ended well: does it put the program elsewhere (CARGO_TARGET_DIR)?"
                }
                _ => {
                    "It must answer one `session.start` and one `user.input` by a `turn.complete`."
                }
            };
            anstream::eprintln!("{next}");
            return Ok(status);
        }
    };
    let plan = Plan {
        cases,
        class: subject.class,
        jobs: shared.manner.jobs,
        seed,
        results: Some(shared.manner.results.clone()),
        fail_fast: shared.fail_fast,
    };
    let rounds = match (shared.until_failure, shared.repeat) {
        (true, 1) => Rounds::UntilFailure(ROUNDS),
        (true, most) => Rounds::UntilFailure(most),
        (false, times) => Rounds::Times(times),
    };
    let show = match (shared.json, shared.trace) {
        (true, _) => Show::Nothing,
        (false, true) => Show::Wire,
        (false, false) => Show::Progress,
    };
    let progress = Progress::new(
        &plan,
        shared.repeat,
        &subject,
        &calibration,
        &redactor,
        show,
    );
    let mut results = run::run_rounds(&plan, rounds, &subject, &bounds, &progress);
    progress.finish();
    for held in &mut results {
        if shared.complete && held.result.verdict == Verdict::Skip {
            held.result.verdict = Verdict::Unsupported;
        }
        redactor.result(&mut held.result);
    }
    let run = FinishedRun {
        plan: &plan,
        selection,
        subject: &subject,
        calibration: &calibration,
        results: &results,
        started,
        took: began.elapsed(),
        time_scale: shared.manner.time_scale,
        again: &shared.again(),
        from_arguments: !shared.command.is_empty(),
        redactor: &redactor,
    };
    let telling = ReportSettings {
        keep: if shared.keep {
            EvidenceCases::All
        } else {
            EvidenceCases::Failures
        },
        skipped: if shared.list_skipped {
            Skipped::Listed
        } else {
            Skipped::Counted
        },
        listed,
        outputs: shared.report.clone(),
        as_json: shared.json,
    };
    Ok(report::conclude(&run, &telling))
}

/// Says why there is nothing to judge, with what was written to a stream.
fn not_started(
    subject: &Subject,
    redactor: &Redactor,
    reason: &str,
    stream: &str,
    written: &str,
) -> u8 {
    let shown = |text: &str| short(&redactor.text(text), 600);
    anstream::eprintln!(
        "error: `{}` cannot be tested: {}",
        shown(&subject.command.join(" ")),
        shown(reason)
    );
    if !written.is_empty() {
        anstream::eprintln!("its {stream}:");
        for line in written.lines() {
            anstream::eprintln!("  | {}", shown(line));
        }
    }
    exit::NOT_STARTED
}

impl SharedArguments {
    /// The options that a run of one case needs as well.
    fn again(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(config) = &self.config {
            words.extend(["--config".to_owned(), config.display().to_string()]);
        }
        if let Some(class) = self.manner.class {
            words.extend(["--class".to_owned(), class.name().to_owned()]);
        }
        if !self.abilities.is_empty() {
            words.extend(["--abilities".to_owned(), self.abilities.join(",")]);
        }
        if let Some(hubs) = &self.hubs {
            words.extend(["--hubs".to_owned(), hubs.clone()]);
        }
        if self.no_probe {
            words.push("--no-probe".to_owned());
        }
        words
    }
}

fn subject(side: Side, shared: &SharedArguments) -> Result<Subject, String> {
    let mut subject = match &shared.config {
        Some(path) => read_config(path, side).map_err(|error| super::with_source(&error))?,
        None if shared.command.is_empty() => {
            return Err("name what to test: `-- COMMAND`, or --config FILE".to_owned());
        }
        None if side == Side::Host => Subject::host(Vec::<String>::new()),
        None => Subject::adapter(Vec::<String>::new()),
    };
    if !shared.command.is_empty() {
        subject.command.clone_from(&shared.command);
        // It makes the program of the configuration, which is not the one that is judged.
        subject.build = None;
    }
    if side == Side::Host
        && !subject
            .command
            .iter()
            .any(|argument| argument.contains("{adapter}"))
    {
        return Err(
            "the host's command needs {adapter} where its adapter's command goes, as in \
            `-- trunkline serve --adapter {adapter}`"
                .to_owned(),
        );
    }
    if let Some(hubs) = &shared.hubs {
        subject.hubs = Some(hubs.clone());
    }
    if shared.no_probe {
        subject.probe = ProbeUse::Off;
    }
    if let Some(class) = shared.manner.class {
        subject.class = class;
    }
    subject.abilities.extend(abilities(&shared.abilities)?);
    Ok(subject)
}

fn abilities(names: &[String]) -> Result<BTreeSet<Ability>, String> {
    let mut abilities = BTreeSet::new();
    for name in names {
        if name == "all" {
            abilities.extend(Ability::ALL);
            continue;
        }
        abilities.insert(Ability::parse(name, "all")?);
    }
    Ok(abilities)
}

fn read_seed(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "--seed takes a hexadecimal number, such as 7f3a91".to_owned())
}

fn check_time_scale(factor: f64) -> Result<(), String> {
    if factor.is_finite() && (0.1..=1_000.0).contains(&factor) {
        Ok(())
    } else {
        Err("--time-scale takes a factor from 0.1 to 1000".to_owned())
    }
}

/// A seed that the clock decides.
fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    u64::try_from(now & 0xff_ffff).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        shared: SharedArguments,
    }

    fn class(words: &[&str]) -> Class {
        let line = ["suite"].iter().chain(words).chain(&["--", "true"]);
        let shared = Line::try_parse_from(line).unwrap().shared;
        let class = subject(Side::Adapter, &shared).unwrap().class;
        let again = shared.again();
        let line = ["suite".to_owned()]
            .into_iter()
            .chain(again)
            .chain(["--".to_owned(), "true".to_owned()]);
        let again = subject(Side::Adapter, &Line::try_parse_from(line).unwrap().shared)
            .unwrap()
            .class;
        assert_eq!(class, again, "the command that runs a case again");
        class
    }

    #[test]
    fn the_command_line_decides_the_class_before_the_configuration() {
        assert_eq!(class(&[]), Class::Robust);
        assert_eq!(class(&["--class", "core"]), Class::Core);
        assert_eq!(class(&["--profile", "strict"]), Class::Strict);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conform.toml");
        std::fs::write(&file, "class = \"strict\"\n[adapter]\ncommand = [\"true\"]").unwrap();
        let config = ["--config", file.to_str().unwrap()];
        assert_eq!(class(&config), Class::Strict);
        assert_eq!(
            class(&[&config[..], &["--class", "robust"]].concat()),
            Class::Robust
        );
    }

    #[test]
    fn the_former_name_is_not_in_the_help() {
        let help = <Line as clap::CommandFactory>::command()
            .render_long_help()
            .to_string();
        assert!(
            help.contains("--class <CLASS>") && !help.contains("--profile"),
            "{help}"
        );
    }
}
