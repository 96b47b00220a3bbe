//! A session of an agent: its queue, its directories and terminals, and the answers to its requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use trunkline_sdk::{Decision, Permission, Session, ToolCallId, Turn};

use super::files::Directories;
use super::inbox::Inbox;
use super::link::Link;
use super::permission::{self, Outcome, Word};
use super::terminals::{Order, Terminals};
use crate::agent::launch::Launch;
use crate::agent::rpc::Id;

/// The most requests of a session that are being answered at a time.
pub(crate) const MOST_REQUESTS: usize = 64;

/// Who decides on permissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Permissions {
    /// The host is asked.
    #[default]
    Ask,
    /// Everything is denied.
    Deny,
    /// Everything is allowed, and nobody is asked.
    DangerousAllow,
}

/// A session of an agent.
pub(crate) struct AcpSession {
    pub(crate) link: Arc<Link>,
    /// The agent's own id of the session.
    pub(crate) id: String,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) directories: Directories,
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) launch: Launch,
    pub(crate) permissions: Permissions,
    /// Programs that were allowed with their tool call, and have not been run through a terminal yet.
    allowed_runs: AtomicUsize,
    tasks: Mutex<JoinSet<()>>,
}

/// Where a session speaks and asks: in its turn, or outside of any.
#[derive(Clone, Copy)]
pub(crate) enum Voice<'a> {
    Turn(&'a Turn),
    Session(&'a Session),
}

impl Voice<'_> {
    async fn ask(&self, permission: Permission) -> Decision {
        match self {
            Self::Turn(turn) => turn.ask_permission(permission).await,
            Self::Session(session) => session.ask_permission(permission).await,
        }
    }
}

/// A permission that an agent asks for.
pub(crate) struct PermissionRequest {
    pub(crate) id: Id,
    pub(crate) what: What,
}

/// What is asked for.
pub(crate) enum What {
    /// `session/request_permission`.
    Tool { call: Option<ToolCallId>, tool: String, params: Value },
    /// `terminal/create`.
    Terminal(Order),
}

/// Of what kind that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Terminal,
}

impl What {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Tool { .. } => Kind::Tool,
            Self::Terminal(_) => Kind::Terminal,
        }
    }
}

/// How a request of permission ended.
pub(crate) struct Settled {
    /// The tool call that was denied.
    pub(crate) denied: Option<ToolCallId>,
    pub(crate) was_denied: bool,
    /// The turn shall end with it.
    pub(crate) ends_turn: bool,
}

impl AcpSession {
    pub(crate) fn new(
        link: Arc<Link>,
        id: String,
        inbox: Arc<Inbox>,
        directories: Directories,
        launch: Launch,
        permissions: Permissions,
    ) -> Self {
        Self {
            link,
            id,
            inbox,
            directories,
            terminals: Arc::default(),
            launch,
            permissions,
            allowed_runs: AtomicUsize::new(0),
            tasks: Mutex::default(),
        }
    }

    /// Whether nothing can come of it any more: its agent has ended, or another session has its conversation.
    pub(crate) fn is_lost(&self) -> bool {
        self.link.peer.is_gone() || self.inbox.is_taken()
    }

    /// A turn begins: what was allowed before is over.
    pub(crate) fn begin(&self) {
        self.allowed_runs.store(0, Ordering::Relaxed);
    }

    /// Answers a request about files, or about a terminal that there is. These need no word of anybody: files are
    /// confined, and a terminal was permitted when it was made.
    pub(crate) fn serve(&self, id: Id, method: String, params: Value) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MOST_REQUESTS {
            let many = format!("{MOST_REQUESTS} requests of this session are unanswered");
            return self.link.peer.answer_now::<()>(&id, Err((-32603, many)));
        }
        let (peer, directories, terminals) =
            (self.link.peer.clone(), self.directories.clone(), self.terminals.clone());
        tasks.spawn(async move {
            let answer = match method.as_str() {
                "fs/read_text_file" => blocking(move || directories.read(&params)).await,
                "fs/write_text_file" => blocking(move || directories.write(&params)).await,
                "terminal/output" => terminals.output(&params),
                "terminal/wait_for_exit" => terminals.wait(&params).await,
                "terminal/kill" => terminals.kill(&params),
                "terminal/release" => terminals.release(&params),
                _ => Err((crate::agent::rpc::METHOD_NOT_FOUND, "method not found".to_owned())),
            };
            // An agent that has ended needs no answer.
            let _ = peer.answer(&id, answer).await;
        });
    }

    /// Answers a request of permission that nobody will answer any more.
    pub(crate) fn decline(&self, id: &Id, kind: Kind) {
        let answer = match kind {
            Kind::Tool => Ok(Outcome::Cancelled.to_json()),
            Kind::Terminal => Err((-32603, "the turn is over".to_owned())),
        };
        self.link.peer.answer_now(id, answer);
    }

    /// Asks for a permission, and answers the agent.
    pub(crate) async fn ask(&self, voice: Voice<'_>, asked: PermissionRequest) -> Settled {
        match asked.what {
            What::Tool { call, tool, params } => {
                let offered = permission::offered(&params);
                let (outcome, ends_turn) = match self.permissions {
                    Permissions::Ask => {
                        let request = permission::request(&params, &tool, call.clone(), &offered);
                        let decision = voice.ask(request).await;
                        (permission::outcome(Word::of(&decision), &offered), decision.end_turn)
                    }
                    Permissions::Deny => (permission::by_policy(false, &offered), false),
                    Permissions::DangerousAllow => (permission::by_policy(true, &offered), false),
                };
                let allowed = permission::allows(&outcome, &offered);
                let runs = params.pointer("/toolCall/kind").and_then(Value::as_str) == Some("execute");
                if allowed && runs {
                    self.allowed_runs.fetch_add(1, Ordering::Relaxed);
                }
                // An agent that has ended needs no answer.
                let _ = self.link.peer.answer(&asked.id, Ok(outcome.to_json())).await;
                Settled {
                    denied: call.filter(|_| !allowed),
                    was_denied: !allowed,
                    ends_turn: ends_turn && !allowed,
                }
            }
            What::Terminal(order) => self.create_terminal(voice, &asked.id, &order).await,
        }
    }

    /// Runs a program for an agent. The host is asked, unless it has allowed a tool call that runs programs: one run for
    /// each such word.
    async fn create_terminal(&self, voice: Voice<'_>, id: &Id, order: &Order) -> Settled {
        let cwd = self.directories.directory(order.cwd.as_deref());
        let less = |runs: usize| runs.checked_sub(1);
        let permitted =
            |()| self.allowed_runs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let mut ends_turn = false;
        let allowed = match (&cwd, self.permissions) {
            (Err(_), _) | (_, Permissions::Deny) => false,
            (_, Permissions::DangerousAllow) => true,
            (Ok(_), Permissions::Ask) if permitted(()) => true,
            (Ok(cwd), Permissions::Ask) => {
                let line = order.line();
                let place = cwd.as_deref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
                let description = format!("Run `{line}`{place}");
                let input = json!({ "command": order.command, "args": order.args, "cwd": cwd });
                let mut request = Permission::new("terminal", description, line);
                if let Some(input) = super::read::json(&input) {
                    request = request.input(input);
                }
                let decision = voice.ask(request).await;
                ends_turn = decision.end_turn && !decision.is_approved();
                decision.is_approved()
            }
        };
        let answer = match cwd {
            Err(refusal) => Err(refusal),
            Ok(_) if !allowed => Err((-32603, "the permission to run it was denied".to_owned())),
            Ok(cwd) => self.terminals.create(order, cwd, &self.launch).await,
        };
        // An agent that has ended needs no answer.
        let _ = self.link.peer.answer(id, answer).await;
        Settled { denied: None, was_denied: !allowed, ends_turn }
    }
}

async fn blocking(work: impl FnOnce() -> super::files::Answer + Send + 'static) -> super::files::Answer {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err((-32603, "the request failed".to_owned())))
}
