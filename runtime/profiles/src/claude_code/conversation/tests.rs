//! Sessions with a fake `claude`: a script controlled by its inputs.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;
use trunkline_sdk::protocol::{
    AdapterBody, Context, InputMode, PermissionResponse, Resume, UserInput,
};
use trunkline_sdk::testing::{Host, TestSession, TestTurn};
use trunkline_sdk::{Server, SessionStart, Status};

use super::super::{ClaudeCode, STOP_GRACE};
use super::*;

struct Place {
    memory: TempDir,
    host: Host,
}

impl Place {
    fn new(further: &Value) -> Self {
        let memory = TempDir::new().unwrap();
        let host = Self::host(&memory, further);
        Self { memory, host }
    }

    /// Another run of the adapter, with the same memory of the agent's.
    fn again(&mut self) {
        self.host = Self::host(&self.memory, &json!({}));
    }

    fn host(memory: &TempDir, further: &Value) -> Host {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/transcripts/claude/fake_claude.sh");
        let mut settings =
            json!({"command": "sh", "args": [script], "env": {"FAKE_MEMORY": memory.path()}});
        for (key, value) in further.as_object().into_iter().flatten() {
            match (key.as_str(), value.as_object()) {
                ("env", Some(more)) => settings[key].as_object_mut().unwrap().extend(more.clone()),
                _ => settings[key] = value.clone(),
            }
        }
        let adapter = ClaudeCode::new(serde_json::from_value(settings).unwrap());
        Host::with(
            Server::new(adapter).stop_grace(STOP_GRACE),
            trunkline_sdk::testing::Offer::These(trunkline_sdk::Extensions::all()),
            64 * 1024,
        )
    }

    /// The command lines with which it was started.
    fn starts(&self) -> Vec<String> {
        let lines =
            std::fs::read_to_string(self.memory.path().join("command-lines")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }
}

fn resume(end: &TurnComplete) -> SessionStart {
    let resume = Resume {
        params: end.session_params.clone(),
        ..Resume::default()
    };
    SessionStart {
        resume: Some(resume),
        ..SessionStart::default()
    }
}

/// Returns the context that a turn, or an earlier message, reports.
fn context(turn: &TestTurn) -> Option<Context> {
    turn.messages
        .iter()
        .find_map(|message| match &message.body {
            AdapterBody::SessionInfo(info) => info.context,
            _ => None,
        })
}

async fn ticks(session: &TestSession) {
    session
        .wait_for(|body| {
            matches!(body, AdapterBody::Output(output) if output.content == "tick").then_some(())
        })
        .await;
}

#[tokio::test]
async fn one_process_serves_turn_after_turn_and_costs_are_the_turns_own() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    for (number, expected) in ["hello 0", "hello 1", "hello 2"].into_iter().enumerate() {
        let turn = session.send("hi").await;
        assert_eq!(
            (turn.text().as_str(), turn.end.status),
            (expected, Some(Status::Completed)),
            "{number}"
        );
        let usage = turn.end.usage.unwrap();
        assert_eq!(
            (usage.cost_usd, usage.input_tokens, usage.output_tokens),
            (Some(1.0), Some(10), Some(5))
        );
        assert!(turn.end.native_session_id.is_some() && turn.end.clear_session.is_none());
    }
    assert_eq!(place.starts().len(), 1);
}

/// Returns the answer to an update.
async fn updated(session: &TestSession, update: SessionUpdate) -> Value {
    session.say(update);
    let info = session.wait_for(|body| match body {
        // No other message contains an effort.
        AdapterBody::SessionInfo(info) if info.reasoning_effort.is_some() => {
            serde_json::to_value(info).ok()
        }
        _ => None,
    });
    info.await
}

#[tokio::test]
async fn an_update_is_answered_by_all_options_in_force() {
    let place = Place::new(&json!({"reasoning_effort": "low"}));
    let tools = Some(vec!["Read".to_owned()]);
    let asked = SessionStart {
        model: Some("haiku".into()),
        mode: Some("plan".into()),
        allowed_tools: tools.clone(),
        denied_tools: tools,
        ..SessionStart::default()
    };
    let session = place.host.open_with(asked);
    let before = json!({
        "model": "haiku", "mode": "plan", "permission_mode": "plan", "reasoning_effort": "low",
        "allowed_tools": ["Read"], "denied_tools": ["Read"],
    });
    assert_eq!(updated(&session, SessionUpdate::default()).await, before);
    // Claude reports the values in force with each turn.
    session.send("hi").await;
    let mut told = before;
    told["model"] = "fake-model".into();
    (told["mode"], told["permission_mode"]) = ("default".into(), "default".into());
    assert_eq!(updated(&session, SessionUpdate::default()).await, told);
    // That outlives the process, which a change of the effort ends.
    told["reasoning_effort"] = "high".into();
    let effort = SessionUpdate {
        reasoning_effort: Some("high".into()),
        ..SessionUpdate::default()
    };
    assert_eq!(updated(&session, effort).await, told);
    told["model"] = "sonnet".into();
    let model = SessionUpdate {
        model: Some("sonnet".into()),
        ..SessionUpdate::default()
    };
    assert_eq!(updated(&session, model).await, told);
}

#[tokio::test]
async fn requests_are_answered_in_any_order_while_others_are_open() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    session.begin("do: ask");
    let first = session.asked().await;
    let second = session.asked().await;
    session.answer(&second, true);
    let said = session.wait_for(|body| match body {
        AdapterBody::Output(output) => Some(output.content.clone()),
        _ => None,
    });
    assert_eq!(said.await, "allowed two. ");
    session.say(PermissionResponse {
        message: Some("no".into()),
        ..PermissionResponse::new(first, false)
    });
    let turn = session.finish().await;
    assert_eq!(
        (turn.text().as_str(), turn.end.status),
        ("denied one. ", Some(Status::Completed))
    );
    // No one answers: what is withdrawn needs no answer.
    session.begin("do: withdraw");
    let asked = session.asked().await;
    let withdrawn = session.wait_for(|body| match body {
        AdapterBody::PermissionCancel(cancel) => Some(cancel.request_id.clone()),
        _ => None,
    });
    assert_eq!(withdrawn.await, asked);
    assert_eq!(session.finish().await.end.status, Some(Status::Completed));
}

#[tokio::test]
async fn a_stop_interrupts_and_the_process_goes_on() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    session.begin("do: slow");
    ticks(&session).await;
    session.stop();
    let turn = session.finish().await;
    assert_eq!(
        (turn.end.status, turn.end.error),
        (Some(Status::Stopped), None)
    );
    assert_eq!(session.send("hi").await.text(), "hello 1");
    session.begin("do: ask");
    session.asked().await;
    session.stop();
    assert_eq!(session.finish().await.end.status, Some(Status::Stopped));
    assert_eq!(session.send("hi").await.text(), "hello 3");
    assert_eq!(place.starts().len(), 1);
}

#[tokio::test]
async fn one_that_is_deaf_to_an_interrupt_is_killed_and_resumed() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    session.send("hi").await;
    session.begin("do: deaf");
    ticks(&session).await;
    session.stop();
    let turn = timeout(STOP_GRACE, session.finish()).await.unwrap();
    assert_eq!(turn.end.status, Some(Status::Stopped));
    assert_eq!(session.send("hi").await.text(), "hello 1");
    let starts = place.starts();
    assert!(
        starts.len() == 2 && starts[1].contains("--resume"),
        "{starts:?}"
    );
}

#[tokio::test]
async fn a_process_that_ends_costs_its_turn_and_the_next_one_goes_on() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    session.send("hi").await;
    let end = session.send("do: die").await.end;
    let error = end.error.unwrap();
    assert_eq!((end.status, end.exit_code), (Some(Status::Failed), Some(3)));
    assert_eq!(error.category, Some(Category::ProcessExit));
    assert!(error.message.unwrap().contains("out of luck"));
    assert_eq!(session.send("do: leave").await.text(), "bye");
    assert_eq!(session.send("hi").await.text(), "hello 2");
    assert_eq!(
        place
            .starts()
            .iter()
            .filter(|start| start.contains("--resume"))
            .count(),
        2
    );
}

#[tokio::test]
async fn a_session_is_resumed_with_its_cost_and_an_unknown_one_begins_anew() {
    let mut place = Place::new(&json!({}));
    let first = place.host.open().send("hi").await.end;
    place.again();
    let turn = place.host.open_with(resume(&first)).send("hi").await;
    assert_eq!(
        (turn.text().as_str(), context(&turn)),
        ("hello 1", Some(Context::Kept))
    );
    assert_eq!(turn.end.usage.unwrap().cost_usd, Some(1.0));
    assert_eq!(turn.end.native_session_id, first.native_session_id);

    std::fs::remove_file(
        place
            .memory
            .path()
            .join(first.native_session_id.as_deref().unwrap()),
    )
    .unwrap();
    let session = place.host.open_with(resume(&first));
    let turn = session.send("hi").await;
    assert_eq!(
        (turn.text().as_str(), context(&turn)),
        ("hello 0", Some(Context::Lost))
    );
    assert_eq!(turn.end.clear_session, Some(true));
    assert_ne!(turn.end.native_session_id, first.native_session_id);
    assert_eq!(session.send("hi").await.end.clear_session, None);
}

#[tokio::test]
async fn a_copy_has_the_conversation_up_to_the_end_of_a_turn_and_its_source_stays() {
    let place = Place::new(&json!({}));
    let source = place.host.open();
    let first = source.send("hi").await.end;
    let second = source.send("hi").await.end;
    let copy_of = |end: &TurnComplete| {
        let mut start = resume(end);
        start.resume.as_mut().unwrap().fork = Some(true);
        start
    };
    let copy = place.host.open_with(copy_of(&first));
    let turn = copy.send("hi").await;
    assert_eq!(
        (turn.text().as_str(), context(&turn)),
        ("hello 1", Some(Context::Kept))
    );
    let native = turn.end.native_session_id.clone();
    assert!(native.is_some() && native != first.native_session_id);
    // The second turn of the copy, and the next process, are of the copy.
    assert_eq!(copy.send("do: leave").await.text(), "bye");
    let turn = copy.send("hi").await;
    assert_eq!(turn.text(), "hello 3");
    assert_eq!(turn.end.native_session_id, native);
    assert_eq!(source.send("hi").await.text(), "hello 2");
    let starts = place.starts();
    assert!(starts[1].ends_with(&format!(
        "--resume {} --fork-session --resume-session-at 00000000-0000-4000-8000-000000000001",
        first.native_session_id.as_deref().unwrap()
    )));
    assert!(
        !starts[2].contains("--fork-session") && starts[2].contains(native.as_deref().unwrap())
    );

    // A conversation that is named without parameters is copied whole.
    let mut whole = copy_of(&second);
    whole.resume.as_mut().unwrap().native_session_id = second.native_session_id.clone();
    whole.resume.as_mut().unwrap().params = None;
    assert_eq!(
        place.host.open_with(whole).send("hi").await.text(),
        "hello 3"
    );
}

#[tokio::test]
async fn a_copy_whose_end_is_not_known_begins_anew() {
    let place = Place::new(&json!({}));
    let end = place.host.open().send("hi").await.end;
    let params = |change: &dyn Fn(&mut Value)| {
        let mut params: Value = end.session_params.as_ref().unwrap().to().unwrap();
        change(&mut params);
        let resume = Resume {
            params: Some(trunkline_sdk::Json::from_serialize(&params).unwrap()),
            fork: Some(true),
            ..Resume::default()
        };
        SessionStart {
            resume: Some(resume),
            ..SessionStart::default()
        }
    };
    // Of an earlier release, of a strange form, and of a message that Claude does not know.
    for (start, starts) in [
        (
            params(&|params| {
                params.as_object_mut().unwrap().remove(LAST_MESSAGE);
            }),
            1,
        ),
        (params(&|params| params[LAST_MESSAGE] = json!("--evil")), 1),
        (
            params(&|params| {
                params[LAST_MESSAGE] = json!("00000000-0000-4000-8000-000000000009");
            }),
            2,
        ),
    ] {
        let before = place.starts().len();
        let turn = place.host.open_with(start).send("hi").await;
        assert_eq!(
            (turn.text().as_str(), context(&turn)),
            ("hello 0", Some(Context::Lost))
        );
        assert_eq!(place.starts().len() - before, starts);
    }
    // So does one of a version that copies nothing.
    // The answer to `--version` is remembered by program and search path.
    let path = std::env::var("PATH").unwrap() + ":/an-old-one";
    let old = Place::new(&json!({"env": {"FAKE_VERSION": "1.0.127", "PATH": path}}));
    let end = old.host.open().send("hi").await.end;
    let mut start = resume(&end);
    start.resume.as_mut().unwrap().fork = Some(true);
    let turn = old.host.open_with(start).send("hi").await;
    assert_eq!(
        (turn.text().as_str(), context(&turn)),
        ("hello 0", Some(Context::Lost))
    );
}

#[tokio::test]
async fn a_session_is_not_resumed_in_another_directory_nor_by_a_strange_id() {
    let place = Place::new(&json!({}));
    let end = place.host.open().send("hi").await.end;
    let elsewhere = SessionStart {
        cwd: Some("/".to_owned()),
        ..resume(&end)
    };
    let strange = Resume {
        native_session_id: Some("--evil".to_owned()),
        ..Resume::default()
    };
    let strange = SessionStart {
        resume: Some(strange),
        ..SessionStart::default()
    };
    for start in [elsewhere, strange] {
        let turn = place.host.open_with(start).send("hi").await;
        assert_eq!(
            (turn.text().as_str(), context(&turn)),
            ("hello 0", Some(Context::Lost))
        );
    }
    assert!(
        !place
            .starts()
            .iter()
            .any(|start| start.contains("--resume"))
    );
}

/// The word after an option on the only command line.
#[track_caller]
fn given(place: &Place, option: &str) -> String {
    let starts = place.starts();
    let [line] = &starts[..] else {
        panic!("{starts:?}")
    };
    let (_, rest) = line
        .split_once(&format!(" {option} "))
        .unwrap_or_else(|| panic!("no {option}: {line}"));
    rest.split(' ').next().unwrap().to_owned()
}

fn json_of(file: String) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[tokio::test]
async fn the_settings_of_a_sandbox_are_given_to_claude() {
    let place = Place::new(&json!({"sandbox": true, "allowed_domains": ["a.org"]}));
    let session = place.host.open();
    session.send("hi").await;
    let settings = json_of(given(&place, "--settings"));
    let sandbox = &settings["sandbox"];
    assert_eq!(
        (&sandbox["enabled"], &sandbox["failIfUnavailable"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(sandbox["network"]["allowedDomains"], json!(["a.org"]));
}

#[tokio::test]
async fn claude_runs_as_the_configured_agent() {
    let place = Place::new(&json!({"agent": {"name": "clerk", "persona": "You keep books."}}));
    let session = place.host.open();
    session.send("hi").await;
    assert_eq!(given(&place, "--agent"), "clerk");
    let file = PathBuf::from(given(&place, "--add-dir")).join(".claude/agents/clerk.md");
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("You keep books.")
    );
}

#[tokio::test]
async fn the_servers_of_a_project_are_given_to_claude() {
    let project = TempDir::new().unwrap();
    let servers = json!({"mcpServers": {"hub": {"type": "http", "url": "https://hub.example"}}});
    std::fs::write(project.path().join(".mcp.json"), servers.to_string()).unwrap();
    let place = Place::new(&json!({"project_mcp": true, "work_dir": project.path()}));
    let session = place.host.open();
    session.send("hi").await;
    let servers = json_of(given(&place, "--mcp-config"));
    assert_eq!(servers["mcpServers"]["hub"]["url"], "https://hub.example");
}

#[tokio::test]
async fn an_input_that_is_added_to_a_turn_is_answered_within_it() {
    let place = Place::new(&json!({}));
    let session = place.host.open();
    let turn = session.begin("do: slow");
    ticks(&session).await;
    session.say_of(
        turn,
        UserInput {
            mode: Some(InputMode::Steer),
            ..UserInput::text("more")
        },
    );
    let delivered = session.wait_for(|body| match body {
        AdapterBody::SteerResult(result) => Some(result.delivered),
        _ => None,
    });
    assert!(delivered.await);
    session.stop();
    assert_eq!(session.finish().await.end.status, Some(Status::Stopped));
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_flood_is_read() {
    let place = Place::new(&json!({"silence_timeout": "300ms"}));
    let session = place.host.open();
    let end = session.send("do: silent").await.end;
    assert_eq!(
        (end.status, end.error.unwrap().category),
        (Some(Status::Failed), Some(Category::Timeout))
    );
    let flood = session.send("do: flood").await;
    assert!(flood.text().ends_with(" 2999 "));
    let missing = Place::new(&json!({"command": "no-such-claude"}));
    let end = missing.host.open().send("hi").await.end;
    assert_eq!(end.error.unwrap().category, Some(Category::NotInstalled));
}
