//! Timed events: deadlines, and the ends of processes ([process.3], [process.4], [turn.8]).

use std::time::{Duration, Instant};

use crate::child::{ChildAdapter, CloseStep};
use crate::event::Exit;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::{ForcedEnd, HeldMessage, HubSession};
use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// From the write of `stop`; then [turn.8].
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// From the write of the input; then `stop`.
const TURN_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// From the spawn to the first message, while an input waits.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// From the end of stdout to the exit, or the other way round ([process.3]).
const APART: Duration = Duration::from_millis(500);

impl Relay {
    /// Looks at every deadline; whether the relay is done.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        self.hub.pump();
        let waiting = self
            .sessions
            .values()
            .any(|session| !session.requests.is_empty());
        if !waiting || varied(Vh11) {
            self.unpark();
        }
        let apart: Vec<u64> = self
            .processes
            .iter()
            .filter(|(_, process)| {
                process.exited.is_none() && process.ended.is_some_and(|at| now >= at + APART)
            })
            .map(|(number, _)| *number)
            .collect();
        for number in apart {
            if !broken(EofUnnoticed) {
                self.process_gone(number, "the adapter closed its stdout");
            }
        }
        self.step_ends(now);
        let ids: Vec<String> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.with(&id, |relay, session| relay.look_at(session, now));
        }
        let eager = varied(Vh09) && !self.sessions.is_empty() || varied(Vh13);
        if eager && self.end.is_none() {
            self.warm(0);
        }
        self.is_done(now)
    }

    fn look_at(&mut self, session: &mut HubSession, now: Instant) {
        self.spoil_by_time(session, now);
        let stopped = session.stop().map(|stop| stop.at);
        if stopped.is_some_and(|at| now >= at + STOP_TIMEOUT) {
            self.give_up_turn(session);
        }
        if let Some(turn) = &session.turn {
            let late = turn.written.is_some_and(|at| now >= at + TURN_TIMEOUT);
            if late && turn.stop.is_none() {
                self.write_stop(session, Some("timeout"));
            }
        }
        let waits = session.turn.is_some() || !session.held.is_empty();
        if waits
            && let Some(wire) = &session.wire
            && let Some(process) = self.processes.get(&wire.process)
        {
            let impatient = broken(StartImpatient) && now >= process.since + Duration::from_secs(2);
            if !process.spoke && (now >= process.since + START_TIMEOUT || impatient) {
                let number = wire.process;
                self.end_all(
                    session,
                    &ForcedEnd::failed("timeout", "the agent did not start in time"),
                );
                if let Some(process) = self.processes.get(&number) {
                    process.signal(nix::sys::signal::Signal::SIGKILL);
                }
            } else if wire.agreed.is_none()
                && !session.restrictions.is_empty()
                && now >= wire.since + START_TIMEOUT
            {
                self.refuse(
                    session,
                    "the agent did not list the restrictions that it honours",
                );
            }
        }
        let updates = matches!(session.held.front(), Some(HeldMessage::Update(..)));
        let unwritten = session.turn.is_some() && !session.is_running();
        if updates || unwritten || !session.held.is_empty() && session.turn.is_none() {
            self.advance(session);
        }
    }

    /// A stop was not answered ([turn.8]).
    fn give_up_turn(&mut self, session: &mut HubSession) {
        let tells = session.agreed().has(ExtensionSet::TURNS);
        let timed_out = session
            .stop()
            .is_some_and(|stop| stop.reason.as_deref() == Some("timeout"));
        let end = if timed_out {
            ForcedEnd::failed("timeout", "the turn took too long and did not stop")
        } else {
            ForcedEnd::failed("stop_unanswered", "the agent did not answer the stop")
        };
        self.end_turn(session, &end);
        if !tells {
            self.settle(session, "policy", |_| true);
            self.close_wire(session, false);
        }
        self.advance(session);
    }

    /// The stdout of a process has ended.
    pub(crate) fn stdout_ended(&mut self, number: u64) {
        self.note_end(number, |process, now| process.ended = Some(now));
    }

    /// A process has exited; what its pipe holds still comes.
    pub(crate) fn exited(&mut self, number: u64) {
        self.note_end(number, |process, now| {
            process.exited = Some((Exit::default(), now));
        });
    }

    /// Notes that a process has exited or that its stdout has ended. After both, the process is gone.
    fn note_end(&mut self, number: u64, note: impl FnOnce(&mut ChildAdapter, Instant)) {
        self.unpark();
        let now = Instant::now();
        if let Some(process) = self.processes.get_mut(&number) {
            note(process, now);
            if process.ended.is_some() && process.exited.is_some() {
                self.process_gone(number, "the adapter exited");
            }
        }
    }

    /// The end of a process ends every turn of its sessions ([process.4]).
    fn process_gone(&mut self, number: u64, what: &str) {
        let Some(mut process) = self.processes.remove(&number) else {
            return;
        };
        let closed = process.exited.is_none();
        let exit = process.reap();
        // How it ended by itself is not known where it lived on without a stdout.
        let exit = if closed { Exit::default() } else { exit };
        let agent = process.agent;
        if self.agents[agent].process == Some(number) {
            self.agents[agent].process = None;
        }
        if self.end.is_some() || process.ending.is_some() {
            return;
        }
        let how = match exit {
            Exit {
                signal: Some(signal),
                ..
            } => format!("the adapter was killed by signal {signal}"),
            Exit {
                code: Some(code), ..
            } => format!("{what} with status {code}"),
            Exit { .. } => what.to_owned(),
        };
        let words = process.last_words();
        let text = if words.is_empty() {
            how.clone()
        } else {
            format!("{how}; its last words: {words}")
        };
        if !process.served || varied(Vh10) {
            self.agents[agent].count_failure(
                Instant::now(),
                &text,
                exit.code == Some(2) || varied(Vh10),
            );
        }
        let silent = broken(ExitUnnoticed) && exit.signal.is_none() && process.spoke
            || broken(SignalUnnoticed) && exit.signal.is_some()
            || broken(EarlyExitUnnoticed) && !process.spoke;
        if silent {
            return;
        }
        let mut ids: Vec<String> = process.wire.values().cloned().collect();
        if broken(CrashSpreads) {
            ids = self.sessions.keys().cloned().collect();
        }
        let end = ForcedEnd {
            exit,
            ..ForcedEnd::failed("process_exit", text)
        };
        for id in ids {
            self.with(&id, |relay, session| {
                relay.process_ended(session, &how, &end)
            });
        }
    }

    fn process_ended(&mut self, session: &mut HubSession, how: &str, end: &ForcedEnd) {
        session.wire = None;
        let events = session.hub.has(ExtensionSet::EVENTS);
        let idle = session.turn.is_none() && session.held.is_empty();
        let untold = broken(ExitUntold) || broken(ExitUntoldCore) && !events;
        if (events || idle) && !untold {
            self.report(session, "process_exit", how);
        }
        for steer in std::mem::take(&mut session.steers) {
            self.say_undelivered(session, Some(&steer), how);
        }
        for _ in 0..std::mem::take(&mut session.updates) {
            self.say_facts(session);
        }
        if broken(InputResent)
            && let Some(turn) = session.turn.as_mut()
            && turn.written.take().is_some()
        {
            return;
        }
        self.end_all(session, end);
        self.settle(session, "policy", |_| true);
    }

    fn step_ends(&mut self, now: Instant) {
        let due: Vec<(u64, CloseStep)> = self
            .processes
            .iter()
            .filter_map(|(number, process)| {
                let (step, at) = process.ending?;
                (now >= at).then_some((*number, step))
            })
            .collect();
        for (number, step) in due {
            self.step_end(number, step, now);
        }
    }

    fn spoil_by_time(&mut self, session: &mut HubSession, now: Instant) {
        if broken(SilenceEnds)
            && session.turn.as_ref().is_some_and(|turn| {
                turn.written.is_some() && now.duration_since(turn.heard) > Duration::from_secs(1)
            })
        {
            self.end_turn(session, &ForcedEnd::stopped("timeout"));
        }
        if let Some(turn) = &mut session.turn
            && let Some(stop) = turn.stop.as_mut().filter(|stop| stop.due)
        {
            let quiet = now.duration_since(turn.heard) > Duration::from_secs(1);
            if broken(StopAfterOutput) && quiet || broken(StopBehindInput) && turn.answered {
                stop.due = false;
                let wire_id = turn.wire_id.clone();
                self.say_stop(session, &wire_id, None);
            }
        }
        if broken(ApprovesByDefault) {
            let due: Vec<String> = session
                .requests
                .iter()
                .filter(|request| now.duration_since(request.at) > Duration::from_secs(2))
                .map(|request| request.id.clone())
                .collect();
            for id in due {
                let answer = crate::message::Message::down("permission.response", &session.id)
                    .with("request_id", &id)
                    .with_raw("approved", "true");
                self.answer(session, &answer);
            }
        }
    }
}
