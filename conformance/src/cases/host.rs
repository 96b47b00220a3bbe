//! What hosts are asked, by family. A host is driven as a relay; the stub below it does what its inputs say.

use std::collections::HashSet;

use crate::{
    clauses::Side,
    trial::{Session, Trial, TurnSeen},
    verdict::Outcome,
};

pub(super) mod back_pressure;
pub(super) mod extensions;
pub(super) mod files;
pub(super) mod framing;
mod full_hub;
pub(super) mod lifecycle;
pub(super) mod messages;
pub(super) mod output;
pub(super) mod permission;
pub(super) mod properties;
pub(super) mod relay;
pub(super) mod sessions;
pub(super) mod stop;
pub(super) mod turns;

/// Demands the text of a turn's answer.
fn demand_answer(t: &Trial<'_>, turn: &TurnSeen, wanted: &str) -> Outcome {
    let text = turn.text();
    t.demand(text == wanted, format!("the answer {}", shown(wanted)), shown(&text))
}

/// Demands that a text was given to nobody.
fn demand_unheard(t: &Trial<'_>, token: &str) -> Outcome {
    match t.seen_from(0).iter().find(|seen| seen.text("content").contains(token)) {
        None => Ok(()),
        Some(seen) => t.fail(
            "it is delivered to nobody",
            format!("an `{}` with it in session {:?}", seen.kind(), seen.session()),
        ),
    }
}

/// Demands how often a session was given the end of a turn.
fn demand_ends(t: &Trial<'_>, session: &Session, wanted: usize) -> Outcome {
    let ends = t.count(session, "turn.complete");
    t.demand(ends == wanted, format!("{wanted} `turn.complete` for {}", session.id()), format!("{ends}"))
}

/// Demands that the host has started no id twice in one process of the adapter below; how many it has started.
fn demand_fresh_ids(t: &Trial<'_>, wanted: &str) -> Outcome<usize> {
    let mut ids = HashSet::new();
    for below in t.below() {
        if below.by == Side::Host && below.seen.kind() == "session.start" {
            let id = below.seen.session().to_owned();
            t.demand(ids.insert((below.process, id.clone())), wanted, format!("{id} twice"))?;
        }
    }
    Ok(ids.len())
}

fn shown(text: &str) -> String {
    crate::oracle::shown(text.as_bytes())
}
