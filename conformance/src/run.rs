//! Runs cases: selection, parallelism, confirmation of each failure in isolation, and progress
//! reports.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    case::Case,
    class::Class,
    clauses::{self, Basis, Level, Side},
    history::Record,
    needs::Need,
    oracle::{self, HistoryEnd},
    rng::Rng,
    subject::{Bounds, Subject},
    trial::Trial,
    verdict::{EvidenceGround, Finding, Stop, Tier, Verdict},
};

mod calibrate;
mod rounds;
mod shorten;

pub(crate) use self::{
    calibrate::{Calibration, EXTENSIONS, calibrate},
    rounds::{Repeated, Rounds, run_rounds},
};

/// Plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The cases, in order.
    pub cases: Vec<&'static Case>,
    /// Demands that count as failures.
    pub class: Class,
    /// Number of simultaneous cases.
    pub jobs: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Folder for the evidence of failures, if there is one.
    pub results: Option<PathBuf>,
    /// Leave out what is still to come after the first failure.
    pub fail_fast: bool,
}

/// Result of a case.
#[derive(Debug, Clone)]
pub(crate) struct CaseResult {
    /// The case.
    pub case: &'static Case,
    /// Verdict.
    pub verdict: Verdict,
    /// Broken rules, the decisive one first.
    pub findings: Vec<Finding>,
    /// Reason why it was skipped or inconclusive, or the error of the suite.
    pub reason: Option<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Tier of the verdict.
    pub tier: Tier,
    /// Duration of all attempts.
    pub took: Duration,
    /// Number of runs.
    pub attempts: u32,
    /// The length of the list that the seed decided; 0 where the case has none.
    pub choices: usize,
    /// Events of the attempt that decided.
    pub records: Vec<Record>,
    /// True if the verdict counts in this class.
    pub scored: bool,
}

/// Gets every event of a run as it happens.
pub(crate) trait Observer: Sync {
    /// A case begins.
    fn begins(&self, _case: &'static Case) {}
    /// A case failed and is run again in isolation.
    fn confirms(&self, _case: &'static Case) {}
    /// A case is over.
    fn ends(&self, _result: &CaseResult) {}
}

/// Ignores all events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unwatched;

impl Observer for Unwatched {}

/// Runs a plan. The results are in the order of the plan.
pub(crate) fn run(
    plan: &Plan,
    subject: &Subject,
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Vec<CaseResult> {
    crate::process::become_subreaper();
    let stop = AtomicBool::new(false);
    let results = each(&plan.cases, plan.jobs, |case| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        observer.begins(case);
        let result = run_case(case, subject, bounds, plan, 1);
        // A failure that neighbours may have caused is reported only after an isolated run.
        if !to_confirm(&result) {
            observer.ends(&result);
            let failed = result.scored && result.verdict >= Verdict::Unsupported;
            stop.fetch_or(plan.fail_fast && failed, Ordering::Relaxed);
        }
        Some(result)
    });
    let mut confirmed = Vec::new();
    for result in results.into_iter().flatten() {
        if to_confirm(&result) {
            observer.confirms(result.case);
            let again = run_case(result.case, subject, &bounds.stretched(2.0), plan, 2);
            let result = shorten::shortened(confirm(result, again), subject, bounds, plan);
            observer.ends(&result);
            confirmed.push(result);
        } else {
            confirmed.push(result);
        }
    }
    confirmed
}

/// Runs `act` on each item, `jobs` at a time, and returns the answers in the order of the items.
pub(crate) fn each<T: Sync, A: Send>(
    items: &[T],
    jobs: usize,
    act: impl Fn(&T) -> A + Sync,
) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { break };
                    let answer = act(item);
                    answers
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((place, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn to_confirm(result: &CaseResult) -> bool {
    result.attempts == 1
        && matches!(
            result.verdict,
            Verdict::Fail | Verdict::Inconclusive | Verdict::Harness | Verdict::Warn
        )
}

/// Combines two attempts: a repeated failure counts; a single timeout was the machine's fault; a
/// single observation is flaky.
fn confirm(first: CaseResult, mut again: CaseResult) -> CaseResult {
    again.took += first.took;
    again.attempts = 2;
    let failed = |verdict| matches!(verdict, Verdict::Fail | Verdict::Harness);
    if failed(again.verdict) || !failed(first.verdict) {
        return again;
    }
    if first.verdict == Verdict::Harness {
        again.notes.push(format!(
            "the first attempt went wrong: {}",
            first.reason.unwrap_or_default()
        ));
        return again;
    }
    if first
        .findings
        .iter()
        .filter(|finding| finding.level == Level::Must)
        .all(|f| f.ground == EvidenceGround::Late)
    {
        let late = first
            .findings
            .first()
            .map(|finding| finding.got.clone())
            .unwrap_or_default();
        again.notes.push(format!(
            "beside other cases it was too slow ({late}); by itself it was in time"
        ));
        return again;
    }
    CaseResult {
        verdict: Verdict::Flaky,
        attempts: 2,
        took: again.took,
        ..first
    }
}

/// Runs one case once.
pub(crate) fn run_case(
    case: &'static Case,
    subject: &Subject,
    bounds: &Bounds,
    plan: &Plan,
    attempt: u32,
) -> CaseResult {
    let result = run_part(case, subject, bounds, plan, attempt, None);
    if result.verdict == Verdict::Pass && result.tier == Tier::Probe {
        return by_recipe_too(result, subject, bounds, plan);
    }
    result
}

/// Runs a case that passed by the probe once more by the author's recipe, if there is one: the
/// probe vouches for the transport, the recipe for the agent behind it. A recipe that does not
/// provoke the behavior leaves the verdict unchanged.
fn by_recipe_too(
    by_probe: CaseResult,
    subject: &Subject,
    bounds: &Bounds,
    plan: &Plan,
) -> CaseResult {
    let case = by_probe.case;
    let recipe = case.needs.iter().find_map(|need| match need {
        Need::ProbeOr(_, recipe) if subject.recipes.get(recipe).is_some() => Some(*recipe),
        _ => None,
    });
    let agent = Subject {
        probe_ops: BTreeSet::new(),
        ..subject.clone()
    };
    let Some(recipe) = recipe.filter(|_| agent.lacks(&case.needs).is_none()) else {
        return by_probe;
    };
    let mut result = run_part(case, &agent, bounds, plan, by_probe.attempts, None);
    let took = by_probe.took + result.took;
    let note = match result.verdict {
        Verdict::Inconclusive | Verdict::Skip => {
            let reason = result.reason.take().unwrap_or_default();
            result = by_probe;
            format!("by recipe `{recipe}` it could not be judged: {reason}")
        }
        _ => format!("by the probe: pass; then by recipe `{recipe}`"),
    };
    result.notes.push(note);
    CaseResult { took, ..result }
}

/// Runs one case once, with a part of the list that its seed decides.
fn run_part(
    case: &'static Case,
    subject: &Subject,
    bounds: &Bounds,
    plan: &Plan,
    attempt: u32,
    part: Option<&[usize]>,
) -> CaseResult {
    let began = Instant::now();
    let seed = seed_of(plan.seed, case.id);
    let mut result = CaseResult {
        case,
        verdict: Verdict::Skip,
        findings: Vec::new(),
        reason: None,
        notes: Vec::new(),
        tier: Tier::BlackBox,
        took: Duration::ZERO,
        attempts: attempt,
        choices: 0,
        records: Vec::new(),
        scored: plan.class != Class::Core || case.basis != Basis::Choice,
    };
    if let Some(lacks) = subject.lacks(&case.needs) {
        result.reason = Some(format!("needs {lacks}"));
        return result;
    }
    let mut trial = match Trial::new(case, subject, *bounds, seed) {
        Ok(trial) => trial,
        Err(stop) => {
            result.verdict = Verdict::Harness;
            result.reason = Some(format!("{stop:?}"));
            return result;
        }
    };
    if let Some(part) = part {
        trial = trial.with_part(part);
    }
    // A panic of a case is an error of the suite; the other cases continue.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (case.run)(&mut trial)))
        .unwrap_or_else(|_| Err(Stop::Harness("the case panicked".to_owned())));
    let (outcome, finished) = trial.finish(outcome);
    let ending = if outcome.is_ok() {
        HistoryEnd::AtRest
    } else {
        HistoryEnd::Cut
    };
    let judgement = oracle::judge(&finished.records, case.side(), ending);

    result.tier = finished.tier;
    result.choices = finished.choices;
    result.notes = finished.notes;
    result.records = finished.records;
    result.findings = finished.findings;
    let mut verdict = Verdict::Pass;
    match outcome {
        Ok(()) => {}
        Err(Stop::Fail(finding)) => result.findings.insert(0, *finding),
        Err(Stop::Skip(what)) => {
            verdict = Verdict::Skip;
            result.reason = Some(format!("needs {what}"));
        }
        Err(Stop::Unsupported(what)) => {
            verdict = Verdict::Unsupported;
            result.reason = Some(what);
        }
        Err(Stop::Inconclusive(why)) => {
            verdict = Verdict::Inconclusive;
            result.reason = Some(why);
        }
        Err(Stop::Harness(why)) => {
            verdict = Verdict::Harness;
            result.reason = Some(why);
        }
    }
    result.findings.extend(judgement.findings);
    for finding in &result.findings {
        verdict = verdict.max(weight(finding, case, plan.class));
    }
    if let Some(own) = judgement.own.first() {
        verdict = Verdict::Harness;
        result.reason = Some(own.clone());
    }
    // The worst first, the case's own before the oracles'.
    result
        .findings
        .sort_by_key(|finding| std::cmp::Reverse(finding.level));
    result.verdict = verdict;
    result.took = began.elapsed();
    result
}

/// Returns the verdict for a broken rule in a class.
fn weight(finding: &Finding, case: &Case, class: Class) -> Verdict {
    // The core class does not ask for what this specification chose, whatever case shows it.
    let chosen = || {
        let clause = clauses::find(&finding.clause);
        finding.clause != case.clause && clause.is_some_and(|clause| clause.basis == Basis::Choice)
    };
    match (finding.level, class) {
        (Level::Must, Class::Core) if chosen() => Verdict::Warn,
        (Level::Must, _) | (Level::Should, Class::Strict) => Verdict::Fail,
        (Level::Should, _) => Verdict::Warn,
        (Level::May, _) => Verdict::Pass,
    }
}

/// Returns the seed of a case: made from the run's seed and its id, so that the case makes the same
/// choices in isolation.
fn seed_of(seed: u64, id: &str) -> u64 {
    let mixed = id.bytes().fold(seed, |mixed, byte| {
        mixed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
    });
    Rng::new(mixed).next_u64()
}

/// The cases of a side that a selection names: ids, families (`A-STP`), patterns with `*`; all of
/// them without one.
///
/// # Errors
///
/// A selector that names no case.
pub(crate) fn select(side: Side, selectors: &[String]) -> Result<Vec<&'static Case>, String> {
    let all: Vec<&'static Case> = crate::cases::cases_of_side(side).collect();
    if selectors.is_empty() {
        return Ok(all);
    }
    let mut wanted = vec![false; all.len()];
    for selector in selectors {
        let mut any = false;
        for (place, case) in all.iter().enumerate() {
            if matches(selector, case.id) {
                wanted[place] = true;
                any = true;
            }
        }
        if !any {
            return Err(format!(
                "no case is called `{selector}`; `list` shows them all"
            ));
        }
    }
    Ok(all
        .into_iter()
        .zip(wanted)
        .filter_map(|(case, wanted)| wanted.then_some(case))
        .collect())
}

/// Returns true if a selector matches an id: the id, a family, or a pattern with one `*` at its
/// end.
fn matches(selector: &str, id: &str) -> bool {
    let selector = selector.to_ascii_uppercase();
    let id = id.to_ascii_uppercase();
    match selector.strip_suffix('*') {
        Some(stem) => id.starts_with(stem),
        None => id == selector || id.starts_with(&format!("{selector}-")),
    }
}
