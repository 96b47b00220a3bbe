//! Endings, updates, pings and tool calls (sections 11.2, 11.5 and 11.8, [session.8], [ext.3], [ext.7]).

use std::{cell::Cell, collections::BTreeMap};

use crate::cases::prelude::*;

pub(super) fn closed(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    let line = |script: &Value| {
        wire::line_of(
            &json!({"type":"user.input","session_id":s.id(),"content":Trial::script(script)}),
        )
    };
    let both = [
        line(&json!([["sleep", 400], ["close_session", "finished"]])),
        line(&json!([["say", "late"]])),
    ];
    let from = t.raw_valid(both.concat())?;
    let closed = t.expect_within(
        from,
        &s,
        "session.closed",
        t.bounds.deadline.max(t.bounds.stop),
    )?;
    t.settle()?;
    let (mut ends, mut after) = (0, Vec::new());
    for seen in t.of(&s) {
        ends += usize::from(seen.kind() == "turn.complete" && seen.index < closed.index);
        if seen.index > closed.index {
            after.push(format!("`{}`", seen.kind()));
        }
    }
    t.demand(
        after.is_empty(),
        "nothing after `session.closed`",
        after.join(", "),
    )?;
    t.demand(
        ends == 2,
        "the ends of both turns before `session.closed`",
        ends,
    )
    .hint("end the running turn and each queued one, then write `session.closed`")
}

pub(super) fn update(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["options"])?;
    // What the adapter learns of its agent at the start has come by then.
    t.quick_turn(&s)?;
    t.settle()?;
    let hint = "answer each `session.update` by one `session.info` with the values in force, changed or not";
    for rounds in [1, 7] {
        let (wanted, infos) = (3 * rounds, infos_for_updates(t, &s, rounds)?);
        let expected = format!("{wanted} `session.info` for {wanted} `session.update`");
        t.demand(infos >= wanted, &expected, infos).hint(hint)?;
        // What an adapter learns by itself it tells at any time; so many are answers.
        if infos < 2 * wanted {
            return Ok(());
        }
        if rounds > 1 {
            return t.fail(expected, infos).hint(hint);
        }
    }
    Ok(())
}

/// How many `session.info` come after three updates, so many times.
fn infos_for_updates(t: &mut Trial, s: &Session, rounds: usize) -> Outcome<usize> {
    let from = t.history.len();
    for _ in 0..rounds {
        for members in [
            json!({"model":"no-such-model"}),
            json!({"reasoning_effort":"low"}),
            json!({}),
        ] {
            t.tell(s, "session.update", &members)?;
        }
    }
    // An adapter that asks its agent first takes its time.
    let come = Cell::new(0);
    t.wait(from, t.bounds.deadline.max(t.bounds.secs(10.0)), |seen| {
        come.set(come.get() + usize::from(seen.is_of(s, "session.info")));
        come.get() >= 3 * rounds
    });
    t.settle()?;
    Ok(t.since(from, s)
        .iter()
        .filter(|seen| seen.kind() == "session.info")
        .count())
}

/// Takes what a message says of the values in force; what it does not name stays.
fn take_values(values: &mut BTreeMap<&'static str, Value>, info: &Seen) {
    for name in [
        "model",
        "reasoning_effort",
        "mode",
        "permission_mode",
        "allowed_tools",
        "denied_tools",
    ] {
        if let Some(value) = info.get(name).filter(|value| !value.is_null()) {
            values.insert(name, value.clone());
        }
    }
}

pub(super) fn update_lasts(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["options"])?;
    t.quick_turn(&s)?;
    let within = t.bounds.deadline.max(t.bounds.secs(10.0));
    let first = t.tell(
        &s,
        "session.update",
        &json!({"model":"model-2","reasoning_effort":"low"}),
    )?;
    t.expect_within(first, &s, "session.info", within)?;
    t.quick_turn(&s)?;
    t.settle()?;
    let last = t.tell(&s, "session.update", &json!({}))?;
    t.expect_within(last, &s, "session.info", within)?;
    // An agent may change its values by itself; then it has said so.
    let (mut told, mut now) = (BTreeMap::new(), BTreeMap::new());
    for info in t
        .of_kind(&s, "session.info")
        .iter()
        .filter(|info| info.index >= first)
    {
        take_values(
            if info.index < last {
                &mut told
            } else {
                &mut now
            },
            info,
        );
    }
    for (name, value) in told {
        let got = now.remove(name).unwrap_or_else(|| value.clone());
        t.demand(
            got == value,
            format!("`{name}` {value} still, after a turn"),
            got,
        )
        .hint("what session.update changes belongs to the session, not to its next turn")?;
    }
    Ok(())
}

pub(super) fn ping(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["control"])?;
    let from = t.busy(&s)?;
    let flood = t.open()?;
    t.probe(&flood, &json!([["burst", 1_000, 20_000]]))?;
    let bound = t.bounds.secs(1.0);
    for nonce in [
        json!("n-1"),
        json!(7),
        json!({"a":[1,null]}),
        json!(""),
        json!([true]),
        json!("n-6"),
    ] {
        let at = t.history.len();
        let began = std::time::Instant::now();
        t.send(json!({"type":"ping","session_id":"","nonce":nonce}))?;
        let pong = t.wait(at, t.bounds.deadline, |seen| seen.kind() == "pong");
        let Some(pong) = pong else {
            return t
                .late(format!("a `pong` within {bound:.1?}"), "none")
                .hint("answer pings where stdin is read, whatever the turns do");
        };
        let took = began.elapsed();
        let got = pong.value("nonce");
        t.demand(got == nonce, format!("the nonce {nonce}"), got)?;
        if took > bound {
            return t.late(
                format!("a `pong` within {bound:.1?}"),
                format!("after {took:.1?}"),
            );
        }
    }
    t.stop(&s)?;
    t.end_within(&s, from, t.bounds.stop)?;
    t.stop(&flood)?;
    t.end_within(&flood, from, t.bounds.stop)?;
    Ok(())
}
