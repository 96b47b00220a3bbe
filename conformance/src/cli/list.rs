//! `list`: every clause with level, basis and cases, or the reason why it cannot be tested.

use std::io::Write as _;

use clap::Args;
use serde_json::json;

use crate::{cases, clauses, clauses::Side};

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Cases instead of clauses
    #[arg(long)]
    cases: bool,
}

pub(super) fn list(arguments: &ListArguments) -> u8 {
    let mut out = anstream::stdout().lock();
    let text = match (arguments.cases, arguments.json) {
        (true, false) => case_lines(),
        (true, true) => format!("{}\n", json!({"cases": case_values()})),
        (false, false) => clause_lines(),
        (false, true) => format!("{}\n", json!({"clauses": clause_values(), "cases": case_values()})),
    };
    // A reader that has seen enough may close the pipe.
    let _ = out.write_all(text.as_bytes());
    super::exit::CONFORMANT
}

fn case_lines() -> String {
    cases::all()
        .map(|case| {
            let level = case.level.to_string();
            let smoke = if case.smoke { "smoke" } else { "" };
            format!(
                "{:<10} {:<14} {:<6} {:<7} {:<5} {}\n",
                case.id, case.clause, level, case.basis, smoke, case.title
            )
        })
        .collect()
}

fn clause_lines() -> String {
    let mut text = String::new();
    for clause in clauses::all() {
        let head = format!("{:<14} {:<7} {:<6} {:<7}", clause.id, clause.binds, clause.level, clause.basis);
        text.push_str(&format!("{head} {}\n", clause.wording));
        for side in [Side::Adapter, Side::Host] {
            if !clause.binds.includes(side) {
                continue;
            }
            let ids: Vec<&str> =
                cases::of(side).filter(|case| case.clause == clause.id).map(|case| case.id).collect();
            match clause.excuse(side) {
                Some(reason) if ids.is_empty() => {
                    text.push_str(&format!("    {side}: not tested: {reason}\n"))
                }
                _ => text.push_str(&format!("    {side}: {}\n", ids.join(" "))),
            }
        }
    }
    text
}

fn case_values() -> Vec<serde_json::Value> {
    cases::all()
        .map(|case| {
            json!({
                "id": case.id, "title": case.title, "clause": case.clause, "level": case.level, "basis": case.basis,
                "side": case.side(), "smoke": case.smoke, "stimulus": case.stimulus, "expected": case.expected,
            })
        })
        .collect()
}

fn clause_values() -> Vec<serde_json::Value> {
    clauses::all()
        .iter()
        .map(|clause| {
            json!({
                "id": clause.id, "binds": clause.binds, "level": clause.level, "basis": clause.basis,
                "wording": clause.wording,
                "untestable": {"adapter": clause.excuse(Side::Adapter), "host": clause.excuse(Side::Host)},
            })
        })
        .collect()
}
