//! `result.json`.

use serde_json::{Value, json};

use super::Run;
use crate::verdict::Verdict;

/// The whole result as one object.
pub fn result_json(run: &Run<'_>) -> Value {
    let cases: Vec<Value> = run
        .results
        .iter()
        .map(|result| {
            json!({
                "id": result.case.id,
                "title": result.case.title,
                "clause": result.case.clause,
                "level": result.case.level,
                "basis": result.case.basis,
                "side": result.case.side(),
                "tier": result.tier,
                "verdict": result.verdict,
                "findings": result.findings,
                "reason": result.reason,
                "notes": result.notes,
                "duration_ms": result.took.as_secs_f64() * 1e3,
                "attempts": result.attempts,
                "seed": format!("{:x}", result.seed),
                "scored": result.scored,
            })
        })
        .collect();
    json!({
        "suite": env!("CARGO_PKG_VERSION"),
        "side": run.subject.side,
        "command": run.subject.command,
        "profile": run.plan.profile,
        "seed": format!("{:x}", run.plan.seed),
        "calibration": run.calibration,
        "cases": cases,
        "totals": {
            "pass": run.count(Verdict::Pass),
            "fail": run.count(Verdict::Fail),
            "warn": run.count(Verdict::Warn),
            "skip": run.count(Verdict::Skip),
            "unsupported": run.count(Verdict::Unsupported),
            "inconclusive": run.count(Verdict::Inconclusive),
            "flaky": run.count(Verdict::Flaky),
            "harness": run.count(Verdict::Harness),
        },
        "duration_ms": run.took.as_secs_f64() * 1e3,
        "exit": run.status(),
    })
}
