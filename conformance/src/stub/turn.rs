//! The workers of a session: one serves its turns, the other carries out rules beside them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::action::{self, Action, Message};
use super::args::ScriptError;
use super::frame::{Frame, message};
use super::session::{StubInput, StubSession, WorkerTask};
use super::state::Stub;

/// Serves the start of a session and then its turns, until it is closed.
pub(super) fn first_worker(stub: &Arc<Stub>, session: &Arc<StubSession>) {
    if session.look(|state| state.ready) {
        let deadline = Instant::now() + Duration::from_millis(stub.script.ready_delay_ms);
        session.wait(Some(deadline), || false, |state| state.closed);
        let _ = Frame::of_session(stub, session, 0).emit(&ready(stub, session));
    }
    if let Some(actions) = stub.script.rule("session.start") {
        let _ = Frame::of_session(stub, session, 0).perform(actions);
    }
    while let Some(input) = session.next_input() {
        serve(stub, session, &input);
    }
}

/// Carries out what does not wait for a turn, until the session is closed.
pub(super) fn second_worker(stub: &Arc<Stub>, session: &Arc<StubSession>) {
    while let Some(errand) = session.next_errand() {
        match errand {
            WorkerTask::Rule { kind, arrival } => {
                let actions = stub.script.rule(&kind).unwrap_or_default();
                let _ = Frame::of_session(stub, session, arrival).perform(actions);
            }
            WorkerTask::Emit(message) => drop(Frame::of_session(stub, session, 0).emit(&message)),
            WorkerTask::Instructions { content, arrival } => {
                let frame = Frame::of_session(stub, session, arrival);
                match instructions(&content) {
                    Some(Ok(actions)) => drop(frame.perform(&actions)),
                    Some(Err(error)) => frame.failed(&error),
                    None => {}
                }
            }
        }
    }
}

/// The actions and the name that content carries, if it is not a plain text.
pub(super) fn instructions(content: &str) -> Option<Result<Vec<Action>, ScriptError>> {
    let object = envelope(content)?;
    Some(action::list(object.get("$stub")?, "$stub"))
}

/// The name that content gives to its session.
pub(super) fn name_in(content: &str) -> Option<String> {
    let name = envelope(content)?.get("as")?.as_str()?.to_owned();
    Some(name)
}

fn envelope(content: &str) -> Option<Message> {
    if !content.trim_start().starts_with('{') {
        return None;
    }
    let object: Message = serde_json::from_str(content).ok()?;
    object.contains_key("$stub").then_some(object)
}

fn ready(stub: &Stub, session: &StubSession) -> Message {
    let mut ready = message(json!({
        "type": "session.ready",
        "protocol": 1,
        "extensions": session.look(|state| state.agreed.clone()),
        "adapter": {"name": "conformance-stub", "version": env!("CARGO_PKG_VERSION")},
    }));
    ready.extend(stub.script.ready.clone());
    ready
}

fn serve(stub: &Arc<Stub>, session: &Arc<StubSession>, input: &StubInput) {
    let frame = Frame::of_turn(stub, session, input);
    let rule = stub.script.rule("user.input");
    match (instructions(&input.content), rule) {
        (Some(Ok(actions)), _) => perform(&frame, &actions),
        (Some(Err(error)), _) => {
            frame.failed(&error);
            let told = frame.say(&error.to_string(), Some("system"));
            let _ = told.and_then(|()| frame.complete(&Message::new()));
        }
        (None, Some(actions)) => perform(&frame, actions),
        (None, None) => {
            let echoed = frame.say(&input.content, None);
            let _ = echoed.and_then(|()| frame.complete(&Message::new()));
        }
    }
    settle(&frame);
}

fn perform(frame: &Frame, actions: &[Action]) {
    if frame.stub.script.rule("stop").is_some() || action::handles_stop(actions) {
        frame.session.with(|state| {
            if let Some(turn) = &mut state.turn {
                turn.handles_stop = true;
            }
        });
    }
    let _ = frame.perform(actions);
}

/// Waits until the turn ends, and answers a stop that nothing else answers.
fn settle(frame: &Frame) {
    let mut stopped = false;
    frame.session.wait(
        None,
        || false,
        |state| {
            let turn = state.turn.as_ref().filter(|turn| turn.open);
            stopped = turn.is_some_and(|turn| turn.stopped && !turn.handles_stop);
            state.closed || turn.is_none() || stopped
        },
    );
    if stopped && !frame.session.look(|state| state.closed) {
        let status = frame.session.agreed_on("turns").then_some("stopped");
        let _ = frame.complete(&message(json!({"status": Value::from(status)})));
    }
}
