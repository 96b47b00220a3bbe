//! JSON-RPC over an agent's stdin and stdout, one message a line: what ACP agents and `codex
//! app-server` speak.

mod error;
mod inbox;
mod pool;
mod routes;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{SetOnce, oneshot};
use tokio_util::sync::CancellationToken;
use trunkline_sdk::Error;

pub(crate) use self::error::{CallError, RpcError};
pub(crate) use self::inbox::{Inbox, InboxArrival, InboxMessage};
pub(crate) use self::pool::{IdlePolicy, Pool};
pub(crate) use self::routes::{ParamMembers, Routes};
use super::deadlines::{limit_reached, within};
use super::end::explain_timeout;
use super::launch::Launch;
use super::lines::AgentLine;
use super::locked;
use super::log::{ProcessLog, SessionLog};
use super::process::{Agent, AgentInput, InputClosed, ProcessEnd, Stdin};

/// Timeouts for the end of an abandoned agent after its stdin was closed, and after SIGTERM.
const END: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(1));

/// The code of an unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// The code for parameters that are wrong.
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// The code for a request that failed.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// Version of the protocol, which decides on the `jsonrpc` member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonRpcVersion {
    /// `"jsonrpc": "2.0"`.
    V2,
    /// None, as `codex app-server` speaks.
    Bare,
}

/// Handler of a peer's messages. The methods run on the reading task, in order of arrival: they
/// must not block.
pub(crate) trait Handler: Send + Sync + 'static {
    /// A notification.
    fn notified(&self, peer: &Peer, method: &str, params: &RawValue);

    /// A request: answered by [`Peer::answer`], now or later.
    fn asked(&self, peer: &Arc<Peer>, id: Id, method: &str, params: &RawValue);
}

/// The id of a request, as the other side wrote it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Id(Box<RawValue>);

impl Id {
    /// An id of this text, for tests.
    #[cfg(test)]
    pub(crate) fn from_raw(text: Box<RawValue>) -> Self {
        Self(text)
    }

    /// The JSON text, which identifies the request.
    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }
}

type CallResult = Result<Box<RawValue>, CallError>;

/// An agent process that speaks JSON-RPC. When the last handle is dropped, its stdin is closed, and
/// soon after its tree is ended.
pub(crate) struct Peer {
    /// The sessions that it serves.
    pub(crate) routes: Routes,
    version: JsonRpcVersion,
    input: Mutex<Option<AgentInput>>,
    calls: Mutex<HashMap<u64, oneshot::Sender<CallResult>>>,
    next: AtomicU64,
    ended: SetOnce<ProcessEnd>,
    stderr: trunkline_process::StderrTail,
    log: ProcessLog,
    /// Turns that run.
    turns: AtomicUsize,
    /// True once it begins no further turn.
    is_retired: AtomicBool,
    /// Cancelled when the last handle of the peer is dropped.
    abandoned: CancellationToken,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("ended", &self.ended.get())
            .finish_non_exhaustive()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.abandoned.cancel();
    }
}

impl Peer {
    /// Starts an agent and calls `initialize`. Returns its answer, too.
    ///
    /// # Errors
    /// Why the agent did not start, or did not answer.
    pub(crate) async fn start(
        launch: &Launch,
        version: JsonRpcVersion,
        handler: impl Handler,
        greeting: &Value,
        deadline: Option<Duration>,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<(Arc<Self>, Value), Error> {
        let agent = Agent::start(launch, Stdin::Owned, log).await?;
        let peer = Self::new(agent, version, handler);
        let answer = peer.call("initialize", greeting, deadline).await;
        let answer = answer.map_err(|error| {
            let what = format!("{} did not start", launch.name().to_string_lossy());
            match error {
                CallError::Late { wait, stderr } => {
                    let late = limit_reached("start_timeout", wait, &what);
                    explain_timeout(late, None, &stderr)
                }
                error => error.error(&what),
            }
        })?;
        Ok((peer, answer))
    }

    /// Takes over an agent that was started with its stdin owned, and reads it until its end.
    pub(crate) fn new(
        mut agent: Agent,
        version: JsonRpcVersion,
        handler: impl Handler,
    ) -> Arc<Self> {
        let peer = Arc::new(Self {
            routes: Routes::default(),
            version,
            input: Mutex::new(agent.take_input()),
            calls: Mutex::default(),
            next: AtomicU64::new(1),
            ended: SetOnce::new(),
            stderr: agent.stderr_tail(),
            log: agent.log().clone(),
            turns: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
            abandoned: CancellationToken::new(),
        });
        let weak = Arc::downgrade(&peer);
        let abandoned = peer.abandoned.clone();
        tokio::spawn(async move {
            let orderly = loop {
                let line = tokio::select! {
                    biased;
                    () = abandoned.cancelled() => break true,
                    line = agent.next() => line,
                };
                let Some(peer) = weak.upgrade() else {
                    break true;
                };
                match line {
                    Some(AgentLine::Whole(line)) => peer.take(&line, &handler),
                    // The log of the process counts it.
                    Some(AgentLine::TooLong(_)) => {}
                    None => break false,
                }
            };
            let ended = if orderly {
                agent.end(END.0, END.1).await
            } else {
                // Its stdout has ended: it can send nothing more, whether it lives or not.
                agent.end(Duration::ZERO, END.1).await
            };
            if let Some(peer) = weak.upgrade() {
                peer.end(ended);
            }
        });
        peer
    }

    /// Returns true if a turn can begin: the agent has neither ended nor been retired.
    pub(crate) fn is_fit(&self) -> bool {
        !self.ended.initialized() && !self.is_retired.load(Ordering::SeqCst)
    }

    /// A turn begins, and runs until the returned value is dropped.
    pub(crate) fn begin_turn(self: &Arc<Self>) -> RunningTurn {
        self.turns.fetch_add(1, Ordering::SeqCst);
        RunningTurn(self.clone())
    }

    /// Retires an agent that does not end a turn: it begins no further one, and ends with the last
    /// that it runs; at once when it runs none.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        if self.turns.load(Ordering::SeqCst) == 0 {
            self.abandon();
        }
    }

    /// Waits for the end of the agent. All its messages were handled before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn wait_for_end(&self) -> &ProcessEnd {
        self.ended.wait().await
    }

    /// The log of the agent's process.
    pub(crate) fn log(&self) -> &ProcessLog {
        &self.log
    }

    /// The end of the agent's stderr.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Closes the agent's stdin, on which a good one ends.
    pub(crate) fn close(&self) {
        *locked(&self.input) = None;
    }

    /// Gives the agent up: closes its stdin and ends its tree soon after, even if a handle of the
    /// peer is left.
    pub(crate) fn abandon(&self) {
        self.close();
        self.abandoned.cancel();
    }

    /// Calls a method and waits for its result, forever where no deadline is given.
    ///
    /// # Cancel safety
    /// When it is dropped the answer is ignored.
    pub(crate) async fn call<P, R>(
        &self,
        method: &str,
        params: &P,
        deadline: Option<Duration>,
    ) -> Result<R, CallError>
    where
        P: Serialize + ?Sized + Sync,
        R: DeserializeOwned,
    {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        locked(&self.calls).insert(id, sender);
        let _forget = CallCleanup { peer: self, id };
        let work = async {
            let message = self.message(json!(id), method, params)?;
            // If it could not be sent, the agent's end follows.
            let _ = self.send(message).await;
            tokio::select! {
                biased;
                Ok(answer) = answer => answer,
                ended = self.ended.wait() => Err(CallError::Gone(ended.clone())),
            }
        };
        let answer = within(deadline, work).await.unwrap_or_else(|wait| {
            let stderr = self.stderr();
            Err(CallError::Late { wait, stderr })
        })?;
        serde_json::from_str(answer.get())
            .map_err(|error| CallError::Shape(format!("{method}: {error}")))
    }

    /// Notifies.
    ///
    /// # Cancel safety
    /// It is sent whole or not at all.
    pub(crate) async fn notify<P: Serialize + ?Sized + Sync>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), InputClosed> {
        match self.message(Value::Null, method, params) {
            Ok(message) => self.send(message).await,
            Err(_) => Err(InputClosed),
        }
    }

    /// Answers a request. Waits while too much is unwritten.
    ///
    /// # Cancel safety
    /// It is sent whole or not at all.
    pub(crate) async fn answer<R: Serialize + Sync>(
        &self,
        id: &Id,
        result: Result<R, (i64, String)>,
    ) -> Result<(), InputClosed> {
        self.send(self.answer_line(id, result)).await
    }

    /// Answers a request at once, or not at all where the agent reads nothing: for the reading task.
    pub(crate) fn answer_now<R: Serialize>(&self, id: &Id, result: Result<R, (i64, String)>) {
        let line = self.answer_line(id, result);
        if let Some(input) = &*locked(&self.input) {
            let _ = input.try_line(line);
        }
    }

    /// Refuses a request, if there is room for the answer.
    pub(crate) fn refuse(&self, id: &Id, code: i64, why: impl Into<String>) {
        self.answer_now::<()>(id, Err((code, why.into())));
    }

    fn answer_line<R: Serialize>(&self, id: &Id, result: Result<R, (i64, String)>) -> Vec<u8> {
        let mut message = match result {
            Ok(result) => json!({ "id": id, "result": result }),
            Err((code, text)) => json!({ "id": id, "error": { "code": code, "message": text } }),
        };
        if self.version == JsonRpcVersion::V2 {
            message["jsonrpc"] = json!("2.0");
        }
        message.to_string().into_bytes()
    }

    fn message<P: Serialize + ?Sized>(
        &self,
        id: Value,
        method: &str,
        params: &P,
    ) -> Result<Vec<u8>, CallError> {
        #[derive(Serialize)]
        struct Message<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            jsonrpc: Option<&'static str>,
            #[serde(skip_serializing_if = "Value::is_null")]
            id: Value,
            method: &'a str,
            #[serde(skip_serializing_if = "is_null")]
            params: Box<RawValue>,
        }
        fn is_null(params: &RawValue) -> bool {
            params.get() == "null"
        }
        let shape = |error: serde_json::Error| CallError::Shape(format!("{method}: {error}"));
        let params = to_raw_value(params).map_err(shape)?;
        let jsonrpc = (self.version == JsonRpcVersion::V2).then_some("2.0");
        serde_json::to_vec(&Message {
            jsonrpc,
            id,
            method,
            params,
        })
        .map_err(shape)
    }

    async fn send(&self, line: Vec<u8>) -> Result<(), InputClosed> {
        let input = locked(&self.input).clone();
        match input {
            Some(input) => tokio::select! {
                biased;
                sent = input.line(line) => sent,
                _ = self.ended.wait() => Err(InputClosed),
            },
            None => Err(InputClosed),
        }
    }

    /// Takes one line.
    fn take(self: &Arc<Self>, line: &[u8], handler: &impl Handler) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        #[derive(Deserialize)]
        struct Incoming<'a> {
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(default)]
            method: Option<std::borrow::Cow<'a, str>>,
            #[serde(borrow, default)]
            params: Option<&'a RawValue>,
            #[serde(borrow, default)]
            result: Option<&'a RawValue>,
            #[serde(default)]
            error: Option<Value>,
        }
        let Ok(message) = serde_json::from_slice::<Incoming<'_>>(line) else {
            self.log.raw(line);
            return;
        };
        let params = message.params.unwrap_or(RawValue::NULL);
        match (message.method, message.id) {
            (Some(method), Some(id)) => handler.asked(self, Id(id.to_owned()), &method, params),
            (Some(method), None) => handler.notified(self, &method, params),
            (None, Some(id)) => {
                let call = id
                    .get()
                    .parse()
                    .ok()
                    .and_then(|id: u64| locked(&self.calls).remove(&id));
                let Some(call) = call else {
                    // Its caller has given up.
                    tracing::debug!(id = id.get(), "an answer that nothing waits for");
                    return;
                };
                let answer = match message.error {
                    Some(error) => Err(CallError::Rpc(RpcError::from_value(error))),
                    None => Ok(message.result.unwrap_or(RawValue::NULL).to_owned()),
                };
                // The caller may have given up.
                drop(call.send(answer));
            }
            (None, None) => self.log.raw(line),
        }
    }

    fn end(&self, ended: ProcessEnd) {
        // Only the reader ends it, once.
        drop(self.ended.set(ended));
        self.close();
        locked(&self.calls).clear();
    }
}

/// A turn that an agent runs. When the last one of a retired agent ends, the agent does.
pub(crate) struct RunningTurn(Arc<Peer>);

impl Drop for RunningTurn {
    fn drop(&mut self) {
        let was = self.0.turns.fetch_sub(1, Ordering::SeqCst);
        if was == 1 && self.0.is_retired.load(Ordering::SeqCst) {
            self.0.abandon();
        }
    }
}

/// Forgets a call whose caller has given up.
struct CallCleanup<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for CallCleanup<'_> {
    fn drop(&mut self) {
        locked(&self.peer.calls).remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
