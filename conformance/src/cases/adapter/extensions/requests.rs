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

fn respond(
    t: &mut Trial,
    s: &Session,
    request: &Request,
    approved: bool,
    option: &str,
) -> Outcome<usize> {
    let members = json!({"request_id":request.id(),"approved":approved,"option_id":option});
    t.tell(s, "permission.response", &members)
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

fn options() -> Value {
    json!({"options":[
        {"id":"once","label":"Allow","kind":"allow_once"},
        {"id":"no","label":"Deny","kind":"reject_once"}
    ]})
}

pub(super) fn mismatch(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    let hint = "an option of a reject kind denies, and one of an allow kind allows only with `approved: true`";
    for (approved, option, happens) in [
        (true, "no", false),
        (false, "once", false),
        (true, "once", true),
    ] {
        let ask = t.action();
        let request = ask_with(t, &s, &ask, &options(), &[])?;
        respond(t, &s, &request, approved, option)?;
        t.end_of(&s, request.from)?;
        let what = format!("`approved: {approved}` with option `{option}`");
        let (wanted, got) = match happens {
            true => ("approves", "the action has not happened"),
            false => ("denies", "the action has happened"),
        };
        t.demand(ask.done() == happens, format!("{what} {wanted}"), got)
            .hint(hint)?;
    }
    t.settle_ledger(&s)
}

pub(super) fn unknown_option(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    let ask = t.action();
    let request = ask_with(t, &s, &ask, &options(), &[])?;
    respond(t, &s, &request, true, "of-nobody")?;
    t.end_of(&s, request.from)?;
    t.settle_ledger(&s)?;
    t.demand(
        !ask.done(),
        "an option that was not offered denies",
        "the action has happened",
    )
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

/// Has a question asked and returns its id and the place of its input.
fn ask_question(t: &mut Trial, s: &Session) -> Outcome<(String, usize)> {
    let script =
        json!([["question", {"prompt":"Where to?","fields":[{"id":"where","label":"Place"}]}]]);
    let from = t.probe(s, &script)?;
    let seen = t.expect(from, s, "input.request")?;
    Ok((seen.text("request_id").to_owned(), from))
}

pub(super) fn question(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["questions"])?;
    let (id, from) = ask_question(t, &s)?;
    t.tell(
        &s,
        "input.response",
        &json!({"request_id":id,"values":{"where":"a far \u{e9}"}}),
    )?;
    let turn = t.end_of(&s, from)?;
    let answer = Trial::probe_answer(&turn.messages, "cancelled").unwrap_or_default();
    t.demand(
        answer["values"]["where"] == "a far \u{e9}" && answer["cancelled"] != true,
        "the agent has the value",
        &answer,
    )?;
    t.settle_ledger(&s)
}

pub(super) fn cancelled_question(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["questions"])?;
    for answer in [
        json!({"cancelled":true}),
        json!({}),
        json!({"values":{"where":"here"},"cancelled":true}),
    ] {
        let (id, from) = ask_question(t, &s)?;
        let mut members = answer.clone();
        members["request_id"] = json!(id);
        t.tell(&s, "input.response", &members)?;
        let turn = t.end_of(&s, from).hint(
            "an answer with neither `values` nor `cancelled` counts as cancelled; it must not be dropped",
        )?;
        let got = Trial::probe_answer(&turn.messages, "cancelled").unwrap_or_default();
        t.demand(
            got["cancelled"] == true,
            format!("{answer} counts as cancelled"),
            &got,
        )?;
    }
    t.settle_ledger(&s)
}

pub(super) fn stopped_question(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["questions"])?;
    let (id, from) = ask_question(t, &s)?;
    t.stop(&s)?;
    t.end_within(&s, from, t.bounds.stop)
        .hint("a stop settles the questions of its turn as cancelled")?;
    t.tell_deviant(
        &s,
        "input.response",
        &json!({"request_id":id,"values":{"where":"late"}}),
    )?;
    t.quick_turn(&s)?;
    t.settle_ledger(&s)
}

pub(super) fn folded_question(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let prompt = t.token();
    let turn = t
        .probe_turn(
            &s,
            &json!([["question", {"prompt":prompt,"fields":[{"id":"where"}]}]]),
        )
        .hint(
            "a host without `questions` cannot answer: resolve the question as cancelled at once",
        )?;
    let shown = turn.on_channel("question");
    t.demand(
        shown.contains(&prompt),
        "the question on channel `question`",
        format!("{shown:?} there"),
    )?;
    let got = Trial::probe_answer(&turn.messages, "cancelled").unwrap_or_default();
    t.demand(got["cancelled"] == true, "the question is cancelled", &got)?;
    t.settle_ledger(&s)
}
