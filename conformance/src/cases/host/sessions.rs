//! H-SES: sessions, kept apart, begun once and closed once.

use super::demand_unheard;
use crate::cases::prelude::*;

/// Demands that each id at the adapter begins with its one `session.start`, and counts them.
pub(in crate::cases) fn demand_started(t: &Trial) -> Outcome<usize> {
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
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-SES-11", similar_ids)];
