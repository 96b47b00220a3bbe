//! Saying again what an adapter said: for recordings and scripts.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use trunkline_sdk::{
    Category, Decision, Error, Permission, Question, Turn,
    protocol::{
        AdapterBody, FileOutput, InputRequest, PermissionRequest, SessionInfo, TurnComplete,
    },
};

/// What saying it came to.
#[derive(Debug)]
pub(crate) enum Played {
    /// It was said.
    Said,
    /// The host's word on a permission.
    Decided(Decision),
    /// A question was answered.
    Answered,
    /// The turn must end so.
    End(Box<TurnComplete>),
}

/// Says one thing in a turn. Requests are made anew and waited for; ids of sessions, turns and requests are those of
/// today. `withdrawn`: a request is taken back after that time.
pub(crate) async fn play(turn: &Turn, body: AdapterBody, withdrawn: Option<Duration>) -> Played {
    match body {
        AdapterBody::TurnComplete(end) => return Played::End(end),
        AdapterBody::PermissionRequest(request) => {
            return limited(withdrawn, turn.ask_permission(permission(*request)))
                .await
                .map_or(Played::Said, Played::Decided);
        }
        AdapterBody::InputRequest(request) => {
            return limited(withdrawn, turn.ask(question(*request)))
                .await
                .map_or(Played::Said, |_| Played::Answered);
        }
        AdapterBody::FileOutput(file) => send_file(turn, file).await,
        AdapterBody::SessionInfo(info) => turn.session().info(*info),
        AdapterBody::SessionReady(ready) => turn.session().info(learnt(ready.info)),
        AdapterBody::SessionClosed(closed) => {
            let reason = closed
                .reason
                .unwrap_or(trunkline_sdk::ClosedReason::Finished);
            turn.session().end(reason, closed.error);
        }
        // Each of these answers or takes back something of its own time.
        AdapterBody::SteerResult(_)
        | AdapterBody::PermissionCancel(_)
        | AdapterBody::Pong(_)
        | AdapterBody::SessionsListResult(_)
        | AdapterBody::AgentsListResult(_) => {}
        said => turn.emit(said).await,
    }
    Played::Said
}

/// Waits as long as that, and reports work at this interval. A stop ends it at once.
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

async fn limited<T>(longest: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match longest {
        Some(longest) => timeout(longest, work).await.ok(),
        None => Some(work.await),
    }
}

/// A file that is gone is reported: what a recording names need not be there any more.
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
            format!("the file {path} is not there any more: {error}"),
        )
        .await;
    }
}

/// What an earlier `session.ready` tells of the agent; what it tells of the adapter was true of another one.
pub(crate) fn learnt(info: SessionInfo) -> SessionInfo {
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
