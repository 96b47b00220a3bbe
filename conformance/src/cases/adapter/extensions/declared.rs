//! Declarations of a session hold: capabilities, input modes, options ([ext.2], [ext.7]). Earlier
//! sessions can be resumed and listed (section 11.4).

use crate::cases::prelude::*;

/// Returns the last value of a member in `session.ready` and `session.info`, from a place on.
pub(in crate::cases) fn latest_since(
    t: &Trial,
    from: usize,
    s: &CaseSession,
    member: &str,
) -> Option<Value> {
    let told = t
        .since(from, s)
        .into_iter()
        .filter(|seen| matches!(seen.kind(), "session.ready" | "session.info"));
    told.filter_map(|seen| seen.get(member).filter(|value| !value.is_null()).cloned())
        .last()
}

/// Returns a capability as a session last reported it; null if it has not.
pub(in crate::cases) fn capability(t: &Trial, s: &CaseSession, name: &str) -> Value {
    latest_since(t, 0, s, "capabilities")
        .and_then(|all| all.get(name).cloned())
        .unwrap_or_default()
}

// Resuming earlier sessions.

/// Returns the `session.start.resume` that continues a session.
pub(in crate::cases) fn resume_point(t: &Trial, s: &CaseSession) -> Option<Value> {
    let mut place = json!({});
    for seen in t.of_session(s) {
        if !matches!(
            seen.kind(),
            "session.ready" | "session.info" | "turn.complete"
        ) {
            continue;
        }
        if seen.get("clear_session").is_some_and(|clear| clear == true) {
            place = json!({});
        }
        for (name, from) in [
            ("native_session_id", "native_session_id"),
            ("params", "session_params"),
        ] {
            if let Some(value) = seen.get(from).filter(|value| !value.is_null()) {
                place[name] = value.clone();
            }
        }
    }
    (place != json!({})).then_some(place)
}

/// Has a text kept in the conversation: by the probe, else by recipe `remember`.
pub(in crate::cases) fn remember(t: &mut Trial, s: &CaseSession, text: &str) -> Outcome {
    if t.has_probe(&["remember", "recall"]) {
        return t.probe_turn(s, &json!([["remember", text]])).map(drop);
    }
    let Some(recipe) = t.subject.recipes.remember.clone() else {
        return t.skip("recipe `remember` or probe operation `remember`");
    };
    t.uses(Tier::Recipe);
    t.turn(s, recipe.replace("{nonce}", text)).map(drop)
}

/// Asks for the text that was kept.
pub(in crate::cases) fn recall(t: &mut Trial, s: &CaseSession) -> Outcome<String> {
    if t.has_probe(&["remember", "recall"]) {
        let turn = t.probe_turn(s, &json!([["recall"]]))?;
        let answer = Trial::probe_answer(&turn.messages, "recalled").unwrap_or_default();
        return Ok(answer["recalled"].as_str().unwrap_or_default().to_owned());
    }
    let Some(recipe) = t.subject.recipes.recall.clone() else {
        return t.skip("recipe `recall`");
    };
    Ok(t.turn(s, recipe)?.text())
}

/// Returns an id that occurs twice in a list, as far as it was seen.
fn repeated<'a>(ids: impl Iterator<Item = (usize, &'a str)>) -> Option<String> {
    let mut turn_of = std::collections::HashMap::new();
    ids.filter(|(_, id)| !id.is_empty()).find_map(|(turn, id)| {
        let first = *turn_of.entry(id).or_insert(turn);
        (first != turn).then(|| format!("{id:?} in turn {} and in turn {}", first + 1, turn + 1))
    })
}

/// Ids that name a message or a call, over several turns of one session.
pub(super) fn names_over_turns(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["events"])?;
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(t.quick_turn(&s)?);
    }
    if let Some(text) = t.subject.recipes.permission.clone() {
        for _ in 0..2 {
            let ask = t.action();
            let from = t.input(
                &s,
                text.replace("{effect_path}", &ask.effect.display().to_string()),
            )?;
            turns.push(t.end_of(&s, from)?);
        }
    }
    let seen = |kinds: &'static [&'static str], member: &'static str| {
        turns.iter().enumerate().flat_map(move |(turn, of)| {
            let live = of
                .messages
                .iter()
                .filter(|seen| seen.get("history") != Some(&json!(true)));
            live.filter(move |seen| kinds.contains(&seen.kind()))
                .map(move |seen| (turn, seen.text(member)))
        })
    };
    let again = repeated(seen(&["output", "thinking", "message"], "message_id"));
    t.demand(again.is_none(), "another `message_id` for another message", again.clone().unwrap_or_default())
        .hint(
            "deltas with the same id are pieces of one message: count over the session, not over the turn",
        )?;
    if let Some(again) = repeated(seen(&["tool.start"], "tool_call_id")) {
        t.found(
            "ext.5",
            Level::Should,
            "another `tool_call_id` for another call",
            again,
        );
    }
    t.settle_ledger(&s)
}
