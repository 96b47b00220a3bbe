//! What a reader tolerates in fields that it may do without ([msg.2], [msg.5] to [msg.7]).

use super::negotiation;
use crate::cases::prelude::*;

/// Opens a session with a `session.start` that breaks a rule in one of its optional fields.
fn open_oddly(t: &mut Trial, members: &Value) -> Outcome<Session> {
    let id = t.fresh("odd");
    let s = Session::named(id);
    t.tell_deviant(&s, "session.start", members)?;
    Ok(s)
}

/// Sends an input with odd members; its turn is answered.
fn answered(t: &mut Trial, s: &Session, turn: Option<&str>, odd: &Value) -> Outcome {
    let mut members = json!({"content":t.quick()});
    if let Some(turn) = turn {
        members["turn_id"] = json!(turn);
    }
    let from = t.tell_deviant(s, "user.input", &wire::with(members, odd))?;
    let shown: String = odd.to_string().chars().take(60).collect();
    t.end_of(s, from).hint(&format!(
        "the input with {shown} stands; what is odd counts as absent"
    ))?;
    Ok(())
}

pub(super) fn meta(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let turns = all.contains(&"turns");
    let large = json!({"a":"x".repeat(70 << 10)});
    for (n, meta) in [json!(7), json!("x"), json!([1]), large]
        .into_iter()
        .enumerate()
    {
        let s = open_oddly(t, &json!({"protocol":1,"extensions":all,"_meta":meta}))?;
        let turn = format!("t-{n}");
        answered(
            t,
            &s,
            turns.then_some(turn.as_str()),
            &json!({"_meta":meta}),
        )?;
        t.settle_ledger(&s)?;
    }
    Ok(())
}

pub(super) fn future(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let turns = all.contains(&"turns");
    let mut offer = all.clone();
    offer.insert(0, "zz-later");
    let s = t.open_offering(&offer, &json!({"system_prompt_mode":"zz-later"}))?;
    let from = negotiation::input(t, &s, &offer, "t-1")?;
    t.end_of(&s, from)?;
    answered(t, &s, turns.then_some("t-2"), &json!({"mode":"zz-later"}))?;
    // Nothing runs: with a reason that no one knows it is a stop like any other.
    t.tell_deviant(&s, "stop", &json!({"reason":"zz-later"}))?;
    answered(t, &s, turns.then_some("t-3"), &json!({"mode":"turn"}))?;
    t.settle_ledger(&s)
}

pub(super) fn types(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    for start in [
        json!({"protocol":1,"extensions":"turns"}),
        json!({"protocol":1,"extensions":["turns",7]}),
        json!({"protocol":"one","extensions":[]}),
        json!({"protocol":1,"extensions":all,"model":7,"allowed_tools":["a",1],"variables":{"a":1},"resume":"x"}),
    ] {
        // An offer that is not an array of strings is none: the session is core-only.
        let turns = start["extensions"]
            .as_array()
            .is_some_and(|offer| offer.iter().all(Value::is_string))
            && all.contains(&"turns")
            && start["extensions"]
                .as_array()
                .is_some_and(|offer| !offer.is_empty());
        let s = open_oddly(t, &start)?;
        answered(t, &s, turns.then_some("t-1"), &json!({}))?;
        t.settle_ledger(&s)?;
    }
    let s = if all.is_empty() {
        t.open()?
    } else {
        t.agree_on(&all)?
    };
    let turns = all.contains(&"turns");
    answered(t, &s, None, &json!({"turn_id":5}))?;
    answered(t, &s, turns.then_some("t-2"), &json!({"message_id":{}}))?;
    answered(t, &s, turns.then_some("t-3"), &json!({"mode":7}))?;
    let path = t.path("typed.txt");
    std::fs::write(&path, "a file")?;
    t.tell_deviant(
        &s,
        "file.input",
        &json!({"file_name":7,"file_mime_type":[],"file_path":path}),
    )?;
    t.tell_deviant(&s, "stop", &json!({"reason":7,"turn_id":[]}))?;
    answered(t, &s, turns.then_some("t-4"), &json!({}))?;
    t.settle_ledger(&s)
}
