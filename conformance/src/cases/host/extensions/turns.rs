//! Turns with ids: who is late, who is steered, what is left open.

use std::{cell::RefCell, collections::HashMap};

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-04", minted),
    ("H-EXT-05", foreign_end),
    ("H-EXT-06", late_output),
    ("H-EXT-07", steered),
    ("H-EXT-18", tools_closed),
    ("H-EXT-29", one_at_a_time),
];

fn minted(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns"])?;
    let mut sessions = vec![t.open()?];
    for _ in 0..3 {
        t.act(&sessions[0], &json!([["complete"]]))?;
    }
    if t.subject.extensions.contains("turns") {
        let s = full_hub::open(t)?;
        for _ in 0..3 {
            t.introduce(&s)?;
        }
        sessions.push(s);
    }
    for s in &sessions {
        let lower = t.lower(s)?;
        full_hub::demand_offer(t, &lower, "turns")?;
        let mut ids = HashSet::new();
        for input in full_hub::demand_delivered(t, &lower, "user.input", 3)? {
            let id = input.text("turn_id").to_owned();
            t.demand(
                (1..=256).contains(&id.len()),
                "a `turn_id` of 1 to 256 bytes",
                format!("{id:?}"),
            )?;
            t.demand(
                ids.insert(id.clone()),
                "a `turn_id` of its own",
                format!("{id:?} twice"),
            )?;
        }
    }
    Ok(())
}

fn foreign_end(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns"])?;
    let s = t.open_known()?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let first = t
        .told(&lower, "user.input")
        .first()
        .map(|seen| seen.text("turn_id").to_owned());
    t.demand_answer(
        &s,
        &json!([
            ["emit", {"type":"turn.complete","turn_id":first}],
            ["emit", {"type":"turn.complete","turn_id":"of-nobody"}],
            ["raw", "{\"type\":\"turn.complete\",\"session_id\":\"{session_id}\"}\n"],
            ["delay", 300],
            ["say", "still"],
            ["complete"]
        ]),
        "still",
    )?;
    t.demand_ends(&s, 2)
}

fn late_output(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let (from, first) = full_hub::instruct_named(t, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let below = t
        .told(&lower, "user.input")
        .first()
        .map(|seen| seen.text("turn_id").to_owned());
    let token = t.token();
    let (from, second) = full_hub::instruct_named(
        t,
        &s,
        &json!([
            ["say", "mine"],
            ["emit", {"type":"output","turn_id":below,"content":token}],
            ["say", "too"],
            ["complete"]
        ]),
    )?;
    t.end_of(&s, from)?;
    // The host may cut it; its pieces are of one turn.
    let said = RefCell::new(HashMap::<String, String>::new());
    let late = |seen: &Seen| {
        let mut said = said.borrow_mut();
        let text = said.entry(seen.text("turn_id").to_owned()).or_default();
        if seen.session() == s.id() {
            text.push_str(seen.on_channel("stdout"));
        }
        text.contains(&token)
    };
    let Some(late) = t.wait(from, t.bounds.deadline, late) else {
        return t.late("the late output is delivered", "it is not");
    };
    let of = late.text("turn_id").to_owned();
    t.demand(
        of.is_empty() || of == first,
        format!("the late output is of {first}, or of no turn"),
        format!("it is of {of}"),
    )?;
    for seen in t
        .of(&s)
        .into_iter()
        .filter(|seen| matches!(seen.text("content"), "mine" | "too"))
    {
        let of = seen.text("turn_id").to_owned();
        t.demand(
            of == second,
            format!("what the second turn says is of {second}"),
            format!("of {of:?}"),
        )?;
    }
    Ok(())
}

fn steered(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let other = t.open()?;
    let from = t.begin_busy(&s)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let steer = |t: &mut Trial, name: &str| {
        let turn = t.fresh("turn");
        json!({"type":"user.input","session_id":s.id(),"turn_id":turn,"message_id":name,"mode":"steer","content":"left"})
    };
    let result = |name: &'static str| {
        let id = s.id().to_owned();
        move |seen: &Seen| {
            seen.kind() == "steer.result" && seen.session() == id && seen.text("message_id") == name
        }
    };

    let first = steer(t, "steer-1");
    let sent = t.send_deviant(first)?;
    let answer = t.expect_that(
        sent,
        &s,
        "a `steer.result` for a steer that no one can take",
        result("steer-1"),
    )?;
    t.demand_member(&answer, "delivered", false)?;
    t.settle()?;
    full_hub::demand_delivered(t, &lower, "user.input", 1)?;

    let told = json!([["emit", {"type":"session.info","input_modes":["steer"]}]]);
    full_hub::act_in(t, &other, &s, &told)?;
    full_hub::expect_written(t, sent, &lower, "session.info")?;
    let able = |seen: &Seen| {
        let modes = seen.list("input_modes");
        seen.session() == s.id() && modes.iter().any(|mode| mode == "steer")
    };
    t.expect_that(0, &s, "the hub learns that the agent takes steers", able)?;
    // The fence shows that the host has read it.
    t.settle()?;
    let second = steer(t, "steer-2");
    let sent = t.send(second)?;
    let answer = t.expect_that(sent, &s, "a `steer.result` for a steer", result("steer-2"))?;
    t.demand_member(&answer, "delivered", true)?;
    let told = full_hub::demand_delivered(t, &lower, "user.input", 2)?;
    let passed = &told[1];
    t.demand_member(passed, "mode", "steer")?;
    t.demand_member(passed, "message_id", "steer-2")?;
    t.stop(&s)?;
    t.end_of(&s, from)?;
    t.demand_ends(&s, 1)
}

fn tools_closed(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns", "events"])?;
    let start =
        |call: &str| json!(["emit", {"type":"tool.start","tool_call_id":call,"tool":"Shell"}]);
    let turn = t.act(
        &s,
        &json!([
            start("call-1"),
            start("call-2"),
            ["emit", {"type":"tool.end","tool_call_id":"call-2","content":"fine"}],
            ["complete"]
        ]),
    )?;
    full_hub::demand_offer(t, &t.lower(&s)?, "events")?;
    t.settle()?;
    for (call, is_error) in [("call-1", true), ("call-2", false)] {
        let mut ends = t.of_kind(&s, "tool.end");
        ends.retain(|seen| seen.text("tool_call_id") == call);
        let in_turn = ends.iter().all(|seen| seen.index < turn.end.index);
        t.demand(
            ends.len() == 1 && in_turn,
            format!("one `tool.end` of {call} before the end of the turn"),
            format!("{}", ends.len()),
        )?;
        let failed = ends[0].get("is_error") == Some(&Value::Bool(true));
        t.demand(
            failed == is_error,
            format!("`is_error: {is_error}` of {call}"),
            failed,
        )?;
    }
    Ok(())
}

fn one_at_a_time(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns"])?;
    let s = t.open()?;
    let from = t.begin(&s, &json!([["say", "busy"], ["delay", 300], ["complete"]]))?;
    let second = t.instruct(&s, &say_and_complete("next"))?;
    t.end_of(&s, from)?;
    t.end_of(&s, second)?;
    let lower = t.lower(&s)?;
    let inputs = full_hub::demand_delivered(t, &lower, "user.input", 2)?;
    let ended = full_hub::expect_written(t, 0, &lower, "turn.complete")?;
    t.should(
        inputs[1].at > ended.at,
        "the second input after the end of the first turn",
        "before it",
    );
    Ok(())
}
