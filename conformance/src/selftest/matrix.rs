//! The kill matrix: which case catches which mutant for which clause, and what nothing catches.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mutant, MutantResult, is_must};
use crate::{cases, clauses::Side};

/// Gaps of the negative controls on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Clauses that a MUST case tests and no mutant breaks.
    pub clauses: Vec<&'static str>,
    /// MUST cases that catch no mutant.
    pub cases: Vec<&'static str>,
}

/// Returns the gaps of a side's mutants, by the lists.
pub(crate) fn gaps(side: Side, mutants: &[Mutant]) -> Gaps {
    let broken: BTreeSet<&str> = mutants
        .iter()
        .map(|mutant| mutant.breaks.as_str())
        .collect();
    let killers: BTreeSet<&str> = mutants
        .iter()
        .map(|mutant| mutant.killed_by.as_str())
        .collect();
    let must: Vec<_> = cases::cases_of_side(side)
        .filter(|case| is_must(case))
        .collect();
    let clauses: BTreeSet<&'static str> = must
        .iter()
        .map(|case| case.clause)
        .filter(|clause| !broken.contains(clause))
        .collect();
    Gaps {
        clauses: clauses.into_iter().collect(),
        cases: must
            .iter()
            .map(|case| case.id)
            .filter(|id| !killers.contains(id))
            .collect(),
    }
}

/// The matrix of one side as text: it is checked in, and any drift shows as a difference.
pub(crate) fn matrix(side: Side, mutants: &[Mutant], killings: &[MutantResult]) -> String {
    let outcomes: BTreeMap<&str, &MutantResult> = killings
        .iter()
        .map(|killing| (killing.name.as_str(), killing))
        .collect();
    let mut text = format!("# {side} mutants: name, clause, case, caught\n");
    for mutant in mutants {
        let caught = match outcomes
            .get(mutant.name.as_str())
            .map(|killing| &killing.outcome)
        {
            Some(Ok(())) => "caught",
            Some(Err(_)) => "SURVIVED",
            None => "not run",
        };
        text.push_str(&format!(
            "{:<36} {:<14} {:<10} {caught}\n",
            mutant.name, mutant.breaks, mutant.killed_by
        ));
    }
    let gaps = gaps(side, mutants);
    text.push_str(&format!(
        "# MUST cases that no mutant proves: {}\n",
        gaps.cases.len()
    ));
    for case in gaps.cases {
        text.push_str(&format!("unproven {case}\n"));
    }
    text.push_str(&format!(
        "# clauses tested as MUST that no mutant breaks: {}\n",
        gaps.clauses.len()
    ));
    for clause in gaps.clauses {
        text.push_str(&format!("unbroken {clause}\n"));
    }
    text
}
