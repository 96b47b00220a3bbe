//! Permissions and questions that wait for an answer ([permission.*]).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use trunkline_protocol::{
    Category, ErrorEvent, Extensions, HostMessage, InputRequest, InputResponse, Json, Meta,
    PermissionCancel, PermissionOption, PermissionRequest, PermissionResponse, RequestId,
    StopReason, fit, json_len,
    rules::{RequestPhase, RequestRule, RequestStep, approves, request},
};

use super::{Core, Counter, Effect, Key};
use crate::{
    EditRejected, TurnNo, TurnScope,
    policy::{Action, Decision, FoundNames, Judgement, PathQuery, Pattern, Policy, Unmatched},
    share::may_take,
};

/// Limit of bytes of a session's waiting requests, which are held in memory. A further one is
/// denied at once.
const PENDING_BYTES: usize = 16 * 1024 * 1024;
/// Limit of waiting requests of all sessions of an adapter.
pub(super) const PENDING_OF_ALL: u64 = 64 * 1024;
/// Limit of their bytes.
pub(super) const PENDING_BYTES_OF_ALL: u64 = 256 * 1024 * 1024;

/// Waiting requests of all sessions.
#[derive(Debug, Default)]
pub(super) struct PendingTotals {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

/// The user's answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// To a permission.
    Permission(Box<PermissionResponse>),
    /// To a question: values by field id; nothing where it is cancelled.
    Question(Option<BTreeMap<String, Json>>),
    /// The user dropped the request: a permission is denied, a question cancelled ([permission.3]).
    Dropped,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Request {
    id: RequestId,
    serial: u64,
    /// The turn that asks; nothing where it was asked outside any.
    turn: Option<TurnNo>,
    kind: Kind,
    /// Length as JSON.
    bytes: usize,
    pub(super) deadline: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Permission {
        options: Vec<PermissionOption>,
    },
    /// A permission whose paths are looked up. Its user does not know it yet.
    Unjudged(Box<UnjudgedPermission>),
    Question,
}

#[derive(Debug)]
struct UnjudgedPermission {
    scope: TurnScope,
    request: Box<PermissionRequest>,
    meta: Option<Box<Meta>>,
}

/// Returns the pattern that allows exactly this request, if one can: a lasting rule for "always
/// allow".
#[must_use]
pub fn exact_rule(request: &PermissionRequest) -> Option<Pattern> {
    if request.truncated == Some(true) {
        return None;
    }
    let rule = Pattern::exact(&request.tool, request.resource.as_deref()?)?;
    let judge = |action: &Action<'_>| Policy::default().judge_by(&rule, action);
    let judgement = with_action(request, &[], None, judge);
    // Whether its path leads elsewhere is looked up when an answer has the rule.
    let may_allow = !matches!(
        judgement,
        Judgement::Decided(Decision::Ask | Decision::Deny)
    );
    may_allow.then_some(rule)
}

/// Calls `judge` with the action of a request.
fn with_action<R>(
    request: &PermissionRequest,
    dirs: &[&Path],
    names: Option<&FoundNames>,
    judge: impl FnOnce(&Action<'_>) -> R,
) -> R {
    let input = request.input.as_ref().map(read_input);
    let diffs = request.diffs.iter().flatten();
    let paths: Vec<_> = diffs.map(|diff| diff.path.as_str()).collect();
    let resource = request.resource.as_deref().unwrap_or_default();
    judge(&Action {
        input: input.as_ref(),
        paths: &paths,
        work_dir: dirs.first().copied(),
        deny_dirs: dirs,
        names,
        ..Action::new(&request.tool, resource)
    })
}

/// Returns true if the request names its resource. A host in between writes an absent one as the
/// empty text ([permission.6]).
fn has_resource(request: &PermissionRequest) -> bool {
    request.resource.as_ref().is_some_and(|it| !it.is_empty())
}

impl Core {
    /// The adapter asks for a permission.
    pub(super) fn ask(
        &mut self,
        index: u32,
        turn: Option<TurnNo>,
        scope: TurnScope,
        mut request: Box<PermissionRequest>,
        meta: Option<Box<Meta>>,
        now: Instant,
    ) {
        if self.phase_of(index, &request.request_id, RequestStep::Ask) == RequestRule::Reject {
            return self.count_of(index, Counter::Bad);
        }
        let PermissionRequest {
            tool,
            description,
            resource,
            ..
        } = &mut *request;
        description.get_or_insert_with(|| {
            format!("{tool} asks for permission, and does not describe the action.")
        });
        resource.get_or_insert_default();
        let bytes = json_len(&request);
        if self.must_deny(index, turn, scope, bytes) {
            return self.respond(index, &request.request_id, false, StopReason::Stopped);
        }
        let id = request.request_id.clone();
        let judgement = self.judge(index, &request, None);
        let unjudged = UnjudgedPermission {
            scope,
            request,
            meta,
        };
        match judgement {
            Judgement::Decided(decision) => {
                if let Some(unjudged) = self.decide(index, decision, unjudged, None) {
                    let kind = unjudged.kind();
                    let serial = self.open_request(index, id, turn, kind, bytes, now);
                    self.ask_user(index, unjudged, serial);
                }
            }
            Judgement::NeedsNames(query) => {
                let kind = Kind::Unjudged(Box::new(unjudged));
                let serial = self.open_request(index, id, turn, kind, bytes, now);
                let key = self.key_of(index);
                self.effect(Effect::FindNames { key, serial, query });
            }
        }
    }

    /// Judges a permission whose paths were looked up, unless it was settled meanwhile.
    pub fn handle_names(&mut self, key: Key, serial: u64, names: &FoundNames, now: Instant) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let is_it = |request: &Request| {
            request.serial == serial && matches!(request.kind, Kind::Unjudged(_))
        };
        let Some(mut request) = self.take_request(index, is_it) else {
            return;
        };
        let kind = std::mem::replace(&mut request.kind, Kind::Question);
        let Kind::Unjudged(unjudged) = kind else {
            return;
        };
        let decision = match self.judge(index, &unjudged.request, Some(names)) {
            Judgement::Decided(decision) => decision,
            Judgement::NeedsNames(_) => Decision::Ask,
        };
        if let Some(unjudged) = self.decide(index, decision, *unjudged, Some(names)) {
            request.kind = unjudged.kind();
            self.push_request(index, request);
            self.ask_user(index, unjudged, serial);
        } else if let Some(running) = self.get(index).and_then(|session| session.running()) {
            running.rested_until(now);
        }
        self.arm(index, now);
    }

    /// Judges the input of a tool as a user changed it, before an answer with it: by the deny list.
    /// Returns `None` if it may go to the adapter.
    ///
    /// # Errors
    /// The paths whose names are needed first.
    pub fn judge_edit(
        &self,
        key: Key,
        tool: &str,
        input: &Json,
        names: Option<&FoundNames>,
    ) -> Result<Option<EditRejected>, PathQuery> {
        let Some(index) = self.index_of(key) else {
            return Ok(Some(EditRejected::Closed));
        };
        let session = self.sessions[index as usize].session.as_ref();
        if !session.is_some_and(|session| session.has_agreed(Extensions::CONTROL)) {
            return Ok(Some(EditRejected::Unsupported));
        }
        let input = read_input(input);
        let dirs = self.dirs_of(index);
        let rejecting = self.rules.policy.rejecting(&Action {
            input: Some(&input),
            work_dir: dirs.first().copied(),
            deny_dirs: &dirs,
            names,
            ..Action::new(tool, "")
        })?;
        Ok(rejecting.map(|pattern| EditRejected::ByPattern(pattern.as_str().to_owned())))
    }

    /// Judges a permission by the policy.
    fn judge(
        &self,
        index: u32,
        request: &PermissionRequest,
        names: Option<&FoundNames>,
    ) -> Judgement {
        let judge = |action: &Action<'_>| self.rules.policy.judge(action);
        with_action(request, &self.dirs_of(index), names, judge)
    }

    /// Replaces the policy: it judges what comes from now on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.rules.policy = policy;
    }

    /// Judges a lasting rule before an answer with it: it has to allow the request, past the deny
    /// list. Returns `None` if it does.
    ///
    /// # Errors
    /// The paths whose names are needed first.
    pub fn judge_rule(
        &self,
        key: Key,
        request: &PermissionRequest,
        rule: &Pattern,
        names: Option<&FoundNames>,
    ) -> Result<Option<EditRejected>, PathQuery> {
        let Some(index) = self.index_of(key) else {
            return Ok(Some(EditRejected::Closed));
        };
        let judge = |action: &Action<'_>| self.rules.policy.judge_by(rule, action);
        match with_action(request, &self.dirs_of(index), names, judge) {
            Judgement::NeedsNames(query) => Err(query),
            Judgement::Decided(Decision::Allow) if has_resource(request) => Ok(None),
            Judgement::Decided(_) => Ok(Some(EditRejected::ByRule(rule.as_str().to_owned()))),
        }
    }

    /// Answers a permission that the policy decides. Returns it if its user decides.
    fn decide(
        &mut self,
        index: u32,
        decision: Decision,
        unjudged: UnjudgedPermission,
        names: Option<&FoundNames>,
    ) -> Option<UnjudgedPermission> {
        let request = &unjudged.request;
        let approved = match decision {
            Decision::Deny => false,
            Decision::Allow if has_resource(request) => true,
            Decision::Allow if self.rules.policy.unmatched() == Unmatched::Deny => false,
            Decision::Allow | Decision::Ask => return Some(unjudged),
        };
        if approved {
            let find = |action: &Action<'_>| {
                let rule = self.rules.policy.allowing_rule(action);
                rule.map(|rule| rule.id.clone())
            };
            if let Some(rule) = with_action(request, &self.dirs_of(index), names, find) {
                let key = self.key_of(index);
                self.effect(Effect::AllowedByRule { key, rule });
            }
        }
        self.respond(index, &request.request_id, approved, StopReason::Policy);
        None
    }

    fn ask_user(&mut self, index: u32, unjudged: UnjudgedPermission, serial: u64) {
        let UnjudgedPermission {
            scope,
            request,
            meta,
        } = unjudged;
        let key = self.key_of(index);
        self.effect(Effect::Ask {
            key,
            scope,
            request,
            serial,
            meta,
        });
    }

    /// The adapter asks the user.
    pub(super) fn ask_input(
        &mut self,
        index: u32,
        turn: Option<TurnNo>,
        scope: TurnScope,
        request: Box<InputRequest>,
        meta: Option<Box<Meta>>,
        now: Instant,
    ) {
        if self.phase_of(index, &request.request_id, RequestStep::Ask) == RequestRule::Reject {
            return self.count_of(index, Counter::Bad);
        }
        let bytes = json_len(&request);
        if self.must_deny(index, turn, scope, bytes) {
            return self.cancel(index, &request.request_id);
        }
        let serial = self.open_request(
            index,
            request.request_id.clone(),
            turn,
            Kind::Question,
            bytes,
            now,
        );
        let key = self.key_of(index);
        self.effect(Effect::AskInput {
            key,
            scope,
            request,
            serial,
            meta,
        });
    }

    /// The adapter withdraws a request.
    pub(super) fn withdraw(&mut self, index: u32, id: &RequestId, reason: StopReason) {
        if self.phase_of(index, id, RequestStep::Withdraw) != RequestRule::Settle {
            return self.count_of(index, Counter::StrayRequest);
        }
        if let Some(request) = self.take_request(index, |request| request.id == *id) {
            self.tell_withdrawn(index, request, reason);
        }
    }

    /// The user answers. An answer that comes too late is counted and ignored ([permission.4]).
    pub fn handle_answer(
        &mut self,
        key: Key,
        id: &RequestId,
        serial: u64,
        answer: Answer,
        now: Instant,
    ) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(request) = self.take_request(index, |request| request.serial == serial) else {
            return match answer {
                Answer::Dropped => {}
                Answer::Permission(_) | Answer::Question(_) => {
                    self.count_of(index, Counter::StrayRequest)
                }
            };
        };
        let scope = request.turn.map_or(TurnScope::Outside, TurnScope::Running);
        match (request.kind, answer) {
            (Kind::Permission { options }, Answer::Permission(mut response)) => {
                response.approved =
                    approves(response.approved, response.option_id.as_deref(), &options);
                let has_control = self
                    .get(index)
                    .is_some_and(|session| session.has_agreed(Extensions::CONTROL));
                if response.approved && response.updated_input.is_some() && !has_control {
                    // Without its change it would approve another call.
                    *response = PermissionResponse::new(id.clone(), false);
                    let why = "changes the input of the tool, which this adapter does not take, so the request was denied; answer without `updated_input`";
                    self.report_answer(index, scope, id, why, Category::PermissionDenied);
                }
                let approved = response.approved;
                let lost = self.write_response(index, *response);
                let is_denied = approved && lost.iter().any(|name| *name != "message");
                let outcome = is_denied.then_some("the request was denied");
                self.report_cut_answer(index, scope, id, &lost, outcome);
            }
            (Kind::Permission { .. }, Answer::Dropped | Answer::Question(_))
            | (Kind::Unjudged(_), _) => {
                self.respond(index, id, false, StopReason::Policy);
            }
            (Kind::Question, Answer::Question(Some(values))) => {
                let response = InputResponse {
                    request_id: id.clone(),
                    values: Some(values),
                    cancelled: None,
                };
                let lost = self.write_to(index, response);
                let outcome = Some("the question was cancelled");
                self.report_cut_answer(index, scope, id, &lost, outcome);
            }
            (Kind::Question, Answer::Dropped | Answer::Question(None) | Answer::Permission(_)) => {
                self.cancel(index, id)
            }
        }
        if let Some(running) = self.get(index).and_then(|session| session.running()) {
            running.rested_until(now);
        }
        self.arm(index, now);
    }

    /// Settles the requests of a turn, or all if none is named, as denied, and reports it on the
    /// wire ([permission.3]).
    pub(super) fn deny_requests_of(
        &mut self,
        index: u32,
        turn: Option<TurnNo>,
        reason: StopReason,
    ) {
        while let Some(request) =
            self.take_request(index, |request| turn.is_none() || request.turn == turn)
        {
            match request.kind {
                Kind::Permission { .. } | Kind::Unjudged(_) => {
                    self.respond(index, &request.id, false, reason)
                }
                Kind::Question => self.cancel(index, &request.id),
            }
            self.tell_withdrawn(index, request, reason);
        }
    }

    /// Settles all requests without a word on the wire: the session or the process is gone.
    pub(super) fn drop_requests(&mut self, index: u32, reason: StopReason) {
        while let Some(request) = self.take_request(index, |_| true) {
            self.tell_withdrawn(index, request, reason);
        }
    }

    /// Denies what has waited for too long.
    pub(super) fn request_timeout(&mut self, index: u32, now: Instant) {
        let due = |request: &Request| request.deadline.is_some_and(|deadline| deadline <= now);
        while let Some(request) = self.take_request(index, due) {
            match request.kind {
                Kind::Permission { .. } | Kind::Unjudged(_) => {
                    self.respond(index, &request.id, false, StopReason::Timeout)
                }
                Kind::Question => self.cancel(index, &request.id),
            }
            self.tell_withdrawn(index, request, StopReason::Timeout);
            if let Some(running) = self.get(index).and_then(|session| session.running()) {
                running.rested_until(now);
            }
        }
    }

    /// Returns the working directories of the session: first as it was given, then by other names,
    /// then the agent's.
    fn dirs_of(&self, index: u32) -> Vec<&Path> {
        let session = self
            .sessions
            .get(index as usize)
            .and_then(|slot| slot.session.as_ref());
        let own = session.into_iter().flat_map(|session| session.dirs());
        own.chain(self.rules.work_dirs.iter().map(PathBuf::as_path))
            .collect()
    }

    /// Returns true if a request must be denied: the turn is stopping or has ended, or too many
    /// requests wait, which is counted.
    fn must_deny(
        &mut self,
        index: u32,
        turn: Option<TurnNo>,
        scope: TurnScope,
        bytes: usize,
    ) -> bool {
        let most = self.rules.max_open_requests;
        let Some(session) = self.get(index) else {
            return true;
        };
        let stopping = turn
            .and_then(|turn| session.open_turn(turn))
            .is_some_and(|turn| turn.is_stopping());
        if stopping || matches!(scope, TurnScope::Ended(_)) {
            return true;
        }
        let waiting = session.work.as_ref().map_or(&[][..], |work| &work.requests);
        let count = waiting.len();
        let own: usize = waiting.iter().map(|request| request.bytes).sum();
        let full = count >= most
            || own >= PENDING_BYTES
            || !may_take(count as u64, 1, PENDING_OF_ALL - self.pending.requests)
            || !may_take(
                own as u64,
                bytes as u64,
                PENDING_BYTES_OF_ALL - self.pending.bytes,
            );
        if full {
            self.count_of(index, Counter::DeniedRequest);
        }
        full
    }

    fn phase_of(&mut self, index: u32, id: &RequestId, step: RequestStep) -> RequestRule {
        let work = self.get(index).and_then(|session| session.work.as_ref());
        let pending =
            work.is_some_and(|work| work.requests.iter().any(|request| request.id == *id));
        request(
            if pending {
                RequestPhase::Pending
            } else {
                RequestPhase::Settled
            },
            step,
        )
    }

    fn open_request(
        &mut self,
        index: u32,
        id: RequestId,
        turn: Option<TurnNo>,
        kind: Kind,
        bytes: usize,
        now: Instant,
    ) -> u64 {
        let serial = self.next_serial();
        let deadline = self.rules.permission_timeout.map(|timeout| now + timeout);
        let request = Request {
            id,
            serial,
            turn,
            kind,
            bytes,
            deadline,
        };
        self.push_request(index, request);
        self.arm(index, now);
        serial
    }

    fn push_request(&mut self, index: u32, request: Request) {
        let bytes = request.bytes as u64;
        if let Some(session) = self.get(index) {
            session.work().requests.push(request);
            self.pending.requests += 1;
            self.pending.bytes += bytes;
        }
    }

    fn take_request(&mut self, index: u32, which: impl Fn(&Request) -> bool) -> Option<Request> {
        let requests = &mut self.get(index)?.work.as_mut()?.requests;
        let at = requests.iter().position(which)?;
        let request = requests.remove(at);
        self.pending.requests -= 1;
        self.pending.bytes -= request.bytes as u64;
        Some(request)
    }

    fn tell_withdrawn(&mut self, index: u32, request: Request, reason: StopReason) {
        if matches!(request.kind, Kind::Unjudged(_)) {
            return;
        }
        let scope = request.turn.map_or(TurnScope::Outside, TurnScope::Running);
        let cancel = PermissionCancel {
            request_id: request.id,
            reason: Some(reason),
        };
        self.deliver(index, scope, cancel.into(), None);
    }

    fn respond(&mut self, index: u32, id: &RequestId, approved: bool, reason: StopReason) {
        let response = PermissionResponse {
            reason: Some(reason),
            ..PermissionResponse::new(id.clone(), approved)
        };
        self.write_response(index, response);
    }

    /// Writes an answer with the members that the adapter knows. Returns those that gave way to its
    /// line limit.
    fn write_response(
        &mut self,
        index: u32,
        mut response: PermissionResponse,
    ) -> Vec<&'static str> {
        let Some(session) = self.get(index) else {
            return Vec::new();
        };
        if !session.has_agreed(Extensions::TURNS) {
            response.reason = None;
        }
        if !session.has_agreed(Extensions::CONTROL) {
            let PermissionResponse {
                request_id,
                approved,
                reason,
                ..
            } = response;
            response = PermissionResponse {
                reason,
                ..PermissionResponse::new(request_id, approved)
            };
        }
        self.write_to(index, response)
    }

    fn cancel(&mut self, index: u32, id: &RequestId) {
        self.write_to(
            index,
            InputResponse {
                request_id: id.clone(),
                values: None,
                cancelled: Some(true),
            },
        );
    }

    /// Writes an answer in a line that the adapter reads ([frame.11]). Returns the members that
    /// gave way for it.
    fn write_to(
        &mut self,
        index: u32,
        body: impl Into<trunkline_protocol::HostBody>,
    ) -> Vec<&'static str> {
        let key = self.key_of(index);
        let Some(session) = self.get(index) else {
            return Vec::new();
        };
        let Some(wire) = session.wire.clone() else {
            return Vec::new();
        };
        let mut message = HostMessage::new(wire, body);
        let mut lost = Vec::new();
        if let Some(limit) = session.line_limit() {
            let agreed = session.agreed.unwrap_or_default();
            let mut short = Vec::new();
            // What ends or answers something always fits.
            lost = fit(&message, agreed, limit, |line| short = line).unwrap_or_default();
            if !lost.is_empty()
                && let Ok(line) = std::str::from_utf8(&short)
                && let Ok(read) = HostMessage::parse(line.trim_end())
            {
                message = read;
            }
        }
        self.effect(Effect::Write {
            key,
            input_of: None,
            message,
        });
        lost
    }

    /// Reports that an answer was longer than a line of the adapter, and what became of it.
    fn report_cut_answer(
        &mut self,
        index: u32,
        scope: TurnScope,
        id: &RequestId,
        lost: &[&str],
        outcome: Option<&str>,
    ) {
        if lost.is_empty() {
            return;
        }
        let cut = || format!("`{}` was cut or left out", lost.join("`, `"));
        let outcome = outcome.map_or_else(cut, str::to_owned);
        let why = format!(
            "is longer than a line that the adapter reads (`max_line`), so {outcome}; answer with less"
        );
        self.report_answer(index, scope, id, &why, Category::Oversize);
    }

    /// Reports an answer that did not reach the adapter as it was given.
    fn report_answer(
        &mut self,
        index: u32,
        scope: TurnScope,
        id: &RequestId,
        why: &str,
        category: Category,
    ) {
        let error = ErrorEvent {
            category: Some(category),
            message: format!("the answer to request {id} {why}"),
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        self.deliver(index, scope, error.into(), None);
    }
}

impl UnjudgedPermission {
    /// Returns what is remembered of it while its user decides.
    fn kind(&self) -> Kind {
        Kind::Permission {
            options: self.request.options.clone().unwrap_or_default(),
        }
    }
}

/// Reads the input of a tool. One that cannot be read (a number too large, half a character) is not
/// an absent one.
fn read_input(input: &Json) -> serde_json::Value {
    serde_json::from_str(input.get()).unwrap_or(serde_json::Value::Bool(false))
}
