//! Requests that the hub must never see, and those that it must see though they say too little.

use super::{answer_of, answered, demand_answers};
use crate::cases::prelude::*;

pub(super) fn incomplete(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let said = [
        json!({"description":"run it"}),
        json!({"resource":"rm -r logs"}),
        json!({}),
        json!({"description":null,"resource":null}),
        json!({"description":7,"resource":["rm"]}),
    ];
    for (n, said) in said.iter().enumerate() {
        let (id, tool, approved) = (format!("r-{n}"), format!("{token}-{n}"), n % 2 == 0);
        let request = wire::with(json!({"request_id":id,"tool":tool}), said);
        let script = json!([
            ["ask", request],
            answered(&id),
            ["say", "went on"],
            ["complete"]
        ]);
        let from = t.instruct(&s, &script)?;
        let seen = t.expect_that(from, &s, "the `permission.request` for the hub", |seen| {
            seen.is_with("permission.request", "tool", &tool)
        })?;
        for member in ["description", "resource"] {
            let (got, given) = (seen.get(member), said[member].as_str());
            let holds = match (got.and_then(Value::as_str), given) {
                (Some(got), Some(given)) => got == given,
                (Some(got), None) => member == "resource" || got.contains(&tool),
                (None, _) => false,
            };
            let wanted = given.map_or_else(
                || "a text of the host's".to_owned(),
                |given| format!("{given:?}"),
            );
            t.demand(holds, format!("`{member}`: {wanted}"), json!(got))?;
        }
        t.send(answer_of(&s, &seen, approved))?;
        t.demand_end(&s, from, "went on")?;
        t.settle()?;
        demand_answers(t, &t.lower(&s)?, &id, &[approved])?;
    }
    Ok(())
}
