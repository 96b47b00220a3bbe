//! `smoke`, `adapter` and `host`: a run, from the arguments to the exit status.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};

use super::{exit, usage};
use crate::{
    case::Ability,
    clauses::Side,
    report::{self, Run},
    run::{self, Plan, Profile},
    subject::{ProbeUse, Subject, read_config},
};

/// Arguments of `adapter` and `host`.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Cases to run: ids (A-STP-07), families (A-STP) or patterns (A-FRM-1*); all without any
    selectors: Vec<String>,
    #[command(flatten)]
    shared: Shared,
}

/// Arguments of `smoke`.
#[derive(Debug, Args)]
pub(super) struct SmokeArguments {
    /// The command is a host
    #[arg(long)]
    host: bool,
    #[command(flatten)]
    shared: Shared,
}

#[derive(Debug, Args)]
struct Shared {
    /// The program under test and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// What the author says of it: command, limits, abilities, recipes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which demands are failures
    #[arg(long, value_enum, default_value_t = ProfileName::Robust)]
    profile: ProfileName,
    /// Declare abilities, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    abilities: Vec<String>,
    /// Do not use the probe, even where the adapter has one
    #[arg(long)]
    no_probe: bool,
    /// Cases at a time
    #[arg(long, value_name = "N", default_value_t = 6)]
    jobs: usize,
    /// What decides all that is random, in hexadecimal; printed with each run
    #[arg(long, value_name = "HEX")]
    seed: Option<String>,
    /// Multiply every bound, for a slow machine
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    time_scale: f64,
    /// Stop after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Where the evidence of failures goes
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    results: PathBuf,
    /// Write the result as one JSON object to stdout, and nothing else there
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    /// What the published protocol and JSON demand
    Core,
    /// That, and what this specification chose
    Robust,
    /// All, and a broken SHOULD fails
    Strict,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Core => Self::Core,
            ProfileName::Robust => Self::Robust,
            ProfileName::Strict => Self::Strict,
        }
    }
}

/// `smoke`.
pub(super) fn smoke(arguments: &SmokeArguments) -> u8 {
    let side = if arguments.host { Side::Host } else { Side::Adapter };
    let cases = crate::cases::of(side).filter(|case| case.smoke).collect();
    execute(side, cases, &arguments.shared)
}

/// `adapter`.
pub(super) fn adapter(arguments: &RunArguments) -> u8 {
    of_side(Side::Adapter, arguments)
}

/// `host`.
pub(super) fn host(arguments: &RunArguments) -> u8 {
    of_side(Side::Host, arguments)
}

fn of_side(side: Side, arguments: &RunArguments) -> u8 {
    match run::select(side, &arguments.selectors) {
        Ok(cases) => execute(side, cases, &arguments.shared),
        Err(error) => usage(error),
    }
}

fn execute(side: Side, cases: Vec<&'static crate::case::Case>, shared: &Shared) -> u8 {
    let mut subject = match subject(side, shared) {
        Ok(subject) => subject,
        Err(error) => return usage(error),
    };
    let seed = match shared.seed.as_deref().map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16))
    {
        None => fresh_seed(),
        Some(Ok(seed)) => seed,
        Some(Err(_)) => return usage("--seed takes a hexadecimal number, such as 7f3a91"),
    };
    let began = Instant::now();
    let (bounds, calibration) = match run::calibrate(&mut subject, shared.time_scale) {
        Ok(measured) => measured,
        Err(error) => {
            anstream::eprintln!("error: `{}` cannot be tested: {error}", subject.command.join(" "));
            if !error.stderr.is_empty() {
                anstream::eprintln!("its stderr:\n{}", error.stderr.trim_end());
            }
            anstream::eprintln!(
                "It must answer one `session.start` and one `user.input` by a `turn.complete`."
            );
            return exit::NOT_STARTED;
        }
    };
    let plan = Plan {
        cases,
        profile: shared.profile.into(),
        jobs: shared.jobs,
        seed,
        results: Some(shared.results.clone()),
        fail_fast: shared.fail_fast,
    };
    let progress = report::Progress::new(&plan, &subject, &calibration, shared.json);
    let results = run::run(&plan, &subject, &bounds, &progress);
    progress.finish();
    let run = Run {
        plan: &plan,
        subject: &subject,
        calibration: &calibration,
        results: &results,
        took: began.elapsed(),
    };
    report::conclude(&run, shared.json)
}

fn subject(side: Side, shared: &Shared) -> Result<Subject, String> {
    let mut subject = match &shared.config {
        Some(path) => read_config(path, side).map_err(|error| error.to_string())?,
        None if shared.command.is_empty() => {
            return Err("say what to test: `-- COMMAND`, or --config FILE".to_owned());
        }
        None if side == Side::Host => Subject::host(Vec::<String>::new()),
        None => Subject::adapter(Vec::<String>::new()),
    };
    if !shared.command.is_empty() {
        subject.command.clone_from(&shared.command);
    }
    if side == Side::Host && !subject.command.iter().any(|argument| argument.contains("{adapter}")) {
        return Err("the host's command needs {adapter} where its adapter's command goes, as in \
            `-- trunkline serve --adapter {adapter}`"
            .to_owned());
    }
    if shared.no_probe {
        subject.probe = ProbeUse::Off;
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
        let ability = Ability::ALL.into_iter().find(|ability| ability.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Ability::ALL.iter().map(|ability| ability.name()).collect();
            format!("unknown ability `{name}`; known are all, {}", known.join(", "))
        })?;
        abilities.insert(ability);
    }
    Ok(abilities)
}

/// A seed that the clock decides.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u64::try_from(now & 0xff_ffff).unwrap_or_default()
}
