//! Files that an agent writes, and tools that it runs side by side.

use std::fs;

use serde_json::{Value, json};

use super::{Place, tools_are_whole};
use crate::real::{
    agents::Asks,
    hub::{Step, Turn, expect},
    place::Credentials,
};

/// Text that the fake model writes into a file.
const WRITTEN: &str = "hello from the fake model\n";

pub(super) fn new(place: &Place) -> Step {
    written(place, "write")
}

pub(super) fn overwritten(place: &Place) -> Step {
    place.write("work/written.txt", "before\n")?;
    written(place, "over")
}

/// Has the file written by a directive of the fake model.
fn written(place: &Place, directive: &str) -> Step {
    let path = place.work().join("written.txt");
    let (turn, requests) = allowed(place, &format!("FAKE:{directive}:{};;", path.display()))?;
    let content = fs::read_to_string(&path).unwrap_or_default();
    expect(
        content == WRITTEN,
        format_args!("the content {WRITTEN:?}"),
        format_args!("{content:?}, {}", turn.told()),
    )?;
    let asked = requests.len() <= 2;
    expect(
        asked,
        "one request for the file",
        format_args!("{requests:?}"),
    )
}

pub(super) fn two_tools(place: &Place) -> Step {
    let input = place
        .agent
        .asks
        .run_both("touch first-made", "touch second-made");
    let (turn, requests) = allowed(place, &input)?;
    for file in ["first-made", "second-made"] {
        expect(
            place.work().join(file).exists(),
            format_args!("the file {file}"),
            turn.told(),
        )?;
        let named = requests
            .iter()
            .filter(|request| request.to_string().contains(file))
            .count();
        let expected = usize::from(place.agent.asks != Asks::NoOne);
        expect(
            named == expected,
            format_args!("{expected} requests for {file}"),
            format_args!("{requests:?}"),
        )?;
    }
    let starts = turn.messages_of_kind("tool.start").count();
    let ends = turn.messages_of_kind("tool.end").count();
    expect(
        (starts, ends) == (2, 2),
        "two tools",
        format_args!("{starts} starts, {ends} ends; {}", turn.told()),
    )
}

/// Runs a turn in which every permission is given: it completes, its tools are complete and
/// succeed, and the model continues.
fn allowed(place: &Place, input: &str) -> Step<(Turn, Vec<Value>)> {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.input("s", input)?;
    let mut requests = Vec::new();
    let turn = hub.follow("s", &turn, |request| {
        requests.push(request.clone());
        true
    })?;
    turn.is("completed")?;
    tools_are_whole(&turn)?;
    let failed: Vec<_> = turn
        .messages_of_kind("tool.end")
        .filter(|end| end["is_error"] == true)
        .collect();
    expect(
        failed.is_empty(),
        "no tool that failed",
        format_args!("{failed:?}, {}", turn.told()),
    )?;
    expect(
        turn.text.contains("after tool:"),
        "text from after the tool",
        turn.told(),
    )?;
    place.end(hub)?;
    Ok((turn, requests))
}
