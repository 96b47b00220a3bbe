//! What is offered, what is agreed on, and what waits for it.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-01", whole_offer),
    ("H-EXT-02", no_waiting),
    ("H-EXT-03", not_before_ready),
    ("H-EXT-14", not_honoured),
];

fn whole_offer(t: &mut Trial) -> Outcome {
    t.open_known()?;
    if !t.subject.extensions.is_empty() {
        let s = full_hub::open(t)?;
        t.introduce(&s)?;
    }
    t.settle()?;
    for below in t
        .written()
        .into_iter()
        .filter(|below| below.seen.kind() == "session.start")
    {
        let (protocol, extensions) = (below.seen.get("protocol"), below.seen.get("extensions"));
        let names = extensions.and_then(Value::as_array);
        let whole = match (protocol, extensions) {
            (None, None) => true,
            (Some(protocol), Some(_)) => {
                *protocol == json!(1)
                    && names.is_some_and(|names| names.iter().all(Value::is_string))
            }
            _ => false,
        };
        let got = format!("protocol {protocol:?}, extensions {extensions:?}");
        t.demand(
            whole,
            "`protocol` 1 and an array of `extensions`, or neither",
            got,
        )?;
    }
    Ok(())
}

fn no_waiting(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":EXTENSIONS,"ready_delay_ms":800}))?;
    let s = t.open_known()?;
    let below = t.below_of(&t.lower(&s)?);
    let at = |by: Side, kind: &str| {
        below
            .iter()
            .find(|below| below.by == by && below.seen.kind() == kind)
            .map(|below| below.seen.at)
    };
    match (
        at(Side::Host, "user.input"),
        at(Side::Adapter, "session.ready"),
    ) {
        (_, None) => t.skip("an extension towards its adapters"),
        (Some(input), Some(ready)) if input < ready => Ok(()),
        _ => t.late(
            "`user.input` before the adapter's `session.ready`",
            "it comes after it",
        ),
    }
}

fn not_before_ready(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["options"],"ready_delay_ms":400}))?;
    let s = full_hub::open(t)?;
    let id = s.id().to_owned();
    t.send(json!({"type":"session.update","session_id":id,"model":"model-2"}))?;
    if t.subject.extensions.contains("flow") {
        t.send(json!({"type":"flow.pause","session_id":id}))?;
        t.send(json!({"type":"flow.resume","session_id":id}))?;
    }
    if t.subject.extensions.contains("control") {
        t.send(json!({"type":"ping","session_id":"","nonce":1}))?;
    }
    t.demand_served(&s, "served")?;
    t.expect(0, &s, "session.info")?;
    t.settle()?;
    let lower = t.lower(&s)?;
    let mut agreed = false;
    let mut below = t.below();
    // The stub may log what it has written behind what that set off.
    below.sort_by_key(|below| below.seen.at);
    for below in below {
        let of_session = below.process == lower.process && below.seen.session() == lower.id;
        match below.by {
            Side::Adapter => agreed |= of_session && below.seen.kind() == "session.ready",
            Side::Host if super::super::CORE.contains(&below.seen.kind()) => {}
            Side::Host => {
                let allowed = of_session && agreed && below.seen.kind() == "session.update";
                let got = format!(
                    "`{}`, and `session.ready` has come: {agreed}",
                    below.seen.kind()
                );
                t.demand(allowed, "only `session.update`, after `session.ready`", got)?;
            }
        }
    }
    Ok(())
}

fn not_honoured(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["options"],"ready":{"options_applied":["denied_tools"]}}))?;
    let kept = full_hub::open_with(t, &json!({"denied_tools":["Shell"]}))?;
    let turn = t.act(&kept, &say_and_complete("served"))?;
    full_hub::demand_offer(t, &t.lower(&kept)?, "options")?;
    t.demand_text(&turn, "served")?;

    let s = full_hub::open_with(t, &json!({"max_cost_usd":0.5}))?;
    let from = t.instruct(&s, &say_and_complete("unrestricted"))?;
    let told = |seen: &crate::trial::Seen| {
        seen.session() == s.id()
            && (seen.kind() == "session.closed" || seen.is_with("output", "channel", "system"))
    };
    let refused = t.wait(0, t.bounds.deadline, told);
    t.settle()?;
    let written = t.written().into_iter().any(|below| {
        below.seen.kind() == "user.input"
            && crate::trial::named_in(below.seen.text("content")).as_deref() == Some(s.id())
    });
    t.demand(!written, "no input reaches the adapter", "one does")?;
    match refused {
        None => t.late(
            "the hub learns that the session is refused",
            t.what_came(from, &s),
        ),
        Some(seen) if seen.kind() == "session.closed" => {
            t.demand_member(&seen, "reason", "refused")
        }
        Some(_) => Ok(()),
    }?;
    // The fence of the settling closes its own session.
    let until = Instant::now() + t.bounds.deadline;
    loop {
        let closed = t
            .written()
            .iter()
            .filter(|below| below.seen.kind() == "session.close")
            .count();
        if closed >= 2 {
            return Ok(());
        }
        if Instant::now() > until {
            return t.late(
                "`session.close` for the refused session",
                format!("{closed} in all"),
            );
        }
        t.pass_time(Duration::from_millis(20));
    }
}
