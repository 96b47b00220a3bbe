//! An agent between turns: a task reads it until the next turn takes it back.

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A task that reads an agent between turns. Dropping it drops what the task holds.
#[derive(Debug)]
pub(crate) struct IdleTask<T> {
    wanted: CancellationToken,
    task: AbortOnDropHandle<T>,
}

impl<T: Send + 'static> IdleTask<T> {
    /// Starts a task that ends soon after its token is cancelled.
    pub(crate) fn spawn<F>(listen: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let wanted = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(listen(wanted.clone())));
        Self { wanted, task }
    }

    /// Ends the task. Returns its result, unless it has panicked.
    pub(crate) async fn end(&mut self) -> Option<T> {
        self.wanted.cancel();
        (&mut self.task).await.ok()
    }
}
