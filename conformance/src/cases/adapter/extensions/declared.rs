//! Declarations of a session hold: capabilities, input modes, options ([ext.2], [ext.7]). Earlier
//! sessions can be resumed and listed (section 11.4).

use crate::cases::prelude::*;

/// The most sessions that are opened to see a `max_sessions` held.
const MOST_SESSIONS: u64 = 64;

/// Returns the last value of a member in `session.ready` and `session.info`.
fn latest(t: &Trial, s: &CaseSession, member: &str) -> Option<Value> {
    latest_since(t, 0, s, member)
}

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
    latest(t, s, "capabilities")
        .and_then(|all| all.get(name).cloned())
        .unwrap_or_default()
}

pub(super) fn most_sessions(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let names_turns = all.contains(&"turns");
    let of_turns = |s: CaseSession| if names_turns { s.naming_turns() } else { s };
    let first = t.agree_on(&all)?;
    let Some(declared) = capability(t, &first, "max_sessions")
        .as_u64()
        .filter(|most| *most > 0)
    else {
        return t.skip("capability `max_sessions`");
    };
    if declared > MOST_SESSIONS {
        t.note(format!(
            "of {declared} sessions {MOST_SESSIONS} were opened"
        ));
    }
    let mut open = vec![of_turns(first)];
    for _ in 1..declared.min(MOST_SESSIONS) {
        open.push(of_turns(t.open_offering(&all, &json!({}))?));
    }
    let mut begun = Vec::new();
    for s in &open {
        begun.push(t.quick_input(s)?);
    }
    let hint = "declare as many sessions as are served at a time";
    for (number, (s, from)) in open.iter().zip(begun).enumerate() {
        let expected = format!(
            "`max_sessions` {declared}: session {} is served",
            number + 1
        );
        let turn = t.end_of(s, from).hint(hint)?;
        let refused = t
            .of_kind(s, "session.closed")
            .first()
            .map(|seen| format!("closed: {}", seen.text("reason")));
        let status = turn.end.text("status");
        let failed =
            matches!(status, "failed" | "refused").then(|| format!("its turn is `{status}`"));
        if let Some(got) = refused.or(failed) {
            return t.fail(expected, got).hint(hint);
        }
    }
    // Room for the session that shows whether the program still serves.
    open.iter().try_for_each(|s| t.close(s).map(drop))
}

/// Begins a turn of this id that lasts: by the probe, else by recipe `long`.
fn lasting(t: &mut Trial, s: &CaseSession, turn: &str) -> Outcome<usize> {
    if t.has_probe(&["until_stop"]) {
        return t.busy_as(s, turn);
    }
    let Some(long) = t.subject.recipes.long.clone() else {
        return t.skip("recipe `long` or probe operation `until_stop`");
    };
    t.uses(crate::verdict::Tier::Recipe);
    let from = t.input_as(s, turn, &long)?;
    // Its first sign shows that the agent has it. One that works in silence has had time enough.
    let within = t.bounds.deadline.max(t.bounds.secs(5.0));
    t.wait(from, within, |seen| {
        seen.session() == s.id() && seen.text("turn_id") == turn
    });
    Ok(from)
}

pub(super) fn take_steers(t: &mut Trial) -> Outcome {
    let (s, ready) = t.agree(&["turns"], &json!({}))?;
    let modes = ready.list("input_modes");
    if !modes.iter().any(|mode| mode == "steer") {
        return t.skip("input mode `steer`");
    }
    let from = lasting(t, &s, "t-1")?;
    let mut reason = String::new();
    // An agent may be unable to take one at the moment; three times it is unable at all.
    for number in 1..=3 {
        let message = format!("m-{number}");
        let members = json!({
            "turn_id":format!("t-steer-{number}"),"message_id":message,"mode":"steer","content":"and briefly"
        });
        t.tell(&s, "user.input", &members)?;
        let within = t.bounds.deadline.max(t.bounds.secs(5.0));
        let of_message = |seen: &ReceivedMessage| {
            seen.session() == s.id()
                && (seen.is_with("steer.result", "message_id", &message)
                    || seen.is_with("turn.complete", "turn_id", "t-1"))
        };
        match t.wait(from, within, of_message) {
            Some(seen) if seen.kind() == "turn.complete" => {
                return t.inconclusive("the turn ended before it could be steered");
            }
            Some(seen)
                if seen
                    .get("delivered")
                    .is_some_and(|delivered| delivered == true) =>
            {
                t.tell(&s, "stop", &json!({"turn_id":"t-1"}))?;
                t.end_of_turn(&s, "t-1", from, t.bounds.stop)?;
                return Ok(());
            }
            Some(seen) => seen.text("reason").clone_into(&mut reason),
            None => "no answer while the turn runs".clone_into(&mut reason),
        }
    }
    t.fail(
        "input mode `steer`: one of three steers reaches the running turn",
        format!("none did: {reason}"),
    )
    .hint("list `steer` in `input_modes` only where the agent takes input during a turn")
}

/// The names that a member lists as `[{id}]`.
fn choices(t: &Trial, s: &CaseSession, member: &str) -> Vec<String> {
    let listed = latest(t, s, member)
        .and_then(|listed| listed.as_array().cloned())
        .unwrap_or_default();
    listed
        .iter()
        .filter_map(|choice| Some(choice["id"].as_str()?.to_owned()))
        .collect()
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Returns true if a value in force contradicts the requested one that is reported as honoured.
/// Another name for the same value does not: only another choice that the adapter itself offers
/// does.
fn contradicts(name: &str, asked: &Value, in_force: &Value, offered: &[String]) -> bool {
    let is_offered = |value: &Value| {
        value
            .as_str()
            .is_some_and(|value| offered.iter().any(|one| one == value))
    };
    match name {
        "model" | "mode" => asked != in_force && is_offered(asked) && is_offered(in_force),
        // A policy may narrow what was asked for, and never widens it.
        "allowed_tools" => strings(in_force)
            .iter()
            .any(|tool| !strings(asked).contains(tool)),
        "denied_tools" => strings(asked)
            .iter()
            .any(|tool| !strings(in_force).contains(tool)),
        _ => false,
    }
}

/// The options that `session.update` can change.
const CHANGED: [&str; 6] = [
    "model",
    "reasoning_effort",
    "mode",
    "permission_mode",
    "allowed_tools",
    "denied_tools",
];

pub(super) fn apply_options(t: &mut Trial) -> Outcome {
    let first = t.agree_on(&["options"])?;
    t.quick_turn(&first)?;
    t.settle()?;
    let models = choices(t, &first, "models");
    let modes = choices(t, &first, "modes");
    // Other values than those that are known to exist may be refused.
    let mut asked = json!({"allowed_tools":["Read"],"denied_tools":["Fetch"]});
    for (name, offered) in [("model", &models), ("mode", &modes)] {
        if let Some(last) = offered.last() {
            asked[name] = json!(last);
        }
    }
    // A mode may be a permission mode as well.
    let told: &[&str] = if modes.is_empty() {
        &["reasoning_effort", "permission_mode"]
    } else {
        &["reasoning_effort"]
    };
    for name in told {
        if let Some(told) = latest(t, &first, name) {
            asked[*name] = told;
        }
    }
    let (s, ready) = t.agree(&["options"], &asked)?;
    let applied: Vec<String> = ready
        .get("options_applied")
        .map(strings)
        .unwrap_or_default();
    let applied: Vec<&str> = CHANGED
        .into_iter()
        .filter(|name| applied.iter().any(|one| one == name))
        .collect();
    if applied.is_empty() {
        return t.skip("`options_applied` with an option that `session.update` can change");
    }
    t.quick_turn(&s)?;
    t.settle()?;
    let offered = |name: &str| {
        if name == "model" {
            &models[..]
        } else {
            &modes[..]
        }
    };
    for name in &applied {
        let Some(value) = asked.get(name).zip(latest(t, &s, name)) else {
            continue;
        };
        t.demand(
            !contradicts(name, value.0, &value.1, offered(name)),
            format!(
                "`{name}` is in `options_applied`, so {} is in force",
                value.0
            ),
            &value.1,
        )
        .hint("list what is honoured, and report the value that is in force")?;
    }
    // What was given at the start lasts as well, and the answer to an update names it.
    let within = t.bounds.deadline.max(t.bounds.secs(10.0));
    let before: Vec<Option<Value>> = applied.iter().map(|name| latest(t, &s, name)).collect();
    let at = t.tell(&s, "session.update", &json!({}))?;
    t.expect_within(at, &s, "session.info", within)?;
    t.settle()?;
    for (name, before) in applied.iter().zip(before) {
        let infos = t.since(at, &s);
        let told = infos
            .iter()
            .filter(|seen| seen.kind() == "session.info")
            .find_map(|seen| seen.get(name));
        let Some(told) = told.filter(|told| !told.is_null()).cloned() else {
            let expected = format!(
                "`{name}` in the answer to `session.update`, since `options_applied` lists it"
            );
            // The adapter has reported it, so it knows it.
            if before.is_some() {
                return t
                    .fail(expected, "absent")
                    .hint("answer `session.update` with all values now in force, changed or not");
            }
            t.should(false, expected, "absent, as it was before");
            continue;
        };
        let same = before.as_ref().is_none_or(|before| *before == told);
        t.demand(
            same,
            format!(
                "`{name}` {} still, after a turn",
                before.unwrap_or_default()
            ),
            told,
        )?;
    }
    Ok(())
}

// Resuming earlier sessions.

/// Returns the `session.start.resume` that continues a session.
fn place_of(t: &Trial, s: &CaseSession) -> Option<Value> {
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

/// Closes a session and opens another one that resumes it.
fn go_on(t: &mut Trial, s: &CaseSession, place: &Value) -> Outcome<CaseSession> {
    t.close(s)?;
    t.settle()?;
    let (again, _) = t.agree(&["resume"], &json!({"resume":place}))?;
    Ok(again)
}

/// Returns the reported context of a resumed session, after it has served a turn.
fn context(t: &mut Trial, s: &CaseSession) -> Outcome<String> {
    t.settle()?;
    Ok(latest(t, s, "context")
        .and_then(|context| Some(context.as_str()?.to_owned()))
        .unwrap_or_default())
}

/// Has a text kept in the conversation: by the probe, else by recipe `remember`.
fn remember(t: &mut Trial, s: &CaseSession, text: &str) -> Outcome {
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
fn recall(t: &mut Trial, s: &CaseSession) -> Outcome<String> {
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
        return t.inconclusive("recipe `recall` did not return what `remember` asked for");
    }
    // Facts of the conversation outlive their turn.
    t.quick_turn(&first)?;
    let Some(place) = place_of(t, &first) else {
        return t.skip("a native session id or parameters to resume with");
    };
    let second = go_on(t, &first, &place)?;
    let recalled = recall(t, &second)?;
    let knows = recalled.contains(&token);
    match &*context(t, &second)? {
        "kept" => t
            .demand(
                knows,
                "context `kept`: the conversation before the resume",
                format!("{recalled:?}"),
            )
            .hint("send `kept` only when the agent has loaded the conversation, all of its turns"),
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
                "`resume_attach`: a native session id or parameters to resume with",
                "neither",
            )
            .hint(hint);
    };
    let second = go_on(t, &first, &place)?;
    t.quick_turn(&second)?;
    match &*context(t, &second)? {
        "kept" => {}
        "" => t.should(
            false,
            "context `kept` as soon as the agent knows",
            "nothing was said",
        ),
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
fn list(t: &mut Trial, request: &str, more: &Value) -> Outcome<ReceivedMessage> {
    let asked = crate::wire::with(
        json!({"type":"sessions.list","session_id":"","request_id":request}),
        more,
    );
    let at = t.send(asked)?;
    let within = t.bounds.deadline.max(t.bounds.secs(10.0));
    let answer =
        |seen: &ReceivedMessage| seen.is_with("sessions.list.result", "request_id", request);
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

fn entries(result: &ReceivedMessage) -> Vec<Value> {
    result.list("entries")
}

pub(super) fn list_resumable_sessions(t: &mut Trial) -> Outcome {
    let mut extensions = vec!["resume"];
    let mut more = json!({});
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
