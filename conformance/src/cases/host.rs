//! Cases for hosts, by family. A host is driven as a relay; its inputs control the stub below it.

use crate::cases::prelude::*;

pub(super) mod delivery;
pub(super) mod full_hub;
pub(super) mod journal;
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

/// Demands the host's answers to a request at the adapter: `true` or `false` each.
pub(super) fn demand_answers(
    t: &Trial,
    lower: &StubbedSession,
    id: &str,
    wanted: &[bool],
) -> Outcome {
    let told = t.told(lower, "permission.response").into_iter();
    let of_request = told.filter(|seen| seen.text("request_id") == id);
    let got: Value = of_request
        .map(|seen| seen.get("approved").cloned().unwrap_or(json!("absent")))
        .collect();
    let wanted = json!(wanted);
    t.demand(
        got == wanted,
        format!("`approved` of {id} at the adapter: {wanted}"),
        got,
    )
}

fn shown(text: &str) -> String {
    crate::oracle::shown(text.as_bytes())
}
