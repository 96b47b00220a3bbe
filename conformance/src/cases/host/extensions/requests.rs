//! Permissions with `control`, and questions.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-09", withdrawn),
    ("H-EXT-10", asked_twice),
    ("H-EXT-11", options),
    ("H-EXT-12", question),
    ("H-EXT-13", question_at_stop),
    ("H-EXT-26", question_to_core),
    ("H-EXT-28", not_understood),
];

fn ask(request: &str, more: &Value) -> Value {
    let members = json!({"request_id":request,"tool":"Shell","description":"d","resource":request});
    json!(["ask", wire::with(members, more)])
}

fn answer(s: &Session, request: &str, members: &Value) -> Value {
    let answer = json!({"type":"permission.response","session_id":s.id(),"request_id":request});
    wire::with(answer, members)
}

fn withdrawn(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let [s, other] = t.open_each()?;
    let cancel =
        json!(["emit", {"type":"permission.cancel","request_id":"r-1","reason":"timeout"}]);
    let from = t.instruct(
        &s,
        &json!([ask("r-1", &json!({})), ["until", "asked"], cancel]),
    )?;
    t.expect(from, &s, "permission.request")?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "control")?;
    t.cue("asked")?;
    full_hub::expect_written(t, from, &lower, "permission.cancel")?;
    t.settle()?;
    t.send_deviant(answer(&s, "r-1", &json!({"approved":true})))?;
    t.settle()?;
    full_hub::act_in(t, &other, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    t.settle()?;
    full_hub::demand_delivered(t, &lower, "permission.response", 0)?;
    Ok(())
}

fn asked_twice(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let again = ask("r-1", &json!({"tool":"Other","resource":"second"}));
    let wait = json!(["wait", "permission.response", "r-1", 10_000]);
    let from = t.instruct(
        &s,
        &json!([
            ask("r-1", &json!({"resource":"first"})),
            again,
            ["say", "asked"],
            wait,
            ["complete"]
        ]),
    )?;
    t.expect(from, &s, "output")?;
    t.settle()?;
    t.send(answer(&s, "r-1", &json!({"approved":true})))?;
    t.end_of(&s, from)?;
    t.settle()?;
    let asked = t.of_kind(&s, "permission.request");
    let first = asked
        .first()
        .map(|seen| seen.text("resource"))
        .unwrap_or_default();
    t.demand(
        asked.len() == 1 && first == "first",
        "the hub is asked for the first alone",
        format!("{} requests, the first for {first:?}", asked.len()),
    )?;
    let answers = full_hub::demand_delivered(t, &t.lower(&s)?, "permission.response", 1)?;
    t.demand_member(&answers[0], "approved", true)
}

fn options(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns", "control"])?;
    let offered = json!([
        {"id":"once","label":"Allow","kind":"allow_once"},
        {"id":"always","kind":"allow_always"},
        {"id":"no","label":"Deny","kind":"reject_once"}
    ]);
    let mut actions = Vec::new();
    for request in ["r-1", "r-2", "r-3", "r-4"] {
        actions.push(ask(
            request,
            &json!({"title":"A title","options":offered,"input":{"n":[1]}}),
        ));
    }
    for request in ["r-1", "r-2", "r-3", "r-4"] {
        actions.push(json!(["wait", "permission.response", request, 10_000]));
    }
    actions.push(json!(["complete"]));
    let from = t.instruct(&s, &json!(actions))?;
    let last = |seen: &Seen| seen.is_with("permission.request", "request_id", "r-4");
    t.expect_that(from, &s, "four requests", last)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "control")?;
    let asked = t.expect(from, &s, "permission.request")?;
    for (member, wanted) in [
        ("options", &offered),
        ("title", &json!("A title")),
        ("input", &json!({"n":[1]})),
    ] {
        t.demand_member(&asked, member, wanted.clone())?;
    }
    let input = json!({"n":[2]});
    t.send(answer(
        &s,
        "r-1",
        &json!({"approved":true,"option_id":"always","updated_input":input}),
    ))?;
    t.send_deviant(answer(
        &s,
        "r-2",
        &json!({"approved":true,"option_id":"no"}),
    ))?;
    t.send_deviant(answer(
        &s,
        "r-3",
        &json!({"approved":true,"option_id":"of-nobody"}),
    ))?;
    t.send_deviant(answer(
        &s,
        "r-4",
        &json!({"approved":false,"option_id":"once"}),
    ))?;
    t.end_of(&s, from)?;
    for response in full_hub::demand_delivered(t, &lower, "permission.response", 4)? {
        let approves = response.text("request_id") == "r-1";
        t.demand_member(&response, "approved", approves)?;
        if approves {
            t.demand_member(&response, "option_id", "always")?;
            t.demand_member(&response, "updated_input", input.clone())?;
        }
    }
    Ok(())
}

fn ask_question(more: &Value) -> Value {
    json!([
        "question",
        {"request_id":"q-1","prompt":"Where to?","fields":[
            {"id":"where","label":"Place","kind":"choice","choices":[{"id":"eu"},{"id":"us"}],"required":true},
            {"id":"many","kind":"number"}
        ],"_meta":more}
    ])
}

fn question(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns", "questions"])?;
    let wait = json!(["wait", "input.response", "q-1", 10_000]);
    let from = t.instruct(
        &s,
        &json!([
            ask_question(&Value::Null),
            wait,
            ["delay", 300],
            ["complete"]
        ]),
    )?;
    let Ok(asked) = t.expect(from, &s, "input.request") else {
        full_hub::demand_offer(t, &t.lower(&s)?, "questions")?;
        return t.late("the question reaches the hub", t.what_came(from, &s));
    };
    let fields = asked.list("fields").len();
    let whole = asked.text("prompt") == "Where to?" && fields == 2;
    t.demand(
        whole,
        "its prompt and two fields",
        format!("{:?}, {fields} fields", asked.text("prompt")),
    )?;
    let values = json!({"where":"eu","many":3});
    let response =
        json!({"type":"input.response","session_id":s.id(),"request_id":"q-1","values":values});
    t.send(response.clone())?;
    t.send_deviant(response)?;
    t.end_of(&s, from)?;
    t.settle()?;
    let answers = full_hub::demand_delivered(t, &t.lower(&s)?, "input.response", 1)?;
    t.demand_member(&answers[0], "values", values)
}

fn question_at_stop(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns", "questions"])?;
    // The adapter ends the turn when it has the answer, so that nothing but the stop settles it.
    let wait = json!(["wait", "input.response", "q-1", 10_000]);
    let from = t.instruct(
        &s,
        &json!([
            ["ignore_stop"],
            ask_question(&Value::Null),
            wait,
            ["complete"]
        ]),
    )?;
    if t.expect(from, &s, "input.request").is_err() {
        full_hub::demand_offer(t, &t.lower(&s)?, "questions")?;
        return t.late("the question reaches the hub", t.what_came(from, &s));
    }
    let lower = t.lower(&s)?;
    let stopped = t.stop(&s)?;
    let cancelled = t.expect_told(stopped, &lower, "input.response")?;
    t.demand_member(&cancelled, "cancelled", true)?;
    t.end_of(&s, from)?;
    t.tell_deviant(
        &s,
        "input.response",
        &json!({"request_id":"q-1","values":{}}),
    )?;
    t.settle()?;
    full_hub::demand_delivered(t, &lower, "input.response", 1)?;
    let stop = t.told(&lower, "stop");
    let before = stop.first().is_some_and(|stop| stop.at <= cancelled.at);
    t.demand(before, "`stop` before the answers", "none, or after them")
}

fn question_to_core(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "questions"])?;
    let s = t.open_known()?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "questions")?;
    let wait = json!(["wait", "input.response", "q-1", 10_000]);
    let from = t.instruct(
        &s,
        &json!([
            ask_question(&Value::Null),
            wait,
            ["say", "on"],
            ["complete"]
        ]),
    )?;
    let turn = t.end_of(&s, from)?;
    let shown = turn.on_channel("question");
    t.demand(
        shown.contains("Where to?"),
        "the question on channel `question`",
        format!("{shown:?}"),
    )?;
    let answers = full_hub::demand_delivered(t, &lower, "input.response", 1)?;
    t.demand_member(&answers[0], "cancelled", true)
}

fn not_understood(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "questions", "control"])?;
    let s = t.open()?;
    let request = |more: Value| {
        let request =
            json!({"type":"permission.request","tool":"Shell","description":"d","resource":"r"});
        json!(["emit", wire::with(request, &more)])
    };
    t.demand_answer(
        &s,
        &json!([
            request(json!({"request_id":"r-1","tool":null})),
            request(json!({"request_id":"r-2","tool":7})),
            request(json!({})),
            request(json!({"request_id":3})),
            request(json!({"request_id":""})),
            request(json!({"request_id":"r-6","type":"permission.demand"})),
            ["emit", {"type":"input.request","request_id":"q-1"}],
            ["emit", {"type":"session.update","request_id":"r-7","model":"m"}],
            ["delay", 200],
            ["say", "on"],
            ["complete"]
        ]),
        "on",
    )?;
    t.settle()?;
    let asked = t
        .of(&s)
        .iter()
        .any(|seen| matches!(seen.kind(), "permission.request" | "input.request"));
    t.demand(!asked, "the hub is not asked", "it is")?;
    let written = t.written_to(&t.lower(&s)?);
    let written = written
        .iter()
        .find(|seen| !matches!(seen.kind(), "session.start" | "user.input"));
    let kind = written.map_or(String::new(), |seen| format!("`{}`", seen.kind()));
    t.demand(kind.is_empty(), "nothing is written to the adapter", kind)
}
