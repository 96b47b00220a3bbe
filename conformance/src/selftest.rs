//! Proof that the suite can fail, and only where it should: broken programs that a named case must
//! catch for the right clause, and odd but correct ones that must pass.
//!
//! The programs are not part of this binary. A list names them: `adapters.toml` and `hosts.toml` in
//! one folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    case::Case,
    cases,
    class::Class,
    clauses::{Level, Side},
    run::{self, Plan, Unwatched},
    subject::{Bounds, Subject},
    verdict::Verdict,
};

mod list;
mod matrix;

pub(crate) use self::{
    list::{Mutant, Programs, Variant},
    matrix::matrix,
};

/// Number of runs before a mutant counts as a survivor: a race needs its moment.
const ATTEMPTS: u32 = 3;
/// Number of simultaneous cases of a variant.
const CASES_AT_A_TIME: usize = 4;

/// Result of a broken program.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MutantResult {
    /// The mutant's name.
    pub name: String,
    /// The case that must catch it.
    pub case: String,
    /// The clause that it breaks.
    pub clause: String,
    /// Success if the case caught it for that clause; otherwise the reason.
    pub outcome: Result<(), String>,
    /// Duration.
    pub took: Duration,
}

/// Result of an odd but correct program.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct VariantResult {
    /// The variant's name.
    pub name: String,
    /// Number of cases that passed or only warned.
    pub quiet: usize,
    /// Cases that raised a false alarm, with their texts.
    pub alarms: Vec<String>,
    /// Duration.
    pub took: Duration,
}

/// Part of the suite that a variant is tested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The smoke set and what the variant names itself.
    Smoke,
    /// Everything.
    Full,
}

/// Runs every mutant against its case, `jobs` at a time.
pub(crate) fn kill(
    side: Side,
    mutants: &[Mutant],
    stub: &Path,
    jobs: usize,
    told: &(dyn Fn(&MutantResult) + Sync),
) -> Vec<MutantResult> {
    run::each(mutants, jobs, |mutant| {
        let began = Instant::now();
        let killing = MutantResult {
            name: mutant.name.clone(),
            case: mutant.killed_by.clone(),
            clause: mutant.breaks.clone(),
            outcome: kill_one(side, mutant, stub),
            took: began.elapsed(),
        };
        told(&killing);
        killing
    })
}

fn kill_one(side: Side, mutant: &Mutant, stub: &Path) -> Result<(), String> {
    let case =
        cases::find(&mutant.killed_by).ok_or_else(|| format!("no case {}", mutant.killed_by))?;
    let mut subject = subject(side, &mutant.command, &mutant.env, stub);
    let bounds = if mutant.no_turn {
        Bounds::from_measured(Duration::ZERO, Duration::ZERO, &subject.limits, 1.0)
    } else {
        // The calibration takes several turns: what passes it can do the plainest thing.
        let (bounds, _) = run::calibrate(&mut subject, 1.0)
            .map_err(|error| format!("it does not start, which proves nothing: {error}"))?;
        bounds
    };
    let plan = plan(vec![case], 1);
    let mut last = String::new();
    for attempt in 1..=ATTEMPTS {
        let plan = Plan {
            seed: u64::from(attempt),
            ..plan.clone()
        };
        let result = run::run_case(case, &subject, &bounds, &plan, attempt);
        let clauses: BTreeSet<&str> = result
            .findings
            .iter()
            .map(|finding| &*finding.clause)
            .collect();
        let caught = matches!(result.verdict, Verdict::Fail | Verdict::Warn);
        if caught && clauses.contains(mutant.breaks.as_str()) {
            return Ok(());
        }
        last = if caught {
            format!("caught for {:?}, not for {}", clauses, mutant.breaks)
        } else {
            format!(
                "{}{}",
                result.verdict,
                result
                    .reason
                    .map(|why| format!(": {why}"))
                    .unwrap_or_default()
            )
        };
    }
    Err(last)
}

/// Puts every variant through the suite, [`CASES_AT_A_TIME`] cases of each, `jobs` in all.
pub(crate) fn survive(
    side: Side,
    variants: &[Variant],
    stub: &Path,
    depth: Depth,
    jobs: usize,
    told: &(dyn Fn(&VariantResult) + Sync),
) -> Vec<VariantResult> {
    run::each(variants, jobs / CASES_AT_A_TIME, |variant| {
        let began = Instant::now();
        let (quiet, alarms) = survive_one(side, variant, stub, depth);
        let survival = VariantResult {
            name: variant.name.clone(),
            quiet,
            alarms,
            took: began.elapsed(),
        };
        told(&survival);
        survival
    })
}

fn survive_one(side: Side, variant: &Variant, stub: &Path, depth: Depth) -> (usize, Vec<String>) {
    let mut subject = subject(side, &variant.command, &variant.env, stub);
    for ability in &variant.without {
        subject.abilities.remove(ability);
    }
    let bounds = match run::calibrate(&mut subject, 1.0) {
        Ok((bounds, _)) => bounds,
        Err(error) => return (0, vec![format!("it does not start: {error}")]),
    };
    let cases: Vec<&'static Case> = cases::cases_of_side(side)
        .filter(|case| {
            depth == Depth::Full || case.smoke || variant.cases.iter().any(|named| named == case.id)
        })
        .collect();
    let results = run::run(&plan(cases, CASES_AT_A_TIME), &subject, &bounds, &Unwatched);
    let mut quiet = 0;
    let mut alarms = Vec::new();
    for result in results {
        match result.verdict {
            Verdict::Pass | Verdict::Skip | Verdict::Warn => quiet += 1,
            verdict => {
                let got = result
                    .findings
                    .first()
                    .map(|finding| finding.got.clone())
                    .or(result.reason);
                alarms.push(format!(
                    "{} {verdict}: {}",
                    result.case.id,
                    got.unwrap_or_default()
                ));
            }
        }
    }
    (quiet, alarms)
}

fn subject(side: Side, command: &[String], env: &BTreeMap<String, String>, stub: &Path) -> Subject {
    let subject = match side {
        Side::Adapter => Subject::adapter(command.iter().cloned()),
        Side::Host => Subject::host(command.iter().cloned()),
    };
    let mut subject = subject.with_all_abilities().with_stub(stub);
    // Socket on which the reference host accepts further hubs.
    subject.hubs = Some("{journal}/host.sock".to_owned());
    subject.env.extend(
        env.iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    subject
}

fn plan(cases: Vec<&'static Case>, jobs: usize) -> Plan {
    Plan {
        cases,
        class: Class::Robust,
        jobs,
        seed: 1,
        results: None,
        fail_fast: false,
    }
}

/// Returns true if a case is a MUST.
fn is_must(case: &Case) -> bool {
    case.level == Level::Must
}
