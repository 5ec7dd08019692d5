//! Parts of requests: JSON bodies of a few members, query parameters, and times of temporary changes.

use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::admin::reply::{Reply, problem};

/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest body of a few members, in bytes.
pub(super) const MAX_BYTES: usize = 4096;

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
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// Returns the problem.
    pub(super) fn response(&self) -> Reply {
        problem(self.status(), &self.to_string())
    }
}

/// Reads a body of at most `max_bytes` and the form `expected`.
pub(super) async fn read_body<T: DeserializeOwned>(
    body: Incoming,
    max_bytes: usize,
    expected: &'static str,
) -> Result<T, BodyError> {
    let invalid = |reason: String| BodyError::Invalid { expected, reason };
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, max_bytes).collect()).await;
    let body = body.map_err(|_| BodyError::Slow)?;
    let body = body.map_err(|error| invalid(error.to_string()))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
}

/// Returns the parameters of a query, decoded; `+` is a space, as in forms.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    query.split('&').filter(|parameter| !parameter.is_empty()).map(move |parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (decode(name), decode(value))
    })
}

/// Returns the last value of the parameter `name` of a query, unless it is empty.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let values = parameters(query).filter(|(other, _)| other == name).map(|(_, value)| value);
    values.last().filter(|value| !value.is_empty())
}

/// Shortest and longest time of a temporary change.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Time after which a change ends by itself, with a unit, from `1s` to `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("examples" = ["15m"]))]
pub(super) struct ExpiresIn(#[schemars(with = "String")] pub(super) Duration);

impl<'de> Deserialize<'de> for ExpiresIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = tollgate_config::time_with_unit(&text).and_then(|time| match TIMES.contains(&time) {
            true => Ok(Self(time)),
            false => Err(format!("got `{text}`")),
        });
        time.map_err(|error| {
            D::Error::custom(format!("expected a time of 1s to 30d with a unit, such as `15m`: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_needs_a_unit_and_has_bounds() {
        let parse = |text: &str| serde_json::from_value::<ExpiresIn>(json!(text)).ok().map(|ExpiresIn(time)| time);
        assert_eq!(parse("15m"), Some(Duration::from_secs(900)));
        assert_eq!(parse("30d"), Some(Duration::from_secs(30 * 24 * 60 * 60)));
        for text in ["", "0s", "999ms", "60", "31d", "soon", "-1s", "99999999999999999999y"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(serde_json::from_value::<ExpiresIn>(json!(60)).is_err());
    }
}
