//! `upstreams.NAME.health`: active health checks.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use serde::Deserialize;

use crate::de::defaults::{Flag, Or, secs};
use crate::de::ranged::{PositiveTime, Ranged};
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::sections::scalars::Scalar;

/// Active health checks.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHealth {
    /// Path of the check. Default `/`.
    path: Option<Spanned<String>>,
    /// Interval between checks, randomized by a tenth.
    interval: Or<PositiveTime, { secs(5) }>,
    /// Timeout of a check.
    timeout: Or<PositiveTime, { secs(1) }>,
    /// Consecutive successes after which an endpoint is healthy again; the very first check counts at once.
    healthy: Or<NonZeroU32, 2>,
    /// Consecutive failures after which an endpoint is unhealthy; the very first check counts at once.
    unhealthy: Or<NonZeroU32, 3>,
    /// Successful statuses: numbers and ranges, such as `200-299, 401`. Default `200-399`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    status: Option<Spanned<String>>,
    /// Port of the check. Default: the endpoint's own.
    port: Option<Ranged<u16, 1, 65_535>>,
    /// `Host` of the check. Default: the endpoint's own.
    host: Option<Spanned<String>>,
    /// Enables health checks. Default {} if there is a `health` section.
    enabled: Flag<true>,
}

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the check.
    pub path: PathAndQuery,
    /// Interval between checks.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Consecutive successes after which an endpoint is healthy again.
    pub healthy: NonZeroU32,
    /// Consecutive failures after which an endpoint is unhealthy.
    pub unhealthy: NonZeroU32,
    /// Successful statuses.
    pub statuses: Statuses,
    /// Port of the check; `None`: the endpoint's own.
    pub port: Option<u16>,
    /// `Host` of the check; `None`: the endpoint's own.
    pub host: Option<HeaderValue>,
}

/// Ranges of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<RangeInclusive<u16>>);

/// Checks `health`. Returns `Some(None)` if it is disabled, `None` after an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from a disabled check")]
pub(super) fn check(raw: &Spanned<RawHealth>, diagnostics: &mut Diagnostics) -> Option<Option<HealthCheck>> {
    let (at, raw) = (raw.span, &raw.value);
    let text = raw.path.as_ref().map_or("/", |path| path.value.trim());
    let path = text.parse().ok().filter(|_| text.starts_with('/'));
    let path_at = raw.path.as_ref().map_or(at, |path| path.span);
    if path.is_none() {
        diagnostics
            .error(path_at, format!("`path` must begin with `/`, found `{text}`"))
            .help("write it like `/health`");
    }
    let statuses = match &raw.status {
        None => Some(Statuses(vec![200..=399])),
        Some(text) => statuses(text, diagnostics),
    };
    let host = match &raw.host {
        None => Some(None),
        Some(host) => {
            let value = HeaderValue::from_str(host.value.trim()).ok().filter(|host| !host.is_empty());
            if value.is_none() {
                diagnostics.error(host.span, format!("`{}` is not a valid `Host`", host.value));
            }
            value.map(Some)
        }
    };
    let check = HealthCheck {
        path: path?,
        interval: raw.interval.get(),
        timeout: raw.timeout.get(),
        healthy: raw.healthy.get(),
        unhealthy: raw.unhealthy.get(),
        statuses: statuses?,
        port: raw.port.map(Ranged::get),
        host: host?,
    };
    Some(raw.enabled.get().then_some(check))
}

/// Parses ranges of statuses: `200-299, 401`.
fn statuses(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Statuses> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let bounds = (low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?);
        (bounds.0 <= bounds.1 && bounds.0 >= 100 && bounds.1 <= 999).then_some(bounds.0..=bounds.1)
    };
    let ranges: Option<Vec<_>> = text.value.split(',').map(|part| range(part.trim())).collect();
    if ranges.is_none() {
        diagnostics.error(text.span, format!("expected statuses such as `200-299, 401`, found `{}`", text.value));
    }
    ranges.map(Statuses)
}

impl Statuses {
    /// Returns true if `status` is in one of the ranges.
    #[must_use]
    pub fn contain(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}
