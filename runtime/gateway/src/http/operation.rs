//! Declarations of the API's operations. Each is made once, and both the router and the description
//! of the API (`openapi.json`) follow from it. The description takes the rest from the types of the
//! handlers: see [`tests`], which generates it.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{FromRequestParts, Request, State},
    http::{HeaderName, StatusCode, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use trunkline_protocol::SessionId;
use trunkline_sessions::Sessions;

use crate::{
    auth::{authentication::require_scope, principal::Principal, token::Scope},
    gateway::Shared,
    http::{
        problem::{Answer, Problem},
        session_client::SessionClient,
    },
};

#[cfg(test)]
pub(crate) mod tests;

/// Who may send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Every client.
    Public,
    /// The handler finds the principal, for example in the first message of a WebSocket.
    Handler,
    /// A principal with this scope. The router checks it.
    Scope(Scope),
}

/// An operation of the API.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the description of the API has the texts")
)]
pub(crate) struct Operation {
    pub(crate) method: MethodFilter,
    pub(crate) path: &'static str,
    /// Name in generated clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) notes: &'static str,
    pub(crate) access: Access,
    /// Media types of the body and of the answer that no type of the handler shows.
    pub(crate) accepts: &'static str,
    pub(crate) media: &'static [&'static str],
    /// Statuses and meanings of the answers without a problem. Those of the handler's types need no
    /// entry here.
    pub(crate) answers: &'static [(u16, &'static str)],
    /// Statuses of problems, besides those that follow from the types and the access.
    pub(crate) problems: &'static [u16],
    /// Names and meanings of headers.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// Defines a function for each method of HTTP, and a setter for each optional member.
macro_rules! builders {
    ($($name:ident $filter:ident),*; $($member:ident: $type:ty),*) => {
        $(pub(crate) const fn $name(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
            Operation {
                method: MethodFilter::$filter,
                path,
                id,
                summary,
                notes: "",
                access: Access::Scope(Scope::Observe),
                accepts: "",
                media: &[],
                answers: &[],
                problems: &[],
                headers: &[],
            }
        })*

        impl Operation {
            $(pub(crate) const fn $member(self, $member: $type) -> Self {
                Self { $member, ..self }
            })*
        }
    };
}

builders! {
    get GET, post POST, put PUT, patch PATCH, delete DELETE;
    notes: &'static str, access: Access, accepts: &'static str, media: &'static [&'static str],
    answers: &'static [(u16, &'static str)], problems: &'static [u16],
    headers: &'static [(&'static str, &'static str)]
}

impl Operation {
    /// Requires a scope other than `observe`.
    pub(crate) const fn scope(self, scope: Scope) -> Self {
        self.access(Access::Scope(scope))
    }
}

/// A handler whose types the description of the API shows.
#[cfg(not(test))]
pub(crate) trait DescribedHandler<T>: axum::handler::Handler<T, Arc<Shared>> {}

#[cfg(not(test))]
impl<T, H: axum::handler::Handler<T, Arc<Shared>>> DescribedHandler<T> for H {}

#[cfg(test)]
pub(crate) use tests::DescribedHandler;

/// A router, and in tests the operations that it has.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) router: Router<Arc<Shared>>,
    #[cfg(test)]
    described: Vec<(Operation, fn(&mut tests::OperationDescription<'_>))>,
}

impl Routes {
    /// Adds an operation. Its scope is checked before the handler reads the request.
    pub(crate) fn add<T: 'static, H: DescribedHandler<T>>(
        mut self,
        operation: Operation,
        handler: H,
    ) -> Self {
        let mut route = on(operation.method, handler);
        if let Access::Scope(scope) = operation.access
            && scope > Scope::Observe
        {
            route = route.layer(from_fn_with_state(scope, check_scope));
        }
        self.router = self.router.route(operation.path, route);
        #[cfg(test)]
        self.described.push((operation, H::describe));
        self
    }
}

/// Middleware that rejects a request whose principal lacks the scope of the operation.
async fn check_scope(
    State(scope): State<Scope>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Answer<Response> {
    require_scope(&principal, scope)?;
    Ok(next.run(request).await)
}

/// An answer with a status other than 200.
#[derive(Debug)]
pub(crate) struct WithStatus<const STATUS: u16, T>(pub(crate) T);

/// The answer to a request that takes effect later.
pub(crate) type Accepted = WithStatus<202, ()>;

/// The answer to a request that has created something.
pub(crate) type Created<T> = WithStatus<201, Json<T>>;

/// The answer to a request that has created a session, with its path.
pub(crate) type CreatedAt<T> = WithStatus<201, ([(HeaderName, String); 1], Json<T>)>;

/// One of two answers.
#[derive(Debug)]
pub(crate) enum EitherAnswer<A, B> {
    First(A),
    Second(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for EitherAnswer<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::First(answer) => answer.into_response(),
            Self::Second(answer) => answer.into_response(),
        }
    }
}

impl<const STATUS: u16, T: IntoResponse> IntoResponse for WithStatus<STATUS, T> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or_default();
        (status, self.0).into_response()
    }
}

/// The gateway and the principal of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) principal: Principal,
}

impl FromRequestParts<Arc<Shared>> for RequestContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Answer<Self> {
        let principal = parts.extensions.get().cloned();
        Ok(Self {
            shared: shared.clone(),
            principal: principal.ok_or_else(|| Problem::unauthorized("a token is needed"))?,
        })
    }
}

impl RequestContext {
    /// Returns the sessions that the principal may see.
    pub(crate) fn sessions(&self) -> Sessions {
        self.shared.sessions_for(&self.principal)
    }

    /// Joins a session that is not closed.
    pub(crate) async fn join_open(&self, id: &SessionId) -> Answer<SessionClient> {
        SessionClient::join_open(&self.sessions(), id).await
    }
}
