//! Every answer of the admin port that is no success, in OpenAI's form.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::{Problem, Role};
use serde::Serialize;
use utoipa::ToSchema;

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// 400: a body, a parameter or a path that says nothing, or says it wrong.
    Invalid {
        /// The field or parameter; none where the whole is meant.
        param: Option<String>,
        /// What is wrong and what to write.
        message: String,
    },
    /// 401: no token.
    InvalidToken,
    /// 401: a token that nobody knows.
    UnknownToken,
    /// 403: the token's role does not suffice; this one would.
    RoleNotAllowed(Role),
    /// 404: nothing is there, in words.
    NotFound(String),
    /// 405: the path takes other methods.
    MethodNotAllowed,
    /// 408: a body that does not come.
    BodyTimeout,
    /// 409: what is to be made is there already, in words.
    AlreadyExists(String),
    /// 409: it is written in a file, and there it is changed; in words.
    ManagedByFile(String),
    /// 409: the configuration allows no drills.
    DrillsDisabled,
    /// 412: it has been changed meanwhile, is there, or is not; in words.
    PreconditionFailed(String),
    /// 413: the body is larger than so many bytes.
    BodyTooLarge(usize),
    /// 422: the configuration that would come of it is not sound.
    InvalidConfig {
        /// What was to become of it, in words.
        message: String,
        /// All that is wrong.
        problems: Vec<Told>,
    },
    /// 429: this address has sent too many wrong tokens; it may try again after so long.
    TooManyAttempts(Duration),
    /// 500: a fault of the gateway's own.
    Internal(String),
    /// 503: others ask too much at a time.
    Busy,
    /// 503: a store is out, in words.
    Unavailable(Store, String),
}

/// What may be out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Objects, keys and the audit log.
    Objects,
    /// What was used.
    Ledger,
    /// What is cached.
    Cache,
    /// Records of requests.
    Records,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Told {
    /// The key in question, such as `routes[rag-chat].timeout.attempt`; empty when none is.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
    /// Where it is written, as `FILE:LINE:COL`; missing where it is in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub place: Option<String>,
}

impl From<&Problem> for Told {
    fn from(problem: &Problem) -> Self {
        let place = problem.place.to_string();
        Self { path: problem.path.clone(), message: problem.text.clone(), place: (!place.is_empty()).then_some(place) }
    }
}

impl Told {
    /// A problem that is none of a key, nor stands anywhere.
    #[must_use]
    pub const fn general(message: String) -> Self {
        Self { path: String::new(), message, place: None }
    }
}

/// `FILE:LINE:COL: PATH.IN.CONFIG: what is wrong, what to do`
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.place.iter().chain([&self.path]).filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// An error, in OpenAI's form.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct Body {
    error: Inner,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ErrorObject)]
struct Inner {
    /// What is wrong and what to do.
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The field or parameter in question.
    param: Option<String>,
    /// One word for programs.
    code: &'static str,
    /// Of `invalid_config`: everything that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Told>,
}

impl Error {
    /// A field or parameter that is wrong.
    pub fn of(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { param: Some(param.into()), message: message.into() }
    }

    /// A request that is wrong as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self::Invalid { param: None, message: message.into() }
    }

    /// Its status and its word for programs.
    #[must_use]
    pub const fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::InvalidToken | Self::UnknownToken => (StatusCode::UNAUTHORIZED, "invalid_token"),
            Self::RoleNotAllowed(_) => (StatusCode::FORBIDDEN, "role_not_allowed"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::AlreadyExists(_) => (StatusCode::CONFLICT, "already_exists"),
            Self::ManagedByFile(_) => (StatusCode::CONFLICT, "managed_by_file"),
            Self::DrillsDisabled => (StatusCode::CONFLICT, "drills_disabled"),
            Self::PreconditionFailed(_) => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::InvalidConfig { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_config"),
            Self::TooManyAttempts(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_attempts"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Unavailable(store, _) => (StatusCode::SERVICE_UNAVAILABLE, store.code()),
        }
    }

    /// OpenAI's `type`.
    const fn kind(&self) -> &'static str {
        match self {
            Self::InvalidToken | Self::UnknownToken => "authentication_error",
            Self::RoleNotAllowed(_) => "permission_error",
            Self::NotFound(_) => "not_found_error",
            Self::TooManyAttempts(_) => "rate_limit_error",
            Self::Internal(_) | Self::Busy | Self::Unavailable(..) => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Invalid { message, .. } | Self::InvalidConfig { message, .. } => message.clone(),
            Self::NotFound(why)
            | Self::AlreadyExists(why)
            | Self::ManagedByFile(why)
            | Self::PreconditionFailed(why)
            | Self::Internal(why)
            | Self::Unavailable(_, why) => why.clone(),
            Self::InvalidToken => {
                "send `Authorization: Bearer TOKEN` with a token of `admin.tokens` (or MAI_ADMIN_TOKEN)".to_owned()
            }
            Self::UnknownToken => {
                "this admin token is unknown; send one of `admin.tokens`, or what the gateway has in MAI_ADMIN_TOKEN"
                    .to_owned()
            }
            Self::RoleNotAllowed(least) => {
                let least = match least {
                    Role::Viewer => "viewer, operator or admin",
                    Role::Operator => "operator or admin",
                    Role::Admin => "admin",
                };
                format!("this token's role may not do that; it takes {least}")
            }
            Self::MethodNotAllowed => "this path takes another method; the header `allow` says which".to_owned(),
            Self::Busy => "too many questions that take long are being answered; ask again in a moment".to_owned(),
            Self::BodyTimeout => "the body did not arrive in time; send it again".to_owned(),
            Self::DrillsDisabled => "drills are disabled; set `drills: enabled` in the configuration".to_owned(),
            Self::BodyTooLarge(most) => format!("the body is too large: it may have {most} bytes"),
            Self::TooManyAttempts(_) => {
                "too many wrong tokens came from this address; wait as long as `retry-after` says".to_owned()
            }
        }
    }
}

impl Store {
    const fn code(self) -> &'static str {
        match self {
            Self::Objects => "objects_unavailable",
            Self::Ledger => "ledger_unavailable",
            Self::Cache => "cache_unavailable",
            Self::Records => "records_unavailable",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, code) = self.status();
        let (kind, message) = (self.kind(), self.message());
        let wait = match &self {
            Self::TooManyAttempts(wait) => Some(wait.as_secs_f64().ceil()),
            Self::Busy => Some(1.0),
            _ => None,
        };
        let (param, problems) = match self {
            Self::Invalid { param, .. } => (param, Vec::new()),
            Self::InvalidConfig { problems, .. } => (None, problems),
            _ => (None, Vec::new()),
        };
        let body = Body { error: Inner { message, kind, param, code, problems } };
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(Ok(wait)) = wait.map(|wait| HeaderValue::try_from(format!("{}", wait.max(1.0)))) {
            headers.insert(header::RETRY_AFTER, wait);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
