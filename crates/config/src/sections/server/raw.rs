//! Raw `server`.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Address, Size, Time};
use crate::sections::tls::RawServerSsl;

/// Listener for traffic.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServer {
    /// Address to listen on. Default `0.0.0.0`, all interfaces.
    #[schemars(with = "Option<IpAddr>")]
    pub(crate) address: Option<Address>,
    /// Port to listen on; 0: any free port. Default 8080, as in Spring Boot; the environment variable `SERVER_PORT` overrides it.
    pub(crate) port: Option<u16>,
    /// Worker threads. Default: one per core.
    pub(crate) workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    pub(crate) http2: RawHttp2,
    #[serde(alias = "max-http-header-size")]
    /// Upper bound of a request's head, from 8KB to 16MB. Default 64KB, enough for large cookies and tokens.
    pub(crate) max_http_request_header_size: Option<Spanned<Size>>,
    /// Upper bound of header fields in a request. Default 100, more than any browser sends.
    pub(crate) max_headers: Option<Spanned<usize>>,
    /// Upper bound of a request's body; `RequestSize` sets it per route. Default: no limit, bodies are streamed.
    pub(crate) max_body_size: Option<Size>,
    /// Concurrent connections, divided evenly among the workers. Default 20000.
    pub(crate) max_connections: Option<NonZeroUsize>,
    /// Spring Boot's `graceful` or `immediate` shutdown.
    #[schemars(skip)]
    pub(crate) shutdown: Option<RawShutdown>,
    /// Spring Boot's settings of Netty.
    #[schemars(skip)]
    pub(crate) netty: RawNetty,
    /// Spring Boot's strategy for forwarding headers: `none`, `native` or `framework`.
    #[schemars(skip)]
    pub(crate) forward_headers_strategy: Option<Spanned<String>>,
    /// Timeout for the head of a request. Default 30s.
    pub(crate) header_timeout: Option<Spanned<Time>>,
    /// Time after which an idle connection is closed. Default 75s, longer than the 60s of common load balancers, so that they close first.
    pub(crate) idle_timeout: Option<Spanned<Time>>,
    /// Timeout for each part of a request body. Default 30s.
    pub(crate) body_timeout: Option<Spanned<Time>>,
    /// Timeout for each write to the client. Default 30s.
    pub(crate) write_timeout: Option<Spanned<Time>>,
    /// Time for in-flight requests when the gateway shuts down. Default 30s, as in Spring Boot.
    pub(crate) shutdown_timeout: Option<Time>,
    /// TLS. Default: none.
    #[schemars(with = "Option<RawServerSsl>")]
    pub(crate) ssl: Option<NodeRef>,
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
    pub(crate) idle_timeout: Option<Spanned<Time>>,
}

/// HTTP/2 settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHttp2 {
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without. Default true, which gRPC clients need.
    pub(crate) enabled: Option<bool>,
}
