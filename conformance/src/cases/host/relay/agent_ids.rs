//! Agents and ids.

use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-01", unknown_agent),
    ("H-RLY-03", agents),
    ("H-RLY-31", reserved),
    ("H-RLY-33", own_list),
];

/// An agent that no host has.
const UNKNOWN: &str = "no-agent-has-this-name";

fn unknown_agent(t: &mut Trial) -> Outcome {
    let mut told = Vec::new();
    if t.subject.extensions.contains("control") {
        let s = t.open_offering(&EXTENSIONS, &json!({"agent_id":UNKNOWN}))?;
        let end = t.expect(0, &s, "session.closed")?;
        t.demand_member(&end, "reason", "unknown_agent")?;
        told.push((s, 0));
    }
    let s = t.open_offering(&["options"], &json!({"agent_id":UNKNOWN}))?;
    let said = |seen: &Seen| seen.is_of(&s, "output") && seen.text("channel") == "system";
    t.expect_that(0, &s, "an `output` on `system` that says why", said)?;
    for ends in 1..=2 {
        let from = t.input(&s, "Is anyone there?")?;
        let turn = t.end_of(&s, from)?;
        let why = !turn.on_channel("system").is_empty();
        t.demand(
            why,
            "each input is answered by `output` on `system` and an end",
            format!("{ends}: no text"),
        )?;
    }
    told.push((s, 2));
    t.settle()?;
    for (s, ends) in &told {
        t.demand_ends_now(s, *ends)?;
        let reached = t.below().iter().any(|below| below.seen.session() == s.id());
        t.demand(
            !reached,
            "nothing reaches an adapter",
            "the session is opened there",
        )?;
    }
    let asked = t
        .written()
        .iter()
        .any(|below| below.seen.text("content") == "Is anyone there?");
    t.demand(!asked, "no input reaches an adapter", "one does")
}

fn agents(t: &mut Trial) -> Outcome {
    let from = t.send(json!({"type":"agents.list","session_id":"","request_id":"q-1"}))?;
    let result = |seen: &Seen| seen.kind() == "agents.list.result";
    let Some(result) = t.wait(from, t.bounds.deadline.max(t.bounds.start), result) else {
        return t.late("an `agents.list.result`", "none");
    };
    t.demand(
        result.text("request_id") == "q-1" && result.get("session_id") == Some(&json!("")),
        "the request_id `q-1` and the empty session_id",
        format!("{:?}", result.text("request_id")),
    )?;
    let agents = result.list("agents");
    let mut ids = HashSet::new();
    for agent in &agents {
        let id = agent["id"].as_str().unwrap_or_default().to_owned();
        t.demand(
            !id.is_empty() && ids.insert(id.clone()),
            "an id of its own for each agent",
            agent,
        )?;
        let state = &agent["state"];
        let known = state.is_null()
            || ["idle", "running", "failed"]
                .iter()
                .any(|known| state == known);
        t.demand(known, "a `state` of idle, running or failed", state)?;
    }
    t.demand(!agents.is_empty(), "an agent at least", "none")?;
    if t.subject.extensions.contains("options") && t.subject.lacks(&[Need::SecondAdapter]).is_none()
    {
        let mut processes = HashSet::new();
        for agent in &agents {
            let s: Session = t.open_offering(&["options"], &json!({"agent_id":agent["id"]}))?;
            t.introduce(&s)?;
            processes.insert(t.lower(&s)?.process);
        }
        t.demand(
            agents.len() >= 2 && processes.len() == agents.len(),
            "two agents at least, each with a process of its own",
            format!("{} agents, {} processes", agents.len(), processes.len()),
        )?;
    }
    t.settle()?;
    let results = t
        .seen_from(0)
        .iter()
        .filter(|seen| seen.kind() == "agents.list.result")
        .count();
    t.demand(results == 1, "one `agents.list.result`", results)
}

fn reserved(t: &mut Trial) -> Outcome {
    let s = t.open_offering(&["journal", "control"], &json!({"journal":true}))?;
    t.tell_deviant(&s, "session.attach", &json!({"seq":1,"journal":{}}))?;
    t.demand_served(&s, "served")?;
    t.settle()?;
    for seen in t
        .written()
        .into_iter()
        .map(|below| below.seen)
        .chain(t.of(&s))
    {
        let names = seen.list("extensions");
        let named = seen.kind() == "session.attach"
            || seen.get("seq").is_some()
            || seen.get("journal").is_some()
            || names.iter().any(|name| name == "journal");
        t.demand(
            !named,
            "no reserved name",
            format!("a `{}` with one", seen.kind()),
        )?;
    }
    Ok(())
}

fn own_list(t: &mut Trial) -> Outcome {
    let list = json!({"type":"sessions.list","session_id":""});
    let from = t.send(wire::with(list.clone(), &json!({"request_id":"default"})))?;
    let of_unknown = json!({"request_id":"unknown","agent_id":UNKNOWN});
    t.send(wire::with(list, &of_unknown))?;
    // The relay may start a process for its answer.
    let within = t.bounds.deadline.max(t.bounds.start);
    for request in ["default", "unknown"] {
        let is_answer = |seen: &Seen| seen.is_with("sessions.list.result", "request_id", request);
        let Some(answer) = t.wait(from, within, is_answer) else {
            return t.late(
                format!("a `sessions.list.result` of the request {request}"),
                "none",
            );
        };
        let entries = answer.get("entries").and_then(Value::as_array);
        let lists = entries.is_some_and(|entries| {
            entries
                .iter()
                .all(|entry| entry["agent_id"].as_str().is_some_and(|id| !id.is_empty()))
        });
        let expected = if request == "unknown" {
            "`error` for an agent that does not exist"
        } else {
            "`error`, or `entries` with an `agent_id` each"
        };
        t.demand(
            !answer.text("error").is_empty() || lists && request != "unknown",
            expected,
            Value::Object(answer.message().clone()),
        )?;
    }
    t.settle()?;
    let results = t
        .seen_from(from)
        .iter()
        .filter(|seen| seen.kind() == "sessions.list.result")
        .count();
    t.demand(results == 2, "one result for each request", results)
}
