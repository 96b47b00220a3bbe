//! Begin and end of a run of the adapter.

use std::{io, sync::atomic::Ordering, time::Instant};

use trunkline_core::{Ended, ExitStatus, ProcessEnd};
use trunkline_process::{Escalation, Step, StopSteps};
use trunkline_protocol::Failure;
use trunkline_wirelog::WireEvent;

use super::{BROKEN_GRACE, Driver, Up};
use crate::{
    config::Limits,
    link::{
        Connect,
        connection::{self, Connection, EXIT_GRACE},
    },
};

impl Driver {
    /// The output has ended: takes the last line, then waits for the process's end beside the loop.
    pub(super) fn handle_output_ended(&mut self, now: Instant) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        connection.output = None;
        connection.see(WireEvent::StdoutEnded);
        if let Some(item) = connection.lines.finish() {
            self.handle_line(item, now);
            self.apply_with(Some(&mut connection), now);
        }
        self.inbox.unwritten.store(0, Ordering::Release);
        // One that is being stopped may take the time that its stop gives it: it may have closed
        // its output to save.
        let grace = self.last_wait.unwrap_or(EXIT_GRACE);
        self.ending = Some(Box::pin(connection.finish(grace)));
    }

    /// The process has ended while its output is open: what the pipe holds is its last word ([process.3]).
    pub(super) fn handle_exit(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let rest = connection.read_rest();
        for chunk in rest.chunks(trunkline_protocol::READ_BYTES) {
            if let Some(connection) = &mut self.connection {
                connection.lines.space()[..chunk.len()].copy_from_slice(chunk);
            }
            self.handle_read(chunk.len(), now);
        }
        self.handle_output_ended(now);
    }

    /// Writing has failed. Further output of the process is read; it ends soon, or is made to.
    pub(super) fn handle_input_broken(&mut self, error: &io::Error, now: Instant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        tracing::debug!(agent = &*self.agent.id, %error, "the adapter's input is closed");
        connection.input = None;
        connection.see(WireEvent::StdinClosed);
        self.core.handle_input_closed(connection.outbox.written());
        self.inbox.unwritten.store(0, Ordering::Release);
        if !self.down {
            self.broken.get_or_insert(now + BROKEN_GRACE);
        }
    }

    pub(super) fn handle_started(
        &mut self,
        started: Result<Box<Connection>, Failure>,
        now: Instant,
    ) {
        match started {
            Ok(mut connection) => {
                if self.down {
                    // It came up during the stop: it has no session, and its end of input may have
                    // been due already.
                    connection.close_input();
                }
                self.connection = Some(connection);
                self.up = Some(Up {
                    since: now,
                    heard: None,
                });
                tracing::debug!("the adapter runs");
                self.core.handle_started(now);
            }
            Err(why) => {
                tracing::warn!(
                    agent = &*self.agent.id,
                    why = why.message.as_deref(),
                    "the adapter did not start"
                );
                if let Some(tap) = &self.tap {
                    tap.take(WireEvent::NotStarted {
                        why: why.message.as_deref().unwrap_or_default(),
                    });
                }
                self.core.handle_start_failed(why, now);
            }
        }
    }

    pub(super) fn start(&mut self) {
        let agent = self.agent.id.clone();
        let limits = self.agent.limits.clone();
        let tap = self.agent.taps.as_ref().map(|taps| taps.tap(agent.clone()));
        self.tap.clone_from(&tap);
        match &mut self.connect {
            Connect::Streams(streams) => {
                let connection = Connection::over(streams(), tap, limits.max_line);
                self.starting = Some(Box::pin(std::future::ready(Ok(Box::new(connection)))));
            }
            Connect::Process(make) => {
                let make = make.clone();
                self.starting = Some(Box::pin(async move {
                    let child = connection::spawn(make).await?;
                    let Limits {
                        max_line,
                        stderr_tail,
                        ..
                    } = limits;
                    Ok(Box::new(Connection::to_child(
                        child,
                        agent,
                        tap,
                        max_line,
                        stderr_tail,
                    )))
                }));
            }
        }
    }

    pub(super) fn kill(&mut self, why: Ended) {
        match &mut self.connection {
            Some(connection) => connection.kill(why),
            None if self.starting.take().is_some() => {
                let end = ProcessEnd {
                    why,
                    exit: ExitStatus::default(),
                    memory_kills: 0,
                    stderr_tail: None,
                    written: 0,
                };
                self.ending = Some(Box::pin(std::future::ready(end)));
            }
            None => {}
        }
    }

    /// Begins the stop, anew if one with other steps has begun.
    pub(super) fn shut_down(&mut self, steps: StopSteps, now: Instant) {
        self.down = true;
        self.core.handle_shutdown(now);
        self.stopping = Escalation::new();
        self.stopping.begin(now, steps);
        self.last_wait = Some(steps.eof);
    }

    /// Ends by itself if no session is open or being opened, and none can come.
    pub(super) fn end_if_retired(&mut self, now: Instant) {
        if self.retired && !self.down && self.agent.opened.load(Ordering::Acquire) == 0 {
            self.shut_down(self.agent.config.timeouts.shutdown, now);
            self.apply(now);
        }
    }

    /// Takes the due steps of the stop ([process.2]); meanwhile reading and answering continue.
    pub(super) fn go_on_stopping(&mut self, now: Instant) {
        if !self.down {
            return;
        }
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.outbox.is_empty())
        {
            self.stopping.sessions_closed(now);
        }
        while let Some(step) = self.stopping.next(now) {
            match (step, &mut self.connection) {
                (Step::Kill, _) => self.kill(Ended::Exit),
                (Step::CloseStdin, Some(connection)) => connection.close_input(),
                (Step::Terminate, Some(connection)) => connection.terminate(),
                (Step::CloseSessions, _) | (Step::CloseStdin | Step::Terminate, None) => {}
            }
        }
        // A process that came up during the stop begins with its last steps.
        if let Some(connection) = &mut self.connection
            && self.stopping.deadline().is_none()
            && self.stopping.has_begun()
            && connection.ending.is_none()
        {
            self.kill(Ended::Exit);
        }
    }
}
