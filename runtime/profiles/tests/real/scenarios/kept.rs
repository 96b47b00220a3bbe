//! Private state of a session: its mode, its own id, and secrets that pass through a tool.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{HELLO, Place, goes_on, replies::said, tools_are_whole};
use crate::real::{
    hub::{Step, expect},
    place::{Credentials, SECRET},
};

pub(super) fn mode(place: &Place) -> Step {
    let Some((asked, shows)) = place.agent.mode else {
        return Err("expected a mode to choose; came none".to_owned());
    };
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({ "mode": asked }))?;
    let turn = hub.turn("s", "FAKE:text dotterel-one")?;
    turn.is("completed")?;
    // One of them outputs its mode first.
    expect(turn.text.ends_with(HELLO), "the answer", turn.told())?;
    // Run once per turn, an agent does not report its mode.
    let told =
        said(&turn, "mode").and_then(|mode| Some(mode.as_str()?.rsplit('#').next()?.to_owned()));
    let is_it = told.as_ref().is_none_or(|mode| mode == asked);
    expect(
        is_it,
        format_args!("the mode {asked}"),
        format_args!("{told:?}; {}", turn.told()),
    )?;
    let seen = place.model.was_told_at_once(&["dotterel-one", shows]);
    expect(seen, format_args!("a request that says {shows:?}"), "none")?;
    place.end(hub)
}

pub(super) fn native_id(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    let mut ids = Vec::new();
    for session in ["a", "b"] {
        place.open(&mut hub, session, &json!({}))?;
        let mut own = Vec::new();
        for word in ["one", "two"] {
            let turn = hub.turn(session, &format!("FAKE:text godwit-{session}-{word}"))?;
            turn.says(HELLO)?;
            let told = turn.messages.iter().chain([&turn.end]);
            own.extend(
                told.filter_map(|message| message["native_session_id"].as_str().map(str::to_owned)),
            );
            expect(
                !own.is_empty(),
                "a native session id with the first turn",
                turn.told(),
            )?;
        }
        own.dedup();
        expect(
            own.len() == 1,
            "one id over all turns of a session",
            format_args!("{own:?}"),
        )?;
        ids.extend(own);
    }
    expect(
        ids[0] != ids[1],
        "an id of its own for each session",
        format_args!("{ids:?}"),
    )?;
    place.end(hub)?;
    for id in &ids {
        let known = holds(&place.home(), id, DEEPEST);
        expect(
            known,
            format_args!("the id {id} among what the agent keeps"),
            "none",
        )?;
    }
    Ok(())
}

pub(super) fn fork(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let first = hub.turn("s", "FAKE:text whinchat-one")?;
    first.says(HELLO)?;
    hub.turn("s", "FAKE:text whinchat-two")?.says(HELLO)?;
    let declares = |message: &Value| message["capabilities"]["forks_sessions"] == true;
    let native = first.end["native_session_id"].clone();
    let resume = json!({ "native_session_id": native, "params": first.end["session_params"],
        "fork": true });
    place.open(&mut hub, "copy", &json!({ "resume": resume }))?;
    let copied = hub.turn("copy", "FAKE:text whinchat-three");
    if !first.messages.iter().any(declares) {
        return expect(copied.is_err(), "a copy that is refused", "a turn");
    }
    let copied = copied?;
    copied.says(HELLO)?;
    let is_kept = copied
        .messages
        .iter()
        .any(|message| message["context"] == "kept");
    expect(is_kept, "context: kept", copied.told())?;
    let own = &copied.end["native_session_id"];
    expect(
        own.is_string() && *own != native,
        "an id of the copy's own",
        own,
    )?;
    hub.turn("s", "FAKE:text whinchat-four")?.says(HELLO)?;
    for (last, has, lacks) in [
        ("whinchat-three", "whinchat-one", "whinchat-two"),
        ("whinchat-four", "whinchat-two", "whinchat-three"),
    ] {
        let seen = place.model.was_told(&[has, last]);
        expect(
            seen,
            format_args!("a request with {has} and {last}"),
            "none",
        )?;
        let seen = place.model.was_told(&[lacks, last]);
        expect(!seen, format_args!("{last} without {lacks}"), "both")?;
    }
    place.end(hub)
}

/// Maximum depth of searched folders.
const DEEPEST: usize = 12;

/// Returns true if a folder has a file with this text in its name or content. The host's own files
/// do not count.
fn holds(folder: &Path, text: &str, deepest: usize) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let name = entry.file_name();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                name != "state" && deepest > 0 && holds(&path, text, deepest - 1)
            }
            Ok(kind) if kind.is_file() => {
                let content = || fs::read(&path).unwrap_or_default();
                name.to_string_lossy().contains(text)
                    || memchr::memmem::find(&content(), text.as_bytes()).is_some()
            }
            _ => false,
        }
    })
}

/// A tool prints a secret, and then the model's server does in a failure: output is passed on
/// unchanged, while logs and failures hide it.
pub(super) fn secret(place: &Place) -> Step {
    place.write("work/note.txt", &format!("{SECRET}\n"))?;
    let (mut hub, log) = place.logging_host()?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.input("s", &place.agent.asks.run("cat note.txt"))?;
    let turn = hub.follow("s", &turn, |_| true)?;
    turn.is("completed")?;
    tools_are_whole(&turn)?;
    expect(
        turn.text.contains(SECRET),
        "what the model said, unchanged",
        turn.told(),
    )?;
    let failed = hub.turn("s", &format!("FAKE:why:{SECRET};;"))?;
    failed.is("failed")?;
    let shown = failed.end["error"].to_string();
    expect(
        !shown.contains(SECRET),
        "a failure that hides the secret",
        &shown,
    )?;
    goes_on(&mut hub)?;
    place.end(hub)?;
    let log = fs::read_to_string(log).unwrap_or_default();
    expect(!log.is_empty(), "a log", "none")?;
    let line = log.lines().find(|line| line.contains(SECRET));
    expect(
        line.is_none(),
        "a log without the secret",
        line.unwrap_or_default(),
    )?;
    let state = place.home().join("state");
    expect(
        !holds(&state, SECRET, DEEPEST),
        "no secret in the host's own files",
        "one",
    )
}
