//! Errors of the limits API.

use http::StatusCode;
use thiserror::Error;

/// Error of a request, sent as `{"error": …}`.
#[derive(Debug, Error)]
pub(super) enum LimitsError {
    #[error("unknown route `{0}`")]
    NoRoute(String),
    #[error("route `{0}` has no rules")]
    NoRules(String),
    #[error("route `{route}` has no rule `{rule}`")]
    NoRule { route: String, rule: String },
    #[error("the path must be /api/limits/ROUTE/KEY, each percent-encoded")]
    BadPath,
    #[error("the body must be {{\"remaining\": N}} or {{\"grant\": N}}, optionally with \"rule\": {0}")]
    BadBody(String),
    #[error("limits under `atomicity: lock` cannot be read or changed here: use Redis commands")]
    Locked,
    #[error("Redis is unreachable")]
    Unreachable,
    #[error("only GET, PUT and DELETE are allowed here")]
    Method,
    #[error("changes from browser pages are refused")]
    Browser,
    #[error("write endpoints are served on loopback addresses only: set `management.server.address: 127.0.0.1`")]
    NotLoopback,
}

impl LimitsError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute(_) | Self::NoRules(_) | Self::NoRule { .. } => StatusCode::NOT_FOUND,
            Self::BadPath | Self::BadBody(_) => StatusCode::BAD_REQUEST,
            Self::Locked => StatusCode::NOT_IMPLEMENTED,
            Self::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotLoopback | Self::Browser => StatusCode::FORBIDDEN,
        }
    }
}
