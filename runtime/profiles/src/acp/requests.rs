//! The permissions and answers that an agent waits for: pure.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value, json};
use trunkline_sdk::{Permission, ToolCallId};

use super::files::RequestResult;
use super::line::{AgentRequest, Command, TURN_OVER};
use super::permission::{self, AgentChoice, HostDecision, PermissionOutcome};
use super::read::text;
use super::session::{MOST_REQUESTS, Permissions};
use super::terminals::TerminalRequest;
use super::translate::{UpdateEvent, UpdateReader};
use crate::agent::elicitation::Elicitation;
use crate::agent::locked;
use crate::agent::rpc::{INTERNAL_ERROR, Id};
use crate::agent::turn::{EffectList, UserReply, UserRequest};

/// Open requests to a person.
pub(crate) struct Requests<'s> {
    permissions: Permissions,
    allowed_commands: &'s AllowedCommands,
    open: HashMap<String, (Id, RequestSubject)>,
}

/// Commands that were allowed with their tool call and have not run in a terminal yet, as a person
/// saw them: each with its directory, if the call names one.
#[derive(Debug, Default)]
pub(crate) struct AllowedCommands(Mutex<Vec<(String, Option<String>)>>);

impl AllowedCommands {
    pub(crate) fn clear(&self) {
        locked(&self.0).clear();
    }

    pub(crate) fn add(&self, tool_call: &Value) {
        let input = &tool_call["rawInput"];
        let shown = permission::resource(tool_call, input).or_else(|| text(tool_call, "title"));
        let mut commands = locked(&self.0);
        if let Some(line) = shown
            && commands.len() < MOST_REQUESTS
        {
            let cwd = ["cwd", "workdir"].iter().find_map(|name| text(input, name));
            commands.push((line.to_owned(), cwd.map(str::to_owned)));
        }
    }

    /// Returns true if it was allowed; each allowed command runs once.
    fn take(&self, order: &TerminalRequest) -> bool {
        let mut commands = locked(&self.0);
        let found = commands
            .iter()
            .position(|(line, cwd)| order.is_shown(line, cwd.as_deref()));
        found.map(|at| commands.remove(at)).is_some()
    }
}

/// Kind of a request.
enum RequestSubject {
    /// `session/request_permission`.
    Tool(ToolRequest),
    /// `terminal/create`, in this directory.
    Terminal(Box<TerminalRequest>, Option<PathBuf>),
    /// `elicitation/create`, by its own id.
    Question(Elicitation, Option<String>),
}

/// A request for the permission to run a tool.
struct ToolRequest {
    call: Option<ToolCallId>,
    offered: Vec<AgentChoice>,
    /// The tool call, if it runs a command.
    execute: Option<Value>,
}

/// End of a permission request.
#[derive(Debug, Default)]
pub(crate) struct PermissionEnd {
    /// The tool call that was denied.
    pub(crate) denied: Option<ToolCallId>,
    pub(crate) was_denied: bool,
    /// The turn must end with it.
    pub(crate) ends_turn: bool,
}

impl<'s> Requests<'s> {
    pub(crate) fn new(permissions: Permissions, allowed_commands: &'s AllowedCommands) -> Self {
        Self {
            permissions,
            allowed_commands,
            open: HashMap::new(),
        }
    }

    /// Takes a request. Returns its end if no person is asked. The policy decides only on
    /// permissions.
    pub(crate) fn take(
        &mut self,
        id: Id,
        request: AgentRequest,
        reader: &mut UpdateReader,
        told: &mut Vec<UpdateEvent>,
        out: &mut EffectList<Command>,
    ) -> Option<PermissionEnd> {
        let has_room = self.open.len() < MOST_REQUESTS;
        let (what, permission) = match request {
            AgentRequest::Elicitation(params) => {
                let (question, elicitation) = Elicitation::read(&params);
                let id_of_page = text(&params, "elicitationId").map(str::to_owned);
                let what = RequestSubject::Question(elicitation, id_of_page);
                if has_room {
                    self.ask(id, what, question, out);
                } else {
                    out.send(Command::Answer(id, what.declined()));
                }
                return None;
            }
            AgentRequest::Tool(mut params) => {
                let asked = params
                    .get("toolCall")
                    .and_then(|tool_call| reader.asked(tool_call, told));
                let (call, tool) = match asked {
                    Some(asked) => {
                        params["toolCall"] = asked.tool_call;
                        (asked.id, asked.tool)
                    }
                    None => (None, "tool".to_owned()),
                };
                let offered = permission::offered(&params);
                let permission = permission::request(&params, &tool, call.clone(), &offered);
                let execute = Some(params["toolCall"].take())
                    .filter(|tool_call| text(tool_call, "kind") == Some("execute"));
                (
                    RequestSubject::Tool(ToolRequest {
                        call,
                        offered,
                        execute,
                    }),
                    permission,
                )
            }
            AgentRequest::Terminal(order, cwd) => {
                let permission = run(&order, cwd.as_ref());
                (RequestSubject::Terminal(order, cwd), permission)
            }
        };
        if !has_room {
            out.send(Command::Answer(id, what.declined()));
            return None;
        }
        let is_allowed = match (self.permissions, &what) {
            (Permissions::Deny, _) => false,
            (Permissions::DangerousAllow, _) => true,
            (Permissions::Ask, RequestSubject::Terminal(order, _))
                if self.allowed_commands.take(order) =>
            {
                true
            }
            (Permissions::Ask, _) => {
                self.ask(id, what, permission, out);
                return None;
            }
        };
        Some(match what {
            RequestSubject::Tool(request) => {
                let outcome = permission::by_policy(is_allowed, &request.offered);
                self.settle_tool(id, &outcome, request, out)
            }
            RequestSubject::Terminal(order, cwd) => {
                settle_terminal(id, is_allowed, order, cwd, out)
            }
            RequestSubject::Question(..) => return None,
        })
    }

    fn ask(
        &mut self,
        id: Id,
        what: RequestSubject,
        ask: impl Into<UserRequest>,
        out: &mut EffectList<Command>,
    ) {
        let key = id.text().to_owned();
        out.ask(key.as_str(), ask);
        self.open.insert(key, (id, what));
    }

    /// Ends the question about a page whose purpose is fulfilled, by the parameters of
    /// `elicitation/complete`.
    pub(crate) fn complete(&mut self, params: &Value, out: &mut EffectList<Command>) {
        let page = text(params, "elicitationId");
        let is_it = |what: &RequestSubject| matches!(what, RequestSubject::Question(_, id) if id.as_deref() == page);
        let mut open = self.open.iter().filter(|_| page.is_some());
        let found = open.find(|(_, (_, what))| is_it(what));
        if let Some(key) = found.map(|(key, _)| key.clone())
            && let Some((id, _)) = self.open.remove(&key)
        {
            out.withdraw(key);
            out.send(Command::Answer(id, Ok(json!({ "action": "accept" }))));
        }
    }

    /// Passes on a reply. How the request has ended.
    pub(crate) fn reply(
        &mut self,
        id: &str,
        reply: &UserReply,
        out: &mut EffectList<Command>,
    ) -> PermissionEnd {
        let Some((id, what)) = self.open.remove(id) else {
            return PermissionEnd::default();
        };
        let decision = match (reply, &what) {
            (UserReply::Decision(decision), _) => decision,
            (UserReply::Answer(answer), RequestSubject::Question(elicitation, _)) => {
                out.send(Command::Answer(id, Ok(elicitation.response(answer))));
                return PermissionEnd::default();
            }
            (UserReply::Answer(_), _) => return PermissionEnd::default(),
        };
        let settled = match what {
            RequestSubject::Question(..) => return PermissionEnd::default(),
            RequestSubject::Tool(request) => {
                let outcome =
                    permission::outcome(HostDecision::from_decision(decision), &request.offered);
                self.settle_tool(id, &outcome, request, out)
            }
            RequestSubject::Terminal(order, cwd) => {
                settle_terminal(id, decision.is_approved(), order, cwd, out)
            }
        };
        PermissionEnd {
            ends_turn: decision.end_turn && settled.was_denied,
            ..settled
        }
    }

    fn settle_tool(
        &self,
        id: Id,
        outcome: &PermissionOutcome,
        request: ToolRequest,
        out: &mut EffectList<Command>,
    ) -> PermissionEnd {
        let is_allowed = permission::allows(outcome, &request.offered);
        if is_allowed && let Some(tool_call) = &request.execute {
            self.allowed_commands.add(tool_call);
        }
        out.send(Command::Answer(id, Ok(outcome.to_json())));
        PermissionEnd {
            denied: request.call.filter(|_| !is_allowed),
            was_denied: !is_allowed,
            ends_turn: false,
        }
    }

    /// The answers to what was not decided.
    pub(crate) fn declined(&mut self) -> impl Iterator<Item = (Id, RequestResult)> + '_ {
        self.open
            .drain()
            .map(|(_, (id, what))| (id, what.declined()))
    }
}

impl RequestSubject {
    fn declined(&self) -> RequestResult {
        match self {
            Self::Tool(_) => Ok(PermissionOutcome::Cancelled.to_json()),
            Self::Question(..) => Ok(json!({ "action": "cancel" })),
            Self::Terminal(..) => Err((INTERNAL_ERROR, TURN_OVER.to_owned())),
        }
    }
}

fn settle_terminal(
    id: Id,
    is_allowed: bool,
    order: Box<TerminalRequest>,
    cwd: Option<PathBuf>,
    out: &mut EffectList<Command>,
) -> PermissionEnd {
    out.send(if is_allowed {
        Command::Run(id, order, cwd)
    } else {
        Command::Answer(
            id,
            Err((
                INTERNAL_ERROR,
                "the permission to run it was denied".to_owned(),
            )),
        )
    });
    PermissionEnd {
        was_denied: !is_allowed,
        ..PermissionEnd::default()
    }
}

/// Returns the request to a person about a program.
fn run(order: &TerminalRequest, cwd: Option<&PathBuf>) -> Permission {
    let line = order.line();
    let place = cwd
        .map(|cwd| format!(" in {}", cwd.display()))
        .unwrap_or_default();
    let input = json!({ "command": order.command, "args": order.args, "cwd": cwd });
    let request = Permission::new("terminal", format!("Run `{line}`{place}"), line);
    match super::read::json(&input) {
        Some(input) => request.input(input),
        None => request,
    }
}
