//! Bodies of changes: JSON objects of a few members.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::admin::reply::problem;

/// Timeout for the body of a request.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest body in bytes.
const MAX_BYTES: usize = 4096;

/// Error of a body.
#[derive(Debug, Error)]
pub(super) enum BodyError {
    /// Another form than the expected one.
    #[error("the body must be {expected}: {reason}")]
    Invalid { expected: &'static str, reason: String },
    #[error("the body did not arrive in time")]
    Slow,
}

impl BodyError {
    /// Returns the problem.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let status = match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        };
        problem(status, &self.to_string())
    }
}

/// Reads a body of the form `expected`.
pub(super) async fn read<T: DeserializeOwned>(body: Incoming, expected: &'static str) -> Result<T, BodyError> {
    let invalid = |reason: String| BodyError::Invalid { expected, reason };
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BYTES).collect()).await;
    let body = body.map_err(|_| BodyError::Slow)?;
    let body = body.map_err(|error| invalid(error.to_string()))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
}
