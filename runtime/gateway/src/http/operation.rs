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

/// Clients that may send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All clients.
    Public,
    /// The handler finds the principal, for example in the first message of a WebSocket.
    Handler,
    /// Principals of this scope, which the router checks.
    Observe,
    Control,
    Admin,
}

/// An operation of the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) method: MethodFilter,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// Name in generated clients.
    #[cfg(test)]
    pub(crate) id: &'static str,
    #[cfg(test)]
    pub(crate) docs: &'static [&'static str],
}

/// Returns the routes of these operations. A list in the documentation of an operation has what no
/// type of its handler shows: meanings of answers, with their media types if they are not JSON;
/// headers; the media type of the body; and the statuses of problems.
macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])*
        $method:ident $path:literal $id:ident($access:ident) => $handler:expr;
    )*) => {
        $crate::http::operation::Routes::default()$(.add(
            $crate::http::operation::Operation {
                method: axum::routing::MethodFilter::$method,
                path: $path,
                access: $crate::http::operation::Access::$access,
                #[cfg(test)]
                id: stringify!($id),
                #[cfg(test)]
                docs: &[$($doc),*],
            },
            $handler,
        ))*
    };
}
pub(crate) use operations;

/// Defines types of answers.
macro_rules! answers {
    ($($type:item)*) => {$(
        #[derive(Debug, serde::Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        $type
    )*};
}
pub(crate) use answers;

/// Defines types of bodies and queries. An unknown member is an error.
macro_rules! parameters {
    ($($type:item)*) => {$(
        #[derive(Debug, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $type
    )*};
}
pub(crate) use parameters;

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
    described: Vec<(Operation, tests::DescribeHandler)>,
}

impl Routes {
    /// Adds an operation. Its scope is checked before the handler reads the request.
    pub(crate) fn add<T: 'static, H: DescribedHandler<T>>(
        mut self,
        operation: Operation,
        handler: H,
    ) -> Self {
        let mut route = on(operation.method, handler);
        let scope = match operation.access {
            Access::Public | Access::Handler | Access::Observe => None,
            Access::Control => Some(Scope::Control),
            Access::Admin => Some(Scope::Admin),
        };
        if let Some(scope) = scope {
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
pub(crate) type AcceptedAnswer = WithStatus<202, ()>;

/// The answer to a request that has created something.
pub(crate) type CreatedAnswer<T> = WithStatus<201, Json<T>>;

/// The answer to a request that has created a session, with its path.
pub(crate) type CreatedAt<T> = WithStatus<201, ([(HeaderName, String); 1], Json<T>)>;

/// Answer of one of two types.
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
