//! Permissions with options, and questions (sections 11.6 and 11.8, [permission.2] to
//! [permission.4], [ext.3]).

use crate::cases::prelude::*;

/// Has an action asked for, with more members of the request and more steps after it.
fn ask_with(
    t: &mut Trial,
    s: &Session,
    ask: &Ask,
    more: &Value,
    after: &[Value],
) -> Outcome<Request> {
    let mut script = vec![json!(["ask", wire::with(ask.members(), more)])];
    script.extend_from_slice(after);
    let from = t.probe(s, &json!(script))?;
    let seen = t.expect(from, s, "permission.request")?;
    Ok(Request { seen, from })
}

pub(super) fn late_answer(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    let ask = t.action();
    let request = ask_with(
        t,
        &s,
        &ask,
        &json!({"withdraw_ms":200}),
        &[json!(["sleep", 600])],
    )?;
    let approval = json!({"request_id":request.id(),"approved":true});
    let withdrawn = t.wait(request.from, Duration::from_millis(1_200), |seen| {
        seen.is_of(&s, "permission.cancel")
    });
    match withdrawn {
        Some(cancel) => {
            let id = cancel.text("request_id").to_owned();
            t.demand(
                id == request.id(),
                format!("the id {:?}", request.id()),
                format!("{id:?}"),
            )?;
            t.tell_deviant(&s, "permission.response", &approval)?;
        }
        None => {
            t.stop(&s)?;
            t.tell(
                &s,
                "permission.response",
                &json!({"request_id":request.id(),"approved":false}),
            )?;
        }
    }
    t.end_within(&s, request.from, t.bounds.stop)?;
    t.tell_deviant(&s, "permission.response", &approval)?;
    t.settle_ledger(&s)?;
    t.demand(
        !ask.done(),
        "an approval of a request that is settled does nothing",
        "the action has happened",
    )
    .hint("forget a request when it is settled, by whatever settled it")
}
