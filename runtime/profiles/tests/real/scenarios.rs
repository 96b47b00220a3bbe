//! Scenarios for each agent.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    hub::{Hub, Step, Turn, expect},
    place::{Credentials, Place},
};

mod failures;
mod files;
mod kept;
mod replies;

/// Something that is tried with each agent.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Meaning of a cell with `pass`.
    pub(crate) means: &'static str,
    pub(crate) run: fn(&Place) -> Step,
}

/// The scenarios of the first table, in the order of the columns.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "memory",
        means: "three turns, each sent once, of which the model sees all at the third",
        run: memory,
    },
    Scenario {
        name: "allow",
        means: "a command runs once its permission is given, not before, and is reported as a tool",
        run: allow,
    },
    Scenario {
        name: "deny",
        means: "a command whose permission is denied does not run; the session continues",
        run: deny,
    },
    Scenario {
        name: "stop",
        means: "a stop in mid-answer ends that turn; the next one remembers what was before",
        run: stop,
    },
    Scenario {
        name: "resume",
        means: "another host continues a conversation of two turns by its native id, `context: kept`",
        run: resume,
    },
    Scenario {
        name: "2 MB",
        means: "an answer of 2 MB comes whole and once",
        run: long,
    },
    Scenario {
        name: "401",
        means: "the turn fails as `auth`; the session continues",
        run: unauthorized,
    },
    Scenario {
        name: "429",
        means: "the turn fails as `rate_limit`; the session continues",
        run: limited,
    },
    Scenario {
        name: "500",
        means: "the turn fails as `overloaded` or `other`; the session continues",
        run: broken,
    },
    Scenario {
        name: "cut",
        means: "a stream cut by the server ends the turn once, in time, and as failed, unless the agent got the answer without a stream, after a turn that went well; the session continues",
        run: cut_stream,
    },
    Scenario {
        name: "no credentials",
        means: "the turn fails as `auth`, in time",
        run: no_credentials,
    },
    Scenario {
        name: "two sessions",
        means: "two answer at the same time; neither gets a message of the other",
        run: two_sessions,
    },
    Scenario {
        name: "new file",
        means: "a new file is written by the agent's own tool, once that is allowed",
        run: files::new,
    },
    Scenario {
        name: "overwrite",
        means: "an existing file has the new content, and nothing of the old",
        run: files::overwritten,
    },
    Scenario {
        name: "two tools",
        means: "two commands that the model wants at once are both asked for, run, and are reported",
        run: files::two_tools,
    },
    Scenario {
        name: "changed command",
        means: "a command that the hub changes runs as changed if `capabilities` allow it; otherwise it is denied with a reason, and nothing runs",
        run: replies::changed_command,
    },
    Scenario {
        name: "system prompt",
        means: "the model gets the system prompt of the session with each turn",
        run: replies::instructions,
    },
];

/// Scenarios of the second table.
pub(crate) const FURTHER: &[Scenario] = &[
    Scenario {
        name: "404",
        means: "the turn fails as `model_not_found` or `other`; the session continues",
        run: failures::not_found,
    },
    Scenario {
        name: "529",
        means: "the turn fails as `overloaded`; the session continues",
        run: failures::overloaded,
    },
    Scenario {
        name: "model gone",
        means: "a turn whose model is no longer reachable fails in time, and not as `auth`; the session continues when it is back",
        run: failures::model_gone,
    },
    Scenario {
        name: "model never there",
        means: "the same from the first turn on",
        run: failures::never_there,
    },
    Scenario {
        name: "slow",
        means: "an answer that takes 24 s comes whole",
        run: failures::slow,
    },
    Scenario {
        name: "cut once",
        means: "a stream that is cut once ends as failed, or is asked for again and comes whole",
        run: failures::cut_once,
    },
    Scenario {
        name: "killed",
        means: "the agent's processes are killed in a turn: it fails as `process_exit`; the conversation continues with the next",
        run: failures::killed,
    },
    Scenario {
        name: "child killed",
        means: "the processes that the agent has started itself are killed in a turn: it fails; the conversation continues with the next",
        run: failures::child_killed,
    },
    Scenario {
        name: "host killed",
        means: "the host is killed in a turn: no process stays",
        run: failures::host_killed,
    },
    Scenario {
        name: "stop in a tool",
        means: "a stop while a command runs ends the turn and the command; the conversation continues",
        run: failures::stop_in_tool,
    },
    Scenario {
        name: "model",
        means: "the model of the session is the one that is asked",
        run: replies::model,
    },
    Scenario {
        name: "image",
        means: "an image goes to the model",
        run: replies::image,
    },
    Scenario {
        name: "steer",
        means: "an input during a turn reaches the model in that turn",
        run: replies::steer,
    },
    Scenario {
        name: "MCP",
        means: "an MCP server of the session is offered to the model, asked for, and called",
        run: replies::mcp_server,
    },
    Scenario {
        name: "elsewhere",
        means: "a conversation that is resumed in another folder begins anew, and reports that",
        run: replies::elsewhere,
    },
    Scenario {
        name: "many turns",
        means: "15 turns, of which the model sees the first in the last",
        run: replies::many_turns,
    },
    Scenario {
        name: "no login",
        means: "without a login and a provider of one's own the turn fails as `auth` within a minute",
        run: failures::no_login,
    },
    Scenario {
        name: "mode",
        means: "the mode of the session is the agent's mode: its model gets it, and the agent reports it",
        run: kept::mode,
    },
    Scenario {
        name: "allowed tools",
        means: "with a pattern in the session's `allowed_tools` a command that matches runs, and another does not, unasked; or the session is refused by that option",
        run: replies::allowed_tools,
    },
    Scenario {
        name: "native id",
        means: "a session reports one id of the agent's own with its first turn, keeps it, and the agent keeps it too",
        run: kept::native_id,
    },
    Scenario {
        name: "fork",
        means: "a copy of a conversation at the end of its first turn remembers that turn and not the second, has an id of its own, and its source continues without it; an agent without `forks_sessions` is asked for none",
        run: kept::fork,
    },
    Scenario {
        name: "secret",
        means: "a secret of the configuration that a tool prints is passed on as it is; logs, failures and the host's own files hide it",
        run: kept::secret,
    },
];

/// Scenarios of the agents that apply a schema to their answers. They are no columns of the tables.
pub(crate) const BY_SCHEMA: &[Scenario] = &[Scenario {
    name: "output schema",
    means: "with a JSON Schema in `output_schema` each turn's answer comes as data, in `result`",
    run: replies::output_schema,
}];

/// The fake model's answer to `FAKE:text`.
const HELLO: &str = "Hello from the fake model.";

/// The bytes of the long answer.
const LONG: usize = 2_000_000;

fn memory(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    for word in ["kestrel", "merlin", "hobby"] {
        let turn = hub.turn("s", &format!("FAKE:text {word}-one"))?;
        turn.says(HELLO)?;
        within_a_turn(&turn)?;
    }
    let told = place
        .model
        .was_told(&["kestrel-one", "merlin-one", "hobby-one"]);
    expect(told, "a request with all three inputs", "none")?;
    place.end(hub)
}

/// Usage of a turn is not the running total that many agents report.
fn within_a_turn(turn: &Turn) -> Step {
    let usage = &turn.end["usage"];
    let output = usage["output_tokens"].as_u64();
    // An agent may make a second, small request for a turn, such as one for a title.
    expect(
        output.is_none_or(|tokens| tokens <= 2 * 34),
        "the usage of this turn alone",
        usage,
    )
}

/// The input that makes the model run a command which leaves a file.
fn touch(place: &Place, file: &str) -> String {
    place.agent.asks.run(&format!("touch {file}"))
}

fn allow(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let file = place.work().join("made-by-allow");
    let turn = hub.input("s", &touch(place, "made-by-allow"))?;
    let mut early = false;
    let mut requests = Vec::new();
    let turn = hub.follow("s", &turn, |request| {
        early |= file.exists();
        requests.push(request.clone());
        true
    })?;
    turn.is("completed")?;
    expect(
        requests.len() == 1,
        "one permission request",
        format_args!("{requests:?}; {}", turn.told()),
    )?;
    names_the_command(&requests[0], "made-by-allow")?;
    expect(!early, "no file before the permission", "one")?;
    expect(
        file.exists(),
        "the file that the command makes",
        turn.told(),
    )?;
    expect(
        turn.text.contains("after tool:"),
        "text from after the tool",
        turn.told(),
    )?;
    tools_are_whole(&turn)?;
    let ends: Vec<_> = turn.messages_of_kind("tool.end").collect();
    let succeeded = ends.iter().any(|end| end["is_error"] != true);
    expect(succeeded, "a tool that succeeded", format_args!("{ends:?}"))?;
    place.end(hub)
}

fn names_the_command(request: &Value, word: &str) -> Step {
    let texts =
        ["tool", "description", "resource"].map(|name| request[name].as_str().unwrap_or_default());
    let named = !texts[0].is_empty() && request.to_string().contains(word);
    expect(
        named,
        format_args!("a request that names a tool, and {word}"),
        request,
    )
}

fn deny(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.input("s", &touch(place, "made-by-deny"))?;
    let mut requests = 0;
    let turn = hub.follow("s", &turn, |_| {
        requests += 1;
        false
    })?;
    expect(
        requests == 1,
        "one permission request",
        format_args!("{requests}; {}", turn.told()),
    )?;
    // Some agents continue and report it, some end the turn.
    let ended = ["completed", "stopped", "refused"].contains(&turn.status());
    expect(
        ended,
        "a turn that is completed, stopped or refused",
        turn.told(),
    )?;
    tools_are_whole(&turn)?;
    let ends: Vec<_> = turn.messages_of_kind("tool.end").collect();
    let failed = ends.iter().all(|end| end["is_error"] == true);
    expect(failed, "no tool that succeeded", format_args!("{ends:?}"))?;
    goes_on(&mut hub)?;
    expect(
        !place.work().join("made-by-deny").exists(),
        "no file",
        "the file that the command makes",
    )?;
    place.end(hub)
}

/// Every tool that starts ends once, within its turn.
fn tools_are_whole(turn: &Turn) -> Step {
    let mut open = HashSet::new();
    let mut seen = HashSet::new();
    for message in &turn.messages {
        let id = message["tool_call_id"].to_string();
        let right = match message["type"].as_str().unwrap_or_default() {
            "tool.start" => seen.insert(id.clone()) && open.insert(id),
            "tool.end" => open.remove(&id),
            _ => true,
        };
        expect(right, "one start and one end of each tool", message)?;
    }
    expect(
        open.is_empty(),
        "the end of every tool",
        format_args!("none of {open:?}"),
    )
}

fn stop(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text osprey-one")?.says(HELLO)?;
    let id = hub.input("s", "FAKE:slow:400:0.1")?;
    // If an answer arrives in one piece, none of it precedes the stop.
    let first = if place.agent.streams {
        hub.until("s", "output")?.0
    } else {
        place.model.waits_for("FAKE:slow").map(|()| Value::Null)?
    };
    hub.send(&json!({"type": "stop", "session_id": "s", "turn_id": id}))?;
    let asked = Instant::now();
    let turn = hub.follow("s", &id, |_| false)?;
    turn.is("stopped")?;
    expect(
        asked.elapsed() < Duration::from_secs(20),
        "an end soon after the stop",
        format_args!("{:?}", asked.elapsed()),
    )?;
    let text = format!(
        "{}{}",
        first["content"].as_str().unwrap_or_default(),
        turn.text
    );
    expect(
        text.starts_with("tick0 ") || !place.agent.streams,
        "the beginning of the answer",
        turn.told(),
    )?;
    expect(
        !text.contains("tick399"),
        "an answer cut short",
        turn.told(),
    )?;
    hub.turn("s", "FAKE:text harrier-one")?.says(HELLO)?;
    let told = place.model.was_told(&["osprey-one", "harrier-one"]);
    expect(told, "a request with the inputs before and after", "none")?;
    place.end(hub)
}

fn resume(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let early = hub.turn("s", "FAKE:text buzzard-one")?;
    early.says(HELLO)?;
    // Some agents know no conversation of one turn again.
    let first = hub.turn("s", "FAKE:text buzzard-two")?;
    first.says(HELLO)?;
    let mut native = Value::Null;
    let mut params = Value::Null;
    for message in [&early, &first]
        .into_iter()
        .flat_map(|turn| turn.messages.iter().chain([&turn.end]))
    {
        if !message["native_session_id"].is_null() {
            native = message["native_session_id"].clone();
        }
        if !message["session_params"].is_null() {
            params = message["session_params"].clone();
        }
    }
    expect(native.is_string(), "a native session id", first.told())?;
    place.end(hub)?;

    let mut hub = place.host(Credentials::There)?;
    let resume = json!({"native_session_id": native, "params": params, "history": false});
    place.open(&mut hub, "again", &json!({ "resume": resume }))?;
    let second = hub.turn("again", "FAKE:text goshawk-one")?;
    second.says(HELLO)?;
    let context = second
        .messages
        .iter()
        .rev()
        .find_map(|message| message["context"].as_str());
    expect(
        context == Some("kept"),
        "context: kept",
        format_args!("{context:?}; {}", second.told()),
    )?;
    let told = place.model.was_told(&["buzzard-one", "goshawk-one"]);
    expect(told, "a request with both inputs", "none")?;
    place.end(hub)
}

fn long(place: &Place) -> Step {
    let input = format!("FAKE:long:{LONG}");
    let expected = place.model.answer(&input)?;
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.turn("s", &input)?;
    turn.is("completed")?;
    let bytes = turn.text.len();
    let differs = turn
        .text
        .bytes()
        .zip(expected.bytes())
        .position(|(a, b)| a != b);
    let came = format!("{bytes} bytes, other from {differs:?} on");
    expect(
        turn.text == expected,
        format_args!("the {} bytes of the answer", expected.len()),
        came,
    )?;
    place.end(hub)
}

fn unauthorized(place: &Place) -> Step {
    fails(place, "FAKE:err:401", &["auth"])
}

fn limited(place: &Place) -> Step {
    fails(place, "FAKE:err:429", &["rate_limit"])
}

fn broken(place: &Place) -> Step {
    fails(place, "FAKE:err:500", &["overloaded", "other"])
}

fn fails(place: &Place, input: &str, categories: &[&str]) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    let turn = hub.turn("s", input)?;
    turn.failed(categories)?;
    let message = turn.end["error"]["message"].as_str().unwrap_or_default();
    expect(
        !message.is_empty(),
        "a message that says what happened",
        turn.told(),
    )?;
    goes_on(&mut hub)?;
    place.end(hub)
}

/// Runs another turn in the session, after one that did not end well.
fn goes_on(hub: &mut Hub) -> Step {
    let turn = hub
        .turn("s", "FAKE:text and on")
        .map_err(|error| format!("in the next turn: {error}"))?;
    turn.says(HELLO)
        .map_err(|error| format!("in the next turn: {error}"))
}

fn cut_stream(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "s", &json!({}))?;
    // An agent's report of a complete answer distinguishes it from an incomplete one.
    hub.turn("s", "FAKE:text")?.says(HELLO)?;
    let turn = hub.turn("s", "FAKE:drop")?;
    expect(
        turn.text.is_empty() || turn.text.starts_with("partial text "),
        "the text before the cut",
        turn.told(),
    )?;
    if place.model.answered_at_once("FAKE:drop") && turn.status() == "completed" {
        expect(
            turn.text.ends_with("partial text "),
            "the answer that came without a stream",
            turn.told(),
        )?;
    } else {
        turn.is("failed")?;
    }
    goes_on(&mut hub)?;
    place.end(hub)
}

fn no_credentials(place: &Place) -> Step {
    let mut hub = place.host(Credentials::Missing)?;
    place.open(&mut hub, "s", &json!({}))?;
    hub.turn("s", "FAKE:text")?.failed(&["auth"])?;
    place.end(hub)
}

fn two_sessions(place: &Place) -> Step {
    let mut hub = place.host(Credentials::There)?;
    place.open(&mut hub, "a", &json!({}))?;
    place.open(&mut hub, "b", &json!({}))?;
    let turns = [
        hub.input("a", "FAKE:slow:60:0.2 falcon-a")?,
        hub.input("b", "FAKE:slow:50:0.2 falcon-b")?,
    ];
    let mut begun = Vec::new();
    for session in ["a", "b"] {
        let (first, _) = hub.until(session, "output")?;
        begun.push(first["content"].as_str().unwrap_or_default().to_owned());
    }
    expect(
        !hub.holds("a", "turn.complete"),
        "two answers at the same time",
        "the end of one before the other",
    )?;
    for ((session, turn), (first, ticks)) in ["a", "b"]
        .into_iter()
        .zip(turns)
        .zip(begun.into_iter().zip([60, 50]))
    {
        let mut turn = hub.follow(session, &turn, |_| false)?;
        turn.text.insert_str(0, &first);
        let expected: String = (0..ticks).map(|tick| format!("tick{tick} ")).collect();
        turn.says(&expected)?;
    }
    hub.turn("a", "FAKE:text eagle-a")?.says(HELLO)?;
    hub.turn("b", "FAKE:text eagle-b")?.says(HELLO)?;
    for session in ["a", "b"] {
        let told = place
            .model
            .was_told(&[&format!("falcon-{session}"), &format!("eagle-{session}")]);
        expect(
            told,
            format_args!("a request with both inputs of {session}"),
            "none",
        )?;
    }
    for both in [["falcon-a", "falcon-b"], ["falcon-b", "falcon-a"]] {
        expect(
            !place.model.was_told(&both),
            "no request with inputs of both sessions",
            "one",
        )?;
    }
    place.end(hub)
}
