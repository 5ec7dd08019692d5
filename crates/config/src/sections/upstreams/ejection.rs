//! `upstreams.NAME.ejection`: endpoints that fail requests.

use std::num::NonZeroU32;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use crate::de::ranged::{PositiveTime, Ranged, positive};
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
    /// Enables ejection. Default true.
    enabled: Option<bool>,
    /// Consecutive failures that eject an endpoint. Default 5.
    consecutive_failures: Option<std::num::NonZeroU32>,
    /// Time of the first ejection; each consecutive one lasts that much longer. Default 30s.
    base_time: Option<Spanned<PositiveTime>>,
    /// Longest ejection. Default 5m.
    max_time: Option<Spanned<PositiveTime>>,
    /// Percentage of endpoints that may be ejected at a time. Default 50: one of two endpoints, none of one.
    max_percent: Option<Spanned<Ranged<u8, 0, 100>>>,
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
    let max_percent = raw.max_percent.map_or(50, |percent| percent.within("max-percent", diagnostics));
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
        consecutive_failures: raw.consecutive_failures.unwrap_or(NonZeroU32::MIN.saturating_add(4)),
        base_time: positive(raw.base_time, 30, diagnostics),
        max_time: positive(raw.max_time, 300, diagnostics),
        max_percent,
        statuses,
    };
    (raw.enabled.unwrap_or(true) && max_percent > 0).then_some(ejection)
}

/// Returns the ejection of a file without settings for it.
pub(super) fn by_default() -> Option<Ejection> {
    check(&RawEjection::default(), &mut Diagnostics::default())
}
