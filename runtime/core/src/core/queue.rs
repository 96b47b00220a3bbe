//! Messages that the host holds back for a session, in their order ([turn.3], [turn.11]).

use std::time::Instant;

use trunkline_protocol::{
    Category, Envelope, Extensions, Failure, FileInput, HostBody, HostMessage, LargeMember,
    MIN_MAX_LINE, Meta, SessionInfo, SessionUpdate, StopReason, TurnId, UserInput,
};

use super::{
    Core, Effect, Key, Ticket,
    reason::Circumstances,
    session::{Placing, Session, Work},
    timers::READY_WAIT,
    turn::OpenTurn,
};
use crate::{Cause, SteerError, TurnEnd, TurnNo, UpdateError};

/// A held message.
#[derive(Debug)]
pub(super) enum Queued {
    Input {
        turn: TurnNo,
        input: UserInput,
        meta: Option<Meta>,
        given: Instant,
    },
    File(Box<FileInput>, Ticket),
    Update {
        update: Box<SessionUpdate>,
        ticket: Ticket,
        given: Instant,
    },
}

/// The most inputs of a session that are written ahead of the end of its running turn.
pub(super) const MAX_INPUTS_AHEAD: usize = 8;

/// The most bytes of text that these have together. An adapter keeps them in memory.
const MAX_BYTES_AHEAD: usize = 256 * 1024;

/// Returns true if an input may be longer than every reader accepts ([frame.5]).
pub(super) fn is_large(input: &UserInput) -> bool {
    input.content.len() > MIN_MAX_LINE / 2
}

impl Session {
    /// Returns the reason if a message with this many bytes of text cannot be written, because its
    /// line is longer than the adapter reads ([frame.11]).
    fn too_long(&self, message: &HostMessage, content: usize) -> Option<String> {
        let limit = self.line_limit()?;
        // Each byte is six at most, and what else there is is short: mostly there is nothing to measure.
        if content < limit / 8 {
            return None;
        }
        let bytes = message.to_line().len() - 1;
        (bytes > limit).then(|| {
            format!(
                "the input needs a line of {bytes} bytes, and the adapter reads {limit} (`max_line`); send less, or a file"
            )
        })
    }
}

impl Work {
    /// Returns true if an input may be written now: no turn runs, or the adapter takes this one, too.
    fn has_room_for(&self, input: &UserInput, writes_ahead: bool) -> bool {
        let bytes = self
            .ahead
            .iter()
            .map(|turn| turn.input_bytes)
            .sum::<usize>();
        self.running.is_none()
            || (writes_ahead
                && self.ahead.len() < MAX_INPUTS_AHEAD
                && bytes + input.content.len() <= MAX_BYTES_AHEAD)
    }
}

impl Core {
    /// Takes an input. It is written when the turns before it have ended, or ahead of that to an
    /// adapter that queues ([turn.3]).
    pub fn handle_send(
        &mut self,
        key: Key,
        turn: TurnNo,
        input: UserInput,
        meta: Option<Meta>,
        now: Instant,
    ) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(session) = self.get(index) else {
            return;
        };
        session.work().queue.push_back(Queued::Input {
            turn,
            input,
            meta,
            given: now,
        });
        self.flush(index, now);
        self.settle_flow(index, now);
    }

    /// Takes a file in the exchange folder.
    pub fn handle_file(&mut self, key: Key, file: Box<FileInput>, ticket: Ticket, now: Instant) {
        let index = self.index_of(key);
        let Some((index, session)) = index.and_then(|index| Some((index, self.get(index)?))) else {
            return self.effect(Effect::Unqueued(ticket));
        };
        session.work().queue.push_back(Queued::File(file, ticket));
        self.flush(index, now);
    }

    /// Takes the path of an input's text that is too long for a line, or the reason why there is
    /// none ([large.2]).
    pub fn handle_placed(
        &mut self,
        key: Key,
        turn: TurnNo,
        placed: Result<LargeMember, String>,
        now: Instant,
    ) {
        let Some(index) = self.index_of(key) else {
            return;
        };
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return;
        };
        // Another, or none: it was stopped meanwhile.
        if let Some((_, placing)) = work
            .placing
            .as_mut()
            .filter(|(placing, _)| *placing == turn)
        {
            *placing = Placing::Placed(placed);
            self.flush(index, now);
        }
    }

    /// Takes a change of options.
    pub fn handle_update(
        &mut self,
        key: Key,
        update: Box<SessionUpdate>,
        ticket: Ticket,
        now: Instant,
    ) {
        let Some(index) = self.index_of(key) else {
            return self.effect(Effect::Updated {
                ticket,
                result: Err(UpdateError::Closed),
            });
        };
        let Some(session) = self.get(index) else {
            return;
        };
        session.work().queue.push_back(Queued::Update {
            update,
            ticket,
            given: now,
        });
        self.settle_flow(index, now);
        self.flush(index, now);
        self.settle_flow(index, now);
    }

    /// Takes an addition to the running turn ([turn.10]).
    pub fn handle_steer(
        &mut self,
        key: Key,
        input: UserInput,
        meta: Option<Meta>,
        ticket: Ticket,
        now: Instant,
    ) {
        let index = self.index_of(key);
        let Some((index, session)) = index.and_then(|index| Some((index, self.get(index)?))) else {
            return self.effect(Effect::Steered {
                ticket,
                result: Err(SteerError::Closed),
            });
        };
        let can = session.has_agreed(Extensions::TURNS)
            && session.known.as_ref().is_some_and(|known| known.steers);
        let running = session.running().map(|running| running.no);
        let (Some(_), Some(wire)) = (running, session.wire.clone()) else {
            return self.effect(Effect::Steered {
                ticket,
                result: Err(SteerError::NoTurn),
            });
        };
        if !can {
            return self.effect(Effect::Steered {
                ticket,
                result: Err(SteerError::Unsupported),
            });
        }
        let message_id = input.message_id.clone();
        let bytes = input.content.len();
        // Its id opens no turn and is put on nothing ([turn.10]); it is unique all the same ([turn.9]).
        let turn_id = TurnId::new(format!("s{}", self.next_serial())).ok();
        let message = HostMessage {
            session_id: wire,
            turn_id,
            meta,
            large: None,
            body: input.into(),
        };
        let Some(session) = self.get(index) else {
            return;
        };
        if let Some(why) = session.too_long(&message, bytes) {
            return self.effect(Effect::Steered {
                ticket,
                result: Err(SteerError::NotDelivered(why)),
            });
        }
        session.work().steers.push_back((message_id, ticket));
        self.settle_flow(index, now);
        let key = self.key_of(index);
        self.effect(Effect::Write {
            key,
            input_of: None,
            message,
        });
    }

    /// Writes what may be written now, in order.
    pub(super) fn flush(&mut self, index: u32, now: Instant) {
        self.end_exhausted(index);
        if !self.process_is_up() {
            if self.has_queue(index) {
                self.demand_process(now);
            }
            return;
        }
        let Some(session) = self.get(index) else {
            return;
        };
        if session.wire.is_none() {
            if session.was_started()
                && session
                    .work
                    .as_ref()
                    .is_none_or(|work| work.queue.is_empty())
            {
                return;
            }
            self.start_session(index, now);
        }
        loop {
            let offered = self.rules.offered;
            let key = self.key_of(index);
            let Some(session) = self.get(index) else {
                return;
            };
            let Some(wire) = session.wire.clone() else {
                return;
            };
            if session.options_due {
                return;
            }
            let agreed = session.agreed;
            let started = session.started_at.unwrap_or(now);
            let has_meta = !offered.is_empty();
            let writes_ahead = session.writes_ahead();
            let Some(work) = session.work.as_mut() else {
                return;
            };
            let body: HostBody = match work.queue.front() {
                None => return,
                Some(Queued::Input { input, .. }) if !work.has_room_for(input, writes_ahead) => {
                    return;
                }
                Some(Queued::Input { turn, .. }) if matches!(&work.placing, Some((placing, Placing::UnderWay)) if placing == turn) =>
                {
                    return;
                }
                Some(Queued::Input { input, .. })
                    if agreed.is_none() && is_large(input) && now < started + READY_WAIT =>
                {
                    return self.arm(index, now);
                }
                Some(Queued::Update { given, .. })
                    if agreed.is_none() && now < started.max(*given) + READY_WAIT =>
                {
                    return self.arm(index, now);
                }
                Some(_) => match work.queue.pop_front() {
                    Some(Queued::Input {
                        turn,
                        input,
                        meta,
                        given,
                    }) => {
                        let with_turns = session.may_use(Extensions::TURNS, offered);
                        self.begin(
                            index,
                            (turn, given),
                            input,
                            meta.filter(|_| has_meta),
                            with_turns,
                            now,
                        );
                        continue;
                    }
                    Some(Queued::File(mut file, ticket)) => {
                        if !session.may_use(Extensions::LARGE, offered) {
                            (file.size, file.sha256) = (None, None);
                        }
                        self.effect(Effect::Unqueued(ticket));
                        (*file).into()
                    }
                    Some(Queued::Update { update, ticket, .. }) => {
                        if !agreed.is_some_and(|agreed| agreed.contains(Extensions::OPTIONS)) {
                            self.effect(Effect::Updated {
                                ticket,
                                result: Err(UpdateError::Unsupported),
                            });
                            continue;
                        }
                        work.updates.push_back(ticket);
                        self.effect(Effect::Unqueued(ticket));
                        HostBody::SessionUpdate(update)
                    }
                    None => return,
                },
            };
            self.effect(Effect::Write {
                key,
                input_of: None,
                message: Envelope::new(wire, body),
            });
        }
    }

    /// Writes an input, which was given then: its turn runs, or waits in the adapter behind the running one.
    fn begin(
        &mut self,
        index: u32,
        (turn, given): (TurnNo, Instant),
        mut input: UserInput,
        meta: Option<Meta>,
        with_turns: bool,
        now: Instant,
    ) {
        let key = self.key_of(index);
        let offered = self.rules.offered;
        let turn_timeout = self.rules.turn_timeout;
        let inactivity_timeout = self.rules.inactivity_timeout;
        let Some(session) = self.get(index) else {
            return;
        };
        let Some(wire) = session.wire.clone() else {
            return;
        };
        let limits = session.turn_limits(turn_timeout, inactivity_timeout, input.limits.as_ref());
        let bytes = input.content.len();
        if let Some(reached) = limits.allows_no_tokens() {
            return self.end_without_tokens(index, turn, bytes, reached);
        }
        if !with_turns {
            (input.message_id, input.mode) = (None, None);
        }
        if !session.may_use(Extensions::OPTIONS, offered) {
            input.limits = None;
        }
        let turn_id = with_turns.then(|| turn.to_id()).flatten();
        let mut message = HostMessage {
            session_id: wire,
            turn_id,
            meta,
            large: None,
            body: input.into(),
        };
        let by_file =
            session.has_agreed(Extensions::LARGE) && session.has_agreed(Extensions::OPTIONS);
        let placed = session
            .work()
            .placing
            .take()
            .filter(|(placed, _)| *placed == turn);
        let why = match (session.too_long(&message, bytes), placed) {
            (None, _) => None,
            (Some(_), Some((_, Placing::Placed(Ok(member))))) => {
                message.large = Some(Box::new([("content".to_owned(), member)].into()));
                None
            }
            (Some(_), Some((_, Placing::Placed(Err(why))))) => Some(why),
            (Some(_), _) if by_file => {
                let HostBody::UserInput(input) = message.body else {
                    return;
                };
                let content = input.content.clone();
                let work = session.work();
                work.placing = Some((turn, Placing::UnderWay));
                // It keeps its place: what is behind it waits, and a stop finds it.
                work.queue.push_front(Queued::Input {
                    turn,
                    input,
                    meta: message.meta,
                    given,
                });
                return self.effect(Effect::PlaceInput { key, turn, content });
            }
            (why @ Some(_), _) => why,
        };
        if let Some(why) = why {
            session.queue_time += now.saturating_duration_since(given);
            let failure = Failure::new(Category::Oversize, why);
            let end = super::turn::unsent(
                turn,
                Cause::Oversize,
                Some(&failure),
                Circumstances::default(),
            );
            return self.end_unwritten(index, bytes, end);
        }
        session.written = session.written.max(turn.get());
        let open = OpenTurn::new(turn, given, bytes, limits, now);
        if session.add_open_turn(open, now) {
            self.running_turns += 1;
            self.wait_for_process(now);
        }
        self.effect(Effect::Write {
            key,
            input_of: Some(turn),
            message,
        });
        self.settle_flow(index, now);
        self.arm(index, now);
    }

    /// Ends an input that has left the queue unwritten.
    pub(super) fn end_unwritten(&mut self, index: u32, bytes: usize, end: TurnEnd) {
        let key = self.key_of(index);
        self.effect(Effect::InputUnqueued { key, bytes });
        self.effect(Effect::End {
            key,
            end: Box::new(end),
            meta: None,
            large: None,
        });
    }

    /// Ends all inputs that wait: they were never written.
    pub(super) fn end_queued(
        &mut self,
        index: u32,
        cause: Cause,
        failure: Option<&Failure>,
        circumstances: Circumstances<'_>,
    ) {
        let Some(session) = self.get(index) else {
            return;
        };
        let Some(work) = session.work.as_mut() else {
            return;
        };
        for queued in std::mem::take(&mut work.queue) {
            match queued {
                Queued::Input { turn, input, .. } => {
                    let end = super::turn::unsent(turn, cause, failure, circumstances);
                    self.end_unwritten(index, input.content.len(), end);
                }
                Queued::Update { ticket, .. } => {
                    self.effect(Effect::Updated {
                        ticket,
                        result: Err(UpdateError::Closed),
                    });
                }
                Queued::File(_, ticket) => self.effect(Effect::Unqueued(ticket)),
            }
        }
    }

    /// The turn of the first input that waits.
    pub(super) fn first_waiting(&mut self, index: u32) -> Option<TurnNo> {
        self.get(index)?
            .work
            .as_ref()?
            .queue
            .iter()
            .find_map(|queued| match queued {
                Queued::Input { turn, .. } => Some(*turn),
                Queued::File(..) | Queued::Update { .. } => None,
            })
    }

    /// Removes a waiting input; returns whether it waited.
    pub(super) fn unqueue(&mut self, index: u32, turn: TurnNo, reason: StopReason) -> bool {
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return false;
        };
        let is_it = |queued: &Queued| matches!(queued, Queued::Input { turn: waiting, .. } if *waiting == turn);
        let Some(at) = work.queue.iter().position(is_it) else {
            return false;
        };
        let Some(Queued::Input { input, .. }) = work.queue.remove(at) else {
            return false;
        };
        let mut end =
            super::turn::unsent(turn, Cause::StoppedUnsent, None, Circumstances::default());
        end.complete.get_or_insert_default().stop_reason = Some(reason.as_str().to_owned());
        self.end_unwritten(index, input.content.len(), end);
        true
    }

    /// Answers the oldest update with what is now in force.
    pub(super) fn answer_update(&mut self, index: u32, info: &SessionInfo) {
        let Some(work) = self.get(index).and_then(|session| session.work.as_mut()) else {
            return;
        };
        if let Some(ticket) = work.updates.pop_front() {
            self.effect(Effect::Updated {
                ticket,
                result: Ok(Box::new(info.clone())),
            });
        }
    }
}
