//! The processes that run: sessions of the same launch share one.

use std::sync::{Arc, Mutex, Weak};

use tokio::time::Instant;
use trunkline_sdk::protocol::Failure;
use trunkline_sdk::{Category, Error};

use super::Peer;
use crate::agent::launch::Launch;
use crate::agent::locked;
use crate::agent::log::SessionLog;

/// The most processes without a session that are kept for the next one.
const MAX_IDLE: usize = 1;

/// The processes of an adapter, each started once.
#[derive(Debug)]
pub(crate) struct Pool<P>(Mutex<Vec<(Launch, SharedSlot<P>)>>);

/// A place for a process. The holder of the lock starts it; the others wait.
type SharedSlot<P> = Arc<tokio::sync::Mutex<ProcessSlot<P>>>;

#[derive(Debug)]
struct ProcessSlot<P> {
    process: Weak<P>,
    kept: Option<Arc<P>>,
    /// The last start, if it failed.
    failed: Option<(Instant, Failure)>,
}

/// The end of a process that no session needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdlePolicy {
    /// Kept for the next session, unless another one replaces it.
    Kept,
    /// Ends with its last session.
    WithSessions,
}

impl<P> Default for Pool<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P> Default for ProcessSlot<P> {
    fn default() -> Self {
        Self {
            process: Weak::new(),
            kept: None,
            failed: None,
        }
    }
}

impl<P: AsRef<Peer>> Pool<P> {
    /// Returns the running process of a launch, or starts it. Callers during a start wait for that
    /// one, and share its failure. The session of this log is one of the process's own from now on.
    ///
    /// # Errors
    /// Why it did not start.
    pub(crate) async fn process(
        &self,
        launch: &Launch,
        stay: IdlePolicy,
        log: Option<&Arc<SessionLog>>,
        start: impl Future<Output = Result<P, Error>>,
    ) -> Result<Arc<P>, Error> {
        let asked_at = Instant::now();
        let slot = self.slot(launch, stay);
        let mut slot = slot.lock().await;
        let running = slot.process.upgrade();
        if let Some(process) = running.filter(|process| P::as_ref(process).is_fit()) {
            if let Some(log) = log {
                P::as_ref(&process).log().attach(log);
            }
            return Ok(process);
        }
        if let Some((at, failure)) = &slot.failed
            && *at > asked_at
        {
            let category = failure.category.unwrap_or(Category::Other);
            let message = failure.message.clone().unwrap_or_default();
            return Err(Error::new(category, message));
        }
        *slot = ProcessSlot::default();
        match start.await {
            Ok(process) => {
                let process = Arc::new(process);
                slot.process = Arc::downgrade(&process);
                slot.kept = (stay == IdlePolicy::Kept).then(|| process.clone());
                Ok(process)
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.failure().clone()));
                Err(error)
            }
        }
    }

    fn slot(&self, launch: &Launch, stay: IdlePolicy) -> SharedSlot<P> {
        let mut slots = locked(&self.0);
        let (launch, slot) = match slots.iter().position(|(known, _)| known == launch) {
            Some(at) => slots.remove(at),
            None => (launch.clone(), SharedSlot::default()),
        };
        let mut idle = usize::from(stay == IdlePolicy::Kept);
        slots.retain(|(_, slot)| {
            let is_held = Arc::strong_count(slot) > 1;
            is_held
                || slot.try_lock().is_ok_and(|slot| {
                    let users = slot.process.strong_count();
                    let is_idle = slot.kept.is_some() && users == 1;
                    idle += usize::from(is_idle);
                    users > 0 && !(is_idle && idle > MAX_IDLE)
                })
        });
        slots.push((launch, slot.clone()));
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::value::RawValue;

    use super::super::{Handler, Id, JsonRpcVersion};
    use super::*;
    use crate::agent::process::{Agent, Stdin};

    struct Ignored;

    impl Handler for Ignored {
        fn notified(&self, _: &Peer, _: &str, _: &RawValue) {}

        fn asked(&self, _: &Arc<Peer>, _: Id, _: &str, _: &RawValue) {}
    }

    #[derive(Debug)]
    struct Process(Arc<Peer>);

    impl AsRef<Peer> for Process {
        fn as_ref(&self) -> &Peer {
            &self.0
        }
    }

    fn launch(name: &str) -> Launch {
        Launch::new("sh").args(["-c", "cat >/dev/null", name])
    }

    async fn start(launch: &Launch) -> Result<Process, Error> {
        let agent = Agent::start(launch, Stdin::Owned, None).await?;
        Ok(Process(Peer::new(agent, JsonRpcVersion::V2, Ignored)))
    }

    #[tokio::test]
    async fn callers_during_a_start_share_its_failure_and_the_next_one_starts_again() {
        let pool = Pool::default();
        let launch = launch("a");
        let starts = AtomicUsize::new(0);
        let fail = || async {
            starts.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Err::<Process, _>(Error::new(Category::Auth, "no login"))
        };
        let call = || pool.process(&launch, IdlePolicy::Kept, None, fail());
        let (first, second) = tokio::join!(call(), call());
        for failed in [first, second] {
            let error = failed.unwrap_err();
            assert_eq!(error.failure().category, Some(Category::Auth));
            assert_eq!(error.to_string(), "no login");
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        call().await.unwrap_err();
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn one_process_without_a_session_is_kept_and_others_end_with_their_sessions() {
        let pool = Pool::default();
        let [a, b, c] = ["a", "b", "c"].map(launch);
        let process = pool
            .process(&a, IdlePolicy::Kept, None, start(&a))
            .await
            .unwrap();
        let again = pool
            .process(&a, IdlePolicy::Kept, None, start(&a))
            .await
            .unwrap();
        assert!(Arc::ptr_eq(&process, &again));
        let kept = Arc::downgrade(&process);
        drop((process, again));
        let with_session = pool.process(&b, IdlePolicy::WithSessions, None, start(&b));
        let with_session = with_session.await.unwrap();
        assert!(kept.upgrade().is_some());
        let ended = Arc::downgrade(&with_session);
        drop(with_session);
        assert!(ended.upgrade().is_none());
        pool.process(&c, IdlePolicy::Kept, None, start(&c))
            .await
            .unwrap();
        assert!(kept.upgrade().is_none(), "another one is kept in its place");
        assert_eq!(locked(&pool.0).len(), 1);
    }

    #[tokio::test]
    async fn a_process_that_is_retired_is_replaced() {
        let pool = Pool::default();
        let a = launch("a");
        let first = pool
            .process(&a, IdlePolicy::Kept, None, start(&a))
            .await
            .unwrap();
        first.0.retire();
        let second = pool
            .process(&a, IdlePolicy::Kept, None, start(&a))
            .await
            .unwrap();
        assert!(!Arc::ptr_eq(&first, &second) && second.0.is_fit());
    }
}
