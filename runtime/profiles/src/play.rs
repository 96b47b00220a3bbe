//! Sends messages of recordings and scripts anew.

use std::time::Duration;

use tokio::time::sleep;
use trunkline_sdk::{
    Category, ClosedReason, Error, Permission, Question, Session, Turn,
    protocol::{
        AdapterBody, FileOutput, InputRequest, PermissionRequest, SessionInfo, TurnComplete,
    },
};

use crate::agent::deadlines::within;

/// Sends a message in a turn. Requests are made anew and awaited; ids of sessions, turns and
/// requests are new ones. Returns the end of the turn, if the message is one.
///
/// `approved` is the decision on a recorded request: the turn continues as recorded, and a
/// different decision is reported. After the time `withdrawn` a request is taken back.
pub(crate) async fn play(
    turn: &Turn,
    body: AdapterBody,
    approved: Option<bool>,
    withdrawn: Option<Duration>,
) -> Option<TurnComplete> {
    match body {
        AdapterBody::TurnComplete(end) => return Some(*end),
        AdapterBody::PermissionRequest(request) => {
            let decision = within(withdrawn, turn.ask_permission(permission(*request))).await;
            if let (Ok(decision), Some(then)) = (decision, approved)
                && decision.is_approved() != then
                && !turn.is_stopped()
            {
                let word = |approved| if approved { "approved" } else { "denied" };
                turn.progress(format!(
                    "{} now, {} then: the recording is played unchanged",
                    word(decision.is_approved()),
                    word(then)
                ))
                .await;
            }
        }
        AdapterBody::InputRequest(request) => {
            drop(within(withdrawn, turn.ask(question(*request))).await);
        }
        AdapterBody::FileOutput(file) => send_file(turn, file).await,
        AdapterBody::SessionInfo(_)
        | AdapterBody::SessionReady(_)
        | AdapterBody::SessionClosed(_) => report_session(turn.session(), body).await,
        // Each of these answers or takes back something of its own time.
        AdapterBody::SteerResult(_)
        | AdapterBody::PermissionCancel(_)
        | AdapterBody::Pong(_)
        | AdapterBody::SessionsListResult(_)
        | AdapterBody::AgentsListResult(_) => {}
        event => turn.emit(event).await,
    }
    None
}

/// Sends what is outside turns; requests and ends have no place there.
pub(crate) async fn report_session(session: &Session, body: AdapterBody) {
    match body {
        AdapterBody::SessionReady(ready) => {
            let info = learnt(ready.info);
            if info != SessionInfo::default() {
                session.info(info);
            }
        }
        AdapterBody::SessionInfo(info) => session.info(*info),
        AdapterBody::SessionClosed(closed) => {
            session.end(
                closed.reason.unwrap_or(ClosedReason::Finished),
                closed.error,
            );
        }
        body => session.emit(body).await,
    }
}

/// Waits for `time`, and reports work at the interval `working`. A stop ends the wait at once.
pub(crate) async fn rest(turn: &Turn, time: Duration, working: Duration) -> Result<(), Error> {
    let mut left = time;
    while !left.is_zero() {
        let nap = left.min(working);
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            () = sleep(nap) => left -= nap,
        }
        if !left.is_zero() {
            turn.working().await;
        }
    }
    Ok(())
}

/// Sends a file, or an error if the recorded file no longer exists.
async fn send_file(turn: &Turn, file: FileOutput) {
    let path = file.file_path;
    let name = file
        .file_name
        .unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned());
    let mime = file
        .file_mime_type
        .unwrap_or_else(|| trunkline_sdk::file_type_of(&name).to_owned());
    if let Err(error) = turn.file_as(&path, name, mime).await {
        turn.error(
            Category::FileRefused,
            format!("the file {path} was removed: {error}"),
        )
        .await;
    }
}

/// The members of an earlier `session.ready` that describe the agent. The others describe the
/// adapter of that time.
fn learnt(info: SessionInfo) -> SessionInfo {
    SessionInfo {
        adapter: None,
        capabilities: None,
        input_modes: None,
        options_applied: None,
        ..info
    }
}

fn permission(request: PermissionRequest) -> Permission {
    let mut permission = Permission::new(
        request.tool,
        request.description.unwrap_or_default(),
        request.resource.unwrap_or_default(),
    );
    if let Some(input) = request.input {
        permission = permission.input(input);
    }
    if let Some(title) = request.title {
        permission = permission.title(title);
    }
    if let Some(call) = request.tool_call_id {
        permission = permission.tool_call(call);
    }
    if let Some(parent) = request.parent_tool_call_id {
        permission = permission.parent(parent);
    }
    if let Some(diffs) = request.diffs {
        permission = permission.diffs(diffs);
    }
    for option in request.options.unwrap_or_default() {
        let Some(kind) = option.kind else { continue };
        let label = option.label.unwrap_or_else(|| option.id.clone());
        permission = permission.option(option.id, label, kind);
    }
    permission
}

fn question(request: InputRequest) -> Question {
    let question = Question::new(request.prompt);
    request
        .fields
        .unwrap_or_default()
        .into_iter()
        .fold(question, Question::field)
}
