//! Failures below an agent: its model, its own processes, its host.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HELLO, Place, fails, goes_on};
use crate::real::{
    hub::{Hub, Step, expect},
    orphans,
    place::Credentials,
};

/// Possible categories of a failure of the model's server: it is no fault of the credentials.
const NOT_REACHED: &[&str] = &["overloaded", "timeout", "other"];

/// Timeout of a turn that cannot reach its model.
const IN_TIME: Duration = Duration::from_secs(140);

pub(super) fn not_found(place: &Place) -> Step {
    fails(place, "FAKE:err:404", &["model_not_found", "other"])
}

pub(super) fn overloaded(place: &Place) -> Step {
    fails(place, "FAKE:err:529", &["overloaded"])
}

/// Begins a turn without the model, which fails in time, and continues with the model.
fn fails_until_started_again(place: &Place, mut hub: Hub) -> Step {
    let begun = Instant::now();
    let turn = hub.turn("s", "FAKE:text gone")?;
    turn.failed(NOT_REACHED)?;
    expect(
        begun.elapsed() < IN_TIME,
        "an end in time",
        format_args!("{:?}; {}", begun.elapsed(), turn.told()),
    )?;
    place.model.start_again()?;
    goes_on(&mut hub)?;
    place.end(hub)
}

pub(super) fn model_gone(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text")?.says(HELLO)?;
    place.model.stop();
    fails_until_started_again(place, hub)
}

pub(super) fn never_there(place: &Place) -> Step {
    place.model.stop();
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    fails_until_started_again(place, hub)
}

/// Timeout of a turn without a login.
const SOON: Duration = Duration::from_secs(60);

pub(super) fn no_login(place: &Place) -> Step {
    let mut hub = place.host(Credentials::NoLogin)?;
    place.open(&mut hub, "s", &json!({}))?;
    let begun = Instant::now();
    let turn = hub.turn("s", "FAKE:text")?;
    turn.failed(&["auth"])?;
    let passed = begun.elapsed();
    expect(
        passed < SOON,
        "a failure soon",
        format_args!("{passed:?}; {}", turn.told()),
    )?;
    place.end(hub)
}

pub(super) fn slow(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let ticks: String = (0..12).map(|tick| format!("tick{tick} ")).collect();
    hub.turn("s", "FAKE:slow:12:2")?.says(&ticks)?;
    goes_on(&mut hub)?;
    place.end(hub)
}

pub(super) fn cut_once(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text")?.says(HELLO)?;
    let turn = hub.turn("s", "FAKE:drop:1")?;
    if turn.status() == "completed" {
        let whole = turn.text.ends_with("recovered after 1 errors");
        expect(whole, "an answer that is whole", turn.told())?;
    } else {
        turn.is("failed")?;
    }
    goes_on(&mut hub)?;
    place.end(hub)
}

/// Returns the agent's own processes in this place, without the host's.
fn own(place: &Place) -> Vec<orphans::Process> {
    let mut all = orphans::find_processes(&place.home());
    let program = |line: &str| {
        line.split(' ')
            .next()
            .unwrap_or_default()
            .contains("trunkline")
    };
    all.retain(|(_, line)| !program(line));
    all
}

pub(super) fn killed(place: &Place) -> Step {
    killed_are(place, true, |own| own.to_vec())
}

pub(super) fn child_killed(place: &Place) -> Step {
    killed_are(place, false, |own| {
        let is_child = |(id, _): &&orphans::Process| {
            orphans::parent_of(*id).is_some_and(|parent| own.iter().any(|(id, _)| *id == parent))
        };
        own.iter().filter(is_child).cloned().collect()
    })
}

/// Kills some of the agent's own processes in a turn. That turn fails, and not as if nothing were
/// installed; the session continues.
fn killed_are(
    place: &Place,
    some: bool,
    which: fn(&[orphans::Process]) -> Vec<orphans::Process>,
) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text knot-one")?.says(HELLO)?;
    let turn = hub.input("s", "FAKE:slow:100:0.2")?;
    place.model.waits_for("FAKE:slow")?;
    let victims = which(&own(place));
    expect(
        !some || !victims.is_empty(),
        "a process of the agent's own to kill",
        "none",
    )?;
    if victims.is_empty() {
        return Ok(());
    }
    for (id, _) in &victims {
        orphans::kill(*id)?;
    }
    let begun = Instant::now();
    let turn = hub.follow("s", &turn, |_| false)?;
    expect(
        begun.elapsed() < Duration::from_secs(30),
        "an end in time",
        format_args!("{:?}", begun.elapsed()),
    )?;
    turn.failed(&["process_exit", "other", "overloaded"])
        .map_err(|error| format!("{error}; killed: {victims:?}"))?;
    let next = hub
        .turn("s", "FAKE:text sanderling-one")
        .map_err(|error| format!("in the next turn: {error}"))?;
    next.says(HELLO)
        .map_err(|error| format!("in the next turn: {error}; killed: {victims:?}"))?;
    let told = place.model.was_told(&["knot-one", "sanderling-one"]);
    expect(
        told,
        "a conversation that goes on",
        "a request without what was before",
    )?;
    place.end(hub)
}

pub(super) fn host_killed(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text")?.says(HELLO)?;
    hub.input("s", "FAKE:slow:100:0.2")?;
    place.model.waits_for("FAKE:slow")?;
    expect(!own(place).is_empty(), "an agent that runs", "none")?;
    orphans::kill(hub.id())?;
    drop(hub);
    orphans::none_of(&place.home())
}

pub(super) fn stop_in_tool(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text pipit-one")?.says(HELLO)?;
    let id = hub.input("s", &place.agent.asks.run("touch begun; sleep 97"))?;
    hub.run_until("s", || place.work().join("begun").exists())?;
    hub.send(&json!({"type": "stop", "session_id": "s", "turn_id": id}))?;
    let asked = Instant::now();
    let turn = hub.follow("s", &id, |_| true)?;
    turn.is("stopped")?;
    expect(
        asked.elapsed() < Duration::from_secs(20),
        "an end soon after the stop",
        format_args!("{:?}", asked.elapsed()),
    )?;
    let begun = Instant::now();
    let runs = || own(place).iter().any(|(_, line)| line == "sleep 97");
    while runs() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    expect(!runs(), "no command that runs on", "one")?;
    hub.turn("s", "FAKE:text twite-one")?.says(HELLO)?;
    let told = place.model.was_told(&["pipit-one", "twite-one"]);
    expect(told, "a request with the inputs before and after", "none")?;
    place.end(hub)
}
