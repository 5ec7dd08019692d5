//! Checks of health checks and ejection.

use std::num::NonZeroU32;

use http::StatusCode;
use http::header::HeaderValue;

use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::upstreams::model::{Ejection, HealthCheck, Statuses};
use crate::sections::upstreams::raw::{RawEjection, RawHealth};

/// Checks `health`. Returns `Some(None)` if it is disabled, `None` after an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from a disabled check")]
pub(super) fn health_check(raw: &Spanned<RawHealth>, diagnostics: &mut Diagnostics) -> Option<Option<HealthCheck>> {
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
    let port = raw.port.filter(|port| {
        if port.value == 0 {
            diagnostics.error(port.span, "`port` must be from 1 to 65535");
        }
        port.value > 0
    });
    let (interval, timeout) = (positive(raw.interval, 5, diagnostics), positive(raw.timeout, 1, diagnostics));
    let check = HealthCheck {
        path: path?,
        interval,
        timeout,
        healthy: raw.healthy.unwrap_or(NonZeroU32::MIN.saturating_add(1)),
        unhealthy: raw.unhealthy.unwrap_or(NonZeroU32::MIN.saturating_add(2)),
        statuses: statuses?,
        port: port.map(|port| port.value),
        host: host?,
    };
    Some(raw.enabled.unwrap_or(true).then_some(check))
}

/// `200-299, 401`.
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

/// Checks `ejection`. Returns `None` if it is disabled.
pub(super) fn ejection(raw: &RawEjection, diagnostics: &mut Diagnostics) -> Option<Ejection> {
    let max_percent = raw.max_percent.as_ref().map_or(50, |percent| {
        if percent.value > 100 {
            diagnostics.error(percent.span, format!("`max-percent` must be at most 100, found {}", percent.value));
        }
        percent.value
    });
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

/// Ejection of a file without settings for it.
pub(super) fn default_ejection() -> Option<Ejection> {
    ejection(&RawEjection::default(), &mut Diagnostics::default())
}
