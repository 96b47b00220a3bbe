//! Inputs: what is accepted once is one turn, however often it is sent.

use super::{act, demand_completed, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-27", turn_ids)];

fn result(t: &Trial, hub: &Hub, s: &Session, from: usize, message: &str) -> Outcome<Seen> {
    t.hear(
        hub,
        s,
        from,
        format!("the `input.result` of {message}"),
        |seen| seen.is_with("input.result", "message_id", message),
    )
}

fn turn_ids(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let actions = say_and_complete("a");
    act(t, &hub, &s, "mine", &actions)?;
    let content = Trial::instructions(&s, &actions)?;
    let mut seen = vec!["mine".to_owned()];
    for (message, members) in [("m-1", json!({"turn_id":"mine"})), ("m-2", json!({}))] {
        let input = crate::wire::with(json!({"message_id":message,"content":content}), &members);
        let from = hub.tell(&s, "user.input", input);
        let turn = result(t, &hub, &s, from, message)?
            .text("turn_id")
            .to_owned();
        let new = !turn.is_empty() && !seen.contains(&turn);
        t.demand(
            new,
            "a `turn_id` that no turn of the session has had",
            &turn,
        )?;
        let end = t.hear_end(&hub, &s, from, &turn)?;
        demand_completed(t, &end)?;
        let begin = t.hear_kind(&hub, &s, from, "turn.begin")?;
        t.demand_member(&begin, "turn_id", turn.as_str())?;
        seen.push(turn);
    }
    Ok(())
}
