//! Errors by RFC 9457, with the protocol's category if there is one.

use std::{fmt, io};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use trunkline_host::NativeListError;
use trunkline_protocol::{
    AttachRefusal, Category, ClosedReason, Failure, SessionClosed, SessionRefused,
};
use trunkline_sessions::{
    ConversationsError, HistoryError, RemoveError, SearchError, StartError, ends,
};

use crate::http::uploads::UploadError;

/// Reason for the failure of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    category: Option<Category>,
}

/// Result of a route.
pub(crate) type Answer<T> = Result<T, Problem>;

/// Reason for the failure of a request, by RFC 9457.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Problem"))]
pub(crate) struct ProblemDocument<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    /// What happened, and what to do.
    detail: &'a str,
    /// Category of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
}

/// Defines a constructor for each status, with the category of the protocol if there is one.
macro_rules! constructors {
    ($($name:ident $status:ident $($category:ident)?;)*) => {
        impl Problem {$(
            pub(crate) fn $name(detail: impl fmt::Display) -> Self {
                let problem = Self::new(StatusCode::$status, detail);
                $(let problem = problem.with_category(Category::$category);)?
                problem
            }
        )*}
    };
}

constructors! {
    unauthorized UNAUTHORIZED;
    forbidden FORBIDDEN PermissionDenied;
    absent NOT_FOUND;
    bad_request BAD_REQUEST;
    late REQUEST_TIMEOUT;
    unprocessable UNPROCESSABLE_ENTITY;
    conflict CONFLICT;
    too_large PAYLOAD_TOO_LARGE Oversize;
    too_many TOO_MANY_REQUESTS Busy;
    unavailable SERVICE_UNAVAILABLE;
    unsupported NOT_IMPLEMENTED;
    failed INTERNAL_SERVER_ERROR;
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl fmt::Display) -> Self {
        Self {
            status,
            detail: detail.to_string(),
            category: None,
        }
    }

    fn with_category(self, category: Category) -> Self {
        Self {
            category: Some(category),
            ..self
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the description for people.
    pub(crate) fn into_detail(self) -> String {
        self.detail
    }

    /// Unknown, invisible and removed sessions look the same.
    pub(crate) fn no_session() -> Self {
        Self::absent("there is no session with this id")
    }

    /// An unknown agent, or one that the token is not for.
    pub(crate) fn no_agent(agent: &str) -> Self {
        Self::absent(format!(
            "there is no agent {agent:?}; GET /v1/agents lists them"
        ))
    }

    /// The same for an ACP connection.
    pub(crate) fn no_connection() -> Self {
        Self::absent("there is no connection with this id")
    }

    pub(crate) fn not_found() -> Self {
        Self::absent("there is nothing at this path")
    }

    /// An input that was not taken.
    pub(crate) fn of_failure(failure: Option<&Failure>) -> Self {
        let category = failure.and_then(|failure| failure.category);
        let detail = failure.and_then(|failure| failure.message.clone());
        let detail = detail.unwrap_or_else(|| "the input was not taken".to_owned());
        let status = match category {
            Some(Category::Busy) => StatusCode::TOO_MANY_REQUESTS,
            Some(Category::PermissionDenied) => StatusCode::FORBIDDEN,
            Some(Category::Protocol) => StatusCode::CONFLICT,
            Some(Category::FileRefused) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(Category::Oversize) => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            detail,
            category,
        }
    }
}

impl From<SessionRefused> for Problem {
    fn from(refused: SessionRefused) -> Self {
        let detail = refused.message.unwrap_or_default();
        match refused.reason {
            Some(AttachRefusal::Unknown | AttachRefusal::Gone) | None => Self::no_session(),
            Some(AttachRefusal::Forbidden) => Self::forbidden(detail),
            Some(AttachRefusal::Ahead | AttachRefusal::Forked | AttachRefusal::Exists) => {
                Self::conflict(detail)
            }
            Some(AttachRefusal::ReadOnly | AttachRefusal::Unavailable) => Self::unavailable(detail),
            Some(AttachRefusal::Unsupported) => Self::unsupported(detail),
        }
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Unknown => Self::no_session(),
            error => Self::unavailable(error),
        }
    }
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Text(_) | SearchError::Cursor(_) => Self::unprocessable(error),
            error => Self::unavailable(error),
        }
    }
}

impl From<ConversationsError> for Problem {
    fn from(error: ConversationsError) -> Self {
        match error {
            ConversationsError::Host(NativeListError::Open(error)) => ends::refusal(&error).into(),
            ConversationsError::Host(error @ NativeListError::Unsupported { .. }) => {
                Self::unsupported(error)
            }
            ConversationsError::Host(error @ NativeListError::Refused { .. }) => {
                Self::unprocessable(error)
            }
            ConversationsError::Forbidden => Self::forbidden(error),
            error => Self::unavailable(error),
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Refused(refused) => refused.into(),
            StartError::Closed(closed) => (*closed).into(),
        }
    }
}

impl From<SessionClosed> for Problem {
    fn from(closed: SessionClosed) -> Self {
        let category = closed.error.as_ref().and_then(|error| error.category);
        let detail = closed
            .error
            .and_then(|error| error.message)
            .unwrap_or_else(|| "it is closed".to_owned());
        let status = match closed.reason {
            Some(ClosedReason::UnknownAgent) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(ClosedReason::Refused) if category == Some(Category::PermissionDenied) => {
                StatusCode::FORBIDDEN
            }
            Some(ClosedReason::Refused) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(ClosedReason::Limit) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            detail,
            category,
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::unavailable(error)
    }
}

impl From<UploadError> for Problem {
    fn from(error: UploadError) -> Self {
        let detail = error.to_string();
        match error {
            UploadError::SessionRemoved => Self::no_session(),
            UploadError::FullForToken => Self::too_many(detail),
            UploadError::Full | UploadError::Io(_) => Self::unavailable(detail),
        }
    }
}

impl From<RemoveError> for Problem {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::Unknown => Self::no_session(),
            RemoveError::Denied => Self::forbidden(error),
            RemoveError::InUse => Self::conflict(error),
            other => Self::unavailable(other),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = ProblemDocument {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            category: self.category.map(Category::as_str),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let kind = (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let mut response = (self.status, [kind], body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status == StatusCode::SERVICE_UNAVAILABLE
        {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
