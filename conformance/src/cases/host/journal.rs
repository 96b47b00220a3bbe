//! H-JRN: what a relay that keeps a journal owes its hubs (SPEC.md, section 13).
//!
//! The folder of the journal is the case's own. A case may kill the host and start it again on that folder.

use crate::cases::prelude::*;

/// Makes the stub agree on everything that a journal can report.
pub(in crate::cases) fn prepare(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["turns","events","usage","resume","options","questions"]}))
}

/// Opens another session, and waits until this hub has received its first entry.
pub(in crate::cases) fn open_more(t: &mut Trial, hub: &Hub, more: Value) -> Outcome<CaseSession> {
    let s = t.journaled();
    let from = hub.start(&s, more);
    t.hear_kind(hub, &s, from, "host.fact")?;
    Ok(s)
}

/// The host once more, on the journal that the one before it has left, and a hub of its own.
pub(in crate::cases) fn again(t: &mut Trial) -> Outcome<Hub> {
    t.kill_host()?;
    t.hub()
}

/// Has the stub carry out actions in a turn of this id; returns the input's place in the history.
pub(in crate::cases) fn instruct(
    hub: &Hub,
    s: &CaseSession,
    turn: &str,
    actions: &Value,
) -> Outcome<usize> {
    Ok(hub.input(
        s,
        turn,
        &format!("m-{turn}"),
        &Trial::instructions(s, actions)?,
    ))
}

/// Attaches, and waits for the answer.
pub(in crate::cases) fn attach(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    after: u64,
    more: Value,
) -> Outcome<ReceivedMessage> {
    let from = hub.attach(s, after, more);
    t.hear_kind(hub, s, from, "session.attached")
}

/// Attaches, and waits for all entries that there are; they are behind the answer.
pub(in crate::cases) fn catch_up(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    after: u64,
) -> Outcome<(ReceivedMessage, Vec<ReceivedMessage>)> {
    let attached = attach(t, hub, s, after, json!({}))?;
    let last = attached.number("last_seq");
    if last > after {
        t.hear(hub, s, attached.index, format!("entry {last}"), |seen| {
            seen.is_entry() && seen.number("seq") == last
        })?;
    }
    let entries = hub.entries(s, attached.index);
    Ok((attached, entries))
}

/// Demands that a turn ended well, which an absent status also means.
pub(in crate::cases) fn demand_completed(t: &Trial, end: &ReceivedMessage) -> Outcome {
    let status = end.text("status");
    t.demand(
        matches!(status, "" | "completed"),
        "status `completed`, or none",
        status,
    )
}

/// Returns true if a file of the journal contains a text.
pub(in crate::cases) fn is_stored(t: &Trial, text: &str) -> Outcome<bool> {
    let mut folders = vec![t.path("journal")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && contains(&std::fs::read(entry.path())?, text) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Demands each number of a range once, in its order.
pub(in crate::cases) fn demand_once(
    t: &Trial,
    entries: &[ReceivedMessage],
    from: u64,
    to: u64,
) -> Outcome {
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.number("seq")).collect();
    let wanted: Vec<u64> = (from..=to).collect();
    t.demand(
        numbers == wanted,
        format!("the entries {wanted:?}, each once"),
        format!("{numbers:?}"),
    )
}

/// Waits for the answer to an attach, and demands that it is a refusal with this reason.
pub(in crate::cases) fn refusal(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    from: usize,
    reason: &str,
) -> Outcome<ReceivedMessage> {
    let answer = t.hear(hub, s, from, "an answer to `session.attach`", |seen| {
        matches!(seen.kind(), "session.refused" | "session.attached")
    })?;
    t.demand(
        answer.kind() == "session.refused",
        "`session.refused`",
        format!("`{}`", answer.kind()),
    )?;
    t.demand_member(&answer, "reason", reason)?;
    Ok(answer)
}

/// Demands the entries of the source in the copy, and then the fact that it is one.
pub(in crate::cases) fn demand_copy(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    copy: &CaseSession,
    answer: &ReceivedMessage,
) -> Outcome {
    t.demand_member(answer, "role", "control")?;
    let fact = t.hear(hub, copy, answer.index, "`forked_from`", |seen| {
        seen.is_with("host.fact", "fact", "forked_from")
    })?;
    let entries = |s: &CaseSession| -> Vec<Value> {
        let mut entries = hub.entries(s, 0);
        entries.retain(|entry| s != copy || entry.index < fact.index);
        let same_id = |entry: &ReceivedMessage| {
            let message = Value::Object(entry.message().clone());
            wire::with(message, &json!({"session_id":copy.id()}))
        };
        entries.iter().map(same_id).collect()
    };
    let copied = entries(copy);
    t.demand(
        copied == entries(s),
        "the entries of the source with the id of the copy",
        Value::from(copied.clone()),
    )
}
