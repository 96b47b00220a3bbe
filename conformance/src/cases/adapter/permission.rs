//! A-PRM: permissions ([permission.1] to [permission.5]).

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-PRM-01", request_says_all),
    ("A-PRM-04", no_answer),
    ("A-PRM-11", a_hundred),
    ("A-PRM-12", blocks_no_one),
    ("A-PRM-14", no_one_asked),
];

/// Has an action asked for that can be seen when it happens.
pub(in crate::cases) fn ask_visibly(t: &mut Trial, s: &Session, ask: &Ask) -> Outcome<Request> {
    let recipe = t.subject.recipes.permission.as_ref();
    if !t.has_probe(&["ask"]) && !recipe.is_some_and(|recipe| recipe.contains("{effect_path}")) {
        return t.skip("recipe `permission` with {effect_path}, a file that the action makes");
    }
    t.ask(s, ask)
}

/// Answers a request, and all others that the same turn makes, until it ends: a model may ask again.
pub(in crate::cases) fn answer_to_the_end(
    t: &mut Trial,
    s: &Session,
    request: &Request,
    approved: bool,
) -> Outcome {
    t.answer(s, request, approved)?;
    let mut from = request.seen.index + 1;
    loop {
        let next = t.wait(from, t.bounds.longest, |seen| {
            seen.session() == s.id()
                && matches!(seen.kind(), "permission.request" | "turn.complete")
        });
        match next {
            Some(seen) if seen.kind() == "permission.request" => {
                from = seen.index + 1;
                let request = Request {
                    from: request.from,
                    seen,
                };
                t.answer(s, &request, approved)?;
            }
            _ => break,
        }
    }
    t.end_of(s, request.from)?;
    Ok(())
}

/// A session in which an action is asked for.
fn asked(t: &mut Trial) -> Outcome<(Session, Ask, Request)> {
    let (s, ask) = (t.open()?, t.action());
    let request = t.ask(&s, &ask)?;
    Ok((s, ask, request))
}

/// Answers a request in a way that a host must not.
fn respond(
    t: &mut Trial,
    s: &Session,
    request_id: &str,
    approved: impl Into<Value>,
) -> Outcome<usize> {
    let members = json!({"request_id":request_id,"approved":approved.into()});
    t.tell_deviant(s, "permission.response", &members)
}

/// The action has not happened.
fn undone(t: &Trial, ask: &Ask, why: &str) -> Outcome {
    t.demand(!ask.done(), "the guarded action does not happen", why)
}

fn request_says_all(t: &mut Trial) -> Outcome {
    let (s, _, request) = asked(t)?;
    for member in ["request_id", "tool", "description", "resource"] {
        let got = request.seen.value(member);
        t.demand(got.is_string(), format!("`{member}` is a string"), &got)?;
        if member == "request_id" {
            t.demand(got != "", "`request_id` is not empty", &got)?;
        } else if got == "" {
            t.note(format!("`{member}` is empty, so a person learns less"));
        }
    }
    answer_to_the_end(t, &s, &request, false)
}

fn no_answer(t: &mut Trial) -> Outcome {
    let (s, ask) = (t.open()?, t.action());
    let request = ask_visibly(t, &s, &ask)?;
    undone(t, &ask, "it had happened when the request came")?;
    t.pass_time(Duration::from_secs(3));
    if ask.done() {
        t.found(
            "permission.3",
            Level::Must,
            "silence is not approval",
            "it was taken for one",
        );
        undone(t, &ask, "it happened without an answer")?;
    }
    let ended = t.has_come(request.from, &s, "turn.complete");
    if ended && !t.has_probe(&["ask"]) {
        // An agent may give its request up, and settle it as denied by the end of its turn.
        return t.inconclusive("the turn of recipe `permission` did not wait for an answer");
    }
    t.demand(
        !ended,
        "the turn waits for the answer",
        "it ended without one",
    )?;
    answer_to_the_end(t, &s, &request, false)?;
    undone(t, &ask, "it happened after the denial")
}

fn a_hundred(t: &mut Trial) -> Outcome {
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
        t.note(format!(
            "100 requests over 5 sessions had {} ids",
            of_all.len()
        ));
    }
    Ok(())
}

fn blocks_no_one(t: &mut Trial) -> Outcome {
    let [waits, goes_on] = t.open_each()?;
    let ask = t.action();
    let request = t.ask(&waits, &ask)?;
    let from = t.quick_input(&goes_on)?;
    let ended = t.expect(from, &goes_on, "turn.complete");
    // Answered in any case: a turn that ends only now was held up.
    t.answer(&waits, &request, false)?;
    ended.hint("wait for the answer without holding up the reading of stdin or other turns")?;
    t.end_of(&goes_on, from)?;
    t.end_of(&waits, request.from)?;
    Ok(())
}

fn no_one_asked(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    // What the adapter says of its own accord has come by then.
    t.quick_turn(&s)?;
    t.settle()?;
    let id = t.token();
    t.demand_unanswered(&s, "an answer that no one asked for is ignored", |t| {
        respond(t, &s, &id, true).map(drop)
    })?;
    t.quick_turn(&s)?;
    t.settle_ledger(&s)
}
