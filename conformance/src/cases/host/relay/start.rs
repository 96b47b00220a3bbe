//! What a relay says and offers by itself.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] =
    &[("H-RLY-04", ready_at_once), ("H-RLY-05", own_offer)];

fn ready_at_once(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":EXTENSIONS,"ready_delay_ms":800}))?;
    let few = ["turns", "control", "of-nobody"];
    let s = t.open_offering(&few, &json!({}))?.naming_turns();
    let from = t.instruct(&s, &json!([["complete"]]))?;
    let ready = t.expect(0, &s, "session.ready")?;
    t.end_of(&s, from)?;
    let first = t
        .of(&s)
        .first()
        .map(|seen| seen.kind().to_owned())
        .unwrap_or_default();
    t.demand(
        first == "session.ready",
        "`session.ready` first",
        format!("`{first}`"),
    )?;
    let names = ready.list("extensions");
    let subset = names
        .iter()
        .all(|name| *name == "turns" || *name == "control");
    t.demand(
        subset,
        "names that the hub offered and that there are",
        format!("{names:?}"),
    )?;
    let lower = t.lower(&s)?;
    let below = t
        .below_of(&lower)
        .into_iter()
        .find(|below| below.by == Side::Adapter && below.seen.kind() == "session.ready");
    match below {
        Some(below) if below.seen.at < ready.at => {
            t.late("`session.ready` before that of the adapter", "after it")
        }
        _ => Ok(()),
    }
}

fn own_offer(t: &mut Trial) -> Outcome {
    let core = t.open_known()?;
    let some = t.open_offering(&["control"], &json!({}))?;
    t.introduce(&some)?;
    let all = full_hub::open(t)?;
    t.introduce(&all)?;
    let mut offers = Vec::new();
    for s in [&core, &some, &all] {
        let start = full_hub::demand_delivered(t, &t.lower(s)?, "session.start", 1)?.remove(0);
        let mut names: Vec<String> = start
            .get("extensions")
            .and_then(Value::as_array)
            .map(|names| names.iter().map(Value::to_string).collect())
            .unwrap_or_default();
        names.sort();
        offers.push(names.join(" "));
    }
    let same = offers.iter().all(|offer| *offer == offers[0]);
    t.demand(
        same,
        "the same offer whatever the hub offered",
        offers.join("; "),
    )
}
