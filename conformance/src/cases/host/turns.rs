//! H-TRN: a turn ends when the adapter says so, once.

use std::cell::RefCell;

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-TRN-01", one_end),
    ("H-TRN-02", not_before),
    ("H-TRN-03", output_before_end),
    ("H-TRN-04", stray_end),
    ("H-TRN-05", idle_end),
    ("H-TRN-06", between_turns),
    ("H-TRN-07", never_ends),
    ("H-TRN-08", other_session),
    ("H-TRN-09", during_a_turn),
    ("H-TRN-10", empty_input),
];

fn one_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let from = t.instruct(&s, &say_and_complete("hello"))?;
    t.expect_within(
        from,
        &s,
        "turn.complete",
        t.bounds.deadline.max(t.bounds.secs(5.0)),
    )?;
    t.demand_end(&s, from, "hello")?;
    t.demand_ends(&s, 1)
}

fn not_before(t: &mut Trial) -> Outcome {
    t.open_known()?;
    let s = t.open()?;
    let from = t.instruct(
        &s,
        &json!([["say", "early"], ["delay", 3000], ["complete"]]),
    )?;
    t.expect_within(from, &s, "output", t.bounds.secs(1.5))?;
    let end = t.end_of(&s, from)?.end;
    let lower = t.lower(&s)?;
    match t.wait_written(0, &lower, "turn.complete", t.bounds.secs(6.0)) {
        Some(said) if said.at <= end.at => Ok(()),
        _ => t.fail(
            "the end of the turn after the adapter's `turn.complete`",
            "it comes before",
        ),
    }
}

fn output_before_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let word = |n: usize| format!("{n} ");
    let mut messages: Vec<Value> = (0..200)
        .map(|n| json!({"type":"output","content":word(n)}))
        .collect();
    messages.push(json!({"type":"turn.complete"}));
    t.demand_answer(
        &s,
        &json!([["many", messages]]),
        &(0..200).map(word).collect::<String>(),
    )
}

fn stray_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.act(
        &s,
        &json!([["complete"], ["emit", {"type":"turn.complete"}]]),
    )?;
    // Read before the second input is written, or no host could tell whose it is.
    t.settle()?;
    t.demand_answer(
        &s,
        &json!([["delay", 700], ["say", "late"], ["complete"]]),
        "late",
    )?;
    t.demand_ends(&s, 2)
}

fn idle_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.act(
        &s,
        &json!([
            ["complete"],
            ["delay", 150],
            ["complete"],
            ["complete"],
            ["pid"]
        ]),
    )?;
    if t.wait_logged(0, t.bounds.secs(20.0), |act| act["ev"] == "pid")
        .is_none()
    {
        return t.late(
            "the adapter can write `turn.complete`",
            "no one reads its stdout",
        );
    }
    // Read before the next input is written, or no host could tell whose they are.
    t.demand_ends(&s, 1)?;
    t.demand_served(&s, "next")?;
    t.demand_ends(&s, 2)
}

fn between_turns(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(&s, &json!([["complete"], ["delay", 200], ["say", token]]))?;
    let text = RefCell::new(String::new());
    let heard = |seen: &crate::trial::Seen| {
        if seen.session() == s.id() {
            text.borrow_mut().push_str(seen.on_channel("stdout"));
        }
        text.borrow().contains(&token)
    };
    let heard = t.wait(turn.end.index, t.bounds.deadline, heard).is_some();
    t.demand(heard, "the output between turns is delivered", "it is not")
}

fn never_ends(t: &mut Trial) -> Outcome {
    let [s, other] = t.open_each()?;
    t.begin(&s, &json!([["ignore_stop"], ["say", "on"]]))?;
    let lower = t.lower(&s)?;
    let stopped = t.stop(&s)?;
    t.expect_told_within(stopped, &lower, "stop", t.bounds.secs(1.0))?;
    t.demand_served(&other, "served")?;
    let closed = t.close(&s)?;
    t.expect_told_within(closed, &lower, "session.close", t.bounds.secs(2.0))?;
    Ok(())
}

fn other_session(t: &mut Trial) -> Outcome {
    let (a, b) = (t.open_known()?, t.open()?);
    let from_b = t.begin_busy(&b)?;
    let from_a = t.instruct(
        &a,
        &json!([
            ["to", b.id(), [["complete"]]],
            ["until", "ended"],
            ["say", "still"],
            ["complete"]
        ]),
    )?;
    let end_b = t.end_of(&b, from_b)?.end;
    t.cue("ended")?;
    let turn_a = t.end_of(&a, from_a)?;
    t.demand_text(&turn_a, "still")?;
    t.demand(
        end_b.index < turn_a.end.index,
        "the turn of the first goes on",
        "it ended with the other",
    )?;
    t.demand_ends(&a, 2)?;
    t.demand_ends_now(&b, 1)
}

fn during_a_turn(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let from = t.begin(&s, &json!([["say", "busy"], ["delay", 500], ["complete"]]))?;
    let second = t.input(&s, token.as_str())?;
    t.end_of(&s, from)?;
    let turn = t.end_of(&s, second)?;
    t.demand_ends(&s, 2)?;
    let lower = t.lower(&s)?;
    let times = t
        .told(&lower, "user.input")
        .iter()
        .filter(|seen| seen.text("content") == token)
        .count();
    if times == 0 && !turn.on_channel("system").is_empty() {
        return Ok(());
    }
    t.demand(
        times == 1,
        "the second input reaches the adapter once",
        format!("{times} times"),
    )
}

fn empty_input(t: &mut Trial) -> Outcome {
    let s = t.open_known()?;
    let turn = t.turn(&s, "")?;
    t.demand_ends(&s, 2)?;
    let lower = t.lower(&s)?;
    let inputs = t.told(&lower, "user.input").len() - 1;
    let refused = !turn.on_channel("system").is_empty();
    t.demand(
        inputs == 1 || (inputs == 0 && refused),
        "one input at the adapter, or a refusal",
        format!("{inputs} inputs"),
    )
}
