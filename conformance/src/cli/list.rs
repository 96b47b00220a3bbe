//! `list`: every clause with level, basis and cases, or the reason why it cannot be tested.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::{
    case::Case,
    cases,
    clauses::{self, Clause, Side},
};

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Cases instead of clauses
    #[arg(long)]
    cases: bool,
    /// Only what is asked of this side
    #[arg(long, value_enum)]
    side: Option<SideName>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SideName {
    /// The process that is started
    Adapter,
    /// The one that starts it
    Host,
}

impl ListArguments {
    fn sides(&self) -> &'static [Side] {
        match self.side {
            None => &[Side::Adapter, Side::Host],
            Some(SideName::Adapter) => &[Side::Adapter],
            Some(SideName::Host) => &[Side::Host],
        }
    }
}

pub(super) fn list(arguments: &ListArguments) -> u8 {
    let sides = arguments.sides();
    let text = match (arguments.cases, arguments.json) {
        (true, false) => case_lines(sides),
        (true, true) => {
            format!(
                "{}\n",
                json!({"cases": cases_of(sides).map(case_value).collect::<Vec<_>>()})
            )
        }
        (false, false) => clause_lines(sides),
        (false, true) => {
            let cases: Vec<Value> = cases_of(sides).map(case_value).collect();
            let clauses: Vec<Value> = clauses_of(sides)
                .map(|clause| clause_value(clause, sides))
                .collect();
            format!("{}\n", json!({"clauses": clauses, "cases": cases}))
        }
    };
    // A reader that has seen enough may close the pipe.
    let _ = anstream::stdout().lock().write_all(text.as_bytes());
    super::exit::CONFORMANT
}

fn cases_of(sides: &'static [Side]) -> impl Iterator<Item = &'static Case> {
    sides.iter().flat_map(|side| cases::cases_of_side(*side))
}

fn clauses_of(sides: &'static [Side]) -> impl Iterator<Item = &'static Clause> {
    clauses::all()
        .iter()
        .filter(|clause| sides.iter().any(|side| clause.binds.includes(*side)))
}

/// Coverage of a clause on a side.
enum ClauseCoverage<'a> {
    Tested(Vec<&'static Case>),
    Excused(&'a str),
    Open,
}

fn stand(clause: &Clause, side: Side) -> ClauseCoverage<'_> {
    let own: Vec<&'static Case> = cases::cases_of_side(side)
        .filter(|case| case.clause == clause.id)
        .collect();
    match clause.excuse(side) {
        _ if !own.is_empty() => ClauseCoverage::Tested(own),
        Some(reason) => ClauseCoverage::Excused(reason),
        None => ClauseCoverage::Open,
    }
}

fn case_lines(sides: &'static [Side]) -> String {
    let mut text = String::new();
    let mut family = "";
    for case in cases_of(sides) {
        if case.family() != family {
            text.push_str(if family.is_empty() { "" } else { "\n" });
            family = case.family();
        }
        let star = if case.smoke { "*" } else { "" };
        text.push_str(&format!(
            "{:<11} {:<6} {:<8} {:<14} {}\n",
            format!("{}{star}", case.id),
            case.level,
            case.basis,
            format!("[{}]", case.clause),
            case.title
        ));
        if !case.needs.is_empty() {
            let needs: Vec<String> = case.needs.iter().map(ToString::to_string).collect();
            text.push_str(&format!("{:<11} needs {}\n", "", needs.join("; ")));
        }
    }
    let count = cases_of(sides).count();
    text.push_str(&format!(
        "\n{count} cases; * belongs to the smoke set; `explain ID` shows more\n"
    ));
    text
}

fn clause_lines(sides: &'static [Side]) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = String::new();
    let mut tested = 0;
    let mut excused = 0;
    let mut open = 0;
    for clause in clauses_of(sides) {
        text.push_str(&format!(
            "{bold}[{}]{bold:#}  {}, {} ({})\n    {}\n",
            clause.id, clause.binds, clause.level, clause.basis, clause.wording
        ));
        for side in sides.iter().filter(|side| clause.binds.includes(**side)) {
            let what = match stand(clause, *side) {
                ClauseCoverage::Tested(own) => {
                    tested += 1;
                    own.iter().map(|case| case.id).collect::<Vec<_>>().join(" ")
                }
                ClauseCoverage::Excused(reason) => {
                    excused += 1;
                    format!("not tested: {reason}")
                }
                ClauseCoverage::Open => {
                    open += 1;
                    "no case yet".to_owned()
                }
            };
            text.push_str(&format!("    {side:<8} {what}\n"));
        }
    }
    text.push_str(&format!(
        "\n{} clauses; by side: {tested} tested, {excused} not testable from outside, {open} without a case\n",
        clauses_of(sides).count()
    ));
    text
}

/// A case as data.
pub(super) fn case_value(case: &Case) -> Value {
    let needs: Vec<String> = case.needs.iter().map(ToString::to_string).collect();
    json!({
        "id": case.id, "family": case.family(), "title": case.title, "clause": case.clause, "level": case.level,
        "basis": case.basis, "side": case.side(), "smoke": case.smoke, "needs": needs, "stimulus": case.stimulus,
        "expected": case.expected,
    })
}

/// A clause as data, with its cases or excuses by side.
pub(super) fn clause_value(clause: &Clause, sides: &[Side]) -> Value {
    let mut tested = serde_json::Map::new();
    let mut excused = serde_json::Map::new();
    for side in sides.iter().filter(|side| clause.binds.includes(**side)) {
        let ids = match stand(clause, *side) {
            ClauseCoverage::Tested(own) => own.iter().map(|case| case.id).collect(),
            ClauseCoverage::Excused(reason) => {
                excused.insert(side.to_string(), reason.into());
                Vec::new()
            }
            ClauseCoverage::Open => Vec::new(),
        };
        tested.insert(side.to_string(), json!(ids));
    }
    json!({
        "id": clause.id, "binds": clause.binds, "level": clause.level, "basis": clause.basis,
        "wording": clause.wording, "cases": tested, "untestable": excused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clause without a test and without an excuse is a hole in the suite.
    #[test]
    fn every_clause_is_tested_or_excused() {
        let mut missing = Vec::new();
        for clause in clauses::all() {
            for side in [Side::Adapter, Side::Host] {
                if clause.binds.includes(side)
                    && matches!(stand(clause, side), ClauseCoverage::Open)
                {
                    missing.push(format!("{} ({side}): {}", clause.id, clause.wording));
                }
            }
        }
        assert!(
            missing.is_empty(),
            "{} without a case:\n{}",
            missing.len(),
            missing.join("\n")
        );
    }

    #[test]
    fn every_case_reports_under_a_clause_that_binds_its_side() {
        let mut ids = std::collections::HashSet::new();
        for case in cases::all() {
            assert!(ids.insert(case.id), "{} stands twice", case.id);
            let clause = clauses::find(case.clause)
                .unwrap_or_else(|| panic!("{}: [{}]", case.id, case.clause));
            // A relay is an adapter to its hub, so a host is asked for what binds adapters, too.
            let bound = clause.binds.includes(case.side()) || case.side() == Side::Host;
            assert!(bound, "{}: [{}] binds {}", case.id, clause.id, clause.binds);
            for text in [case.title, case.stimulus, case.expected] {
                assert!(
                    !text.is_empty() && !text.contains('\n'),
                    "{}: {text:?}",
                    case.id
                );
            }
        }
    }
}
