//! Agents and ids.

use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-RLY-03", agents)];

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
