//! The sequential work of a session. A task exists only while there is work.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use trunkline_pipe::take_json;
use trunkline_protocol::{
    Category, ClosedReason, ErrorEvent, FileInput, HostBody, LargeMember, SessionInfo,
    SessionStart, Status, UserInput, filled,
};

use super::Link;
use crate::{
    Error, Input, Session, Turn, probe,
    session::{EndOrigin, Next, State, ended},
    turn::differs,
};

/// Serves a session until it has nothing to do.
pub(super) async fn work(link: Arc<Link>, session: Session) {
    let (mut state, cut) = session.0.begin_work();
    while let Some(next) = session.0.next(&mut state) {
        match next {
            Next::Start(options) => {
                tokio::select! {
                    biased;
                    () = cut.cancelled() => {}
                    started = start(&link, &session, *options) => state = started,
                }
            }
            Next::Turn(begun, mut input, large) => {
                if let Some(member) = large {
                    match text_in(session.0.exchange_dir.clone(), member).await {
                        Ok(text) => input.content = text,
                        Err(why) => {
                            let error = Error::new(Category::FileRefused, why);
                            session
                                .0
                                .end_turn(begun.serial, error.into_end(), EndOrigin::Returned);
                            continue;
                        }
                    }
                    session.0.with_ledger(|ledger| ledger.input(&input.content));
                }
                let turn = Turn::new(session.clone(), begun);
                serve(&link, &session, turn, input, &mut state).await;
            }
            Next::File(file) => {
                let hook = link.take_file(&session, file, &mut state);
                tokio::select! {
                    biased;
                    () = cut.cancelled() => {}
                    () = hook => {}
                }
            }
            Next::Update(update) => {
                let hook =
                    caught(async { link.adapter.update(&session, *update, &mut state).await });
                let info = tokio::select! {
                    biased;
                    () = cut.cancelled() => SessionInfo::default(),
                    updated = hook => updated.unwrap_or_else(|error| {
                        tracing::warn!(session = %session.id(), %error, "the update failed");
                        SessionInfo::default()
                    }),
                };
                session.info(info);
            }
            Next::Close => return close(&link, &session, state).await,
        }
        tokio::task::consume_budget().await;
    }
}

/// The text of an input that was too long for a line.
async fn text_in(folder: Option<Box<Path>>, member: LargeMember) -> Result<String, String> {
    let read = move || {
        let folder = folder.ok_or("the session has no exchange folder")?;
        let json = take_json(&folder, &member).map_err(|error| error.to_string())?;
        let body = HostBody::from(UserInput::default());
        match filled(&body, &[("content".to_owned(), json)]) {
            Ok(HostBody::UserInput(input)) => Ok(input.content),
            Ok(_) => Err("it is not a text".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    };
    let read = tokio::task::spawn_blocking(read)
        .await
        .unwrap_or_else(|gone| Err(gone.to_string()));
    read.map_err(|why| format!("the text of the input could not be read from its file: {why}"))
}

impl Link {
    /// Gives the author a file that is what the host announced, and the host a word where it is not.
    async fn take_file(&self, session: &Session, file: FileInput, state: &mut Option<State>) {
        let differs = differs(&file).await;
        session.0.judge_file(&file, differs.is_some());
        let taken = match differs {
            Some(why) => {
                let name = file.file_name.unwrap_or(file.file_path);
                Err(Error::new(
                    Category::FileRefused,
                    format!("{name:?} was not taken: {why}"),
                ))
            }
            None => caught(async { self.adapter.file(session, file, state).await }).await,
        };
        if let Err(error) = taken {
            let event = ErrorEvent {
                category: error.failure().category,
                message: error.to_string(),
                fatal: Some(false),
                ..Default::default()
            };
            session.emit(event).await;
        }
    }
}

async fn start(link: &Link, session: &Session, options: SessionStart) -> Option<State> {
    match caught(async { link.adapter.start(session, options).await }).await {
        Ok(state) => Some(state),
        Err(error) => {
            let reason = error.closes().unwrap_or(match error.status() {
                Status::Refused => ClosedReason::Refused,
                Status::Limit => ClosedReason::Limit,
                Status::Completed | Status::Stopped | Status::Failed => ClosedReason::Failed,
            });
            session.end(reason, Some(error.failure().clone()));
            None
        }
    }
}

async fn serve(
    link: &Link,
    session: &Session,
    turn: Turn,
    input: Input,
    state: &mut Option<State>,
) {
    let serial = turn.serial();
    let cut = session.0.cut_of(serial);
    let handler = caught(async {
        match probe::script_in(link.terms.probing, &input.content) {
            Some(script) => probe::run(turn, script, &link.description).await,
            None => link.adapter.turn(turn, input, state).await,
        }
    });
    let returned = tokio::select! {
        biased;
        // Who cuts has ended the turn.
        () = cut.cancelled() => return,
        returned = handler => returned,
    };
    let (end, closes) = match returned {
        Ok(()) => (ended(Status::Completed, None), None),
        Err(error) => {
            let closes = error
                .closes()
                .map(|reason| (reason, error.failure().clone()));
            (error.into_end(), closes)
        }
    };
    session.0.end_turn(serial, end, EndOrigin::Returned);
    if let Some((reason, failure)) = closes {
        session.end(reason, Some(failure));
    }
}

async fn close(link: &Link, session: &Session, state: Option<State>) {
    if let Some(state) = state {
        let hook = caught(async {
            link.adapter.close(session, state).await;
            Ok(())
        });
        tokio::select! {
            biased;
            () = link.gone.cancelled() => {}
            closed = hook => if let Err(error) = closed {
                tracing::warn!(session = %session.id(), %error, "the session's close failed");
            }
        }
    }
    let made = session.0.take_made();
    if !made.is_empty() {
        remove(made).await;
    }
}

async fn remove(folders: Vec<PathBuf>) {
    for folder in folders {
        if let Err(error) = tokio::fs::remove_dir_all(&folder).await {
            tracing::debug!(%error, "a made file is gone already");
        }
    }
}

/// Runs an author's future; a panic in it becomes an error.
pub(super) async fn caught<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut future = pin!(future);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(Error::other(format!(
                "the adapter panicked: {}",
                text_of(&*panic)
            )))),
        },
    )
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
