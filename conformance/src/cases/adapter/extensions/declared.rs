//! Declarations of a session hold: capabilities, input modes, options ([ext.2], [ext.7]).

use crate::cases::prelude::*;

/// The most sessions that are opened to see a `max_sessions` held.
const MOST_SESSIONS: u64 = 64;

/// Returns the last value of a member in `session.ready` and `session.info`.
pub(in crate::cases) fn latest(t: &Trial, s: &Session, member: &str) -> Option<Value> {
    let told = t
        .of(s)
        .into_iter()
        .filter(|seen| matches!(seen.kind(), "session.ready" | "session.info"));
    told.filter_map(|seen| seen.get(member).filter(|value| !value.is_null()).cloned())
        .last()
}

/// Returns a capability as a session last reported it; null if it has not.
pub(in crate::cases) fn capability(t: &Trial, s: &Session, name: &str) -> Value {
    latest(t, s, "capabilities")
        .and_then(|all| all.get(name).cloned())
        .unwrap_or_default()
}

pub(super) fn most_sessions(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let names_turns = all.contains(&"turns");
    let of_turns = |s: Session| if names_turns { s.naming_turns() } else { s };
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
fn lasting(t: &mut Trial, s: &Session, turn: &str) -> Outcome<usize> {
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
        let of_message = |seen: &Seen| {
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
fn choices(t: &Trial, s: &Session, member: &str) -> Vec<String> {
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
    let (models, modes) = (choices(t, &first, "models"), choices(t, &first, "modes"));
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
        .hint("list what is honoured, and tell the value that is in force")?;
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
