//! Simulated time: it advances to the next event when nothing is left to do at the present one.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BinaryHeap,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use trunkline_process::BootInstant;

/// The clock, and all tasks that live by it. Clones are the same. What happens at one moment
/// happens in the same order in each run.
#[derive(Clone, Default)]
pub(crate) struct Clock(Rc<Shared>);

#[derive(Default)]
struct Shared {
    now: Cell<u64>,
    waiting: RefCell<BinaryHeap<Reverse<Waiting>>>,
    count: Cell<u64>,
    tasks: RefCell<FuturesUnordered<LocalBoxFuture<'static, ()>>>,
    spawned: RefCell<Vec<LocalBoxFuture<'static, ()>>>,
}

struct Waiting {
    at: u64,
    number: u64,
    waker: Waker,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// True if a task was woken since.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Clock {
    pub(crate) fn now(&self) -> BootInstant {
        BootInstant::from_nanos(self.0.now.get())
    }

    pub(crate) fn since(&self, earlier: BootInstant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawned.borrow_mut().push(Box::pin(task));
    }

    pub(crate) fn until(&self, at: BootInstant) -> Until {
        Until {
            clock: self.clone(),
            at: at.as_nanos(),
            is_waiting: false,
        }
    }

    pub(crate) fn sleep(&self, time: Duration) -> Until {
        self.until(self.now() + time)
    }

    fn wake_at(&self, at: u64, waker: Waker) {
        let number = self.0.count.get();
        self.0.count.set(number + 1);
        self.0
            .waiting
            .borrow_mut()
            .push(Reverse(Waiting { at, number, waker }));
    }

    /// Ends all tasks: they have what has the clock.
    pub(crate) fn end(&self) {
        drop(self.0.tasks.take());
    }

    /// Lets time go by until this is so, or nothing is left to happen.
    pub(crate) fn run(&self, is_over: impl Fn() -> bool) {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut tasks = self.0.tasks.borrow_mut();
        while !is_over() {
            loop {
                woken.0.store(false, Ordering::Relaxed);
                tasks.extend(std::mem::take(&mut *self.0.spawned.borrow_mut()));
                let is_idle = tasks.poll_next_unpin(&mut context) != Poll::Ready(Some(()));
                if is_idle && !woken.0.load(Ordering::Relaxed) && self.0.spawned.borrow().is_empty()
                {
                    break;
                }
            }
            let Some(Reverse(next)) = self.0.waiting.borrow_mut().pop() else {
                return;
            };
            self.0.now.set(next.at);
            next.waker.wake();
        }
    }
}

/// Waits until a moment.
pub(crate) struct Until {
    clock: Clock,
    at: u64,
    is_waiting: bool,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.0.now.get() >= self.at {
            return Poll::Ready(());
        }
        // It is asked again by a task that waits for several things: the first waker is this task's, too.
        if !self.is_waiting {
            self.is_waiting = true;
            self.clock.wake_at(self.at, context.waker().clone());
        }
        Poll::Pending
    }
}
