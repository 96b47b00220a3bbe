//! Turns by name, and steers ([turn.9], [turn.10]).

use crate::cases::prelude::*;

pub(super) fn id_on_all(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let s = t.agree_on(&all)?;
    let quick = t.quick();
    // What an agent says may belong to no turn ([turn.6]); what a script says belongs to its own.
    let (mut level, mut wanted) = (Level::Should, vec![]);
    let mut from = t.input_as(&s, "t-1", &quick)?;
    let mut turn = "t-1";
    if t.has_probe(&["say", "file", "ask"]) {
        t.end_of_turn(&s, turn, from, t.bounds.longest)?;
        turn = "t-2";
        (level, wanted) = (
            Level::Must,
            vec!["output", "file.output", "permission.request"],
        );
        let ask = t.action();
        let mut script = vec![
            json!(["say", "hello"]),
            json!(["file", "f.bin", "text/plain", 10]),
        ];
        if t.has_probe(&["event"]) && all.contains(&"events") {
            script.push(json!(["event", {"type":"thinking","content":"hm"}]));
            wanted.push("thinking");
        }
        script.push(json!(["ask", ask.members()]));
        from = t.probe_as(&s, turn, &json!(script))?;
        let seen = t.expect(from, &s, "permission.request")?;
        t.answer(&s, &crate::trial::Request { seen, from }, false)?;
    }
    let end = t.end_of_turn(&s, turn, from, t.bounds.longest)?;
    let mut came = t.since(from, &s);
    came.retain(|seen| seen.index < end.index);
    let (own, others): (Vec<_>, Vec<_>) = came
        .into_iter()
        .partition(|seen| seen.text("turn_id") == turn);
    if level == Level::Should && others.iter().any(|seen| seen.kind() == "output") {
        wanted.push("output");
    }
    wanted.retain(|kind| !own.iter().any(|seen| seen.kind() == *kind));
    let hello = level == Level::Should || answer_of(&own).contains("hello");
    let foreign = others.iter().any(|seen| !seen.text("turn_id").is_empty());
    if !wanted.is_empty() || !hello || foreign {
        let others: Vec<String> = others
            .iter()
            .map(|seen| format!("`{}` with turn_id {:?}", seen.kind(), seen.text("turn_id")))
            .collect();
        t.found(
            "turn.9",
            level,
            format!("turn_id {turn:?} on all of the turn"),
            others.join(", "),
        );
    }
    Ok(())
}

fn results(t: &Trial, s: &Session) -> Vec<Seen> {
    let mut results = t.of(s);
    results.retain(|seen| seen.kind() == "steer.result");
    results
}

/// Exactly one result, whenever it comes, and nothing that a turn would have.
pub(in crate::cases) fn demand_result(
    t: &mut Trial,
    s: &Session,
    turn: &str,
    message: &str,
) -> Outcome<Seen> {
    let result = |seen: &Seen| seen.is_of(s, "steer.result");
    t.wait(0, t.bounds.deadline.max(t.bounds.secs(10.0)), result);
    t.settle()?;
    let results = results(t, s);
    t.demand(results.len() == 1, "one `steer.result`", results.len())?;
    let id = results[0].text("message_id").to_owned();
    t.demand(
        id == message,
        format!("message_id {message:?}"),
        format!("{id:?}"),
    )?;
    let own: Vec<String> = t
        .of(s)
        .iter()
        .filter(|seen| seen.text("turn_id") == turn)
        .map(|seen| format!("`{}`", seen.kind()))
        .collect();
    t.demand(
        own.is_empty(),
        "nothing carries the turn_id of a steer",
        own.join(", "),
    )
    .hint("a steer belongs to the running turn; it opens none")?;
    Ok(results[0].clone())
}
