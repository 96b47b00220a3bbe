//! What is agreed on, and what is not ([ext.2]).

use crate::cases::prelude::*;

/// An input whose turn is named where `turns` was offered.
pub(super) fn input(t: &mut Trial, s: &Session, offer: &[&str], turn: &str) -> Outcome<usize> {
    let quick = t.quick();
    if offer.contains(&"turns") {
        t.input_as(s, turn, &quick)
    } else {
        t.input(s, quick)
    }
}

fn listed(ready: &Seen) -> Vec<String> {
    let names = ready.list("extensions");
    names
        .iter()
        .map(|name| {
            name.as_str()
                .map_or_else(|| name.to_string(), str::to_owned)
        })
        .collect()
}

pub(super) fn subset(t: &mut Trial) -> Outcome {
    let one = t.extensions().first().copied().unwrap_or("turns");
    for offer in [&[one][..], &["zz-later", one], &["zz-later"], &[]] {
        let s = t.open_offering(offer, &json!({}))?;
        let from = input(t, &s, offer, "t-1")?;
        t.end_of(&s, from)?;
        for ready in t
            .of(&s)
            .iter()
            .filter(|seen| seen.kind() == "session.ready")
        {
            let extra: Vec<String> = listed(ready)
                .into_iter()
                .filter(|name| !offer.contains(&name.as_str()))
                .collect();
            t.demand(
                extra.is_empty(),
                format!("a subset of {offer:?}"),
                extra.join(", "),
            )
            .hint("list what both sides know: the offer, less what the adapter does not use")?;
        }
    }
    Ok(())
}

pub(super) fn version(t: &mut Trial) -> Outcome {
    for protocol in [99, 0] {
        let all = t.extensions();
        let from = t.history.len();
        if all.is_empty() {
            // An adapter that ignores offers ignores versions too.
            let s = t.open_offering(&["turns"], &json!({"protocol":protocol}))?;
            t.quick_turn(&s)?;
            continue;
        }
        let s = t.open_offering(&all, &json!({"protocol":protocol}))?;
        let ready = t.expect(from, &s, "session.ready");
        if protocol == 0 {
            // A refusal without `control` is no more than an output; what is written is judged by
            // the oracles.
            continue;
        }
        let ready = ready.hint(
            "answer a `session.start` of protocol 99 by a `session.ready` with your own version, as any other start",
        )?;
        let answered = ready.get("protocol").cloned().unwrap_or(json!(1));
        t.demand(
            answered == 1,
            "`session.ready` with `protocol` 1, the lower of 1 and 99",
            format!("`session.ready` with `protocol` {answered}"),
        )
        .hint("answer the lower of the host's version and your own")?;
        t.pass_time(t.quiet());
        let closed = t
            .of(&s)
            .into_iter()
            .find(|seen| seen.kind() == "session.closed");
        match closed {
            Some(closed) => {
                t.demand_member(&closed, "reason", "protocol").hint(
                    "end a session whose version you cannot serve for reason `protocol`, or serve it",
                )?;
            }
            None => {
                let from = input(t, &s, &all, "t-1")?;
                t.end_of(&s, from).hint(
                    "serve a session that you have answered, or end it for reason `protocol`",
                )?;
            }
        }
    }
    t.settle()
}

pub(super) fn resume(t: &mut Trial) -> Outcome {
    let never = t.token();
    let resume =
        json!({"resume":{"native_session_id":never,"params":{"from":never},"history":false}});
    let (s, _) = t.agree(&["resume"], &resume)?;
    t.quick_turn(&s)?;
    t.settle()?;
    let told: Vec<String> = t
        .of(&s)
        .iter()
        .filter(|seen| matches!(seen.kind(), "session.ready" | "session.info"))
        .map(|seen| seen.text("context").to_owned())
        .filter(|context| !context.is_empty())
        .collect();
    t.demand(
        !told.iter().any(|context| context == "kept"),
        "context `lost`, or nothing",
        "`kept`",
    )
    .hint("say `kept` only when the agent has found the session")?;
    if told.is_empty() {
        t.found(
            "ext.5",
            Level::Should,
            "`context` is reported once it is known",
            "nothing was reported",
        );
    }
    Ok(())
}
