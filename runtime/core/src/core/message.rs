//! Messages of the adapter ([session.5], [turn.6], [turn.9], [ext.2]).

use std::time::Instant;

use trunkline_protocol::{
    AdapterBody, AdapterKind, Category, Context, EnforcedOption, ErrorEvent, Extensions, Head,
    Item, SessionId, SessionInfo, SessionReady, SessionStart, StopReason, Unread, goes_by_file,
    rules::{SessionPhase, SessionRule, from_adapter},
    session_named_in, strip, strip_info, type_named_in,
};

use super::{Core, Counter, WhyClosed, session::CWD, turn::Attached};
use crate::{Cause, SteerError, TurnNo, TurnScope};

impl Core {
    /// Takes a line of the adapter's output.
    ///
    /// A line that cannot be taken and names a session is reported to that session, here and
    /// nowhere else; no other is affected ([msg.3], [frame.5], [frame.6]).
    ///
    /// # Errors
    /// Why an [`Item::Line`] is not a message. The caller counts it, as it counts the other items.
    pub fn handle_line(&mut self, item: Item<'_>, now: Instant) -> Result<(), Unread> {
        match item {
            // Read in place: a head that is moved costs as much as finding its members.
            Item::Line(line) => match &mut Head::read(line) {
                Ok(head) => return self.handle_head(head, line.len() as u64 + 1, now),
                Err(unread) => {
                    let unread = unread.clone();
                    if unread == Unread::Noise {
                        self.count_noise(line);
                    }
                    if let Unread::Bad {
                        session_id: Some(id),
                        ..
                    } = &unread
                    {
                        self.report_bad_line(id, Category::Protocol, &unread.to_string());
                    }
                    return Err(unread);
                }
            },
            Item::TooLong { first, bytes } => {
                if let Some(id) = session_named_in(first) {
                    let why = format!(
                        "a line of {bytes} bytes was over the limit (`max_line`) and was skipped"
                    );
                    self.report_bad_line(&id, Category::Oversize, &why);
                    if type_named_in(first).as_deref() == Some(AdapterKind::TurnComplete.as_str()) {
                        self.end_oversize(&id, now);
                    }
                }
            }
            Item::NotUtf8 { line } => {
                if let Some(id) = session_named_in(line) {
                    let why = "a message was not UTF-8 and was skipped";
                    self.report_bad_line(&id, Category::Protocol, why);
                }
            }
            Item::NotObject(line) => self.count_noise(line),
            Item::Cut(_) => {}
        }
        Ok(())
    }

    fn handle_head(&mut self, head: &mut Head<'_>, bytes: u64, now: Instant) -> Result<(), Unread> {
        let kind = head.kind_of::<AdapterBody>()?;
        self.hear_process();
        if kind == AdapterKind::Pong && self.process.liveness.was_pinged() {
            return Ok(());
        }
        if kind == AdapterKind::SessionsListResult && self.is_list_open() {
            let (body, _) = head.body_of::<AdapterBody>(kind)?;
            if let AdapterBody::SessionsListResult(result) = body {
                self.listed(result);
            }
            return Ok(());
        }
        if kind.is_of_pipe() {
            self.count(Counter::UnknownType);
            return Ok(());
        }
        let found = self.find(&head.session_id);
        let phase = match found {
            Some(_) => SessionPhase::Open,
            None if self.is_late(&head.session_id) => SessionPhase::Closed,
            None => SessionPhase::Unstarted,
        };
        let index = match (from_adapter(phase, kind), found) {
            (SessionRule::Accept | SessionRule::Close, Some(index)) => index,
            (SessionRule::IgnoreLate, _) => {
                self.count(Counter::Late);
                return Ok(());
            }
            _ => {
                self.count(Counter::UnknownSession);
                return Ok(());
            }
        };
        self.agree(index, kind, bytes, now);
        self.limit_rate(index, kind, bytes, now);
        let agreed = self
            .get(index)
            .and_then(|session| session.agreed)
            .unwrap_or_default();
        if !kind.is_agreed(agreed) && kind != AdapterKind::SessionReady {
            self.count_of(index, Counter::UnknownType);
            return Ok(());
        }
        if kind == AdapterKind::TurnComplete && head.is_plain() {
            // The most frequent end has no members of its own: no body is made for it.
            let named = head.turn_id.as_deref().and_then(TurnNo::named);
            self.complete(index, named, None, (None, None), now);
            return Ok(());
        }
        let (mut body, mut meta) = match head.body_of::<AdapterBody>(kind) {
            Ok(read) => read,
            Err(unread) => {
                self.tell_bad(index, Category::Protocol, &unread.to_string());
                return Err(unread);
            }
        };
        if kind != AdapterKind::SessionReady {
            // What was not agreed on is not there: a core-only adapter's fields mean nothing ([ext.2]).
            strip(&mut body, agreed);
            meta = meta.filter(|_| !agreed.is_empty());
        }
        let large = if agreed.contains(Extensions::LARGE) {
            head.large()
        } else {
            None
        };
        let large = large.map(|mut large| {
            large.retain(|name, _| goes_by_file(kind).contains(&name.as_str()));
            Box::new(large)
        });
        let attached = (meta.map(Box::new), large.filter(|large| !large.is_empty()));
        self.handle_message(index, head.turn_id.as_deref(), body, attached, now);
        Ok(())
    }

    /// Reports a line that named a session and was not a message.
    fn report_bad_line(&mut self, wire_id: &SessionId, category: Category, why: &str) {
        if let Some(index) = self.find(wire_id.as_str()) {
            self.tell_bad(index, category, why);
        }
    }

    /// A `turn.complete` that was longer than a line may be: the turn has ended, and how is lost.
    fn end_oversize(&mut self, wire_id: &SessionId, now: Instant) {
        if let Some(index) = self.find(wire_id.as_str()) {
            self.end_running(index, Cause::Oversize, now);
            self.flush(index, now);
        }
    }

    fn tell_bad(&mut self, index: u32, category: Category, why: &str) {
        self.count_of(index, Counter::BadOfSession);
        let scope = self.current_scope(index);
        let error = ErrorEvent {
            category: Some(category),
            message: why.to_owned(),
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        self.deliver(index, scope, error.into(), None);
    }

    pub(super) fn current_scope(&mut self, index: u32) -> TurnScope {
        let running = self.get(index).and_then(|session| session.running());
        running.map_or(TurnScope::Outside, |running| TurnScope::Running(running.no))
    }

    /// Counts a message, settles what is agreed on by the first of the session, and reports whether
    /// context was kept.
    fn agree(&mut self, index: u32, kind: AdapterKind, bytes: u64, now: Instant) {
        let Some(session) = self.get(index) else {
            return;
        };
        session.bytes_in += bytes;
        // A sign of life from an agent that is still resuming does not report what it remembers.
        let is_silent_on_context = matches!(
            kind,
            AdapterKind::SessionReady | AdapterKind::SessionInfo | AdapterKind::Working
        );
        if session.agreed.is_none() && kind != AdapterKind::SessionReady {
            session.agreed = Some(Extensions::empty());
            self.check_options(index, now);
            self.flush(index, now);
        }
        if let Some(session) = self.get(index)
            && session.context_due
            && !is_silent_on_context
        {
            self.tell_context(index, Context::Lost);
        }
    }

    /// Tells the user once, after a restart, whether the agent remembers ([process.5]).
    pub(super) fn tell_context(&mut self, index: u32, context: Context) {
        let Some(session) = self.get(index) else {
            return;
        };
        if std::mem::take(&mut session.context_due) {
            let info = SessionInfo {
                context: Some(context),
                ..SessionInfo::default()
            };
            self.deliver(index, TurnScope::Outside, Box::new(info).into(), None);
        }
    }

    fn handle_message(
        &mut self,
        index: u32,
        turn_id: Option<&str>,
        body: AdapterBody,
        (meta, large): Attached,
        now: Instant,
    ) {
        let Some(session) = self.get(index) else {
            return;
        };
        let written = session.written;
        let by_id = session.has_agreed(Extensions::TURNS);
        let running = session.running().map(|running| running.no);
        let named = turn_id.filter(|_| by_id).map(TurnNo::named);
        let scope = match (by_id, named, running) {
            _ if body.is_history() || is_news(&body) => TurnScope::Outside,
            (false, _, Some(turn)) => TurnScope::Running(turn),
            (false, _, None) | (true, None, _) => TurnScope::Outside,
            (true, Some(Some(named)), _) if session.open_turn(named).is_some() => {
                TurnScope::Running(named)
            }
            (true, Some(Some(named)), _) if (1..=written).contains(&named.get()) => {
                TurnScope::Ended(named)
            }
            (true, Some(_), _) => {
                self.count_of(index, Counter::Foreign);
                TurnScope::Outside
            }
        };
        if matches!(scope, TurnScope::Ended(_)) {
            self.count_of(index, Counter::Late);
        }
        let turn = match scope {
            TurnScope::Running(turn) => Some(turn),
            TurnScope::Outside | TurnScope::Ended(_) => None,
        };
        self.hear(index, &body, turn, now);
        match body {
            AdapterBody::TurnComplete(complete) => {
                self.complete(index, named.flatten(), Some(complete), (meta, large), now)
            }
            AdapterBody::ToolStart(start) => self.tool_start(index, scope, start, meta, now),
            AdapterBody::FileOutput(file) => {
                let key = self.key_of(index);
                self.effect(super::Effect::CheckFile {
                    key,
                    scope,
                    file,
                    meta,
                });
            }
            // A replayed request needs no answer.
            AdapterBody::PermissionRequest(request) if request.history != Some(true) => {
                self.ask(index, turn, scope, request, meta, now);
            }
            AdapterBody::PermissionRequest(_) => {}
            AdapterBody::InputRequest(request) => {
                self.ask_input(index, turn, scope, request, meta, now)
            }
            AdapterBody::PermissionCancel(cancel) => {
                self.withdraw(
                    index,
                    &cancel.request_id,
                    cancel.reason.unwrap_or(StopReason::Stopped),
                );
            }
            AdapterBody::SessionReady(ready) => self.ready(index, *ready, meta, now),
            AdapterBody::SessionInfo(info) => self.info(index, info, meta, now),
            AdapterBody::SteerResult(result) => self.steered(index, &result, now),
            AdapterBody::Usage(usage) => {
                self.handle_usage(index, scope, usage, (meta, large), now);
            }
            // Nothing is reported before the context ([process.5]); the turn's deadline has counted
            // it.
            AdapterBody::Working(_)
                if self.get(index).is_some_and(|session| session.context_due) => {}
            AdapterBody::SessionClosed(closed) => {
                let reason = closed
                    .reason
                    .unwrap_or(trunkline_protocol::ClosedReason::Finished);
                self.close_session(index, WhyClosed::Adapter(reason, closed.error), now);
            }
            // They belong to the pipe, and were counted before.
            AdapterBody::SessionsListResult(_)
            | AdapterBody::AgentsListResult(_)
            | AdapterBody::Pong(_) => {}
            event => self.deliver_large(index, scope, event, meta, large),
        }
    }

    /// The adapter's answer to the offer ([ext.2]). A second one changes nothing but facts.
    fn ready(
        &mut self,
        index: u32,
        ready: SessionReady,
        meta: Option<Box<trunkline_protocol::Meta>>,
        now: Instant,
    ) {
        let offered = self.rules.offered;
        let Some(session) = self.get(index) else {
            return;
        };
        let named = offered & Extensions::from_names(ready.extensions.iter().flatten());
        let agreed = *session.agreed.get_or_insert(named);
        if agreed.is_empty() && !named.is_empty() {
            return self.count_of(index, Counter::UnknownType);
        }
        if !agreed.is_empty() {
            session.known().max_line = ready.max_line;
        }
        self.agreed_on(agreed);
        let mut info = Box::new(ready.info);
        strip_info(&mut info, agreed);
        self.info(index, info, meta, now);
    }

    fn info(
        &mut self,
        index: u32,
        mut info: Box<SessionInfo>,
        meta: Option<Box<trunkline_protocol::Meta>>,
        now: Instant,
    ) {
        let Some(session) = self.get(index) else {
            return;
        };
        if let Some(applied) = &mut info.options_applied {
            let is_asked = session
                .start
                .as_ref()
                .is_some_and(|start| start.cwd.is_some());
            if session.is_in_cwd && is_asked && applied.iter().all(|applied| applied != CWD) {
                applied.push(CWD.to_owned());
            }
            // What the host enforces counts as listed ([ext.7]).
            for limit in EnforcedOption::LIMITS.map(EnforcedOption::name) {
                if applied.iter().all(|applied| applied != limit) {
                    applied.push(limit.to_owned());
                }
            }
            let asked = session
                .start
                .as_deref()
                .into_iter()
                .flat_map(SessionStart::options);
            let applied = asked
                .filter(|option| applied.iter().any(|applied| applied == option))
                .collect();
            session.known().options_applied = applied;
        }
        if let Some(modes) = &info.input_modes {
            session.known().steers = modes.iter().any(|mode| mode == "steer");
            session.known().queues = modes.iter().any(|mode| mode == "queue");
        }
        self.remember(index, info.native_session_id.as_ref(), None);
        let Some(session) = self.get(index) else {
            return;
        };
        if session.context_due {
            // After a restart the host reports the context once; messages that contain it continue
            // without it. An adapter that cannot resume has nothing to add later.
            let resumes = session.has_agreed(Extensions::RESUME);
            if let Some(context) = info.context.take().or((!resumes).then_some(Context::Lost)) {
                self.tell_context(index, context);
            }
        }
        self.answer_update(index, &info);
        if *info != SessionInfo::default() {
            self.deliver(index, TurnScope::Outside, info.into(), meta);
        }
        self.check_options(index, now);
        self.flush(index, now);
        self.settle_flow(index, now);
    }

    fn steered(&mut self, index: u32, result: &trunkline_protocol::SteerResult, now: Instant) {
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return;
        };
        let at = match &result.message_id {
            Some(id) => work
                .steers
                .iter()
                .position(|(waiting, _)| waiting.as_ref() == Some(id)),
            None => (!work.steers.is_empty()).then_some(0),
        };
        let Some((_, ticket)) = at.and_then(|at| work.steers.remove(at)) else {
            return self.count_of(index, Counter::StrayRequest);
        };
        let refused = || SteerError::NotDelivered(result.reason.clone().unwrap_or_default());
        let result = if result.delivered {
            Ok(())
        } else {
            Err(refused())
        };
        self.effect(super::Effect::Steered { ticket, result });
        self.settle_flow(index, now);
    }
}

/// Returns true if a message reports on the session rather than on a turn.
fn is_news(body: &AdapterBody) -> bool {
    matches!(
        body,
        AdapterBody::SessionReady(_) | AdapterBody::SessionInfo(_)
    )
}
