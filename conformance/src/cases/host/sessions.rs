//! H-SES: sessions, kept apart, begun once and closed once.

use super::{demand_fresh_ids, demand_unheard};
use crate::cases::prelude::*;

fn start_first(t: &mut Trial) -> Outcome {
    for _ in 0..3 {
        let s = t.open()?;
        let from = t.instruct(&s, &json!([["complete"]]))?;
        // An adapter does not answer what was never started, so this is looked at first.
        t.lower(&s)?;
        demand_started(t)?;
        t.end_of(&s, from)?;
        t.turn(&s, "again")?;
    }
    t.settle()?;
    let seen = demand_started(t)?;
    t.demand(seen >= 3, "three sessions at the adapter", seen)
}

/// Demands that each id at the adapter begins with its one `session.start`, and counts them.
fn demand_started(t: &Trial) -> Outcome<usize> {
    let mut seen = HashSet::new();
    for below in t.written() {
        let id = below.seen.session().to_owned();
        if id.is_empty() {
            continue;
        }
        let first = seen.insert((below.process, id.clone()));
        let start = below.seen.kind() == "session.start";
        t.demand(
            first == start,
            format!("`session.start` of {id} first and once"),
            format!("`{}`", below.seen.kind()),
        )?;
    }
    Ok(seen.len())
}

fn fresh_ids(t: &mut Trial) -> Outcome {
    for _ in 0..25 {
        let s = t.open_known()?;
        t.close(&s)?;
    }
    let mut open = Vec::new();
    for _ in 0..25 {
        let s = t.open()?;
        let from = t.instruct(&s, &json!([["complete"]]))?;
        open.push((s, from));
    }
    for (s, from) in &open {
        t.end_of(s, *from)?;
    }
    t.settle()?;
    let sessions = demand_fresh_ids(t, "a fresh id for each session")?;
    t.demand(sessions >= 50, "50 sessions at the adapter", sessions)
}

fn ascending(t: &mut Trial) -> Outcome {
    let sessions = t.open_many(8)?;
    let mut begun = Vec::new();
    for s in &sessions {
        let one_by_one = json!([
            ["repeat", 10, [["burst", 50, 12], ["delay", 1]]],
            ["complete"]
        ]);
        begun.push(t.instruct(s, &one_by_one)?);
    }
    let wanted: String = (0..10)
        .flat_map(|_| 1..=50)
        .map(|number| format!("{number:08}xxxx"))
        .collect();
    for (s, from) in sessions.iter().zip(begun) {
        t.demand_end(s, from, &wanted)?;
    }
    Ok(())
}

fn similar_ids(t: &mut Trial) -> Outcome {
    let s = t.open_as("Session-aB-\u{e9}")?;
    t.introduce(&s)?;
    let id = t.lower(&s)?.id;
    let token = t.token();
    let swapped: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect();
    let cut: String = id.chars().take(id.chars().count() - 1).collect();
    let similar = [
        format!("{id} "),
        format!(" {id}"),
        format!("{id}\0"),
        format!("{id}\n"),
        cut,
        swapped,
        id.replace('\u{e9}', "e\u{301}"),
    ];
    let mut actions = Vec::new();
    for other in similar.iter().filter(|other| **other != id) {
        actions.push(json!(["session", other, [["say", token], ["complete"]]]));
    }
    actions.push(json!(["say", "mine"]));
    actions.push(json!(["complete"]));
    t.demand_answer(&s, &json!(actions), "mine")?;
    t.settle()?;
    demand_unheard(t, &token)?;
    t.demand_ends_now(&s, 2)
}

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-SES-01", start_first),
    ("H-SES-02", fresh_ids),
    ("H-SES-05", ascending),
    ("H-SES-11", similar_ids),
    ("H-SES-14", opened_and_closed),
];

fn opened_and_closed(t: &mut Trial) -> Outcome {
    for _ in 0..20 {
        let s = t.open()?;
        t.close(&s)?;
    }
    t.settle()?;
    let below = t.written();
    let ids = |kind: &str| -> HashSet<(u32, String)> {
        below
            .iter()
            .filter(|below| below.seen.kind() == kind)
            .map(|below| (below.process, below.seen.session().to_owned()))
            .collect()
    };
    let (starts, closes) = (ids("session.start"), ids("session.close"));
    let open = starts.difference(&closes).count();
    t.demand(
        open == 0,
        "every session that was started is closed",
        format!("{open} are not"),
    )
}
