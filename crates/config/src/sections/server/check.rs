//! Checks of the listener for traffic.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::de::nodes::Nodes;
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::server::model::Server;
use crate::sections::server::raw::{RawServer, RawShutdown};

/// Smaller heads would refuse ordinary browsers.
const MIN_HEADER_BYTES: u64 = 8 * 1024;
/// Every connection may hold one head.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;

/// Listener for traffic.
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
                .help("the nearest bound is used");
        }
        size.value.0.clamp(MIN_HEADER_BYTES, MAX_HEADER_BYTES)
    });
    let is_immediate = raw.shutdown == Some(RawShutdown::Immediate) && raw.shutdown_timeout.is_none();
    let shutdown_secs = if is_immediate { 0 } else { 30 };
    let max_headers = raw.max_headers.map_or(100, |count| {
        // `HeaderMap` of the `http` crate holds at most 32768 fields.
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

/// The port in an environment variable, if it is set. Reports an invalid one.
pub(crate) fn port_from(
    variable: &str,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<u16> {
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
