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

pub(super) fn core_only(t: &mut Trial) -> Outcome {
    /// The types of the core; types that no one knows are another matter ([msg.2]).
    const BEYOND: [&str; 26] = [
        "session.ready",
        "session.info",
        "session.closed",
        "steer.result",
        "thinking",
        "message",
        "tool.start",
        "tool.update",
        "tool.end",
        "plan",
        "progress",
        "log",
        "error",
        "custom",
        "usage",
        "context.usage",
        "compaction",
        "rate_limit",
        "sessions.list.result",
        "input.request",
        "pong",
        "working",
        "permission.cancel",
        "agents.list.result",
        "session.attach",
        "flow.pause",
    ];
    let s = t.open()?;
    t.quick_turn(&s)?;
    let scripts = [
        json!([["event", {"type":"thinking","content":"hm"}]]),
        json!([["event", {"type":"tool.start","tool_call_id":"c-1","tool":"Edit"}]]),
        json!([["event", {"type":"usage","input_tokens":1}], ["event", {"type":"working"}]]),
        json!([["info", {"model":"other"}]]),
        json!([["complete", {"status":"completed","summary":"done","num_turns":1}]]),
        json!([["question", {"prompt":"Which one?","fields":[{"id":"a"}]}]]),
        json!([["fail", "asked to fail"]]),
    ];
    for script in scripts {
        let ops: Vec<&str> = script
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|op| op[0].as_str())
            .collect();
        if t.has_probe(&ops) {
            t.probe_turn(&s, &script)?;
        }
    }
    t.settle_ledger(&s)?;
    let beyond: Vec<String> = t
        .of(&s)
        .iter()
        .map(|seen| seen.kind().to_owned())
        .filter(|kind| BEYOND.contains(&kind.as_str()))
        .collect();
    // The fields are judged by O-SHAPE.
    t.demand(
        beyond.is_empty(),
        "the four types of the core",
        beyond.join(", "),
    )
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
