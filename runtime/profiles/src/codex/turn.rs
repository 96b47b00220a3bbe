//! The turns of a thread: begun, waited for, finished once.

mod earlier;
mod line;
mod running;

use std::sync::Arc;

use serde_json::Value;
use trunkline_sdk::protocol::TurnComplete;
use trunkline_sdk::{Category, Error, Status, Turn};

use self::earlier::InterruptedTurn;
use self::line::{Command, ServerCall, ThreadLine, give_up};
use self::running::{CodexTurn, TurnEndCause};
use super::conversation::{ANSWER, AppServerThread, LAST_TURN, ThreadLink};
use super::process::{BETWEEN_TURNS, gone};
use super::request;
use crate::agent::deadlines::Watch;
use crate::agent::end::end_by;
use crate::agent::rpc::CallError;
use crate::agent::turn::{self, Engine, TurnFinish};

/// Runs a turn of a thread that is linked.
pub(super) async fn run(
    turn: Turn,
    input: Vec<Value>,
    thread: &mut AppServerThread,
    link: &Arc<ThreadLink>,
) {
    let _running = link.server.peer.begin_turn();
    link.inbox.resume();
    let end = serve(&turn, input, thread, link).await;
    link.server.refuse(link.inbox.pause(BETWEEN_TURNS));
    let usage = thread
        .translator
        .meter
        .take_usage(thread.model.clone(), thread.provider.clone());
    let mut params = thread.options.session_params(&link.thread);
    params.more.remove(LAST_TURN);
    let last_turn = thread.last_turn.clone();
    params
        .more
        .extend(last_turn.map(|turn| (LAST_TURN.to_owned(), turn.into())));
    let end = TurnComplete {
        usage,
        model: thread.model.clone(),
        provider: thread.provider.clone(),
        native_session_id: Some(link.thread.clone()),
        session_params: params.to_json(),
        ..end
    };
    thread.report.finish(turn, end, None).await;
}

/// Waits for the end of an earlier turn that was left running: an input now would join it. Returns
/// false if Codex does not end it: the app server is retired, and the thread must be resumed in
/// another one.
///
/// # Errors
/// Why this turn cannot run.
pub(super) async fn finish_earlier(
    turn: &Turn,
    thread: &mut AppServerThread,
    link: &ThreadLink,
) -> Result<bool, Error> {
    let Some(old) = thread.unfinished.clone() else {
        return Ok(true);
    };
    let _running = link.server.peer.begin_turn();
    link.inbox.resume();
    let earlier = InterruptedTurn {
        thread: &link.thread,
        turn: old,
    };
    let silence = thread.options.deadlines.silence;
    let mut line = ThreadLine::new(link);
    let report = &mut thread.report;
    let (earlier, end) = turn::finish_earlier(earlier, silence, &mut line, turn, report).await;
    link.server.refuse(link.inbox.pause(BETWEEN_TURNS));
    match &end {
        Ok(true) => thread.unfinished = None,
        Ok(false) => link.server.peer.retire(),
        Err(_) if link.inbox.is_taken() => give_up(link, &earlier.turn).await,
        Err(_) => {}
    }
    end
}

async fn serve(
    turn: &Turn,
    input: Vec<Value>,
    thread: &mut AppServerThread,
    link: &Arc<ThreadLink>,
) -> TurnComplete {
    thread.warn(turn).await;
    let overrides = std::mem::take(&mut thread.overrides);
    let params = request::turn(&link.thread, &input, &overrides, &thread.thread);
    drop(input);
    let deadlines = thread.options.deadlines;
    let begin = Command::Call(
        ServerCall::Begin,
        params.into(),
        deadlines.start.unwrap_or(ANSWER),
    );
    let (running, report) = CodexTurn::new(&link.thread, thread);
    let engine = Engine::new(running, Watch::new(deadlines)).begin(|_, out| out.send(begin));
    let mut line = ThreadLine::new(link);
    let (running, TurnFinish { why, .. }) = turn::run(engine, &mut line, turn, report).await;
    let CodexTurn {
        over,
        is_denied,
        unfinished,
        mut signs,
        ..
    } = running;
    let is_stopped = why
        .as_ref()
        .is_some_and(|why| why.status() == Status::Stopped);
    let error = match over {
        // It has not ended in time; the next turn waits for it. The id of one that has none comes
        // with its beginning.
        None => {
            unfinished.get_or_insert_default();
            if !is_stopped {
                // Even an interrupt did not help.
                link.server.peer.retire();
            }
            why.unwrap_or_else(Error::stopped)
        }
        Some(TurnEndCause::Ended) => {
            signs.cut(why);
            let answer = thread.translator.answer.take();
            return signs.judge().complete(TurnComplete {
                result: answer.filter(|_| thread.options.output_schema.is_some()),
                ..TurnComplete::default()
            });
        }
        Some(TurnEndCause::Taken) => {
            if let Some(turn) = unfinished.take() {
                give_up(link, &turn).await;
            }
            if is_stopped && !is_denied {
                Error::stopped()
            } else {
                taken()
            }
        }
        Some(TurnEndCause::NotBegun(CallError::Gone(ended))) => gone(&ended),
        Some(TurnEndCause::NotBegun(_)) if is_stopped => Error::stopped(),
        Some(TurnEndCause::NotBegun(error)) => {
            thread.overrides = overrides;
            if matches!(error, CallError::Late { .. }) {
                // It may begin yet, and would take the next input for its own.
                link.server.peer.retire();
            }
            error.error("codex began no turn")
        }
    };
    end_by(&error)
}

/// The failure of a turn whose thread another session has resumed: what follows could be of either's turn.
fn taken() -> Error {
    let text = "another session has resumed this codex thread; close it, or this one, and send the input again";
    Error::new(Category::Busy, text)
}
