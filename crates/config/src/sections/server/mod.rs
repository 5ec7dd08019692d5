//! `server`: the listener for traffic.

pub(crate) mod path;
mod upgrades;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Flag, Or, secs};
use crate::de::nodes::Nodes;
use crate::de::ranged::{PositiveTime, Ranged, Scale};
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Address, Size, Time, Timeout};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::MaxHeaders;
use crate::sections::server::path::RawPath;
#[cfg(test)]
use crate::sections::tls::server::RawServerSsl;
use crate::sections::tls::server::{self, ServerTls};
use tollgate_routing::PathRules;

/// Listener for traffic.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServer {
    /// Address to listen on. Default `0.0.0.0`, all interfaces.
    #[cfg_attr(test, schemars(with = "Option<IpAddr>"))]
    address: Option<Address>,
    /// Port to listen on; 0: any free port. Default {}, as in Spring Boot; the environment variable `SERVER_PORT` overrides it.
    port: Or<u16, 8080>,
    /// Worker threads. Default: one per core.
    workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    http2: RawHttp2,
    #[serde(alias = "max-http-header-size")]
    /// Upper bound of a request's head. Default {}, enough for large cookies and tokens.
    #[cfg_attr(test, schemars(with = "MaxHeaderBytes"))]
    max_http_request_header_size: Option<Spanned<Size>>,
    /// Upper bound of header fields in a request. Default {}, more than any browser sends.
    max_headers: Or<MaxHeaders, 100>,
    /// Upper bound of a request's body; `RequestSize` sets it per route. Default: no limit, bodies are streamed.
    max_body_size: Option<Size>,
    /// Concurrent connections, of all workers together.
    max_connections: Or<NonZeroUsize, 20_000>,
    /// Concurrent connections of one client: an IPv4 address, or the /64 network of an IPv6 address. Trusted proxies have no such bound. Default: a quarter of `max-connections`.
    max_connections_per_client: Option<NonZeroUsize>,
    /// HTTP/2 requests in progress of one client, over all its connections. Default: as `max-connections-per-client`.
    max_streams_per_client: Option<NonZeroUsize>,
    /// Enables responses to clients that close their sending side after a request. If false, such a client counts as disconnected.
    half_close: Flag<true>,
    /// Spring Boot's `graceful` or `immediate` shutdown.
    #[cfg_attr(test, schemars(skip))]
    shutdown: Option<RawShutdown>,
    /// Spring Boot's settings of Netty.
    #[cfg_attr(test, schemars(skip))]
    netty: RawNetty,
    // Spring Boot's strategy for forwarding headers: `none`, `native` or `framework`.
    pub(crate) forward_headers_strategy: Option<Spanned<String>>,
    /// Timeout for the head of a request.
    header_timeout: Or<PositiveTime, { secs(30) }>,
    /// Time after which an idle connection is closed; `0` or `-1`: never. Default {}, longer than the 60s of common load balancers, so that they close first.
    idle_timeout: Option<Or<Timeout, { secs(75) }>>,
    /// Timeout for each part of a request body; `0` or `-1`: none. From the response head to the end of the response, `httpclient.read-timeout` applies instead.
    body_timeout: Or<Timeout, { secs(30) }>,
    /// Timeout for each write to the client; `0` or `-1`: none.
    write_timeout: Or<Timeout, { secs(30) }>,
    /// Time after which a tunnel, such as a WebSocket, is closed if no byte passes; `0` or `-1`: never. Default: never.
    tunnel_idle_timeout: Option<Timeout>,
    /// Protocols besides `websocket` to which clients may switch with `Upgrade`. Other requests to switch are forwarded as ordinary ones. Default: none.
    upgrade_protocols: Vec<Spanned<String>>,
    /// Time for in-flight requests when the gateway shuts down. Default {}, as in Spring Boot.
    shutdown_timeout: Option<Or<Time, { secs(30) }>>,
    /// Encoded separators in paths.
    path: RawPath,
    /// TLS. Default: none.
    #[cfg_attr(test, schemars(with = "Option<RawServerSsl>"))]
    ssl: Option<NodeRef>,
}

/// HTTP/2 settings.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttp2 {
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without. Default {}, which gRPC clients need.
    enabled: Flag<true>,
}

/// Spring Boot's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawShutdown {
    /// In-flight requests may finish.
    Graceful,
    /// In-flight requests are cancelled.
    Immediate,
}

/// Spring Boot's settings of Netty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawNetty {
    /// As `server.idle-timeout`.
    idle_timeout: Option<Or<Timeout, { secs(75) }>>,
}

/// Listener for traffic.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0: any free port.
    pub port: u16,
    /// Worker threads, each with its own runtime.
    pub workers: NonZeroUsize,
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without.
    pub http2: bool,
    /// TLS; `None`: clear text.
    pub tls: Option<ServerTls>,
    /// Upper bound of a request's head in bytes.
    pub max_header_bytes: usize,
    /// Upper bound of header fields in a request.
    pub max_headers: usize,
    /// Upper bound of a request's body in bytes; `None`: no limit.
    pub max_body_bytes: Option<u64>,
    /// Upper bound of concurrent connections.
    pub max_connections: usize,
    /// Upper bound of concurrent connections of one client.
    pub max_connections_per_client: usize,
    /// Upper bound of HTTP/2 requests in progress of one client.
    pub max_streams_per_client: usize,
    /// Enables responses to clients that close their sending side after a request.
    pub half_close: bool,
    /// Timeout for the head of a request.
    pub header_timeout: Duration,
    /// Time after which an idle connection is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Timeout for each part of a request body; `None`: no limit.
    pub body_timeout: Option<Duration>,
    /// Timeout for each write to the client; `None`: no limit.
    pub write_timeout: Option<Duration>,
    /// Time after which a tunnel is closed if no byte passes; `None`: never.
    pub tunnel_idle_timeout: Option<Duration>,
    /// Protocols besides `websocket` to which clients may switch.
    pub upgrade_protocols: Vec<String>,
    /// Time for in-flight requests when the gateway shuts down.
    pub shutdown_timeout: Duration,
    /// Treatment of encoded separators in paths.
    pub path: PathRules,
}

/// Upper bound of a request's head: a smaller one would refuse ordinary browsers, and every connection may hold one head.
type HeaderBytes = Ranged<Size, { 8 << 10 }, { 16 << 20 }>;
type MaxHeaderBytes = Or<HeaderBytes, { 64 << 10 }>;

/// Checks `server`.
pub(crate) fn check(
    raw: &RawServer,
    nodes: &Nodes<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Server {
    let http2 = raw.http2.enabled.get();
    let max_header_bytes = raw.max_http_request_header_size.map_or(MaxHeaderBytes::default().get(), |size| {
        let (nearest, is_outside) = HeaderBytes::nearest(size.value);
        if is_outside {
            diagnostics
                .mistake(size.span, format!("must be {}, {}", HeaderBytes::range(), size.value.found()))
                .help("the nearest bound is used");
        }
        nearest.get()
    });
    let is_immediate = raw.shutdown == Some(RawShutdown::Immediate) && raw.shutdown_timeout.is_none();
    let shutdown_timeout = if is_immediate { Duration::ZERO } else { raw.shutdown_timeout.unwrap_or_default().get() };
    let max_connections = raw.max_connections.get().get();
    let max_connections_per_client =
        raw.max_connections_per_client.map_or((max_connections / 4).max(1), NonZeroUsize::get);
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Server {
        address: raw.address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.0),
        port: port_from("SERVER_PORT", env, diagnostics).unwrap_or(raw.port.get()),
        workers: raw.workers.unwrap_or(cores),
        http2,
        tls: server::check(raw.ssl, http2, nodes, diagnostics),
        max_header_bytes,
        max_headers: raw.max_headers.get(),
        max_body_bytes: raw.max_body_size.map(|size| size.0),
        max_connections,
        max_connections_per_client,
        max_streams_per_client: raw.max_streams_per_client.map_or(max_connections_per_client, NonZeroUsize::get),
        half_close: raw.half_close.get(),
        header_timeout: raw.header_timeout.get(),
        idle_timeout: raw.idle_timeout.or(raw.netty.idle_timeout).unwrap_or_default().get(),
        body_timeout: raw.body_timeout.get(),
        write_timeout: raw.write_timeout.get(),
        tunnel_idle_timeout: raw.tunnel_idle_timeout.and_then(|timeout| timeout.0),
        upgrade_protocols: upgrades::check(&raw.upgrade_protocols, diagnostics),
        shutdown_timeout,
        path: raw.path.check(),
    }
}

/// Returns the port in an environment variable, if it is set. Reports an invalid one.
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
