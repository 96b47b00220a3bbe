//! A hub that knows every extension, and a stub that agrees on some.

use crate::cases::prelude::*;

/// Opens a session that offers every extension, with more members of `session.start`, and waits for
/// its ready.
pub(in crate::cases) fn open_with(t: &mut Trial, more: &Value) -> Outcome<CaseSession> {
    let from = t.history.len();
    let s = t.open_offering(&EXTENSIONS, more)?.naming_turns();
    t.expect(from, &s, "session.ready")?;
    Ok(s)
}

/// Makes the stub execute actions in another session, whatever happens to the instructing one.
pub(in crate::cases) fn act_in(
    t: &mut Trial,
    by: &CaseSession,
    s: &CaseSession,
    actions: &Value,
) -> Outcome<TurnSeen> {
    t.act(
        by,
        &json!([["to", s.id(), [["later", 0, actions]]], ["complete"]]),
    )
}

/// Has the stub agree on these extensions where they are offered.
pub(in crate::cases) fn agreeing(t: &mut Trial, extensions: &[&str]) -> Outcome {
    t.stub_script(&json!({"extensions":extensions}))
}

/// Skips the case where the host offers none of these extensions to its adapters.
pub(in crate::cases) fn demand_any_offer(
    t: &Trial,
    lower: &StubbedSession,
    extensions: &[&str],
) -> Outcome {
    let start = t.told(lower, "session.start");
    let offer = start
        .first()
        .and_then(|start| start.get("extensions")?.as_array().cloned());
    match offer
        .unwrap_or_default()
        .iter()
        .any(|name| extensions.iter().any(|wanted| name == wanted))
    {
        true => Ok(()),
        false => t.skip(format!(
            "extension `{}` towards its adapters",
            extensions.join("` or `")
        )),
    }
}

/// Waits until the stub has written a message of a type in a session.
pub(in crate::cases) fn expect_written(
    t: &Trial,
    from: usize,
    lower: &StubbedSession,
    kind: &str,
) -> Outcome<ReceivedMessage> {
    match t.wait_written(from, lower, kind, t.bounds.secs(20.0)) {
        Some(seen) => Ok(seen),
        None => t.late(
            format!("the adapter can write `{kind}`"),
            "its stdout is not read",
        ),
    }
}

/// Waits until a process of the stub has ended.
pub(in crate::cases) fn expect_gone(
    t: &Trial,
    from: usize,
    lower: &StubbedSession,
) -> Outcome<Duration> {
    let gone = t.history.wait(from, t.bounds.secs(10.0), |_, record| {
        let of_stub = record.link == PipePair::Lower(lower.process);
        (of_stub && matches!(record.event, RecordedEvent::Exited { .. })).then_some(record.at)
    });
    gone.ok_or_else(|| Stop::Harness("the stub does not end".to_owned()))
}
