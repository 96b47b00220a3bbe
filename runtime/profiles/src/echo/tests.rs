use trunkline_sdk::{
    Server, SessionStart, Status,
    protocol::{AdapterBody, AdapterKind, InputMode, UserInput},
    testing::{Host, Offer, TestTurn},
};

use super::*;

fn kinds(turn: &TestTurn) -> Vec<AdapterKind> {
    turn.messages
        .iter()
        .map(|message| message.body.kind())
        .filter(|kind| *kind != AdapterKind::SessionReady)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn text_and_unknown_commands_come_back_unchanged() {
    let session = Host::with(Server::new(Echo), Offer::Core, 64);
    let session = session.open();
    for text in ["", "hello", "/unknown x", "\u{2028}\0\u{1F600}", "/sleep"] {
        assert_eq!(session.send(text).await.text(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_only_with_permission() {
    let host = Host::start(Echo);
    let session = host.open();
    let denied = session.send("/tool rm").await;
    assert_eq!(
        (denied.text().as_str(), kinds(&denied).len()),
        ("denied rm", 2)
    );
    let ran = session
        .send_with("/tool rm", |request| request.tool == "rm")
        .await;
    assert_eq!(
        kinds(&ran),
        [
            AdapterKind::PermissionRequest,
            AdapterKind::ToolStart,
            AdapterKind::ToolEnd,
            AdapterKind::Output
        ]
    );
    let again = session.send_with("/tool rm", |_| true).await;
    let call = |turn: &TestTurn| {
        turn.messages
            .iter()
            .find_map(|message| match &message.body {
                AdapterBody::ToolStart(start) => Some(start.tool_call_id.clone()),
                _ => None,
            })
    };
    assert_ne!(
        call(&ran).expect("a call"),
        call(&again).expect("a call"),
        "an id names one call of its session"
    );
    let core = Host::with(Server::new(Echo), Offer::Core, 64);
    let ran = core.open().send_with("/tool rm", |_| true).await;
    assert_eq!(
        kinds(&ran),
        [AdapterKind::PermissionRequest, AdapterKind::Output]
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_is_complete_when_it_is_announced() {
    let folder = tempfile::tempdir().expect("a folder");
    let exchange_dir = folder.path().to_str().map(str::to_owned);
    let host = Host::start(Echo);
    let session = host.open_with(SessionStart {
        exchange_dir,
        ..SessionStart::default()
    });
    let turn = session.send("/file a.csv").await;
    let file = turn
        .messages
        .iter()
        .find_map(|message| match &message.body {
            AdapterBody::FileOutput(file) => Some(file),
            _ => None,
        });
    let file = file.expect("a file");
    assert_eq!(
        (file.file_name.as_deref(), file.file_mime_type.as_deref()),
        (Some("a.csv"), Some("text/csv"))
    );
    assert_eq!(
        std::fs::read_to_string(&file.file_path).expect("there"),
        "a file named a.csv\n"
    );
    assert!(std::path::Path::new(&file.file_path).starts_with(folder.path()));
}

#[tokio::test(start_paused = true)]
async fn sleep_can_be_stopped_and_steered_and_says_that_it_works() {
    let host = Host::start(Echo);
    let session = host.open();
    let slept = session.send("/sleep 12").await;
    assert_eq!(slept.text(), "slept 12 s");
    assert_eq!(
        kinds(&slept),
        [
            AdapterKind::Working,
            AdapterKind::Working,
            AdapterKind::Output
        ]
    );
    session.begin("/sleep 3600");
    session.say(UserInput {
        mode: Some(InputMode::Steer),
        ..UserInput::text("hurry")
    });
    session
        .wait_for(|body| matches!(body, AdapterBody::Output(_)).then_some(()))
        .await;
    session.stop();
    assert_eq!(session.finish().await.end.status, Some(Status::Stopped));
}

#[tokio::test(start_paused = true)]
async fn failures_bursts_thoughts_and_plans() {
    let host = Host::start(Echo);
    let session = host.open();
    let failed = session.send("/fail no luck").await.end;
    assert_eq!(failed.status, Some(Status::Failed));
    assert_eq!(
        failed.error.and_then(|error| error.message).as_deref(),
        Some("no luck")
    );
    let burst = session.send("/burst 3 20").await;
    assert_eq!(burst.text().len(), 60);
    assert_eq!(
        kinds(&session.send("/think hm").await),
        [AdapterKind::Thinking, AdapterKind::Output]
    );
    assert_eq!(
        kinds(&session.send("/plan a; b").await),
        [AdapterKind::Plan, AdapterKind::Output]
    );
}
