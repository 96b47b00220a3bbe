//! What a hub learns of the sessions of a journal without attaching to one.

use super::{act, again, instruct, open, open_more, starts};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-32", listed)];

/// The most pages that a list of a few sessions may have.
const PAGES: usize = 100;

fn listed(t: &mut Trial) -> Outcome {
    let (hub, detached) = open(t)?;
    act(t, &hub, &detached, "a", &say_and_complete("a"))?;
    let hub = again(t)?;
    let (idle, running) = (
        open_more(t, &hub, json!({}))?,
        open_more(t, &hub, json!({}))?,
    );
    let closed = open_more(t, &hub, json!({}))?;
    for s in [&idle, &closed] {
        act(t, &hub, s, "b", &say_and_complete("b"))?;
    }
    let from = instruct(&hub, &running, "c", &json!([["say", "c"], ["ignore_stop"]]))?;
    t.hear_kind(&hub, &running, from, "output")?;
    hub.tell(&closed, "session.close", json!({}));
    // What comes behind it is answered by a host that has closed it.
    t.rest(&hub)?;
    let begun = starts(t);

    let all = [
        (&detached, "detached"),
        (&idle, "idle"),
        (&running, "running"),
        (&closed, "closed"),
    ];
    let whole = demand(t, &hub, json!({"limit":1}), &all)?;
    for one in all {
        demand(t, &hub, json!({"state":one.1}), &[one])?;
        demand(t, &hub, json!({"id":one.0.id()}), &[one])?;
        demand(
            t,
            &hub,
            json!({"text":one.0.id().to_uppercase(),"limit":1}),
            &[one],
        )?;
    }
    let agent = &whole
        .first()
        .map(|first| first["agent_id"].clone())
        .unwrap_or_default();
    demand(t, &hub, json!({"agent_id":agent}), &all)?;
    for none in [
        json!({"agent_id":format!("not-{}", agent.as_str().unwrap_or_default())}),
        json!({"cwd":"/no/session/is/here"}),
        json!({"id":idle.id(),"state":"closed"}),
    ] {
        demand(t, &hub, none, &[])?;
    }
    let wrong = ask(t, &hub, &json!({"cursor":"no `next` of any answer"}))?;
    let says = wrong.get("error").is_some() && wrong.get("sessions").is_none();
    t.demand(
        says,
        "`error` and no `sessions` for a cursor that is no `next`",
        shown(&wrong),
    )?;
    let more = starts(t) - begun;
    t.demand(
        more == 0,
        "no session is opened for a list",
        format!("{more} at the adapter"),
    )
}

/// One answer.
fn ask(t: &mut Trial, hub: &Hub, more: &Value) -> Outcome<Seen> {
    let request = t.fresh("list");
    let asked = json!({"type":"sessions.list","session_id":"","request_id":request,"extensions":["journal"]});
    let from = hub.say(wire::with(asked, more));
    t.hear(
        hub,
        &Session::named(""),
        from,
        "`sessions.list.result`",
        |seen| seen.is_with("sessions.list.result", "request_id", &request),
    )
}

fn shown(answer: &Seen) -> Value {
    Value::Object(answer.message().clone())
}

/// The sessions of all pages.
fn list(t: &mut Trial, hub: &Hub, filter: &Value) -> Outcome<Vec<Value>> {
    let limit = filter
        .get("limit")
        .and_then(Value::as_u64)
        .unwrap_or(u64::MAX);
    let (mut found, mut asked) = (Vec::new(), filter.clone());
    for _ in 0..PAGES {
        let page = ask(t, hub, &asked)?;
        let Some(sessions) = page.get("sessions").and_then(Value::as_array) else {
            return t.fail("`sessions`", shown(&page));
        };
        let most = format!("{limit} sessions at most");
        t.demand(
            sessions.len() as u64 <= limit,
            most,
            format!("{} of them", sessions.len()),
        )?;
        found.extend(sessions.iter().cloned());
        let Some(next) = page.get("next") else {
            return Ok(found);
        };
        asked = wire::with(filter.clone(), &json!({"cursor":next}));
    }
    t.fail(
        "a last page, without `next`",
        format!("{PAGES} pages of {filter}"),
    )
}

/// Demands that these are listed, each once and doing this, in any order.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a case writes its filter in place"
)]
fn demand(
    t: &mut Trial,
    hub: &Hub,
    filter: Value,
    wanted: &[(&Session, &str)],
) -> Outcome<Vec<Value>> {
    let row = |id: &str, state: &str| format!("{id} {state}");
    let text = |one: &Value, member: &str| one[member].as_str().unwrap_or_default().to_owned();
    let mut wanted: Vec<_> = wanted.iter().map(|(s, state)| row(s.id(), state)).collect();
    wanted.sort();
    let expected = format!("each once for {filter}: {}", wanted.join(", "));
    let found = list(t, hub, &filter)?;
    let mut got: Vec<_> = found
        .iter()
        .map(|one| row(&text(one, "session_id"), &text(one, "state")))
        .collect();
    got.sort();
    t.demand(got == wanted, expected, got.join(", "))?;
    Ok(found)
}
