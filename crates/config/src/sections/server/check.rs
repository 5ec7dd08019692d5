//! The two listeners.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::management::model::Management;
use crate::sections::server::model::Server;
use crate::sections::server::raw::{RawManagement, RawServer, RawShutdown};
use crate::spec::definition::flatten;

/// Heads smaller than this would refuse ordinary browsers.
const MIN_HEADER_BYTES: u64 = 8 * 1024;
/// Larger heads are no heads: every connection may hold one.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;

/// The listener for traffic.
pub(crate) fn server(
    raw: &RawServer,
    nodes: &Nodes<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Server {
    let http2 = raw.http2.enabled.unwrap_or(true);
    let max_header_bytes = raw.max_http_request_header_size.map_or(64 * 1024, |size| {
        if !(MIN_HEADER_BYTES..=MAX_HEADER_BYTES).contains(&size.value.0) {
            diagnostics
                .mistake(size.span, format!("must be from 8KB to 16MB, got {} bytes", size.value.0))
                .help("the nearer of the two is taken");
        }
        size.value.0.clamp(MIN_HEADER_BYTES, MAX_HEADER_BYTES)
    });
    let is_immediate = raw.shutdown == Some(RawShutdown::Immediate) && raw.shutdown_timeout.is_none();
    let shutdown_secs = if is_immediate { 0 } else { 30 };
    let max_headers = raw.max_headers.map_or(100, |count| {
        // More than 32768 fields do not fit into http's HeaderMap.
        if !(1..=10_000).contains(&count.value) {
            diagnostics.error(count.span, format!("`max-headers` must be from 1 to 10000, got {}", count.value));
        }
        count.value
    });
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Server {
        address: raw.address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.0),
        port: port_from("SERVER_PORT", env, diagnostics).or(raw.port).unwrap_or(8080),
        workers: raw.workers.unwrap_or(cores),
        http2,
        tls: crate::sections::server::tls::check(raw.ssl, http2, nodes, diagnostics),
        max_header_bytes: usize::try_from(max_header_bytes).unwrap_or(usize::MAX),
        max_headers,
        max_body_bytes: raw.max_body_size.map(|size| size.0),
        max_connections: raw.max_connections.map_or(20_000, NonZeroUsize::get),
        header_timeout: positive(raw.header_timeout, 30, diagnostics),
        idle_timeout: positive(raw.idle_timeout.or(raw.netty.idle_timeout), 75, diagnostics),
        body_timeout: positive(raw.body_timeout, 30, diagnostics),
        write_timeout: positive(raw.write_timeout, 30, diagnostics),
        shutdown_timeout: raw.shutdown_timeout.map_or(Duration::from_secs(shutdown_secs), |time| time.0),
    }
}

/// The listener for health, metrics and the API; `traffic` is the other one's port.
pub(crate) fn management(
    raw: &RawManagement,
    nodes: &Nodes<'_>,
    traffic: u16,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Management {
    let mut enabled = raw.enabled.unwrap_or(true);
    let port = match (port_from("MANAGEMENT_SERVER_PORT", env, diagnostics), raw.server.port) {
        (Some(port), _) => port,
        (None, None) => 9090,
        (None, Some(Spanned { value: -1, .. })) => {
            enabled = false;
            9090
        }
        (None, Some(port)) => u16::try_from(port.value).unwrap_or_else(|_| {
            diagnostics.error(
                port.span,
                format!("expected a port from 0 to 65535, or -1 for no management listener, found `{}`", port.value),
            );
            9090
        }),
    };
    let address = raw.server.address.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.value.0);
    if let Some(at) = raw.server.address.as_ref().filter(|address| enabled && !address.value.0.is_loopback()) {
        diagnostics
            .warn(at.span, "the management port has no password, and others than this machine can reach it")
            .help("keep it on 127.0.0.1, or behind a firewall");
    }
    if let Some(given) = raw.server.port.filter(|given| enabled && port == traffic && i32::from(port) == given.value)
        && port != 0
    {
        diagnostics
            .error(given.span, format!("{port} is the port for traffic: management has one of its own here"))
            .help("remove it for 9090, or give another");
    }
    if let Some(exposed) = &raw.endpoints.web.exposure.include
        && diagnostics.is_spring
        && enabled
        && raw.server.port.is_none()
    {
        diagnostics
            .info(exposed.span, format!("endpoints are served on the management port, {port}, and not beside routes"))
            .help("`management.server.port` and `management.server.address` say where probes and Prometheus find them");
    }
    if let Some(given) = raw.server.port
        && diagnostics.is_spring
        && enabled
        && raw.server.address.is_none()
    {
        diagnostics
            .info(given.span, "the management port listens on 127.0.0.1; Spring's listens on every address")
            .help("`management.server.address: 0.0.0.0` lets probes and Prometheus in from elsewhere");
    }
    Management {
        enabled,
        address,
        port,
        readiness_needs_redis: raw.readiness.redis.unwrap_or(false),
        actuator: crate::sections::management::check::check(raw, diagnostics),
        tags: labels(raw.metrics.tags, nodes, diagnostics),
    }
}

/// Labels as Prometheus allows them: letters, digits and `_`, which stands for what Micrometer's names have besides.
pub(crate) fn labels(tags: Option<NodeRef>, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Vec<(String, String)> {
    let mut tagged = Vec::new();
    if let Some(node) = tags.and_then(|whole| nodes.get(whole)) {
        flatten("", node, &mut tagged);
    }
    let mut labels: Vec<(String, String)> = Vec::with_capacity(tagged.len());
    for tag in tagged {
        let name = tag.name.unwrap_or_default();
        let label: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if label.is_empty() || label.starts_with(|c: char| c.is_ascii_digit()) || label.starts_with("__") {
            diagnostics.error(tag.span.key(), format!("`{name}` cannot be a label")).help("begin it with a letter");
        } else {
            labels.push((label, tag.value));
        }
    }
    labels
}

fn port_from(variable: &str, env: &dyn Fn(&str) -> Option<String>, diagnostics: &mut Diagnostics) -> Option<u16> {
    let text = env(variable).filter(|text| !text.is_empty())?;
    let port = text.parse().ok();
    if port.is_none() {
        diagnostics
            .error_nowhere(format!(
                "the environment variable {variable} must be a port from 0 to 65535, found `{text}`"
            ))
            .help(format!("unset {variable} or set it to a port"));
    }
    port
}
