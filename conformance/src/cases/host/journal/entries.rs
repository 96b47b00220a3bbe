//! What an entry is, and when there is one.

use super::{act, again, catch_up, instruct, last_of, open, open_more};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] =
    &[("H-JRN-03", known_id), ("H-JRN-06", killed_anywhere)];

fn known_id(t: &mut Trial) -> Outcome {
    let (mut hub, s) = open(t)?;
    let closed = open_more(t, &hub, json!({}))?;
    for s in [&s, &closed] {
        act(t, &hub, s, "a", &say_and_complete("a"))?;
    }
    hub.tell(&closed, "session.close", json!({}));
    for round in 0..2 {
        if round == 1 {
            hub = again(t)?;
        }
        let starts = super::starts(t);
        for s in [&s, &closed] {
            let from = hub.start(s, json!({}));
            let refused = t.hear_kind(&hub, s, from, "session.refused")?;
            t.demand_member(&refused, "reason", "exists")?;
            let ready = hub
                .heard(s, from)
                .iter()
                .any(|seen| seen.kind() == "session.ready");
            t.demand(!ready, "no `session.ready` for it", "one")?;
        }
        t.rest(&hub)?;
        // The fence has one of its own.
        t.demand(
            super::starts(t) <= starts + 1,
            "no session at the adapter",
            "one more",
        )?;
    }
    Ok(())
}

/// Whether a text stands in a file of the journal.
pub(in crate::cases) fn is_stored(t: &Trial, text: &str) -> Outcome<bool> {
    let mut folders = vec![t.path("journal")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && contains(&std::fs::read(entry.path())?, text) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// The points of a turn behind which the host is killed.
const POINTS: [fn(&Seen) -> bool; 5] = [
    |seen| seen.kind() == "turn.begin",
    |seen| seen.kind() == "input.result",
    |seen| seen.kind() == "output",
    |seen| seen.text("content").contains('b'),
    |seen| seen.kind() == "turn.complete",
];

fn killed_anywhere(t: &mut Trial) -> Outcome {
    let (mut hub, s) = open(t)?;
    let mut known = 1;
    for (point, is_reached) in POINTS.into_iter().enumerate() {
        let turn = format!("t-{point}");
        let from = instruct(
            &hub,
            &s,
            &turn,
            &json!([["say", "a"], ["delay", 5], ["say", "b"], ["complete"]]),
        )?;
        t.hear(&hub, &s, from, format!("point {point} of a turn"), |seen| {
            let own = seen.text("turn_id") == turn || seen.kind() == "input.result";
            own && is_reached(seen)
        })?;
        t.kill_host()?;
        known = known.max(last_of(&hub, &s));
        hub = t.hub()?;
        let (attached, entries) = catch_up(t, &hub, &s, 0)?;
        let last = attached.number("last_seq");
        t.demand(
            last >= known,
            format!("the {known} entries that were heard"),
            last,
        )?;
        known = last;
        let ends = entries
            .iter()
            .filter(|seen| seen.is_with("turn.complete", "turn_id", &turn));
        let ends = ends.count();
        t.demand(ends == 1, format!("one end of {turn}"), ends)?;
    }
    Ok(())
}
