//! Cases for hosts, by family. A host is driven as a relay; its inputs control the stub below it.

use crate::cases::prelude::*;

pub(super) mod back_pressure;
pub(super) mod delivery;
pub(super) mod extensions;
pub(super) mod files;
pub(super) mod full_hub;
pub(super) mod journal;
pub(super) mod lifecycle;
pub(super) mod permission;
pub(super) mod properties;
pub(super) mod relay;

/// Demands that a text was delivered nowhere.
pub(super) fn demand_unheard(t: &Trial, token: &str) -> Outcome {
    match t
        .seen_from(0)
        .iter()
        .find(|seen| seen.text("content").contains(token))
    {
        None => Ok(()),
        Some(seen) => t.fail(
            "it is delivered nowhere",
            format!(
                "an `{}` with it in session {:?}",
                seen.kind(),
                seen.session()
            ),
        ),
    }
}

/// The types of the core that a host may write.
const CORE: [&str; 6] = [
    "session.start",
    "user.input",
    "file.input",
    "permission.response",
    "stop",
    "session.close",
];

/// Demands that the host wrote only types of the core.
pub(super) fn demand_core(t: &Trial, expected: &str) -> Outcome {
    let beyond = t
        .written()
        .into_iter()
        .find(|below| !CORE.contains(&below.seen.kind()));
    let kind = beyond.map_or(String::new(), |below| format!("`{}`", below.seen.kind()));
    t.demand(kind.is_empty(), expected, kind)
}

/// Demands that each id at the adapter begins with its one `session.start`, and counts them.
pub(super) fn demand_started(t: &Trial) -> Outcome<usize> {
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

/// Demands that the host has started no id twice in one process of the adapter below; how many it
/// has started.
pub(super) fn demand_fresh_ids(t: &Trial, wanted: &str) -> Outcome<usize> {
    let mut ids = HashSet::new();
    for below in t
        .written()
        .into_iter()
        .filter(|below| below.seen.kind() == "session.start")
    {
        let id = below.seen.session().to_owned();
        t.demand(
            ids.insert((below.process, id.clone())),
            wanted,
            format!("{id} twice"),
        )?;
    }
    Ok(ids.len())
}

fn shown(text: &str) -> String {
    crate::oracle::shown(text.as_bytes())
}
