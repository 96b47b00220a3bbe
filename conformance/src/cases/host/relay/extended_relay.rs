//! What a hub with extensions sees of each thing that happens below.

use super::super::{demand_unheard, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-07", turn_ended),
    ("H-RLY-09", process_ended),
    ("H-RLY-11", request_settled),
    ("H-RLY-13", refused),
];

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

fn turn_ended(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    t.introduce(&s)?;
    let exits = json!([["stderr", 12], ["say", "busy"], ["delay", 100], ["exit", 3]]);
    let killed = json!([["delay", 50], ["abort"]]);
    for (actions, member, number, delivered) in [
        (exits, "exit_code", 3, "yes"),
        (killed, "signal", 9, "unknown"),
    ] {
        let (from, turn_id) = full_hub::instruct_named(t, &s, &actions)?;
        let end = t.end_of(&s, from)?.end;
        t.demand_member(&end, "turn_id", turn_id)?;
        t.demand_member(&end, "status", "failed")?;
        let error = end.value("error");
        t.demand(
            error["category"] == "process_exit",
            "category `process_exit`",
            &error["category"],
        )?;
        let text = error["message"].as_str().unwrap_or_default();
        t.demand(!text.is_empty(), "a text that says what happened", "none")?;
        if member == "exit_code" {
            t.demand(
                text.contains("eeeeeeeeeeee"),
                "the last words of stderr in the text",
                format!("{text:?}"),
            )?;
        }
        t.demand_member(&end, member, number)?;
        t.demand_member(&end, "delivered", delivered)?;
    }
    t.settle()
}

fn process_ended(t: &mut Trial) -> Outcome {
    let (s, other) = (full_hub::open(t)?, full_hub::open(t)?);
    for s in [&s, &other] {
        t.introduce(s)?;
    }
    let (lower, lower_other) = (t.lower(&s)?, t.lower(&other)?);
    t.act(&s, &json!([["complete"], ["delay", 100], ["exit", 4]]))?;
    let from = t.history.len();
    full_hub::expect_gone(t, 0, &lower)?;
    let both = lower.process == lower_other.process;
    for s in [&s, &other].into_iter().take(if both { 2 } else { 1 }) {
        error_of(
            t,
            s,
            from.saturating_sub(2),
            "process_exit",
            t.bounds.secs(1.0),
        )?;
    }
    Ok(())
}

fn request_settled(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control", "questions"])?;
    let (s, other) = (full_hub::open(t)?, t.open()?);
    let from = t.instruct(
        &s,
        &json!([
            ["ask", {"request_id":"r-1","tool":"Shell","description":"d","resource":"r"}],
            ["question", {"request_id":"q-1","prompt":"Where to?"}]
        ]),
    )?;
    t.expect(from, &s, "permission.request")?;
    let lower = t.lower(&s)?;
    let questions = full_hub::demand_offer(t, &lower, "questions").is_ok();
    let mut requests = vec![("r-1", "permission.response")];
    if questions {
        t.expect(from, &s, "input.request")?;
        requests.push(("q-1", "input.response"));
    }
    full_hub::act_in(t, &other, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    for (request, _) in &requests {
        t.expect_that(
            from,
            &s,
            format!("`permission.cancel` for {request}"),
            |seen| seen.is_with("permission.cancel", "request_id", request),
        )?;
    }
    t.tell_deviant(
        &s,
        "permission.response",
        &json!({"request_id":"r-1","approved":true}),
    )?;
    t.tell_deviant(
        &s,
        "input.response",
        &json!({"request_id":"q-1","values":{"answer":"x"}}),
    )?;
    t.settle()?;
    for (request, kind) in requests {
        let answer = full_hub::demand_delivered(t, &lower, kind, 1)?.remove(0);
        match request {
            "q-1" => t.demand_member(&answer, "cancelled", true)?,
            _ => t.demand_member(&answer, "approved", false)?,
        }
    }
    Ok(())
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
