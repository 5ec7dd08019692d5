//! Instances of Spring's services, and their health checks.

use std::num::NonZeroU32;

use crate::de::{Or, Ranged, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::upstreams::discovered::ServiceSettings;
use crate::sections::upstreams::endpoints::{ListedEndpoint, endpoint};
use crate::sections::upstreams::health::{CheckPath, HealthCheck, Statuses};
use crate::sections::upstreams::spring::{RawInstance, RawSpringHealth};
use crate::yaml::Span;

/// Features of Spring's instance lists that `configurations` selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) weighted: bool,
    pub(crate) checked: bool,
    pub(crate) zoned: bool,
}

/// Lists that are not supported, with alternatives.
const OTHER_LISTS: [(&str, &str); 4] = [
    ("same-instance-preference", "`balance: consistent-hash` with `hash-by: ip` keeps a client on one endpoint"),
    (
        "request-based-sticky-session",
        "`balance: consistent-hash` with `hash-by: \"cookie:NAME\"` keeps a session on one endpoint",
    ),
    ("subset", "all endpoints are used: connections are made as they are needed"),
    ("api-version", "give each version a route and an upstream of its own"),
];

impl Lists {
    pub(crate) fn read(raw: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> Self {
        let Some(Spanned { value, span }) = raw else { return Self::default() };
        let name = value.trim();
        match name {
            "default" => Self::default(),
            "weighted" => Self { weighted: true, ..Self::default() },
            "health-check" => Self { checked: true, ..Self::default() },
            "zone-preference" => Self { zoned: true, ..Self::default() },
            _ => {
                match OTHER_LISTS.iter().find(|(known, _)| *known == name) {
                    Some((_, instead)) => diagnostics
                        .mistake(*span, format!("`configurations: {name}` has no effect here: all instances are equal"))
                        .ineffective()
                        .help(*instead),
                    None => diagnostics
                        .mistake(*span, format!("unknown list of instances `{name}`"))
                        .suggest(name, &["default", "weighted", "health-check", "zone-preference"]),
                }
                Self::default()
            }
        }
    }
}

/// Reports health checks that are not selected, which have no effect in Spring either.
pub(crate) fn report_unused_checks(
    checks: Option<&Spanned<RawSpringHealth>>,
    checked: bool,
    diagnostics: &mut Diagnostics,
) {
    if let Some(checks) = checks.filter(|_| !checked) {
        diagnostics
            .warn(
                checks.span.key(),
                "`health-check` has no effect without `configurations: health-check`, as in Spring",
            )
            .ineffective()
            .help("add `spring.cloud.loadbalancer.configurations: health-check`");
    }
}

/// Checks an instance. Reports errors.
pub(super) fn instance(
    raw: &Spanned<RawInstance>,
    settings: &ServiceSettings,
    zone: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> Option<ListedEndpoint> {
    let (at, raw) = (raw.span, &raw.value);
    let uri = match (&raw.uri, &raw.host) {
        (Some(uri), _) => uri.clone(),
        (None, Some(host)) => {
            let secure = raw.secure.get();
            let scheme = if secure { "https" } else { "http" };
            let port = raw.port.map_or(if secure { 443 } else { 80 }, |port| port.value);
            Spanned { value: format!("{scheme}://{}:{port}", host.value), span: host.span }
        }
        (None, None) => {
            diagnostics.error(at, "instance without `uri`").help("add `uri: http://host:port`");
            return None;
        }
    };
    // Spring reads invalid weights as 1.
    let weight = raw
        .metadata
        .get("weight")
        .filter(|_| settings.lists.weighted)
        .and_then(|weight| weight.value.trim().parse().ok());
    let weight = weight.filter(|weight| (1..=65_535).contains(weight)).unwrap_or(1);
    let instance_zone = raw.metadata.get("zone").map(|zone| zone.value.trim());
    let priority = u16::from(zone.is_some_and(|zone| instance_zone != Some(zone)));
    Some(ListedEndpoint { address: endpoint(&uri, diagnostics).ok()?, weight, priority })
}

/// Returns Spring's checks of the service `name`: only 200 is a success, and each result counts at once.
pub(crate) fn health_check(
    name: &str,
    raw: Option<&Spanned<RawSpringHealth>>,
    diagnostics: &mut Diagnostics,
) -> Option<HealthCheck> {
    let paths = raw.map(|raw| &raw.path);
    let path = paths.and_then(|paths| paths.get(name).or_else(|| paths.get("default")));
    let text = path.map_or("/actuator/health", |path| path.value.trim());
    let Some(path) = text.parse().ok().filter(|_| text.starts_with('/')) else {
        let at = path.map_or(Span::ROOT, |path| path.span);
        diagnostics.error(at, format!("a health check's path must begin with `/`, found `{text}`"));
        return None;
    };
    Some(HealthCheck {
        path: CheckPath(path),
        interval: Or::new(raw.map(|raw| raw.interval).unwrap_or_default().get()),
        healthy: Or::new(NonZeroU32::MIN),
        unhealthy: Or::new(NonZeroU32::MIN),
        status: Statuses(vec![200..=200]),
        port: raw.and_then(|raw| raw.port).filter(|port| **port > 0).map(|port| Ranged::nearest(*port).0),
        ..HealthCheck::default()
    })
}
