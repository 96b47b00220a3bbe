//! A-PRM: permissions ([permission.1] to [permission.5]).

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    case::Case,
    clauses::{Basis, Level},
    needs::{Ability, Need},
    trial::{Ask, Request, Session, Trial},
    verdict::{FailureContext, Outcome},
};

const ASK: Need = Need::ProbeOr(&["ask"], "permission");
const PROBE: Need = Need::Probe(&["ask"]);

pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "A-PRM-01",
        title: "what a request says",
        clause: "msg.3",
        basis: Basis::Spec,
        needs: &[ASK],
        stimulus: "a guarded action; then a denial",
        expected: "`request_id`, `tool`, `description` and `resource`, for the session of the turn",
        run: request_says_all,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-02",
        title: "an approval lets it happen",
        clause: "permission.4",
        basis: Basis::Spec,
        needs: &[ASK],
        stimulus: "a guarded action, approved",
        expected: "it has happened when the turn ends; one `turn.complete`",
        run: approval,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-03",
        title: "a denial prevents it",
        clause: "permission.2",
        basis: Basis::Spec,
        needs: &[ASK],
        stimulus: "a guarded action, denied",
        expected: "it has not happened; one `turn.complete`",
        run: denial,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-04",
        title: "nothing happens before the answer",
        clause: "permission.2",
        basis: Basis::Spec,
        needs: &[ASK],
        stimulus: "a guarded action, not answered for 3 s",
        expected: "it has not happened, and the turn goes on",
        run: no_answer,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-05",
        title: "an answer to another request",
        clause: "permission.1",
        needs: &[PROBE],
        stimulus: "an approval with another `request_id`; then the right one",
        expected: "the first is ignored, the second works",
        run: other_request,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-06",
        title: "an answer in another session",
        clause: "permission.1",
        needs: &[PROBE],
        stimulus: "an approval with the right `request_id` under another session's id; then a denial",
        expected: "the first is ignored",
        run: other_session,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-07",
        title: "only true approves",
        clause: "permission.4",
        needs: &[PROBE],
        stimulus: "`approved` absent, null, \"true\", 1, 0, {} and [true]",
        expected: "each denies: the action does not happen, and the turn ends",
        run: only_true,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-08",
        title: "the first answer stands",
        clause: "permission.4",
        level: Level::Should,
        needs: &[PROBE],
        stimulus: "a denial and at once an approval of the same request",
        expected: "the action does not happen",
        run: first_answer,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-09",
        title: "two requests, answered in reverse",
        clause: "permission.1",
        needs: &[PROBE],
        stimulus: "two requests in one turn; the second is approved, then the first denied",
        expected: "each answer concerns its own action",
        run: in_reverse,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-10",
        title: "requests in two sessions",
        clause: "session.3",
        needs: &[PROBE, Need::Ability(Ability::ConcurrentTurns)],
        stimulus: "a request in each of two sessions; one is approved",
        expected: "only its own action happens; the other turn waits",
        run: two_sessions,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-11",
        title: "the ids of a hundred requests",
        clause: "permission.4",
        needs: &[PROBE],
        stimulus: "20 requests at once in each of 5 sessions",
        expected: "no two that are pending in a session have the same `request_id`",
        run: a_hundred,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-12",
        title: "a request blocks nobody",
        clause: "permission.5",
        needs: &[PROBE, Need::Ability(Ability::ConcurrentTurns)],
        stimulus: "a request that waits; an ordinary turn in another session",
        expected: "the turn is answered",
        run: blocks_nobody,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-13",
        title: "a close denies what is pending",
        clause: "permission.3",
        basis: Basis::Choice,
        needs: &[PROBE],
        stimulus: "`session.close` while a request waits; then an approval",
        expected: "silence; the action does not happen",
        run: close_denies,
        ..Case::NEW
    },
    Case {
        id: "A-PRM-14",
        title: "an answer that nobody asked for",
        clause: "permission.4",
        stimulus: "`permission.response` in a session where nothing waits; a fence and a quiet window; a turn",
        expected: "it is ignored",
        run: nobody_asked,
        ..Case::NEW
    },
];

const SETTLE_ONE: &str = "look requests up by session and `request_id`, and ignore answers to others";

/// Whether it can be seen that the action happened.
fn visible(t: &Trial<'_>) -> bool {
    t.has_probe(&["ask"])
        || t.subject.recipes.permission.as_ref().is_some_and(|recipe| recipe.contains("{effect_path}"))
}

/// Answers a request, and all others that the same turn makes, until it ends: a model may ask again.
fn answer_to_the_end(t: &mut Trial<'_>, s: &Session, request: &Request, approved: bool) -> Outcome {
    t.answer(s, request, approved)?;
    let mut from = request.seen.index + 1;
    loop {
        let next = t.wait(from, t.bounds.longest, |seen| {
            seen.session() == s.id() && matches!(seen.kind(), "permission.request" | "turn.complete")
        });
        match next {
            Some(seen) if seen.kind() == "permission.request" => {
                from = seen.index + 1;
                let request = Request { from: request.from, seen };
                t.answer(s, &request, approved)?;
            }
            _ => break,
        }
    }
    t.end_of(s, request.from)?;
    Ok(())
}

fn respond(s: &Session, request_id: &str, approved: &Value) -> Value {
    json!({
        "type":"permission.response","session_id":s.id(),"request_id":request_id,"approved":approved
    })
}

/// The action has not happened.
fn undone(t: &Trial<'_>, ask: &Ask, why: &str) -> Outcome {
    t.demand(!ask.done(), "the guarded action does not happen", why)
}

fn request_says_all(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    for member in ["request_id", "tool", "description", "resource"] {
        let got = request.seen.get(member).cloned().unwrap_or_default();
        t.demand(got.is_string(), format!("`{member}` is a string"), &got)?;
        if member != "resource" {
            t.demand(got != "", format!("`{member}` is not empty"), &got)?;
        }
    }
    answer_to_the_end(t, &s, &request, false)
}

fn approval(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    answer_to_the_end(t, &s, &request, true)?;
    if visible(t) {
        t.demand(ask.done(), "the approved action has happened when the turn ends", "it has not")?;
    }
    t.settle_ledger(&s)
}

fn denial(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    answer_to_the_end(t, &s, &request, false)?;
    t.settle_ledger(&s)?;
    undone(t, &ask, "it happened after `approved: false`")
}

fn no_answer(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    undone(t, &ask, "it had happened when the request came")?;
    t.pass_time(Duration::from_secs(3));
    if ask.done() {
        t.found("permission.3", Level::Must, "silence is no approval", "it was taken for one");
        undone(t, &ask, "it happened without an answer")?;
    }
    let ends = t.seen_from(request.from);
    let ended = ends.iter().any(|seen| seen.session() == s.id() && seen.kind() == "turn.complete");
    t.demand(!ended, "the turn waits for the answer", "it ended without one")?;
    answer_to_the_end(t, &s, &request, false)?;
    undone(t, &ask, "it happened after the denial")
}

fn other_request(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    let other = t.token();
    t.send_deviant(respond(&s, &other, &json!(true)))?;
    t.pass_time(t.quiet());
    undone(t, &ask, "an approval of another request let it happen").hint(SETTLE_ONE)?;
    t.answer(&s, &request, true)?;
    t.end_of(&s, request.from)?;
    t.demand(ask.done(), "the right approval lets it happen", "it has not happened").hint(SETTLE_ONE)?;
    t.settle_ledger(&s)
}

fn other_session(t: &mut Trial<'_>) -> Outcome {
    let (s, other) = (t.open()?, t.open()?);
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    t.send_deviant(respond(&other, request.id(), &json!(true)))?;
    t.pass_time(t.quiet());
    undone(t, &ask, "an approval in another session let it happen").hint(SETTLE_ONE)?;
    t.answer(&s, &request, false)?;
    t.end_of(&s, request.from)?;
    t.settle_ledger(&s)?;
    undone(t, &ask, "an approval in another session let it happen").hint(SETTLE_ONE)
}

fn only_true(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let bad = [None, Some(json!(null)), Some(json!("true")), Some(json!(1)), Some(json!(0)), Some(json!({}))];
    for approved in bad.into_iter().chain([Some(json!([true]))]) {
        let ask = t.action();
        let request = t.ask(&s, &ask)?;
        let mut response = respond(&s, request.id(), &Value::Null);
        match (&approved, response.as_object_mut()) {
            (Some(approved), _) => response["approved"] = approved.clone(),
            (None, Some(members)) => {
                members.remove("approved");
            }
            (None, None) => {}
        }
        t.send_deviant(response)?;
        let shown = approved.map_or_else(|| "absent".to_owned(), |approved| approved.to_string());
        t.end_of(&s, request.from)
            .hint("an answer whose `approved` is no boolean denies; it must not be dropped")?;
        undone(t, &ask, &format!("`approved` {shown} was taken for an approval"))
            .hint("compare with true; do not convert")?;
    }
    t.settle_ledger(&s)
}

fn first_answer(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    t.answer(&s, &request, false)?;
    t.send_deviant(respond(&s, request.id(), &json!(true)))?;
    t.end_of(&s, request.from)?;
    t.settle_ledger(&s)?;
    undone(t, &ask, "an approval after the denial let it happen")
}

fn in_reverse(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let asks = [t.action(), t.action()];
    let requests = t.ask_all(&s, &asks)?;
    t.answer(&s, &requests[1], true)?;
    t.answer(&s, &requests[0], false)?;
    t.end_of(&s, requests[0].from)?;
    t.demand(!asks[0].done(), "the denied action does not happen", "it has happened").hint(SETTLE_ONE)?;
    t.demand(asks[1].done(), "the approved action happens", "it has not").hint(SETTLE_ONE)?;
    t.settle_ledger(&s)
}

fn two_sessions(t: &mut Trial<'_>) -> Outcome {
    let (waits, goes_on) = (t.open()?, t.open()?);
    let (waiting, wanted) = (t.action(), t.action());
    let pending = t.ask(&waits, &waiting)?;
    let request = t.ask(&goes_on, &wanted)?;
    t.answer(&goes_on, &request, true)?;
    t.end_of(&goes_on, request.from)?;
    t.settle()?;
    t.demand(wanted.done(), "the approved action happens", "it has not")?;
    undone(t, &waiting, "the approval in another session let it happen")?;
    let ended = t.count(&waits, "turn.complete");
    t.demand(ended == 0, "the other turn waits for its own answer", "it has ended")?;
    t.answer(&waits, &pending, false)?;
    t.end_of(&waits, pending.from)?;
    undone(t, &waiting, "it happened after its denial")
}

fn a_hundred(t: &mut Trial<'_>) -> Outcome {
    let mut of_all = HashSet::new();
    for _ in 0..5 {
        let s = t.open()?;
        let asks: Vec<Ask> = (0..20).map(|_| t.action()).collect();
        let requests = t.ask_all(&s, &asks)?;
        let ids: HashSet<&str> = requests.iter().map(Request::id).collect();
        t.demand(
            ids.len() == asks.len(),
            "20 pending requests of a session have 20 ids",
            format!("{} ids", ids.len()),
        )?;
        of_all.extend(ids.into_iter().map(str::to_owned));
        for request in &requests {
            t.answer(&s, request, false)?;
        }
        t.end_of(&s, requests[0].from)?;
        t.settle_ledger(&s)?;
    }
    if of_all.len() < 100 {
        t.note(format!("100 requests over 5 sessions had {} ids", of_all.len()));
    }
    Ok(())
}

fn blocks_nobody(t: &mut Trial<'_>) -> Outcome {
    let (waits, goes_on) = (t.open()?, t.open()?);
    let ask = t.action();
    let request = t.ask(&waits, &ask)?;
    let quick = t.quick();
    let from = t.input(&goes_on, quick)?;
    let ended = t.expect(from, &goes_on, "turn.complete", t.bounds.patience);
    // Answered in any case: a turn that ends only now was held up.
    t.answer(&waits, &request, false)?;
    ended.hint("wait for the answer without holding up the reading of stdin or other turns")?;
    t.end_of(&goes_on, from)?;
    t.end_of(&waits, request.from)?;
    Ok(())
}

fn close_denies(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
    let request = t.ask(&s, &ask)?;
    let closed = t.close(&s)?;
    t.send_deviant(respond(&s, request.id(), &json!(true)))?;
    t.settle()?;
    undone(t, &ask, "an approval after `session.close` let it happen")?;
    let after: Vec<String> = t
        .seen_from(closed)
        .iter()
        .filter(|seen| seen.session() == s.id())
        .map(|seen| seen.kind().to_owned())
        .collect();
    t.demand(after.is_empty(), "nothing for a closed session", after.join(", ")).under("session.4")
}

fn nobody_asked(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    // What the adapter says of its own accord has come by then.
    t.quick_turn(&s)?;
    t.settle()?;
    let id = t.token();
    let upto = t.send_deviant(respond(&s, &id, &json!(true)))?;
    t.settle()?;
    let answers = t.seen_from(upto).iter().filter(|seen| seen.session() == s.id()).count();
    t.demand(answers == 0, "an answer that nobody asked for is ignored", t.what_came(upto, &s))?;
    t.quick_turn(&s)?;
    t.settle_ledger(&s)
}
