//! A hub's answers and requests beyond a plain turn: changed inputs, instructions, models, images,
//! steers, MCP servers.

use serde_json::{Value, json};

use super::{HELLO, Place, goes_on, tools_are_whole};
use crate::real::{
    agents::Asks,
    hub::{Hub, Step, Turn, expect},
    place::Credentials,
};

/// A denial that the hub did not send: the agent cannot run a changed command.
pub(super) fn changed_command(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let input = super::touch(place, "asked-for");
    let turn = hub.input("s", &input)?;
    let mut requests = 0;
    let turn = hub.follow_with("s", &turn, |request| {
        requests += 1;
        let input = match &request["input"] {
            Value::Null => json!({"command": "touch asked-for"}),
            input => input.clone(),
        };
        let changed = input.to_string().replace("asked-for", "changed-to");
        let changed: Value = serde_json::from_str(&changed).unwrap_or_default();
        json!({"approved": true, "updated_input": changed})
    })?;
    expect(
        requests == 1,
        "one permission request",
        format_args!("{requests}; {}", turn.told()),
    )?;
    tools_are_whole(&turn)?;
    let exists = |file: &str| place.work().join(file).exists();
    expect(
        !exists("asked-for"),
        "nothing of the original command",
        turn.told(),
    )?;
    let capability =
        said(&turn, "capabilities").map(|capabilities| capabilities["updated_input"] == true);
    if exists("changed-to") {
        expect(
            capability == Some(true),
            "a capability that says so",
            format_args!("{capability:?}"),
        )?;
    } else {
        expect(
            capability == Some(false),
            "no capability for it",
            format_args!("{capability:?}"),
        )?;
        let why = turn
            .messages_of_kind("error")
            .any(|error| error["category"] == "permission_denied");
        expect(why, "an error that says why it was denied", turn.told())?;
    }
    goes_on(&mut hub)?;
    place.end(hub)
}

/// The pattern is refused, or judges each call.
pub(super) fn allowed_tools(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(
        &mut hub,
        "s",
        &json!({"allowed_tools": ["Bash(touch allowed-*)"]}),
    )?;
    let turn = hub.input("s", &super::touch(place, "allowed-one"))?;
    let allowed = hub.follow("s", &turn, |_| true)?;
    if allowed.status() == "refused" {
        expect(
            allowed.told().contains("allowed_tools"),
            "a refusal that names the option",
            allowed.told(),
        )?;
        return place.end(hub);
    }
    let exists = |file: &str| place.work().join(file).exists();
    expect(
        exists("allowed-one"),
        "the file of the command that matches",
        allowed.told(),
    )?;
    for other in ["other-one", "allowed-two; touch other-two"] {
        let turn = hub.input("s", &super::touch(place, other))?;
        let mut requests = 0;
        let turn = hub.follow("s", &turn, |_| {
            requests += 1;
            true
        })?;
        expect(requests == 0, "no permission request", turn.told())?;
        tools_are_whole(&turn)?;
    }
    let others = ["other-one", "other-two", "allowed-two"];
    expect(
        !others.into_iter().any(exists),
        "no file of a command that does not match",
        "one",
    )?;
    place.end(hub)
}

/// Returns the last value of a member that a session reported, up to the end of a turn.
pub(super) fn said(turn: &Turn, member: &str) -> Option<Value> {
    turn.messages
        .iter()
        .rev()
        .map(|message| &message[member])
        .find(|value| !value.is_null())
        .cloned()
}

/// Two turns, since an agent may apply the schema to one turn only.
pub(super) fn output_schema(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    let schema = json!({
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "next_speaker": {"type": "string"}, "title": {"type": "string"}},
        "required": ["reasoning", "next_speaker", "title"],
        "additionalProperties": false,
    });
    place.open(&mut hub, "s", &json!({"output_schema": schema}))?;
    let first = hub.turn("s", "FAKE:text")?;
    let applied = said(&first, "options_applied").unwrap_or_default();
    expect(
        applied.to_string().contains("output_schema"),
        "an option that is applied",
        applied,
    )?;
    for turn in [first, hub.turn("s", "FAKE:text")?] {
        turn.is("completed")?;
        expect(
            turn.end["result"]["title"] == "Fake title",
            "the answer as data",
            format_args!("{}; {}", turn.end, turn.told()),
        )?;
    }
    place.end(hub)
}

pub(super) fn instructions(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(
        &mut hub,
        "s",
        &json!({"system_prompt": "Answer like the heron-in-the-prompt."}),
    )?;
    for word in ["first", "second"] {
        hub.turn("s", &format!("FAKE:text {word}-one"))?
            .says(HELLO)?;
        let seen = place
            .model
            .was_told_at_once(&["heron-in-the-prompt", &format!("{word}-one")]);
        expect(
            seen,
            format_args!("the system prompt in the request of the {word} turn"),
            "none",
        )?;
    }
    place.end(hub)
}

pub(super) fn model(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({"model": place.agent.other_model}))?;
    hub.turn("s", "FAKE:text siskin-one")?.says(HELLO)?;
    let name = place
        .agent
        .other_model
        .rsplit(['/', ':'])
        .next()
        .unwrap_or_default();
    let used = place.model.models_of("siskin-one");
    expect(
        used.iter().any(|used| used == name),
        format_args!("a request to {name}"),
        format_args!("{used:?}"),
    )?;
    place.end(hub)
}

/// A small red square.
const IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clis/square.png");

pub(super) fn image(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.send(&json!({
        "type": "file.input", "session_id": "s", "file_path": IMAGE, "file_name": "square.png",
        "file_mime_type": "image/png",
    }))?;
    hub.turn("s", "FAKE:text plover-one")?.says(HELLO)?;
    let seen = place.model.was_told_at_once(&["plover-one", "iVBORw0KGgo"]);
    expect(seen, "a request with the image", "none")?;
    place.end(hub)
}

pub(super) fn steer(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.input("s", "FAKE:slow:20:0.2 wren-one")?;
    hub.until("s", "output")?;
    hub.send(&json!({
        "type": "user.input", "session_id": "s", "turn_id": "steer", "message_id": "m-1", "mode": "steer",
        "content": "FAKE:text robin-steer",
    }))?;
    let (result, mut before) = hub.until("s", "steer.result")?;
    let turn = hub.follow("s", &turn, |_| false)?;
    turn.is("completed")?;
    before.extend(turn.messages.iter().cloned());
    expect(
        result["delivered"] == true,
        "a steer that is delivered",
        &result,
    )?;
    let seen = place.model.was_told(&["wren-one", "robin-steer"]);
    expect(seen, "a request with both inputs", turn.told())?;
    goes_on(&mut hub)?;
    place.end(hub)
}

/// The program of a small MCP server.
const MCP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clis/fake_mcp.py");

pub(super) fn mcp_server(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    let note = place.work().join("note.txt");
    let servers = json!({"notes": {"command": "python3", "args": [MCP, note]}});
    place.open(&mut hub, "s", &json!({"mcp_servers": servers}))?;
    let mut requests = Vec::new();
    let mut ask = || {
        let turn = hub.input("s", "FAKE:mcp:lapwing;;")?;
        hub.follow("s", &turn, |request| {
            requests.push(request.clone());
            true
        })
    };
    let mut turn = ask()?;
    // Some agents start a server beside the first turn.
    for _ in 0..4 {
        if turn.text.contains("no such tool") {
            std::thread::sleep(std::time::Duration::from_secs(1));
            turn = ask()?;
        }
    }
    turn.is("completed")?;
    tools_are_whole(&turn)?;
    let content = std::fs::read_to_string(&note).unwrap_or_default();
    expect(
        content == "lapwing",
        "the note that the server's tool leaves",
        format_args!("{content:?}; {}", turn.told()),
    )?;
    expect(
        turn.messages_of_kind("tool.end")
            .any(|end| end["is_error"] != true),
        "a tool that succeeded",
        turn.told(),
    )?;
    let is_asked = !matches!(place.agent.asks, Asks::NoOne | Asks::ForDangerousCommands);
    expect(
        is_asked != requests.is_empty(),
        "a question only where the agent asks",
        format_args!("{requests:?}"),
    )?;
    place.end(hub)
}

pub(super) fn elsewhere(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let native = two_turns(&mut hub)?;
    place.end(hub)?;
    let other = place.path("elsewhere");
    let mut hub = place.host(Credentials::There)?;
    let (id, params) = native;
    let resume = json!({"native_session_id": id, "params": params, "history": false});
    place.open(&mut hub, "again", &json!({"resume": resume, "cwd": other}))?;
    let turn = hub.turn("again", "FAKE:text dunlin-elsewhere")?;
    turn.says(HELLO)?;
    let context = said(&turn, "context");
    expect(
        context == Some("lost".into()),
        "context: lost",
        format_args!("{context:?}; {}", turn.told()),
    )?;
    let remembered = place.model.was_told(&["dunlin-one", "dunlin-elsewhere"]);
    expect(
        !remembered,
        "a conversation of its own",
        "a request with what was said in the other folder",
    )?;
    place.end(hub)
}

/// Two turns, and what resumes their conversation.
fn two_turns(hub: &mut Hub) -> Step<(Value, Value)> {
    let mut native = Value::Null;
    let mut params = Value::Null;
    for word in ["one", "two"] {
        let turn = hub.turn("s", &format!("FAKE:text dunlin-{word}"))?;
        turn.says(HELLO)?;
        for message in turn.messages.iter().chain([&turn.end]) {
            for (member, last) in [
                ("native_session_id", &mut native),
                ("session_params", &mut params),
            ] {
                if !message[member].is_null() {
                    *last = message[member].clone();
                }
            }
        }
    }
    expect(native.is_string(), "a native session id", &native)?;
    Ok((native, params))
}

/// Number of turns of a long conversation.
const MANY: usize = 15;

pub(super) fn many_turns(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    for number in 0..MANY {
        hub.turn("s", &format!("FAKE:text curlew-{number}-end"))?
            .says(HELLO)?;
    }
    let last = format!("curlew-{}-end", MANY - 1);
    let told = place
        .model
        .was_told(&["curlew-0-end", "curlew-7-end", &last]);
    expect(told, "a request with the first and the last input", "none")?;
    place.end(hub)
}
