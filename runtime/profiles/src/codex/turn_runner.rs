//! One turn of a thread: begun, told, asked, steered, interrupted, ended once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use trunkline_sdk::protocol::{Progress, TurnComplete};
use trunkline_sdk::{Category, Error, Status, Steer, Turn};

use super::approval::Ask;
use super::fault::Fault;
use super::inbox::Mail;
use super::request::{self, Overrides};
use super::server::gone;
use super::thread::{ANSWER, Link, Thread};
use super::translate::{End, Event};
use crate::agent::deadlines::{Watch, at};
use crate::agent::failure;
use crate::agent::rpc::{CallError, Id};

/// How long a stopped turn has to end, within the grace that the host is told.
const STOP: Duration = Duration::from_millis(1500);

/// How long a turn has to end that was interrupted for another reason.
const INTERRUPT: Duration = Duration::from_secs(10);

/// The most requests and steers of a turn that are open at a time.
const MOST_OPEN: usize = 256;

type Work<'t> = BoxFuture<'t, Done>;

/// What was waited for beside the messages of the thread.
enum Done {
    /// A person's word was passed on, or is not wanted any more.
    Answered {
        request: String,
        ends: bool,
        word: Option<String>,
    },
    Interrupted(Result<Value, CallError>),
    Steered,
}

/// Runs a turn of a thread that is linked.
pub(super) async fn run(turn: Turn, input: Vec<Value>, thread: &mut Thread, link: &Arc<Link>) {
    let _busy = link.server.busy();
    link.inbox.begin();
    let end = match settle(thread, link).await {
        Ok(()) => {
            let running = Running::new(&turn, thread, link);
            running.run(input).await
        }
        Err(error) => Err(error),
    };
    link.server.refuse(link.inbox.end());
    let usage = thread.translator.meter.take().filter(|tokens| tokens.total() > 0);
    let usage = usage.map(|tokens| tokens.usage(thread.model.as_deref(), thread.provider.as_deref()));
    let end = match end {
        Ok(status) => TurnComplete { status: Some(status), ..TurnComplete::default() },
        Err(error) => {
            let failed = error.status() != Status::Stopped;
            let error_of = failed.then(|| error.failure().clone());
            TurnComplete { status: Some(error.status()), error: error_of, ..TurnComplete::default() }
        }
    };
    turn.finish(TurnComplete {
        usage,
        model: thread.model.clone(),
        provider: thread.provider.clone(),
        native_session_id: Some(link.thread.clone()),
        session_params: thread.options.session_params(Some(&link.thread)),
        ..end
    });
}

/// Waits for the end of an earlier turn that was left running: an input now would join it.
async fn settle(thread: &mut Thread, link: &Link) -> Result<(), Error> {
    let Some(mut old) = thread.unfinished.clone() else { return Ok(()) };
    let deadline = Instant::now() + INTERRUPT;
    let mut interrupting: Option<BoxFuture<'_, Result<Value, CallError>>> = None;
    let mut is_told = false;
    loop {
        if interrupting.is_none() && !is_told && !old.is_empty() {
            let old = old.clone();
            interrupting = Some(Box::pin(async move { interrupt(link, &old).await }));
        }
        let told = async {
            match &mut interrupting {
                Some(call) => call.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            mail = link.inbox.next() => match mail {
                Mail::Notification { method, params } => {
                    let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                    let id = params.get("turn").and_then(|turn| turn.get("id")?.as_str()).unwrap_or_default();
                    if method == "turn/started" && old.is_empty() {
                        old = id.to_owned();
                    } else if method == "turn/completed" && id == old {
                        break;
                    }
                }
                request @ Mail::Request { .. } => link.server.refuse(vec![request]),
                Mail::Gone(ended) => return Err(gone(&ended)),
                Mail::Taken => {
                    give_up(link, &old).await;
                    return Err(taken());
                }
                Mail::Alive | Mail::Overflow => {}
            },
            told = told => {
                // It says that no turn is active: it has ended.
                if matches!(told, Err(CallError::Rpc(_))) {
                    break;
                }
                (interrupting, is_told) = (None, true);
            }
            () = sleep_until(deadline) => {
                link.server.retire();
                let text = "codex did not end the previous turn; the next input starts codex again";
                return Err(Error::new(Category::Timeout, text));
            }
        }
    }
    thread.unfinished = None;
    Ok(())
}

async fn interrupt(link: &Link, turn: &str) -> Result<Value, CallError> {
    let params = json!({ "threadId": link.thread, "turnId": turn });
    link.server.peer.call("turn/interrupt", &params, Some(INTERRUPT)).await
}

/// Interrupts a turn of a thread that another session has resumed. By its id, so it is no turn of that one.
async fn give_up(link: &Link, turn: &str) {
    if !turn.is_empty() {
        // An app server that does not answer has nobody to answer to.
        let _ = tokio::time::timeout(STOP, interrupt(link, turn)).await;
    }
}

/// Why a turn is on its way to its end.
enum Leaving {
    Stopped,
    /// A denial ended it.
    Denied,
    Failed(Error),
}

struct Running<'t> {
    turn: &'t Turn,
    thread: &'t mut Thread,
    link: &'t Arc<Link>,
    watch: Watch,
    work: FuturesUnordered<Work<'t>>,
    /// Requests that a person is asked, and what withdraws them.
    asked: HashMap<String, CancellationToken>,
    leaving: Option<Leaving>,
    until: Option<Instant>,
    /// Since when Codex does nothing but try again, and why.
    retries: Option<(Instant, Fault)>,
    interrupted: bool,
}

impl<'t> Running<'t> {
    fn new(turn: &'t Turn, thread: &'t mut Thread, link: &'t Arc<Link>) -> Self {
        let watch = Watch::new(thread.options.deadlines);
        thread.translator.begin();
        Self {
            turn,
            thread,
            link,
            watch,
            work: FuturesUnordered::new(),
            asked: HashMap::new(),
            leaving: None,
            until: None,
            retries: None,
            interrupted: false,
        }
    }

    async fn run(mut self, input: Vec<Value>) -> Result<Status, Error> {
        let turn = self.turn;
        self.thread.warn(turn).await;
        let roots = self.thread.thread.add_dirs.clone();
        let overrides = std::mem::take(&mut self.thread.overrides);
        let params = request::turn(&self.link.thread, &input, &overrides, &roots);
        drop(input);
        let link = self.link.clone();
        let deadline = Some(self.thread.options.deadlines.start.unwrap_or(ANSWER));
        let begin = async { link.server.peer.call::<_, Value>("turn/start", &params, deadline).await };
        let mut begin = std::pin::pin!(begin);
        let mut begun = false;
        loop {
            let retry_until = self.retry_until();
            // A stop first; answers before the messages that follow them; deadlines before a flood of messages.
            tokio::select! {
                biased;
                () = turn.stopped(), if self.leaving.is_none() => self.leave(Leaving::Stopped, STOP),
                started = &mut begin, if !begun => {
                    begun = true;
                    self.started(started, overrides.clone())?;
                }
                () = at(self.until), if self.until.is_some() => return self.left(),
                Some(done) = self.work.next() => self.done(done),
                () = at(retry_until), if retry_until.is_some() && self.leaving.is_none() => {
                    let error = self.gave_up();
                    self.leave(Leaving::Failed(error), INTERRUPT);
                }
                error = self.watch.expired(turn), if self.leaving.is_none() => {
                    self.leave(Leaving::Failed(error), INTERRUPT);
                }
                Some(steer) = turn.next_steer(), if self.takes_steers() => self.steer(steer),
                mail = link.inbox.next() => if let Some(status) = self.read(mail).await? {
                    return Ok(status);
                },
            }
        }
    }

    /// What `turn/start` has answered.
    fn started(&mut self, started: Result<Value, CallError>, overrides: Overrides) -> Result<(), Error> {
        let started = match started {
            Ok(started) => started,
            Err(CallError::Gone(ended)) => return Err(gone(&ended)),
            Err(_) if matches!(self.leaving, Some(Leaving::Stopped)) => return Err(Error::stopped()),
            Err(error) => {
                self.thread.overrides = overrides;
                if matches!(error, CallError::Late(_)) {
                    // It may begin yet, and would take the next input for its own.
                    self.link.server.retire();
                }
                return Err(error.error("codex began no turn"));
            }
        };
        let id = started.get("turn").and_then(|turn| turn.get("id")?.as_str());
        let Some(id) = id else {
            return Err(Error::new(Category::Protocol, "codex began a turn without an id"));
        };
        self.thread.spoken = true;
        self.thread.unfinished = Some(id.to_owned());
        self.thread.translator.is_turn(id);
        if self.leaving.is_some() {
            self.interrupt();
        }
        Ok(())
    }

    /// Takes one message of the thread. Gives how the turn ended, once it has.
    async fn read(&mut self, mail: Mail) -> Result<Option<Status>, Error> {
        match mail {
            Mail::Notification { method, params } => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                if method == "serverRequest/resolved" {
                    self.resolved(&params);
                    return Ok(None);
                }
                for event in self.thread.translator.take(&method, &params) {
                    match event {
                        Event::Tell(body) => {
                            if super::is_work(&body) {
                                self.heard();
                            }
                            if let Err(error) = self.thread.report.emit(self.turn, body).await {
                                self.leave(Leaving::Failed(error), INTERRUPT);
                            }
                        }
                        Event::Retries(fault) => self.retrying(fault).await,
                        Event::Ended(end) => {
                            self.thread.unfinished = None;
                            return self.ended(end).map(Some);
                        }
                    }
                }
            }
            Mail::Request { id, method, params } => {
                self.heard();
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                self.ask(id, &method, &params);
            }
            Mail::Alive => self.heard(),
            Mail::Overflow => {
                let text = "codex said more than the host took: what waited is lost, and the turn is ended";
                self.leave(Leaving::Failed(Error::new(Category::Oversize, text)), INTERRUPT);
                // Its end may be among what is lost.
                self.link.inbox.begin();
            }
            Mail::Gone(ended) => {
                self.thread.unfinished = None;
                return match self.leaving.take() {
                    Some(Leaving::Stopped | Leaving::Denied) => Err(Error::stopped()),
                    Some(Leaving::Failed(error)) => Err(error),
                    None => Err(gone(&ended)),
                };
            }
            Mail::Taken => {
                if let Some(turn) = self.thread.unfinished.take() {
                    give_up(self.link, &turn).await;
                }
                return match self.leaving.take() {
                    Some(Leaving::Stopped) => Err(Error::stopped()),
                    _ => Err(taken()),
                };
            }
        }
        Ok(None)
    }

    fn heard(&mut self) {
        self.watch.heard();
        self.retries = None;
    }

    async fn retrying(&mut self, fault: Fault) {
        let message = failure::message(&fault.told());
        let since = self.retries.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        self.retries = Some((since, fault));
        self.turn.emit(Progress { message, ..Progress::default() }).await;
    }

    fn retry_until(&self) -> Option<Instant> {
        let wait = self.thread.settings.retry_timeout.0?;
        self.retries.as_ref().map(|(since, _)| *since + wait)
    }

    /// The failure of a turn in which Codex did nothing but try again.
    fn gave_up(&self) -> Error {
        let fault = self.retries.as_ref().map(|(_, fault)| fault.clone()).unwrap_or_default();
        super::gave_up(&fault, &self.thread.settings)
    }

    fn takes_steers(&self) -> bool {
        self.leaving.is_none() && self.thread.translator.turn().is_some() && self.work.len() < MOST_OPEN
    }

    fn steer(&mut self, steer: Steer) {
        let Some(id) = self.thread.translator.turn() else { return steer.refuse("the turn has not begun") };
        let input = [request::words(steer.content())];
        let params = json!({ "threadId": self.link.thread, "expectedTurnId": id, "input": input });
        let link = self.link.clone();
        self.work.push(Box::pin(async move {
            match link.server.peer.call::<_, Value>("turn/steer", &params, Some(ANSWER)).await {
                Ok(_) => drop(steer.accept()),
                Err(error) => steer.refuse(failure::message(&error.to_string())),
            }
            Done::Steered
        }));
    }

    /// Asks a person, or refuses what nobody can be asked.
    fn ask(&mut self, id: Id, method: &str, params: &Value) {
        let ask = Ask::of(method, params, &self.thread.translator);
        let peer = self.link.server.peer.clone();
        if self.asked.len() >= MOST_OPEN || matches!(ask, Ask::Unknown) {
            peer.answer_now::<()>(&id, Err((-32000, "this cannot be asked".to_owned())));
            return;
        }
        let request = id.text().to_owned();
        let withdrawn = CancellationToken::new();
        self.asked.insert(request.clone(), withdrawn.clone());
        self.watch.pause();
        let turn = self.turn;
        self.work.push(Box::pin(async move {
            let decide = async {
                match ask {
                    Ask::Permission(permission, answers) => {
                        let decision = turn.ask_permission(*permission).await;
                        let ends = !decision.is_approved() && decision.end_turn;
                        let word = decision.message.clone().filter(|_| !decision.is_approved());
                        Some((answers.of(&decision), ends, word))
                    }
                    Ask::Question(question, form) => Some((form.of(&turn.ask(question).await), false, None)),
                    Ask::Unknown => None,
                }
            };
            let decided = tokio::select! {
                biased;
                () = withdrawn.cancelled() => None,
                decided = decide => decided,
            };
            let Some((answer, ends, word)) = decided else {
                return Done::Answered { request, ends: false, word: None };
            };
            // Where it could not be sent, the process has ended, which the inbox says.
            let _ = peer.answer(&id, Ok(answer)).await;
            Done::Answered { request, ends, word }
        }));
    }

    /// Codex has withdrawn a request, or has its answer.
    fn resolved(&mut self, params: &Value) {
        let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
        if let Some(withdrawn) = self.asked.get(&id) {
            withdrawn.cancel();
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Answered { request, ends, word } => {
                self.asked.remove(&request);
                if self.asked.is_empty() {
                    self.watch.resume();
                }
                if ends {
                    self.leave(Leaving::Denied, INTERRUPT);
                } else if let Some(word) = word.filter(|word| !word.trim().is_empty()) {
                    self.say(&word);
                }
            }
            Done::Interrupted(Err(CallError::Late(_))) => {
                // It does not even answer; the turns of others may go on yet.
                self.link.server.retire();
            }
            Done::Interrupted(_) | Done::Steered => {}
        }
    }

    /// Passes on what a person said to a denial, which has no place for words.
    fn say(&mut self, word: &str) {
        let Some(id) = self.thread.translator.turn().filter(|_| self.leaving.is_none()) else { return };
        let input = [request::words(word)];
        let params = json!({ "threadId": self.link.thread, "expectedTurnId": id, "input": input });
        let link = self.link.clone();
        self.work.push(Box::pin(async move {
            // The denial itself has been told.
            let _ = link.server.peer.call::<_, Value>("turn/steer", &params, Some(ANSWER)).await;
            Done::Steered
        }));
    }

    /// Has the turn end, by Codex where it does so in time.
    fn leave(&mut self, why: Leaving, within: Duration) {
        if self.leaving.is_some() {
            return;
        }
        let denied = matches!(why, Leaving::Denied);
        self.leaving = Some(why);
        self.until = Some(Instant::now() + within);
        // Its `cancel` interrupts the turn by itself.
        if !denied {
            self.interrupt();
        }
    }

    fn interrupt(&mut self) {
        let Some(id) = self.thread.translator.turn().map(str::to_owned) else { return };
        if std::mem::replace(&mut self.interrupted, true) {
            return;
        }
        let link = self.link.clone();
        self.work.push(Box::pin(async move { Done::Interrupted(interrupt(&link, &id).await) }));
    }

    /// The turn has not ended in time; the next one waits for it.
    fn left(&mut self) -> Result<Status, Error> {
        // Of a turn without an id its beginning will be told.
        self.thread.unfinished.get_or_insert_default();
        match self.leaving.take() {
            Some(Leaving::Failed(error)) => {
                // Even an interrupt did not help.
                self.link.server.retire();
                Err(error)
            }
            Some(Leaving::Stopped | Leaving::Denied) | None => Err(Error::stopped()),
        }
    }

    /// How the turn ended, as Codex says.
    fn ended(&mut self, end: End) -> Result<Status, Error> {
        match (self.leaving.take(), end) {
            (Some(Leaving::Failed(error)), _) => Err(error),
            (Some(Leaving::Stopped | Leaving::Denied), End::Interrupted) => Err(Error::stopped()),
            (_, End::Completed) => Ok(Status::Completed),
            (_, End::Failed(fault)) => Err(fault.error()),
            (None, End::Interrupted) => {
                Err(Error::new(Category::Cancelled, "codex interrupted the turn by itself"))
            }
        }
    }
}

/// The failure of a turn whose thread another session has resumed: what follows could be of either's turn.
fn taken() -> Error {
    let text =
        "another session has resumed this codex thread; close it, or this one, and send the input again";
    Error::new(Category::Busy, text)
}
