//! `upstreams.NAME.ejection`: endpoints that fail requests.

use std::num::NonZeroU32;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use crate::de::defaults::{Flag, Or, secs};
use crate::de::ranged::{PositiveTime, Ranged};
use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::sections::scalars::Scalar;

/// Ejection of endpoints that fail requests: connection errors, timeouts, incomplete responses, or a status of `status`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEjection {
    /// Enables ejection.
    enabled: Flag<true>,
    /// Consecutive failures that eject an endpoint.
    consecutive_failures: Or<NonZeroU32, 5>,
    /// Time of the first ejection; each consecutive one lasts that much longer.
    base_time: Or<PositiveTime, { secs(30) }>,
    /// Longest ejection.
    max_time: Or<PositiveTime, { secs(300) }>,
    /// Percentage of endpoints that may be ejected at a time. Default {}: one of two endpoints, none of one.
    max_percent: Or<Ranged<u8, 0, 100>, 50>,
    /// Statuses that count as failures. Default `[502, 503, 504]`.
    #[cfg_attr(test, schemars(with = "Option<Vec<Scalar>>"))]
    status: Option<Vec<Spanned<String>>>,
}

/// Ejection of failing endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Consecutive failures that eject an endpoint.
    pub consecutive_failures: NonZeroU32,
    /// Time of the first ejection; multiplied by the number of consecutive ejections.
    pub base_time: Duration,
    /// Longest ejection.
    pub max_time: Duration,
    /// Percentage of endpoints that may be ejected at a time.
    pub max_percent: u8,
    /// Statuses that count as failures, besides connection errors and timeouts.
    pub statuses: Vec<StatusCode>,
}

/// Checks `ejection`. Returns `None` if it is disabled.
pub(super) fn check(raw: &RawEjection, diagnostics: &mut Diagnostics) -> Option<Ejection> {
    let max_percent = raw.max_percent.get();
    let statuses = match &raw.status {
        None => vec![StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT],
        Some(list) => {
            let read = |text: &Spanned<String>| match parse_status(&text.value) {
                Ok(status) => Some(status),
                Err(problem) => {
                    diagnostics.error(text.span, problem);
                    None
                }
            };
            list.iter().filter_map(read).collect()
        }
    };
    let ejection = Ejection {
        consecutive_failures: raw.consecutive_failures.get(),
        base_time: raw.base_time.get(),
        max_time: raw.max_time.get(),
        max_percent,
        statuses,
    };
    (raw.enabled.get() && max_percent > 0).then_some(ejection)
}

/// Returns the ejection of a file without settings for it.
pub(super) fn by_default() -> Option<Ejection> {
    check(&RawEjection::default(), &mut Diagnostics::default())
}
