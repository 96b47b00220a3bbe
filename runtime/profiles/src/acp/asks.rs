//! The permissions that an agent waits for: several at once.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::session::{AcpSession, Kind, MOST_REQUESTS, PermissionRequest, Settled, Voice, What};
use super::terminals::Order;
use super::update::{Reader, UpdateEvent};
use crate::agent::rpc::Id;

/// What is asked of a person at the moment.
pub(crate) struct Asks<'a> {
    acp_session: &'a AcpSession,
    voice: Voice<'a>,
    pending: FuturesUnordered<BoxFuture<'a, (u64, Settled)>>,
    ids: HashMap<u64, (Id, Kind)>,
    next: u64,
}

impl<'a> Asks<'a> {
    pub(crate) fn new(acp_session: &'a AcpSession, voice: Voice<'a>) -> Self {
        Self { acp_session, voice, pending: FuturesUnordered::new(), ids: HashMap::new(), next: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Takes a request of the agent: one for a permission is asked about, any other is answered.
    pub(crate) fn take(
        &mut self,
        id: Id,
        method: String,
        params: Value,
        reader: &mut Reader,
        out: &mut Vec<UpdateEvent>,
    ) {
        let what = match method.as_str() {
            "session/request_permission" => {
                let asked = params.get("toolCall").and_then(|tool_call| reader.asked(tool_call, out));
                let (call, tool) = match asked {
                    Some((call, tool)) => (Some(call), tool),
                    None => (None, "tool".to_owned()),
                };
                What::Tool { call, tool, params }
            }
            "terminal/create" => match Order::of(&params) {
                Ok(order) => What::Terminal(order),
                Err(refusal) => return self.acp_session.link.peer.answer_now::<()>(&id, Err(refusal)),
            },
            _ => return self.acp_session.serve(id, method, params),
        };
        let kind = what.kind();
        if self.ids.len() >= MOST_REQUESTS {
            return self.acp_session.decline(&id, kind);
        }
        self.next += 1;
        let number = self.next;
        self.ids.insert(number, (id.clone(), kind));
        let (acp_session, voice) = (self.acp_session, self.voice);
        self.pending.push(Box::pin(async move {
            (number, acp_session.ask(voice, PermissionRequest { id, what }).await)
        }));
    }

    /// Waits for the next word; for ever where nothing is asked.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub(crate) async fn settled(&mut self) -> Settled {
        match self.pending.next().await {
            Some((number, settled)) => {
                self.ids.remove(&number);
                settled
            }
            None => std::future::pending().await,
        }
    }

    /// Withdraws what nobody has answered.
    pub(crate) fn withdraw(self) {
        drop(self.pending);
        for (id, kind) in self.ids.values() {
            self.acp_session.decline(id, *kind);
        }
    }
}
