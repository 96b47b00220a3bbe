//! Pending requests of the agent to the user.

use std::time::SystemTime;

use trunkline_client::Session;
use trunkline_host::{
    Decision, TurnScope,
    protocol::{InputRequest, InputResponse, PermissionRequest, PermissionResponse, RequestId},
};

use super::BackgroundCalls;

/// A request of the agent.
#[derive(Debug, Clone)]
pub(crate) enum AgentRequest {
    Permission(Box<PermissionRequest>),
    Question(Box<InputRequest>),
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum RequestAnswer {
    Permission(PermissionResponse),
    Question(InputResponse),
}

/// A pending request. It is declined on drop, unless other clients may answer it ([journal.6]).
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) request: AgentRequest,
    pub(crate) scope: TurnScope,
    pub(crate) time: SystemTime,
    pub(super) session: Session,
    pub(super) calls: BackgroundCalls,
    pub(super) is_shared: bool,
    pub(super) is_answered: bool,
}

impl PendingRequest {
    pub(crate) fn id(&self) -> &RequestId {
        match &self.request {
            AgentRequest::Permission(request) => &request.request_id,
            AgentRequest::Question(request) => &request.request_id,
        }
    }

    pub(crate) fn answer(&mut self, answer: RequestAnswer) {
        self.is_answered = true;
        let session = self.session.clone();
        self.calls.make(async move {
            match answer {
                RequestAnswer::Permission(response) => session.answer_permission(response).await,
                RequestAnswer::Question(response) => session.answer_question(response).await,
            }
        });
    }

    /// Denies a permission, or cancels a question.
    pub(crate) fn decline(&mut self) {
        let request_id = self.id().clone();
        self.answer(match self.request {
            AgentRequest::Permission(_) => {
                RequestAnswer::Permission(Decision::default().for_request(request_id))
            }
            AgentRequest::Question(_) => RequestAnswer::Question(InputResponse {
                request_id,
                values: None,
                cancelled: Some(true),
            }),
        });
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if !self.is_answered && !self.is_shared {
            self.decline();
        }
    }
}
