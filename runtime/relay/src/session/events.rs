//! Events of the host, as the hub receives them ([relay.7]).

use trunkline_host::{Cause, Event, EventKind, SessionEnd, TurnEnd, TurnScope};
use trunkline_protocol::{
    AdapterBody, Category, Delivered, ErrorEvent, Extensions, FileOutput, Meta, PermissionCancel,
    RequestId, SessionClosed, SessionInfo, StopReason, TurnComplete, TurnId,
};
use trunkline_sessions::ends::{never_sent, stopped};

use super::{
    HubSession, Phase, brief,
    requests::{HubInformed, PendingRequest},
    turns::{Serial, Stage},
};

impl HubSession {
    /// Reports an event to the hub.
    pub(super) async fn take_event(&mut self, event: Event) {
        let Event {
            scope, kind, meta, ..
        } = event;
        let meta = meta.map(|meta| *meta);
        let (turn, no) = match scope {
            TurnScope::Running(no) => (self.turns.hub_id(no), Some(no)),
            TurnScope::Outside => (None, None),
            TurnScope::Ended(no) => {
                // Unmarked, it would become part of the turn that runs now ([turn.9]).
                if !self.knows(Extensions::TURNS)
                    && !self.turns.is_empty()
                    && !matches!(kind, EventKind::File(_))
                {
                    self.common.counters.late_output.one();
                    return tracing::debug!(session = %self.id, "late output is not told");
                }
                (self.turns.hub_id(no), None)
            }
        };
        let body = match kind {
            EventKind::Info(info) => self.learn(*info).into(),
            EventKind::File(file) => {
                self.gave_files = true;
                FileOutput::from(*file).into()
            }
            EventKind::Error(error) if self.is_said_already(&error) => return,
            EventKind::Permission(permission) => {
                let mut request = permission.request().clone();
                request.request_id = self.requests.ask(
                    &request.request_id,
                    no,
                    PendingRequest::Permission(permission),
                );
                let hub_id = request.request_id.clone();
                let body = Box::new(request).into();
                if self.is_too_long(turn.as_ref(), &body) {
                    return self.settle_unsent(&hub_id);
                }
                body
            }
            EventKind::Question(question) => {
                let mut request = question.request().clone();
                if self.knows(Extensions::QUESTIONS) {
                    request.request_id = self.requests.ask(
                        &request.request_id,
                        no,
                        PendingRequest::Question(question),
                    );
                } else {
                    // Shown as text, and cancelled at once ([ext.3]).
                    question.cancel();
                }
                let hub_id = request.request_id.clone();
                let body = Box::new(request).into();
                if self.is_too_long(turn.as_ref(), &body) {
                    return self.settle_unsent(&hub_id);
                }
                body
            }
            EventKind::Withdrawn { request_id, reason } => {
                let informed = if self.knows(Extensions::CONTROL) {
                    HubInformed::Yes
                } else {
                    HubInformed::No
                };
                let Some(request_id) = self.requests.withdraw(&request_id, informed) else {
                    return;
                };
                PermissionCancel {
                    request_id,
                    reason: Some(reason),
                }
                .into()
            }
            // A hub has a clock of its own, which a message would reset.
            EventKind::Stalled { .. } => return,
            EventKind::End(end) => return self.take_end(*end, meta).await,
            EventKind::Closed(end) => return self.take_closed(*end),
            plain => match plain.into_body() {
                Ok(body) => body,
                // Not even its kind is logged: its text would reveal the content.
                Err(_) => {
                    return tracing::warn!(session = %self.id, "an event of an unknown kind is not passed on");
                }
            },
        };
        self.pass_on(turn, body, meta).await;
    }

    /// Returns true if a message is longer than the hub's lines, however it is cut ([frame.11]).
    fn is_too_long(&self, turn: Option<&TurnId>, body: &AdapterBody) -> bool {
        let message = self.message(turn.cloned(), body.clone(), None);
        self.hub.check(message).is_err()
    }

    /// Settles a request that cannot be shown to the hub: a permission as denied, a question as
    /// cancelled.
    fn settle_unsent(&mut self, hub_id: &RequestId) {
        self.common.counters.shortened.one();
        match self.requests.answered(hub_id) {
            Some(PendingRequest::Permission(permission)) => {
                permission.deny();
                self.say_error(
                    Category::PermissionDenied,
                    "a permission was denied: the request is too long for this hub to show",
                );
            }
            Some(PendingRequest::Question(question)) => {
                question.cancel();
                self.say_error(
                    Category::Oversize,
                    "a question was cancelled: it is too long for this hub to show",
                );
            }
            None => {}
        }
    }

    /// Reports the only end of a turn ([turn.1]).
    async fn take_end(&mut self, end: TurnEnd, meta: Option<Meta>) {
        self.requests.turn_ended(end.turn);
        let Some(turn) = self.turns.end(end.turn) else {
            return tracing::debug!(session = %self.id, turn = %end.turn, "an end of a turn that the hub does not wait for");
        };
        let end = if self.knows(Extensions::TURNS) {
            end
        } else {
            self.brief_end(end)
        };
        self.pass_on(turn.hub, Box::new(TurnComplete::from(end)).into(), meta)
            .await;
    }

    /// Shortens the end of a turn for a hub that reads it as text: without the whole tail of
    /// stderr.
    fn brief_end(&mut self, mut end: TurnEnd) -> TurnEnd {
        self.said_exit = matches!(
            end.cause,
            Cause::ProcessExit | Cause::EndOfStream | Cause::StartTimeout
        );
        let tail = end.stderr_tail.take();
        if end.cause != Cause::Complete
            && let Some(message) = end.error.as_mut().and_then(|error| error.message.as_mut())
        {
            brief::shorten(message, tail.as_deref());
        }
        end
    }

    /// Returns true if this text repeats what the end of a turn has just reported.
    fn is_said_already(&mut self, error: &ErrorEvent) -> bool {
        error.category == Some(Category::ProcessExit)
            && !self.knows(Extensions::EVENTS)
            && std::mem::take(&mut self.said_exit)
    }

    /// Ends the hub's session, since the host's has ended ([session.8]).
    fn take_closed(&mut self, end: SessionEnd) {
        let closed = SessionClosed {
            reason: Some(end.reason),
            error: end.error,
            cause: None,
        };
        if self.phase == Phase::Finishing {
            // The hub has ended the pipe: only the ends of the turns remain to be reported
            // ([relay.9]).
            self.over = Some(closed);
            return;
        }
        self.end_from_here(closed);
    }

    /// Ends what is open. The reason is reported after everything that the hub waits for.
    pub(super) fn end_from_here(&mut self, mut closed: SessionClosed) {
        if !self.knows(Extensions::CONTROL)
            && let Some(message) = closed
                .error
                .as_mut()
                .and_then(|error| error.message.as_mut())
        {
            brief::shorten(message, None);
        }
        let end = never_sent(&closed);
        if self.knows(Extensions::TURNS) {
            while let Some(turn) = self.turns.take_first() {
                self.say(turn.hub, Box::new(end.clone()).into(), None);
            }
        } else {
            self.turns.refuse_all(&end);
        }
        self.answer_updates();
        self.drop_work();
        self.over = Some(closed);
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
        }
        self.tell_end_if_due();
    }

    /// Reports the reason of the session's end, after the ends and answers that the hub waits for
    /// ([session.8]).
    pub(super) fn tell_end_if_due(&mut self) {
        if self.phase != Phase::Ending || !self.turns.is_empty() || !self.answers.is_empty() {
            return;
        }
        let Some(closed) = self.over.clone() else {
            return;
        };
        if self.knows(Extensions::CONTROL) {
            self.say_last(Box::new(closed).into());
        } else {
            self.say(None, Box::new(closed).into(), None);
            self.phase = Phase::Ended;
        }
    }

    /// Stores the values in force, and reports the relay's own input modes: it queues for every
    /// agent ([relay.8]).
    fn learn(&mut self, mut info: SessionInfo) -> Box<SessionInfo> {
        self.in_force.take(&info);
        if let Some(modes) = &mut info.input_modes
            && !modes.iter().any(|mode| mode == "queue")
        {
            modes.insert(0, "queue".to_owned());
        }
        Box::new(info)
    }

    /// Ends a turn that the host did not accept: at once if the hub can distinguish its end from
    /// others, otherwise in its order.
    pub(super) fn refuse(&mut self, serial: Serial, end: TurnComplete) {
        if !self.knows(Extensions::TURNS) {
            self.turns.refuse(serial, end);
        } else if let Some(turn) = self.turns.take(serial) {
            self.reply(turn.hub, Box::new(end).into());
        }
    }

    /// Reports the ends of refused turns in their order, as far as the queue has room: a hub may
    /// wait for a million.
    pub(super) fn tell_refused(&mut self) {
        while self.outlet.has_room()
            && let Some(end) = self.turns.take_refused_first()
        {
            self.say(None, end.into(), None);
        }
    }

    /// Ends what is open, since the relay ends ([relay.9]). A hub that has not read its refusals by
    /// now does not receive them all: the rest is counted.
    pub(super) fn end_turns(&mut self) {
        while let Some(turn) = self.turns.take_first() {
            let (delivered, mut refused) = match turn.stage {
                Stage::Waiting => (Delivered::No, None),
                Stage::Given(_) => (Delivered::Unknown, None),
                Stage::Refused(end, count) => (Delivered::No, Some((end, count))),
            };
            let Some((end, count)) = &mut refused else {
                self.say(
                    turn.hub,
                    Box::new(stopped(StopReason::Shutdown, delivered)).into(),
                    None,
                );
                continue;
            };
            while *count > 0 && !self.outlet.is_full() {
                self.say(None, end.clone().into(), None);
                *count -= 1;
            }
            self.common.counters.unanswered.add(*count);
        }
    }
}
