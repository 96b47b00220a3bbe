//! Requests for permission and questions that wait for their answers while everything else goes on.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::{Session, Turn};

use super::control::{Answered, Ask};

/// Whose requests they are.
#[derive(Debug, Clone)]
pub(super) enum Asker<'t> {
    Turn(&'t Turn),
    Session(Session),
}

/// What is asked and not answered. Dropping it withdraws all.
#[derive(Debug)]
pub(super) struct Asking<'t> {
    asker: Asker<'t>,
    open: FuturesUnordered<BoxFuture<'t, (String, Option<Answered>)>>,
    withdrawals: HashMap<String, CancellationToken>,
}

impl<'t> Asking<'t> {
    pub(super) fn new(asker: Asker<'t>) -> Self {
        Self { asker, open: FuturesUnordered::new(), withdrawals: HashMap::new() }
    }

    /// Asks.
    pub(super) fn ask(&mut self, ask: &Ask) {
        let (id, withdrawn) = (ask.request_id.clone(), CancellationToken::new());
        self.withdrawals.insert(id.clone(), withdrawn.clone());
        let question = ask.is_question().then(|| ask.question());
        let permission = ask.permission();
        let asker = self.asker.clone();
        self.open.push(Box::pin(async move {
            let answer = async {
                match (question, asker) {
                    (Some(question), Asker::Turn(turn)) => Answered::Answer(turn.ask(question).await),
                    (Some(question), Asker::Session(session)) => {
                        Answered::Answer(session.ask(question).await)
                    }
                    (None, Asker::Turn(turn)) => Answered::Decision(turn.ask_permission(permission).await),
                    (None, Asker::Session(session)) => {
                        Answered::Decision(session.ask_permission(permission).await)
                    }
                }
            };
            tokio::select! {
                biased;
                () = withdrawn.cancelled() => (id, None),
                answered = answer => (id, Some(answered)),
            }
        }));
    }

    /// Claude wants no answer any more.
    pub(super) fn withdraw(&mut self, id: &str) {
        if let Some(withdrawn) = self.withdrawals.remove(id) {
            withdrawn.cancel();
        }
    }

    /// The next answer; nothing while nothing is asked. A request that was withdrawn has none.
    ///
    /// # Cancel safety
    /// No answer is lost.
    pub(super) async fn next(&mut self) -> Option<(String, Option<Answered>)> {
        let (id, answered) = self.open.next().await?;
        self.withdrawals.remove(&id);
        Some((id, answered))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
