//! A-PRM: permissions ([permission.1] to [permission.5]).

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[("A-PRM-04", no_answer)];

/// Has an action asked for that can be seen when it happens.
pub(in crate::cases) fn ask_visibly(
    t: &mut Trial,
    s: &CaseSession,
    ask: &GuardedAction,
) -> Outcome<AskedPermission> {
    let recipe = t.subject.recipes.permission.as_ref();
    if !t.has_probe(&["ask"]) && !recipe.is_some_and(|recipe| recipe.contains("{effect_path}")) {
        return t.skip("recipe `permission` with {effect_path}, a file that the action makes");
    }
    t.ask(s, ask)
}

/// Answers a request, and all others that the same turn makes, until it ends: a model may ask again.
pub(in crate::cases) fn answer_to_the_end(
    t: &mut Trial,
    s: &CaseSession,
    request: &AskedPermission,
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
                let request = AskedPermission {
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

/// The action has not happened.
fn undone(t: &Trial, ask: &GuardedAction, why: &str) -> Outcome {
    t.demand(!ask.done(), "the guarded action does not happen", why)
}

fn no_answer(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let ask = t.action();
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
