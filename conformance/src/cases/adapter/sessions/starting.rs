//! `session.start`: without it nothing is open, and a second one changes nothing.

use super::many::value_of;
use crate::cases::prelude::*;

pub(super) fn twice(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let keeps = t.has_probe(&["set", "get"]);
    if keeps {
        t.probe_turn(&s, &json!([["set", "key", "kept"]]))?;
    }
    t.tell_deviant(&s, "session.start", &json!({}))?;
    t.quick_turn(&s)?;
    if keeps {
        let value = value_of(t, &s, "key")?;
        t.demand(
            value == json!("kept"),
            "the session keeps what it knew",
            value,
        )?;
    }
    let (ends, inputs) = (1, if keeps { 2 } else { 0 });
    t.demand_ends(&s, ends + inputs)?;
    if t.has_probe(&["until_stop"]) {
        // What runs is not disturbed either.
        let from = t.busy(&s)?;
        t.tell_deviant(&s, "session.start", &json!({}))?;
        t.stop(&s)?;
        t.end_within(&s, from, t.bounds.stop)?;
    }
    Ok(())
}
