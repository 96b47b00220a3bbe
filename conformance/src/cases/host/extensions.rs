//! H-EXT: what hosts do with extensions, agreed on or not.

use std::{cell::RefCell, collections::HashMap};

use super::full_hub;
use crate::cases::prelude::*;

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-EXT-06", late_output)];

fn late_output(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let (from, first) = full_hub::instruct_named(t, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let below = t
        .told(&lower, "user.input")
        .first()
        .map(|seen| seen.text("turn_id").to_owned());
    let token = t.token();
    let (from, second) = full_hub::instruct_named(
        t,
        &s,
        &json!([
            ["say", "mine"],
            ["emit", {"type":"output","turn_id":below,"content":token}],
            ["say", "too"],
            ["complete"]
        ]),
    )?;
    t.end_of(&s, from)?;
    // The host may cut it; its pieces are of one turn.
    let said = RefCell::new(HashMap::<String, String>::new());
    let late = |seen: &Seen| {
        let mut said = said.borrow_mut();
        let text = said.entry(seen.text("turn_id").to_owned()).or_default();
        if seen.session() == s.id() {
            text.push_str(seen.on_channel("stdout"));
        }
        text.contains(&token)
    };
    let Some(late) = t.wait(from, t.bounds.deadline, late) else {
        return t.late("the late output is delivered", "it is not");
    };
    let of = late.text("turn_id").to_owned();
    t.demand(
        of.is_empty() || of == first,
        format!("the late output is of {first}, or of no turn"),
        format!("it is of {of}"),
    )?;
    for seen in t
        .of(&s)
        .into_iter()
        .filter(|seen| matches!(seen.text("content"), "mine" | "too"))
    {
        let of = seen.text("turn_id").to_owned();
        t.demand(
            of == second,
            format!("what the second turn says is of {second}"),
            format!("of {of:?}"),
        )?;
    }
    Ok(())
}
