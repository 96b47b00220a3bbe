//! Permissions with options, and questions (sections 11.6 and 11.8, [permission.2] to
//! [permission.4], [ext.3]).

use super::declared::capability;
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

pub(super) fn changed_input(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    if capability(t, &s, "updated_input") == json!(true) {
        return t.skip("an adapter without capability `updated_input`");
    }
    let hint =
        "an agent that cannot run a changed input would run the original, which no one approved";
    for changed in [true, false] {
        let ask = t.action();
        let request = ask_with(t, &s, &ask, &json!({}), &[])?;
        let mut members = json!({"request_id":request.id(),"approved":true});
        // What it has asked for, where it says that, is no change.
        match request.seen.get("input") {
            _ if changed => members["updated_input"] = json!({"changed":t.token()}),
            Some(input) => members["updated_input"] = input.clone(),
            None => {}
        }
        t.tell(&s, "permission.response", &members)?;
        t.end_of(&s, request.from)?;
        let expected = if changed {
            "a changed input denies"
        } else {
            "an input as it was is approved"
        };
        let got = if changed {
            "the action has happened"
        } else {
            "the action has not happened"
        };
        t.demand(ask.done() != changed, expected, got).hint(hint)?;
    }
    t.settle_ledger(&s)
}
