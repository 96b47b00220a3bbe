//! A session's end, by its host, by its adapter, by the end of the link.

use std::sync::Arc;

use trunkline_protocol::{
    Category, ClosedReason, Extensions, Failure, SessionClosed, SessionInfo, Status, StopReason,
};

use super::{
    core::{Core, CorePhase, Inner},
    job::Job,
    queue::busy,
    running::{EndOrigin, ended, stopped},
};

impl Core {
    /// The host's last word: silence from now on ([session.4]).
    pub(crate) fn close(self: &Arc<Self>) {
        let mut inner = self.lock();
        let was_over = inner.is_over();
        self.stop_running(&mut inner, None);
        inner.phase = CorePhase::Closed;
        inner.queue.clear();
        inner.deny_requests(None, None);
        self.ground.wire.purge(self.key);
        if !was_over {
            self.over(&mut inner);
        }
    }

    /// Ends the session from this side ([session.8]).
    pub(crate) fn finish(self: &Arc<Self>, reason: ClosedReason, error: Option<Failure>) {
        let mut inner = self.lock();
        if inner.is_over() {
            return;
        }
        let status = if reason == ClosedReason::Finished {
            Status::Completed
        } else {
            Status::Failed
        };
        let end = ended(status, error.clone());
        if let Some(running) = self.end_running(&mut inner, None, (end, None), EndOrigin::Returned)
        {
            self.count_down(&running);
        }
        while let Some(job) = inner.queue.pop_front() {
            match job {
                Job::Turn(turn) => {
                    let error = Failure::new(Category::Cancelled, "the session has ended");
                    self.end_queued(&turn, ended(Status::Failed, Some(error)));
                }
                Job::Refused(count) => (0..count).for_each(|_| self.send(None, busy().into())),
                Job::Update(_) => self.send(None, SessionInfo::default().into()),
                Job::Start(_) | Job::File(_) => {}
            }
        }
        inner.deny_requests(None, None);
        let closed = SessionClosed {
            reason: Some(reason),
            error,
            cause: None,
        };
        self.send(None, closed.clone().into());
        inner.phase = if self.agreed.contains(Extensions::CONTROL) {
            CorePhase::Closed
        } else {
            CorePhase::Told(Box::new(closed))
        };
        self.over(&mut inner);
        let forget =
            matches!(inner.phase, CorePhase::Closed) && !self.ground.wire.is_paused(self.key);
        drop(inner);
        if forget && let Some(keeper) = self.ground.keeper.upgrade() {
            keeper.forget(self);
        }
    }

    /// Cuts what is not a turn, and has the worker call the author's `close`.
    fn over(self: &Arc<Self>, inner: &mut Inner) {
        match &inner.worker {
            Some(worker) => worker.cancel(),
            None => self.wake_worker(inner),
        }
    }

    /// The link shuts down: the running turn is stopped, those that wait are ended after it ([process.1]).
    pub(crate) fn shut(self: &Arc<Self>) {
        let mut inner = self.lock();
        if inner.is_over() {
            return;
        }
        self.stop_running(&mut inner, Some(StopReason::Shutdown));
        inner.deny_requests(None, Some(StopReason::Shutdown));
        inner.phase = CorePhase::Shutting;
        match &inner.worker {
            Some(worker) => worker.cancel(),
            None => self.wake_worker(&mut inner),
        }
    }

    /// Ends every turn now and falls silent; handlers are dropped.
    pub(crate) fn shut_now(&self) {
        let mut inner = self.lock();
        let end = stopped(Some(StopReason::Shutdown));
        if let Some(running) = self.end_running(&mut inner, None, (end, None), EndOrigin::Returned)
        {
            running.cut.cancel();
        }
        if !inner.is_over() {
            while let Some(job) = inner.queue.pop_front() {
                if let Job::Turn(turn) = job {
                    self.end_queued(&turn, stopped(Some(StopReason::Shutdown)));
                }
            }
            inner.phase = CorePhase::Closed;
        }
        if let Some(worker) = &inner.worker {
            worker.cancel();
        }
    }
}
