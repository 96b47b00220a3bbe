//! A-MSG: the members of messages ([msg.1] to [msg.5]).

use std::collections::BTreeSet;

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] =
    &[("A-MSG-05", unknown_fields), ("A-MSG-08", channels)];

/// Unknown fields of every JSON type, some with names that mean something elsewhere.
const FIELDS: &str = "\"x_null\":null,\"x_true\":true,\"x_number\":-1.5e3,\"x_text\":\"{\\\"type\\\":\\\"stop\\\"}\",\
                      \"x_list\":[1,[null,\"a\"],{}],\"x_object\":{\"type\":\"stop\",\"session_id\":\"x\"},\
                      \"id\":7,\"error\":{},\"\":0,";

fn unknown_fields(t: &mut Trial) -> Outcome {
    let s = Session::named(t.fresh("s"));
    let id = json!(s.id());
    let line = |kind: &str, members: &str| {
        format!("{{{FIELDS}\"session_id\":{id},{members}\"type\":\"{kind}\"}}\n").into_bytes()
    };
    let content = format!("\"content\":{},", json!(t.quick()));
    t.raw(line("session.start", ""))?;
    for _ in 0..2 {
        let from = t.raw(line("user.input", &content))?;
        t.end_of(&s, from)?;
        t.raw(line("stop", ""))?;
    }
    t.demand_ends(&s, 2)?;
    t.raw(line("session.close", ""))?;
    t.fence()?;
    let from = t.history.len();
    t.raw(line("user.input", &content))?;
    t.settle()?;
    let came = t.since(from, &s).len();
    t.demand(
        came == 0,
        "a `session.close` with unknown fields closes",
        format!("{came} messages after it"),
    )
}

fn channels(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let turn = t.quick_turn(&s)?;
    let names: BTreeSet<String> = turn
        .messages
        .iter()
        .filter(|seen| seen.kind() == "output")
        .map(|seen| match seen.get("channel") {
            None | Some(Value::Null) => "none (stdout)".to_owned(),
            Some(Value::String(name)) => name.clone(),
            Some(other) => other.to_string(),
        })
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    t.note(format!(
        "channels in use: {}",
        if names.is_empty() {
            "no output".to_owned()
        } else {
            names.join(", ")
        }
    ));
    Ok(())
}
