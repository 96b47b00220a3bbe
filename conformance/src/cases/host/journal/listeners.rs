//! Several hubs, slow hubs, and the end of a session for all.

use super::{act, attach, catch_up, demand_completed, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-20", several),
    ("H-JRN-22", slow),
    ("H-JRN-23", skipping),
];

fn several(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    catch_up(t, &other, &s, 0)?;
    let actions = json!([["say", "a"], ["delay", 5], ["say", "b"], ["complete"]]);
    act(t, &hub, &s, "a", &actions)?;
    let end = act(t, &other, &s, "b", &actions)?;
    t.hear_end(&hub, &s, 0, "b")?;
    let numbers = |hub: &Hub| -> Vec<u64> {
        let entries = hub
            .entries(&s, 0)
            .into_iter()
            .map(|entry| entry.number("seq"));
        entries.filter(|seq| *seq <= end.number("seq")).collect()
    };
    let (first, second) = (numbers(&hub), numbers(&other));
    t.demand(
        first == second,
        format!("{} entries for both", first.len()),
        format!("{second:?}"),
    )?;
    let (mut heard, mut begun) = (hub.entries(&s, 0), Vec::new());
    heard.retain(|entry| entry.kind() == "turn.begin");
    for entry in &heard {
        begun.push(entry.text("by").to_owned());
    }
    let distinct = begun.len() == 2 && (begun[0] != begun[1] || begun[0].is_empty());
    t.demand(distinct, "a `by` of its own for each hub", begun.join(", "))?;
    t.leave_further_hubs();
    let end = act(t, &hub, &s, "c", &actions)?;
    demand_completed(t, &end)
}

/// A turn of 4 MB while a further hub, which has attached in this way, does not read; then it reads on.
fn flood(t: &mut Trial, on_slow: &str) -> Outcome<(Hub, Session, usize, u64)> {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    let attached = attach(t, &other, &s, 1, json!({"on_slow":on_slow}))?;
    other.pause_reading(true);
    act(
        t,
        &hub,
        &s,
        "a",
        &json!([["flood", 4 << 20, 16 << 10], ["complete"]]),
    )?;
    act(t, &hub, &s, "b", &say_and_complete("b"))?;
    other.pause_reading(false);
    let end = act(t, &hub, &s, "c", &say_and_complete("c"))?;
    Ok((other, s, attached.index, end.number("seq")))
}

fn slow(t: &mut Trial) -> Outcome {
    let (other, s, from, last) = flood(t, "wait")?;
    t.hear_end(&other, &s, from, "c")?;
    let numbers: Vec<u64> = other
        .entries(&s, from)
        .iter()
        .map(|entry| entry.number("seq"))
        .collect();
    let wanted: Vec<u64> = (2..=last).collect();
    t.demand(
        numbers == wanted,
        format!("every entry from 2 to {last}"),
        format!("{} of them", numbers.len()),
    )
}

fn skipping(t: &mut Trial) -> Outcome {
    let (other, s, from, last) = flood(t, "skip")?;
    t.hear(
        &other,
        &s,
        from,
        format!("entry {last}, or a `lag` up to it"),
        |seen| {
            seen.is_entry() && seen.number("seq") == last
                || seen.kind() == "lag" && seen.number("to") >= last
        },
    )?;
    let heard = other.heard(&s, from);
    let lags: Vec<&Seen> = heard.iter().filter(|seen| seen.kind() == "lag").collect();
    t.demand(
        !lags.is_empty(),
        "a `lag`",
        "every entry, after 4 MB that were not read",
    )?;
    let numbered = lags.iter().any(|lag| lag.get("seq").is_some());
    t.demand(!numbered, "a `lag` has no `seq`", "it has one")?;
    // The rules of the row say that nothing is missing between them.
    let skipped: u64 = lags
        .iter()
        .map(|lag| lag.number("to") + 1 - lag.number("from"))
        .sum();
    let came = heard.iter().filter(|seen| seen.is_entry()).count() as u64;
    t.demand(
        came + skipped == last - 1,
        format!("{} entries in all, come or skipped", last - 1),
        came + skipped,
    )
}
