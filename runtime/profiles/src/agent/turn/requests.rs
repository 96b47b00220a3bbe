//! Requests to the user, for permission or for values, while everything else continues.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use trunkline_sdk::{Answer, Decision, Permission, Question};

use super::scope::Scope;

/// A request to the user.
#[derive(Debug)]
pub(crate) enum UserRequest {
    Permission(Box<Permission>),
    Question(Box<Question>),
}

/// The user's reply to an [`UserRequest`].
#[derive(Debug)]
pub(crate) enum UserReply {
    Decision(Decision),
    Answer(Answer),
}

impl From<Permission> for UserRequest {
    fn from(permission: Permission) -> Self {
        Self::Permission(Box::new(permission))
    }
}

impl From<Question> for UserRequest {
    fn from(question: Question) -> Self {
        Self::Question(Box::new(question))
    }
}

/// Requests without a reply. Dropping it withdraws all.
#[derive(Debug)]
pub(super) struct Requests<'t> {
    scope: Scope<'t>,
    open: FuturesUnordered<BoxFuture<'t, (String, Option<UserReply>)>>,
    withdrawals: HashMap<String, CancellationToken>,
}

impl<'t> Requests<'t> {
    pub(super) fn new(scope: Scope<'t>) -> Self {
        Self {
            scope,
            open: FuturesUnordered::new(),
            withdrawals: HashMap::new(),
        }
    }

    /// Asks.
    pub(super) fn ask(&mut self, id: String, ask: UserRequest) {
        let withdrawn = CancellationToken::new();
        self.withdrawals.insert(id.clone(), withdrawn.clone());
        let scope = self.scope;
        self.open.push(Box::pin(async move {
            let reply = async {
                match (ask, scope) {
                    (UserRequest::Permission(ask), Scope::Turn(turn)) => {
                        UserReply::Decision(turn.ask_permission(*ask).await)
                    }
                    (UserRequest::Permission(ask), Scope::Session(session, _)) => {
                        UserReply::Decision(session.ask_permission(*ask).await)
                    }
                    (UserRequest::Question(ask), Scope::Turn(turn)) => {
                        UserReply::Answer(turn.ask(*ask).await)
                    }
                    (UserRequest::Question(ask), Scope::Session(session, _)) => {
                        UserReply::Answer(session.ask(*ask).await)
                    }
                }
            };
            tokio::select! {
                biased;
                () = withdrawn.cancelled() => (id, None),
                reply = reply => (id, Some(reply)),
            }
        }));
    }

    /// Withdraws a request to which the agent needs no reply any longer.
    pub(super) fn withdraw(&mut self, id: &str) {
        if let Some(withdrawn) = self.withdrawals.remove(id) {
            withdrawn.cancel();
        }
    }

    /// The next reply; nothing while nothing is asked. A request that was withdrawn has none.
    ///
    /// # Cancel safety
    /// No reply is lost.
    pub(super) async fn next(&mut self) -> Option<(String, Option<UserReply>)> {
        let (id, reply) = self.open.next().await?;
        self.withdrawals.remove(&id);
        Some((id, reply))
    }
}
