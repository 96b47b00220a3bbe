//! Requests of an agent, permissions and questions, and their answers ([permission.*]).

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::sync::oneshot;
use trunkline_core::{Answer, EditRejected, Key, exact_rule, policy::Pattern};
use trunkline_protocol::{
    InputRequest, Json, PermissionRequest, PermissionResponse, RequestId, StopReason,
};

/// Receiver of answers: the link of the request's session.
pub(crate) trait Answers: fmt::Debug + Send + Sync {
    /// Passes an answer on. `serial` distinguishes its request from a later one of the same id
    /// ([permission.4]).
    fn answer(&self, session: Key, request_id: RequestId, serial: u64, answer: Answer);

    /// Judges an edited input of a tool. The reply is empty if it may go to the adapter.
    fn check_edit(
        &self,
        session: Key,
        tool: String,
        input: Json,
        reply: oneshot::Sender<Option<EditRejected>>,
    );

    /// Judges a lasting rule by the request that it is for. The reply is empty if it allows it.
    fn check_rule(
        &self,
        session: Key,
        request: Box<PermissionRequest>,
        rule: Pattern,
        reply: oneshot::Sender<Option<EditRejected>>,
    );
}

/// A request of the agent for permission.
///
/// It waits without limit and blocks nothing ([permission.5]). Dropped without an answer, it is
/// denied, since approval is never a default ([permission.3]). An answer after the turn was stopped
/// or the session closed is ignored.
#[derive(Debug)]
pub struct Permission {
    request: Box<PermissionRequest>,
    responder: Responder,
}

impl Permission {
    pub(crate) fn new(
        request: Box<PermissionRequest>,
        session: Key,
        serial: u64,
        link: Arc<dyn Answers>,
    ) -> Self {
        let responder = Responder::new(session, &request.request_id, serial, link);
        Self { request, responder }
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &PermissionRequest {
        &self.request
    }

    /// Allows it, this once.
    pub fn allow(self) {
        self.answer(Decision {
            approved: true,
            ..Decision::default()
        });
    }

    /// Denies it.
    pub fn deny(self) {
        self.answer(Decision::default());
    }

    /// Answers it in full.
    pub fn answer(self, decision: Decision) {
        let request_id = self.request.request_id.clone();
        self.send(decision.for_request(request_id));
    }

    /// Judges an answer that approves the call with another input: by the deny rules of the agent,
    /// and by every name of the files that it names. Returns `None` if the answer makes no such
    /// edit. The host does not judge [`Permission::answer`] and [`Permission::respond`]: await this
    /// before them.
    ///
    /// # Errors
    /// [`EditRejected`]; the request stays open.
    ///
    /// # Cancel safety
    /// The future changes nothing, so it may be dropped.
    pub fn check_edit(
        &self,
        response: &PermissionResponse,
    ) -> Option<impl Future<Output = Result<(), EditRejected>> + Send + use<>> {
        let input = response.updated_input.clone()?;
        let asked = self.request.input.as_ref();
        if !response.approved || asked.is_some_and(|asked| asked.get() == input.get()) {
            return None;
        }
        let (reply, rejected) = oneshot::channel();
        let tool = self.request.tool.clone();
        if let Some(link) = &self.responder.link {
            link.check_edit(self.responder.session, tool, input, reply);
        }
        Some(into_result(rejected))
    }

    /// The pattern that allows exactly this request, if one can. Whether a link in its path leads
    /// elsewhere is looked up by [`Permission::check_rule`].
    #[must_use]
    pub fn exact_rule(&self) -> Option<Pattern> {
        exact_rule(&self.request)
    }

    /// Judges a lasting rule ("always allow"): it has to allow this request, past the deny rules of
    /// the agent, and by every name of the files that it names.
    ///
    /// # Errors
    /// [`EditRejected`]; the request stays open.
    ///
    /// # Cancel safety
    /// The future changes nothing, so it may be dropped.
    pub fn check_rule(
        &self,
        rule: Pattern,
    ) -> impl Future<Output = Result<(), EditRejected>> + Send + use<> {
        let (reply, rejected) = oneshot::channel();
        if let Some(link) = &self.responder.link {
            link.check_rule(self.responder.session, self.request.clone(), rule, reply);
        }
        into_result(rejected)
    }

    /// Answers it with the protocol's own message, for relays. It answers this request, whichever it names.
    pub fn respond(self, response: PermissionResponse) {
        let request_id = self.request.request_id.clone();
        self.send(PermissionResponse {
            request_id,
            ..response
        });
    }

    fn send(mut self, response: PermissionResponse) {
        self.responder.send(Answer::Permission(Box::new(response)));
    }
}

async fn into_result(
    rejected: oneshot::Receiver<Option<EditRejected>>,
) -> Result<(), EditRejected> {
    match rejected.await {
        Ok(None) => Ok(()),
        Ok(Some(rejected)) => Err(rejected),
        Err(_) => Err(EditRejected::Closed),
    }
}

/// The answer to a permission request. The default denies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// True if the action may happen.
    pub approved: bool,
    /// The option that was chosen. An option that contradicts `approved` denies ([ext.5]).
    pub option_id: Option<String>,
    /// Short for the first option of kind `allow_always`.
    pub always_allow: Option<bool>,
    /// The tool's input as the user changed it.
    pub updated_input: Option<Json>,
    /// A message to the agent.
    pub message: Option<String>,
    /// True if the turn ends with this denial.
    pub end_turn: Option<bool>,
    /// Origin of the decision; absent: the user.
    pub reason: Option<StopReason>,
}

impl Decision {
    /// Returns the protocol's message that answers a request.
    #[must_use]
    pub fn for_request(self, request_id: RequestId) -> PermissionResponse {
        PermissionResponse {
            request_id,
            approved: self.approved,
            option_id: self.option_id,
            always_allow: self.always_allow,
            updated_input: self.updated_input,
            message: self.message,
            end_turn: self.end_turn,
            reason: self.reason,
        }
    }
}

/// The agent asks the user. Dropped unanswered, it is cancelled.
#[derive(Debug)]
pub struct Question {
    request: Box<InputRequest>,
    responder: Responder,
}

impl Question {
    pub(crate) fn new(
        request: Box<InputRequest>,
        session: Key,
        serial: u64,
        link: Arc<dyn Answers>,
    ) -> Self {
        let responder = Responder::new(session, &request.request_id, serial, link);
        Self { request, responder }
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> &InputRequest {
        &self.request
    }

    /// Answers with values by field id.
    pub fn answer(mut self, values: BTreeMap<String, Json>) {
        self.responder.send(Answer::Question(Some(values)));
    }

    /// Answers that there will be no answer.
    pub fn cancel(mut self) {
        self.responder.send(Answer::Question(None));
    }
}

/// Sends one answer, or on drop that there is none.
///
/// It names its session and does not hold it: an unread request in its session's own mailbox would
/// otherwise keep that session, and all its resources, forever.
#[derive(Debug)]
struct Responder {
    session: Key,
    request_id: RequestId,
    /// Tells this request from a later one of the same id ([permission.4]).
    serial: u64,
    /// The way to the link, until the answer has gone.
    link: Option<Arc<dyn Answers>>,
}

impl Responder {
    fn new(session: Key, request_id: &RequestId, serial: u64, link: Arc<dyn Answers>) -> Self {
        Self {
            session,
            request_id: request_id.clone(),
            serial,
            link: Some(link),
        }
    }

    fn send(&mut self, answer: Answer) {
        if let Some(link) = self.link.take() {
            link.answer(self.session, self.request_id.clone(), self.serial, answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.send(Answer::Dropped);
    }
}
