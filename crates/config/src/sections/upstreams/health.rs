//! `upstreams.NAME.health` and `upstreams.NAME.ejection`: active health checks, and endpoints that fail requests.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use http::StatusCode;
use http::header::HeaderValue;
use http::uri::PathAndQuery;

use crate::de::{Flag, Or, PositiveTime, Ranged, read_by, secs, with_help};
#[cfg(test)]
use crate::sections::Scalar;
use crate::spec::Status;

/// Active health checks.
#[section(Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the check. Default `/`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub path: CheckPath,
    /// Interval between checks, randomized by a tenth.
    pub interval: Or<PositiveTime, { secs(5) }>,
    /// Timeout of a check.
    pub timeout: Or<PositiveTime, { secs(1) }>,
    /// Consecutive successes after which an endpoint is healthy again; the very first check counts at once.
    pub healthy: Or<NonZeroU32, 2>,
    /// Consecutive failures after which an endpoint is unhealthy; the very first check counts at once.
    pub unhealthy: Or<NonZeroU32, 3>,
    /// Successful statuses: numbers and ranges, such as `200-299, 401`. Default `200-399`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    pub status: Statuses,
    /// Port of the check. Default: the endpoint's own.
    pub port: Option<Ranged<u16, 1, 65_535>>,
    /// `Host` of the check. Default: the endpoint's own.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub host: Option<CheckHost>,
    /// Enables health checks. Default {} if there is a `health` section.
    pub(super) enabled: Flag<true>,
}

/// Path of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPath(pub PathAndQuery);

/// `Host` of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckHost(pub HeaderValue);

/// Ranges of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<RangeInclusive<u16>>);

read_by! {
    CheckPath: |text| {
        let path = text.parse().ok().filter(|_| text.starts_with('/')).map(CheckPath);
        path.ok_or_else(|| with_help(&format!("`path` must begin with `/`, found `{text}`"), "write it like `/health`"))
    };
    CheckHost: |text| {
        let host = HeaderValue::from_str(text).ok().filter(|host| !host.is_empty());
        host.map(CheckHost).ok_or_else(|| format!("`{text}` is not a valid `Host`"))
    };
    // Parses ranges of statuses: `200-299, 401`.
    Statuses: |text| {
        let range = |part: &str| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let bounds = (low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?);
            (bounds.0 <= bounds.1 && bounds.0 >= 100 && bounds.1 <= 999).then_some(bounds.0..=bounds.1)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
        ranges.map(Statuses).ok_or_else(|| format!("expected statuses such as `200-299, 401`, found `{text}`"))
    };
}

impl Default for CheckPath {
    fn default() -> Self {
        Self(PathAndQuery::from_static("/"))
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![200..=399])
    }
}

impl Statuses {
    /// Returns true if `status` is in one of the ranges.
    pub fn contain(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

/// Ejection of endpoints that fail requests: connection errors, timeouts, incomplete responses, or a status of `status`.
#[section(Clone, PartialEq, Eq)]
pub struct Ejection {
    /// Enables ejection.
    pub enabled: Flag<true>,
    /// Consecutive failures that eject an endpoint.
    pub consecutive_failures: Or<NonZeroU32, 5>,
    /// Time of the first ejection; each consecutive one lasts that much longer.
    pub base_time: Or<PositiveTime, { secs(30) }>,
    /// Longest ejection.
    pub max_time: Or<PositiveTime, { secs(300) }>,
    /// Percentage of endpoints that may be ejected at a time. Default {}: one of two endpoints, none of one.
    pub max_percent: Or<Ranged<u8, 0, 100>, 50>,
    /// Statuses that count as failures. Default `[502, 503, 504]`.
    #[cfg_attr(test, schemars(with = "Option<Vec<Scalar>>"))]
    pub status: Option<Vec<Status>>,
}

impl Ejection {
    /// Returns true if endpoints can be ejected.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.get() && self.max_percent.get() > 0
    }

    /// Returns true if a response of `status` is a failure.
    pub fn fails(&self, status: StatusCode) -> bool {
        match &self.status {
            Some(failures) => failures.contains(&Status(status)),
            None => matches!(status.as_u16(), 502..=504),
        }
    }
}
