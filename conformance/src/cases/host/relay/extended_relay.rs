//! What a hub with extensions sees of each thing that happens below.

use super::super::{demand_unheard, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-RLY-13", refused)];

fn error_of(
    t: &Trial,
    s: &Session,
    from: usize,
    category: &str,
    within: std::time::Duration,
) -> Outcome<Seen> {
    let wanted = |seen: &Seen| seen.is_of(s, "error") && seen.text("category") == category;
    match t.wait(from, within, wanted) {
        None => t.late(
            format!("`error` with `{category}` within {within:.1?}"),
            t.what_came(from, s),
        ),
        Some(seen) if seen.get("fatal") == Some(&Value::Bool(true)) => {
            t.fail("`fatal: false`", "`fatal: true`")
        }
        Some(seen) if seen.text("message").is_empty() => t.fail("an error with a text", "no text"),
        Some(seen) => Ok(seen),
    }
}

/// A file that is not there, a message without its content, and a line that is too long, each
/// naming the session.
pub(super) fn refusals(t: &Trial) -> [(&'static str, Value); 3] {
    let bad = "{\"type\":\"output\",\"session_id\":\"{session_id}\",\"content\":7}\n";
    let long = t.subject.limits.max_line + (1 << 20);
    [
        (
            "file_refused",
            json!([
                ["file_at", "{tmpdir}/not-there", "x.txt", "text/plain"],
                ["complete"]
            ]),
        ),
        ("protocol", json!([["raw", bad], ["complete"]])),
        (
            "oversize",
            json!([["endless", long], ["raw", "\"}\n"], ["complete"]]),
        ),
    ]
}

fn refused(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    for (category, actions) in refusals(t) {
        let from = t.instruct(&s, &actions)?;
        t.end_within(&s, from, t.bounds.secs(20.0))?;
        let told = error_of(t, &s, from, category, t.bounds.deadline);
        // A host whose limit is higher delivers the line.
        let delivered = |seen: &Seen| {
            seen.session() == s.id() && seen.text("content").len() > t.subject.limits.max_line
        };
        if category == "oversize"
            && told.is_err()
            && t.wait(from, t.bounds.quiet, delivered).is_some()
        {
            t.note("its limit is higher than what it declares");
            continue;
        }
        match category {
            "file_refused" => told.under("file.4")?,
            _ => told?,
        };
    }
    t.settle()
}

/// Lines that must leave no trace.
fn noises(token: &str) -> Value {
    let unknown = json!({"type":"output","session_id":"never-opened","content":token});
    json!([
        ["raw", format!("{token}\n[\"{token}\"]\n\"{token}\"\n{{\"type\":\"output\",\"session_id\":\"{{session_id}}\",\"content\":\"{token}\n")],
        ["raw64", "/////wo="],
        ["emit", unknown],
        ["emit", {"type":"of.no one","content":token}],
        ["emit", {"type":"turn.complete","session_id":"never-opened"}],
        ["say", "mine"],
        ["complete"]
    ])
}

/// Has the adapter write lines that must leave no trace, and demands that none does.
pub(in crate::cases) fn demand_noise_ignored(t: &mut Trial, s: &Session) -> Outcome {
    let known = t.history.len();
    let token = t.token();
    let turn = t.act(s, &noises(&token))?;
    t.demand_text(&turn, "mine")?;
    t.settle()?;
    demand_unheard(t, &token)?;
    t.demand_no_strangers()?;
    demand_no_report(t, s, known)
}

/// Demands that nothing was reported since a place. What a relay says besides, of its work or of
/// its use, is no report.
fn demand_no_report(t: &Trial, s: &Session, from: usize) -> Outcome {
    let report = t.since(from, s).into_iter().find(|seen| {
        let beside = seen.kind() == "output" && !matches!(seen.text("channel"), "" | "stdout");
        beside || matches!(seen.kind(), "error" | "log")
    });
    match report {
        None => Ok(()),
        Some(seen) => {
            let text = format!("{}{}", seen.text("content"), seen.text("message"));
            t.fail(
                "nothing of it on the wire",
                format!("`{}`: {text:?}", seen.kind()),
            )
        }
    }
}
