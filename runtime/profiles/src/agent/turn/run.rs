//! Joins an engine to the turn or the session, the agent's messages and the clock. Decides nothing.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use trunkline_sdk::protocol::AdapterBody;
use trunkline_sdk::{Error, Session, Steer, Turn};

use super::dialect::{Dialect, DialectStep, Effect, EffectList, NewFile};
use super::engine::{Engine, TurnFinish};
use super::requests::{Requests, UserReply};
use super::scope::Scope;
use crate::agent::deadlines::{Pause, at};
use crate::agent::end::explain_timeout;
use crate::agent::lines::AgentLine;
use crate::agent::log::SessionLog;
use crate::agent::process::{Agent, InputClosed};
use crate::agent::report::TurnReport;

/// The most messages that come before a deadline which has passed.
const MAX_OVERDUE_MESSAGES: usize = 256;

/// Timeout for a line to an agent that reads nothing.
const UNREAD: Duration = Duration::from_secs(5);

/// The shortest wait for a host that does not read which counts: meanwhile the agent is not read either.
const HOST_WAIT: Duration = Duration::from_secs(1);

/// A pipe to and from an agent.
pub(crate) trait Pipe {
    type Message;
    type Command;

    /// The next message; nothing once there will be none.
    ///
    /// # Cancel safety
    /// No message is lost.
    fn next(&mut self) -> impl Future<Output = Option<Self::Message>> + Send;

    /// Sends something. It may wait while the agent reads too slowly.
    fn send(
        &mut self,
        command: Self::Command,
    ) -> impl Future<Output = Result<(), InputClosed>> + Send;

    /// The end of the agent's stderr.
    fn stderr(&self) -> String {
        String::new()
    }

    /// Logs a line that a dialect could not read.
    fn log_line(&self, line: &[u8]) {
        let _ = line;
    }
}

/// A line for an agent that reads lines.
#[derive(Debug, PartialEq)]
pub(crate) enum LineOut {
    /// Waits while the agent reads too slowly.
    Waits(String),
    /// Is left out while the agent reads too slowly: what answers a flood must not wait.
    IfRoom(String),
}

impl<S: ToString> From<&S> for LineOut {
    fn from(line: &S) -> Self {
        Self::Waits(line.to_string())
    }
}

impl Pipe for Agent {
    type Message = AgentLine;
    type Command = LineOut;

    fn next(&mut self) -> impl Future<Output = Option<AgentLine>> + Send {
        Self::next(self)
    }

    async fn send(&mut self, line: LineOut) -> Result<(), InputClosed> {
        let input = self.input()?;
        match line {
            LineOut::Waits(line) => timeout(UNREAD, input.line(line))
                .await
                .map_err(|_| InputClosed)?,
            LineOut::IfRoom(line) => {
                if input.try_line(line).is_err() {
                    tracing::debug!("a line to the agent was left out: it reads nothing");
                }
                Ok(())
            }
        }
    }

    fn stderr(&self) -> String {
        Self::stderr(self)
    }

    fn log_line(&self, line: &[u8]) {
        self.log().raw(line);
    }
}

/// Reads an agent until its turn has finished. A deadline that passed is explained by what the
/// agent reported last. The agent itself is left as it is.
pub(crate) async fn run<D: Dialect>(
    engine: Engine<D>,
    agent: &mut impl Pipe<Message = D::Message, Command = D::Command>,
    turn: &Turn,
    report: &mut TurnReport,
) -> (D, TurnFinish) {
    report.begin();
    let (dialect, finish) = drive(engine, agent, Scope::Turn(turn), Some(&mut *report)).await;
    let explain = |why| explain_timeout(why, dialect.last_error(), &agent.stderr());
    let why = finish.why.map(explain);
    (dialect, TurnFinish { why, ..finish })
}

/// Reads an agent between turns, until `wanted` is cancelled or its output has ended.
pub(crate) async fn listen<D: Dialect>(
    engine: Engine<D>,
    agent: &mut impl Pipe<Message = D::Message, Command = D::Command>,
    session: &Session,
    wanted: &CancellationToken,
) -> (D, TurnFinish) {
    drive(engine, agent, Scope::Session(session, wanted), None).await
}

async fn drive<D: Dialect>(
    mut engine: Engine<D>,
    agent: &mut impl Pipe<Message = D::Message, Command = D::Command>,
    scope: Scope<'_>,
    mut report: Option<&mut TurnReport>,
) -> (D, TurnFinish) {
    // Between turns its lines wait: they are events of a turn.
    let log = report.as_ref().map(|report| report.log().clone());
    let mut requests = Requests::new(scope);
    let mut steers = HashMap::new();
    let mut count = 0_u64;
    let mut is_quiet = false;
    let mut overdue = 0;
    loop {
        while let Some(line) = log.as_ref().and_then(|log| log.take()) {
            emit_timed(&mut engine, scope, &mut report, line.into()).await;
        }
        while let Some(effect) = engine.poll_effect(Instant::now()) {
            match effect {
                Effect::Emit(event) => emit_timed(&mut engine, scope, &mut report, event).await,
                Effect::LogLine(line) => agent.log_line(&line),
                Effect::File(file) => give(&mut engine, scope, &mut report, file).await,
                Effect::Info(info) => {
                    let is_context = info.context.is_some();
                    scope.info(*info);
                    if let Some(log) = log.as_ref().filter(|_| is_context) {
                        log.release();
                    }
                }
                Effect::Send(command) => {
                    if agent.send(command).await.is_err() {
                        engine.handle_unsent_command();
                    }
                }
                Effect::Ask(id, ask) => requests.ask(id, ask),
                Effect::Withdraw(id) => requests.withdraw(&id),
                Effect::Steered(number, result) => answer(steers.remove(&number), result),
                Effect::Steer(number, command) => {
                    let sent = agent.send(command).await;
                    if sent.is_err() {
                        engine.handle_not_steered();
                    }
                    let result =
                        sent.map_err(|InputClosed| "the agent takes no further input".to_owned());
                    answer(steers.remove(&number), result);
                }
                Effect::Working => is_quiet = true,
            }
        }
        engine = match engine.into_finish() {
            ControlFlow::Break(finished) => return finished,
            ControlFlow::Continue(running) => running,
        };
        let mut pause = Pause::begin(engine.timeout());
        // What ends the turn comes before messages, which may never end.
        let woken = tokio::select! {
            biased;
            () = scope.stopped(), if engine.takes_stop() => WaitOutcome::Stop,
            () = pause.over() => WaitOutcome::Timer,
            Some((id, reply)) = requests.next() => WaitOutcome::Reply(id, reply),
            Some(steer) = scope.next_steer(), if engine.takes_steers() => WaitOutcome::Steer(steer),
            // It waits for room while the host does not read, and nothing else waits for it.
            () = scope.working(), if is_quiet => WaitOutcome::HasReported,
            () = wait(log.as_deref()) => WaitOutcome::Log,
            message = agent.next() => WaitOutcome::Agent(message),
        };
        // Before the measurement: a standstill between the two is then counted, and its time is not judged.
        let now = Instant::now();
        if let Some(length) = pause.standstill() {
            engine.handle_standstill(length);
        }
        let woken = match woken {
            // A deadline is judged once the pipe is empty: a message that waits there came in time.
            WaitOutcome::Timer if engine.timeout().is_some_and(|due| due <= now) => {
                let read = (overdue < MAX_OVERDUE_MESSAGES)
                    .then(|| agent.next().now_or_never())
                    .flatten();
                overdue = if read.is_some() { overdue + 1 } else { 0 };
                read.map_or(WaitOutcome::Timer, WaitOutcome::Agent)
            }
            woken => woken,
        };
        match woken {
            WaitOutcome::Stop => engine.handle_stop(now),
            WaitOutcome::Timer => engine.handle_timeout(now),
            WaitOutcome::Reply(id, reply) => engine.handle_reply(&id, reply, now),
            WaitOutcome::Steer(steer) => {
                count += 1;
                engine.handle_steer(count, steer.content());
                steers.insert(count, steer);
            }
            WaitOutcome::HasReported => is_quiet = false,
            WaitOutcome::Log => {}
            WaitOutcome::Agent(message) => {
                is_quiet = false;
                match message {
                    Some(message) => engine.handle_message(message, now),
                    None => engine.handle_closed(),
                }
            }
        }
    }
}

/// Outcome of a wait.
enum WaitOutcome<M> {
    Stop,
    /// A deadline, or a beat.
    Timer,
    Reply(String, Option<UserReply>),
    Steer(Steer),
    /// The host knows that quiet work continues.
    HasReported,
    /// The log has an event.
    Log,
    /// A message of the agent, or the end of its output.
    Agent(Option<M>),
}

/// Waits for an event of the log; forever between turns.
async fn wait(log: Option<&SessionLog>) {
    match log {
        Some(log) => log.wait().await,
        None => std::future::pending().await,
    }
}

/// Emits an event. While the host holds it back, the agent is not read, and its silence does not count.
async fn emit_timed<D: Dialect>(
    engine: &mut Engine<D>,
    scope: Scope<'_>,
    report: &mut Option<&mut TurnReport>,
    event: AdapterBody,
) {
    let begun = Instant::now();
    emit_one(engine, scope, report, event).await;
    if begun.elapsed() >= HOST_WAIT {
        engine.handle_host_wait(Instant::now());
    }
}

/// Emits an event. One that waits for room neither keeps a stop from the agent nor the turn from its end.
async fn emit_one<D: Dialect>(
    engine: &mut Engine<D>,
    scope: Scope<'_>,
    report: &mut Option<&mut TurnReport>,
    event: AdapterBody,
) {
    let emitted = match (scope, report) {
        (Scope::Turn(turn), Some(report)) => tokio::select! {
            biased;
            emitted = report.emit(turn, event) => emitted,
            () = turn.stopped(), if engine.takes_stop() => {
                no_room();
                Ok(())
            }
            () = at(engine.ends_at()), if engine.ends_at().is_some() => {
                no_room();
                Ok(())
            }
        },
        (Scope::Turn(turn), None) => {
            turn.emit(event).await;
            Ok(())
        }
        (Scope::Session(session, wanted), _) => tokio::select! {
            biased;
            () = wanted.cancelled() => return engine.handle_unsent(event),
            () = session.emit(event.clone()) => Ok(()),
        },
    };
    if let Err(why) = emitted {
        engine.handle_failure(why, Instant::now());
    }
}

/// Notes that an event found no room before its turn ended: the host does not read.
fn no_room() {
    tracing::warn!("the queue was full as the turn ended; one of its events is left out");
}

/// Gives the host a file, unless the turn ends first.
async fn give<D: Dialect>(
    engine: &mut Engine<D>,
    scope: Scope<'_>,
    report: &mut Option<&mut TurnReport>,
    file: NewFile,
) {
    let is_given = match scope {
        Scope::Turn(turn) => tokio::select! {
            biased;
            given = turn.new_file(file.name, file.mime, file.bytes) => given.is_ok(),
            () = turn.stopped(), if engine.takes_stop() => true,
            () = at(engine.ends_at()), if engine.ends_at().is_some() => true,
        },
        // Files are of turns.
        Scope::Session(..) => false,
    };
    if let Some(instead) = file.instead.filter(|_| !is_given) {
        emit_one(engine, scope, report, instead.into()).await;
    }
}

fn answer(steer: Option<Steer>, result: Result<(), String>) {
    match (steer, result) {
        (Some(steer), Ok(())) => drop(steer.accept()),
        (Some(steer), Err(why)) => steer.refuse(why),
        (None, _) => {}
    }
}

/// Emits the last events of a dialect once its turn has finished; of a stopped turn those that find room.
///
/// # Errors
/// As of [`TurnReport::emit`].
pub(crate) async fn emit<C>(
    out: EffectList<C>,
    turn: &Turn,
    report: &mut TurnReport,
) -> Result<(), Error> {
    for step in out.steps {
        match step {
            DialectStep::Effect(Effect::Emit(event)) => tokio::select! {
                biased;
                emitted = report.emit(turn, event) => emitted?,
                () = turn.stopped() => no_room(),
            },
            DialectStep::Effect(Effect::Info(info)) => turn.session().info(*info),
            // The rest is for a running turn.
            _ => {}
        }
    }
    Ok(())
}
