//! Going on with an earlier session, and listing those that can be gone on with (section 11.4).

use super::declared::{capability, latest};
use crate::cases::prelude::*;

/// Returns the `session.start.resume` that continues a session.
fn place_of(t: &Trial, s: &Session) -> Option<Value> {
    let mut place = json!({});
    for seen in t.of(s) {
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

/// Closes a session and opens another one that resumes it.
fn go_on(t: &mut Trial, s: &Session, place: &Value) -> Outcome<Session> {
    t.close(s)?;
    t.settle()?;
    let (again, _) = t.agree(&["resume"], &json!({"resume":place}))?;
    Ok(again)
}

/// Returns the reported context of a resumed session, after it has served a turn.
fn context(t: &mut Trial, s: &Session) -> Outcome<String> {
    t.settle()?;
    Ok(latest(t, s, "context")
        .and_then(|context| Some(context.as_str()?.to_owned()))
        .unwrap_or_default())
}

/// Has a text kept in the conversation: by the probe, else by recipe `remember`.
fn remember(t: &mut Trial, s: &Session, text: &str) -> Outcome {
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
fn recall(t: &mut Trial, s: &Session) -> Outcome<String> {
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

pub(super) fn keep_conversation(t: &mut Trial) -> Outcome {
    let first = t.agree_on(&["resume"])?;
    let token = t.token();
    remember(t, &first, &token)?;
    if t.tier() == Tier::Recipe && !recall(t, &first)?.contains(&token) {
        return t.inconclusive("recipe `recall` did not say back what `remember` asked for");
    }
    // What belongs to the conversation outlives the turn in which it came.
    t.quick_turn(&first)?;
    let Some(place) = place_of(t, &first) else {
        return t.skip("a native session id or parameters to go on with");
    };
    let second = go_on(t, &first, &place)?;
    let recalled = recall(t, &second)?;
    let knows = recalled.contains(&token);
    match &*context(t, &second)? {
        "kept" => t
            .demand(
                knows,
                "context `kept`: what was said before the resume",
                format!("{recalled:?}"),
            )
            .hint("say `kept` only when the agent has loaded the conversation, all of its turns"),
        _ if knows => {
            t.should(
                false,
                "context `kept`, since the agent remembers",
                "nothing of the kind",
            );
            Ok(())
        }
        _ => t.skip("a context that is kept"),
    }
}

pub(super) fn attach_when_declared(t: &mut Trial) -> Outcome {
    let first = t.agree_on(&["resume"])?;
    t.quick_turn(&first)?;
    t.settle()?;
    if capability(t, &first, "resume_attach") != json!(true) {
        return t.skip("capability `resume_attach`");
    }
    let hint = "declare `resume_attach` only where an earlier session can be gone on with";
    let Some(place) = place_of(t, &first) else {
        return t
            .fail(
                "`resume_attach`: a native session id or parameters to go on with",
                "neither",
            )
            .hint(hint);
    };
    let second = go_on(t, &first, &place)?;
    t.quick_turn(&second)?;
    match &*context(t, &second)? {
        "kept" => {}
        "" => t.should(false, "context `kept` once it is known", "nothing was said"),
        other => {
            return t
                .fail(
                    "`resume_attach`: context `kept` after a session that was closed",
                    format!("`{other}`"),
                )
                .hint(hint);
        }
    }
    t.settle_ledger(&second)
}

/// Asks for the sessions that can be resumed, and waits for the answer that names the request.
fn list(t: &mut Trial, request: &str, more: &Value) -> Outcome<Seen> {
    let asked = crate::wire::with(
        json!({"type":"sessions.list","session_id":"","request_id":request}),
        more,
    );
    let at = t.send(asked)?;
    let within = t.bounds.deadline.max(t.bounds.secs(10.0));
    let answer = |seen: &Seen| seen.is_with("sessions.list.result", "request_id", request);
    match t.wait(at, within, answer) {
        Some(seen) => Ok(seen),
        None => {
            let other = t.wait(at, std::time::Duration::ZERO, |seen| {
                seen.kind() == "sessions.list.result"
            });
            let got = other.map_or("none".to_owned(), |seen| {
                format!("one of {:?}", seen.text("request_id"))
            });
            t.late(
                format!("a `sessions.list.result` of {request:?} within {within:.1?}"),
                got,
            )
        }
    }
}

fn entries(result: &Seen) -> Vec<Value> {
    result.list("entries")
}

pub(super) fn list_resumable_sessions(t: &mut Trial) -> Outcome {
    let (mut extensions, mut more) = (vec!["resume"], json!({}));
    if t.extensions().contains(&"options") {
        extensions.push("options");
        more["cwd"] = json!(t.folder());
    }
    let mut of_session = Vec::new();
    for _ in 0..2 {
        let (s, _) = t.agree(&extensions, &more)?;
        t.quick_turn(&s)?;
        of_session.push(s);
    }
    t.settle()?;
    let mut native = Vec::new();
    for s in &of_session {
        native.extend(place_of(t, s).and_then(|place| place.get("native_session_id").cloned()));
        t.close(s)?;
    }
    t.settle()?;
    let all = list(t, "l-1", &json!({}))?;
    if let Some(error) = all.get("error").filter(|error| !error.is_null()) {
        let note = format!("no sessions are listed: {error}");
        t.note(note);
        return Ok(());
    }
    let known = entries(&all);
    if capability(t, &of_session[0], "resume_attach") == json!(true) {
        for id in &native {
            let holds = known.iter().any(|entry| entry["native_session_id"] == *id);
            t.should(
                holds,
                format!("an entry of the session {id}"),
                format!("{} entries without it", known.len()),
            );
        }
    }
    let fewer = list(t, "l-2", &json!({"limit":1}))?;
    let count = entries(&fewer).len();
    t.demand(count <= 1, "at most 1 entry with `limit` 1", count)?;
    let elsewhere = t.path("elsewhere").display().to_string();
    let foreign = entries(&list(t, "l-3", &json!({"cwd":elsewhere}))?);
    let strange = foreign
        .iter()
        .find(|entry| entry["cwd"].as_str().is_some_and(|cwd| cwd != elsewhere));
    if let Some(entry) = strange {
        return t.fail(
            format!("only entries of {elsewhere:?}, the `cwd` that was asked for"),
            &entry["cwd"],
        );
    }
    t.settle()
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
