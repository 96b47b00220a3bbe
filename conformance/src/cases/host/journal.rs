//! H-JRN: what a relay that keeps a journal owes its hubs (SPEC.md, section 13).
//!
//! The folder of the journal is the case's own. A case may kill the host and start it again on that folder.

use crate::cases::prelude::*;

pub(in crate::cases) mod attach;
pub(in crate::cases) mod edits;
pub(in crate::cases) mod entries;
pub(in crate::cases) mod list;
pub(in crate::cases) mod listeners;

/// Has the stub agree on what a journal can tell of.
pub(in crate::cases) fn prepare(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["turns","events","usage","resume","options","questions"]}))
}

/// The first hub of a host with a journal, and a session whose first entry it has heard.
fn open(t: &mut Trial) -> Outcome<(Hub, Session)> {
    prepare(t)?;
    let hub = t.hub()?;
    let s = open_more(t, &hub, json!({}))?;
    Ok((hub, s))
}

/// One more session whose first entry this hub has heard.
pub(in crate::cases) fn open_more(t: &mut Trial, hub: &Hub, more: Value) -> Outcome<Session> {
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
    s: &Session,
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

/// The same to the end of the turn.
fn act(t: &Trial, hub: &Hub, s: &Session, turn: &str, actions: &Value) -> Outcome<Seen> {
    let from = instruct(hub, s, turn, actions)?;
    t.hear_end(hub, s, from, turn)
}

/// Attaches, and waits for the answer.
pub(in crate::cases) fn attach(
    t: &Trial,
    hub: &Hub,
    s: &Session,
    after: u64,
    more: Value,
) -> Outcome<Seen> {
    let from = hub.attach(s, after, more);
    t.hear_kind(hub, s, from, "session.attached")
}

/// Attaches, and waits for all entries that there are; they are behind the answer.
pub(in crate::cases) fn catch_up(
    t: &Trial,
    hub: &Hub,
    s: &Session,
    after: u64,
) -> Outcome<(Seen, Vec<Seen>)> {
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

/// The number of the last entry that a hub has heard.
fn last_of(hub: &Hub, s: &Session) -> u64 {
    hub.entries(s, 0)
        .last()
        .map_or(0, |entry| entry.number("seq"))
}

/// How many sessions were opened at adapters.
fn starts(t: &Trial) -> usize {
    t.written()
        .iter()
        .filter(|below| below.seen.kind() == "session.start")
        .count()
}

/// Demands that a turn ended well; an absent status says so.
pub(in crate::cases) fn demand_completed(t: &Trial, end: &Seen) -> Outcome {
    let status = end.text("status");
    t.demand(
        matches!(status, "" | "completed"),
        "status `completed`, or none",
        status,
    )
}
