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

/// No `turn.complete` of the session since a place in the history.
fn still_runs(t: &Trial, s: &Session, from: usize, why: &str) -> Outcome {
    let ended = t.has_come(from, s, "turn.complete");
    t.demand(!ended, "the running turn goes on", why)
        .hint("compare the `turn_id` of a `stop` with that of the running turn")
}

/// A session of an adapter that takes steers.
fn steerable(t: &mut Trial) -> Outcome<Session> {
    let (s, ready) = t.agree(&["turns"], &json!({}))?;
    let modes = ready.list("input_modes");
    if modes.iter().any(|mode| mode == "steer") {
        Ok(s)
    } else {
        t.skip("input mode `steer`")
    }
}

fn results(t: &Trial, s: &Session) -> Vec<Seen> {
    let mut results = t.of(s);
    results.retain(|seen| seen.kind() == "steer.result");
    results
}

fn steer_as(t: &mut Trial, s: &Session, turn: &str, message: &str) -> Outcome<usize> {
    let members =
        json!({"turn_id":turn,"message_id":message,"mode":"steer","content":"and briefly"});
    t.tell(s, "user.input", &members)
}

/// Exactly one result, whenever it comes, and nothing that a turn would have.
fn demand_result(t: &mut Trial, s: &Session, turn: &str, message: &str) -> Outcome<Seen> {
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

pub(super) fn steer(t: &mut Trial) -> Outcome {
    let s = steerable(t)?;
    let from = t.busy_as(&s, "t-1")?;
    steer_as(t, &s, "t-2", "m-1")?;
    // Some tell the result only when the turn is over.
    t.pass_time(Duration::from_millis(300));
    still_runs(t, &s, from, "the steer has ended a turn")?;
    t.tell(&s, "stop", &json!({"turn_id":"t-1"}))?;
    t.end_of_turn(&s, "t-1", from, t.bounds.stop)?;
    demand_result(t, &s, "t-2", "m-1")?;
    let ends = t.count(&s, "turn.complete");
    t.demand(ends == 1, "one `turn.complete`, that of the turn", ends)
}

pub(super) fn idle_steer(t: &mut Trial) -> Outcome {
    let s = steerable(t)?;
    let quick = t.quick();
    let from = t.input_as(&s, "t-1", &quick)?;
    t.end_of_turn(&s, "t-1", from, t.bounds.longest)?;
    steer_as(t, &s, "t-2", "m-1")?;
    let result = demand_result(t, &s, "t-2", "m-1")?;
    let delivered = result.value("delivered");
    t.demand(delivered == false, "`delivered: false`", delivered)?;
    let ends = t.count(&s, "turn.complete");
    t.demand(
        ends == 1,
        "no `turn.complete` for the steer",
        format!("{ends} for one turn"),
    )
}
