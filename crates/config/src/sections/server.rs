//! `server`: the listener for traffic.

use std::num::NonZeroUsize;
use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;
use tollgate_filters::refusal::ErrorFormat;
use tollgate_routing::PathRules;

use crate::de::{
    ALL_ADDRESSES, Address, Flag, Or, PositiveTime, Ranged, Size, Spanned, Subtree, Time, Timeout, Word, secs,
};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::MaxHeaders;
use crate::sections::memory::default_connections;
use crate::sections::path_settings::PathSettings;
use crate::sections::port_from;
use crate::sections::proxy_protocol::ProxyProtocol;
use crate::sections::tls::acme::{self, Acme};
use crate::sections::tls::client_auth::ForwardClientCert;
#[cfg(test)]
use crate::sections::tls::server::RawServerSsl;
use crate::sections::tls::server::{self, ServerTls};

/// Listener for traffic.
#[section(Clone)]
pub struct Server {
    /// Address to listen on. Default {}, all interfaces, over IPv4 and IPv6; `0.0.0.0` is IPv4 alone.
    pub address: Or<Address, ALL_ADDRESSES>,
    /// Port to listen on; 0: any free port. Default {}, as in Spring Boot; the environment variable `SERVER_PORT` overrides it.
    pub port: Or<u16, 8080>,
    /// Lets another gateway of the same user listen on this port and on the admin port at the same time, if its file has the setting too. The kernel distributes new connections among both, until one is shut down.
    pub reuse_port: Flag<false>,
    /// Worker threads. Default: one per core.
    workers: Option<NonZeroUsize>,
    /// HTTP/2 settings.
    pub http2: ServerHttp2,
    #[serde(alias = "max-http-header-size")]
    /// Upper bound of a request's head. Default {}, enough for large cookies and tokens.
    #[cfg_attr(test, schemars(with = "Or<HeaderBytes, { 64 << 10 }>"))]
    pub max_http_request_header_size: Spanned<Or<Size, { 64 << 10 }>>,
    /// Upper bound of header fields in a request. Default {}, more than any browser sends.
    pub max_headers: Or<MaxHeaders, 100>,
    /// Upper bound of a request's body; `RequestSize` sets it per route. Default: no limit, bodies are streamed.
    pub max_body_size: Option<Size>,
    /// Concurrent connections, of all workers together. Default: 20000, or what fits in a quarter of the memory at 16 KB each.
    max_connections: Option<NonZeroUsize>,
    /// Concurrent connections of one client: an IPv4 address, or the /64 network of an IPv6 address. Trusted proxies have no such bound. Default: a quarter of `max-connections`.
    max_connections_per_client: Option<NonZeroUsize>,
    /// HTTP/2 requests in progress of one client, over all its connections. Default: as `max-connections-per-client`.
    max_streams_per_client: Option<NonZeroUsize>,
    /// Enables responses to clients that close their sending side after a request. If false, such a client counts as disconnected.
    pub half_close: Flag<true>,
    // Spring Boot's `graceful` or `immediate` shutdown.
    #[cfg_attr(test, schemars(skip))]
    shutdown: Option<Shutdown>,
    // Spring Boot's settings of Netty.
    #[cfg_attr(test, schemars(skip))]
    netty: Netty,
    // Spring Boot's strategy for forwarding headers: `none`, `native` or `framework`.
    pub(crate) forward_headers_strategy: Option<Spanned<String>>,
    /// Timeout for the head of a request.
    pub header_timeout: Or<PositiveTime, { secs(30) }>,
    /// Time after which an idle connection is closed; `0` or `-1`: never. Default {}, longer than the 60s of common load balancers, so that they close first.
    pub idle_timeout: Spanned<Or<Timeout, { secs(75) }>>,
    /// Timeout for each part of a request body; `0` or `-1`: none. From the response head to the end of the response, `httpclient.read-timeout` applies instead.
    pub body_timeout: Or<Timeout, { secs(30) }>,
    /// Timeout for each write to the client; `0` or `-1`: none.
    pub write_timeout: Or<Timeout, { secs(30) }>,
    /// Time after which a tunnel, such as a WebSocket, is closed if no byte passes; `0` or `-1`: never. Default: never.
    pub tunnel_idle_timeout: Option<Timeout>,
    /// Protocols besides `websocket` to which clients may switch with `Upgrade`. Other requests to switch are forwarded as ordinary ones. Default: none.
    pub upgrade_protocols: Vec<Spanned<String>>,
    /// Time for in-flight requests when the gateway shuts down. Default {}, as in Spring Boot.
    pub shutdown_timeout: Spanned<Or<Time, { secs(30) }>>,
    /// Time between the signal to shut down and the drain: readiness fails, and connections and requests are still served as before, until load balancers have noticed. It comes before `shutdown-timeout`. Default {}, for load balancers that are told in advance.
    pub drain_delay: Or<Time, { secs(0) }>,
    /// Time in which a new process must serve after SIGUSR2. If it does not, it is ended and the old one goes on.
    pub handover_timeout: Or<PositiveTime, { secs(60) }>,
    /// Responses that the gateway makes itself to clients of gRPC, gRPC-Web and Connect: `auto` is an error of the client's protocol, `http` the response that other clients get. Default {}; `http` in a Spring file, as in Spring.
    pub error_format: Word<ErrorFormatWord>,
    /// Name of the gateway in the fields `Proxy-Status` (RFC 9209) of responses that it makes itself for errors, and `Cache-Status` (RFC 9211) of `LocalResponseCache`: letters, digits, `-`, `.` and `_`. Default: no such fields.
    pub(super) proxy_status: Option<Spanned<String>>,
    /// `Strict-Transport-Security` (RFC 6797) of responses to clients that use TLS, such as `max-age=31536000; includeSubDomains`; the field of an upstream or a filter precedes it. Default: no such field.
    pub(super) strict_transport_security: Option<Spanned<String>>,
    /// Encoded separators in paths.
    path: PathSettings,
    /// PROXY protocol, with which load balancers that pass TCP through name the client. Default: none.
    pub proxy_protocol: Option<Spanned<ProxyProtocol>>,
    /// TLS. Default: none.
    #[cfg_attr(test, schemars(with = "Option<RawServerSsl>"))]
    ssl: Option<Subtree>,
    /// Port without TLS, beside the one with TLS. Default: none.
    pub http: Option<Spanned<PlainHttp>>,
    /// Certificates from an ACME server such as Let's Encrypt. Default: none.
    pub acme: Option<Spanned<Acme>>,
    /// Fields that tell upstreams of a client's certificate.
    #[serde(skip)]
    pub forward_client_cert: ForwardClientCert,
    /// `Strict-Transport-Security` of responses to clients that use TLS.
    #[serde(skip)]
    pub hsts: Option<HeaderValue>,
    /// TLS, from `ssl` and `acme`; `None`: clear text.
    #[serde(skip)]
    pub tls: Option<ServerTls>,
}

/// Port without TLS.
#[section(Clone, Copy)]
pub struct PlainHttp {
    /// Port to listen on, at `server.address`; 0: any free port.
    pub port: Or<u16, 80>,
    /// Enables redirects of all requests to HTTPS, with status 308. If false, the port serves the same routes.
    pub redirect: Flag<true>,
}

/// Format of responses to clients of RPC protocols.
#[word(Default)]
pub enum ErrorFormatWord {
    /// An error of the client's protocol.
    #[default]
    Auto,
    /// The response that other clients get.
    Http,
}

impl From<ErrorFormatWord> for ErrorFormat {
    fn from(word: ErrorFormatWord) -> Self {
        match word {
            ErrorFormatWord::Auto => Self::Auto,
            ErrorFormatWord::Http => Self::Http,
        }
    }
}

/// HTTP/2 settings.
#[section(Clone)]
pub struct ServerHttp2 {
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without. Default {}, which gRPC clients need.
    pub enabled: Flag<true>,
}

/// Spring Boot's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shutdown {
    /// In-flight requests may finish.
    Graceful,
    /// In-flight requests are cancelled.
    Immediate,
}

/// Spring Boot's settings of Netty.
#[section(Clone)]
struct Netty {
    // As `server.idle-timeout`.
    idle_timeout: Spanned<Or<Timeout, { secs(75) }>>,
}

/// Upper bound of a request's head: a smaller one would refuse ordinary browsers, and every connection may hold one head.
type HeaderBytes = Ranged<Size, { 8 << 10 }, { 16 << 20 }>;

/// Protocols that carry requests. In a tunnel, these would pass no filter.
const CARRY_REQUESTS: [&str; 5] = ["h2", "h2c", "http", "https", "tls"];

impl Server {
    /// Checks the section, and completes it with the values of files and of the environment.
    pub(crate) fn check(mut self, env: &dyn Fn(&str) -> Option<String>, diagnostics: &mut Diagnostics) -> Self {
        let header_size = &mut self.max_http_request_header_size;
        if let (nearest, true) = HeaderBytes::nearest(Size(header_size.get() as u64)) {
            diagnostics
                .mistake(header_size.span, format!("must be {}, got {} bytes", HeaderBytes::range(), header_size.get()))
                .help("the nearest bound is used");
            header_size.value = Or::new(nearest.get());
        }
        if let Some(port) = port_from("SERVER_PORT", env, diagnostics) {
            self.port = Or::new(port);
        }
        if self.shutdown == Some(Shutdown::Immediate) && !self.shutdown_timeout.is_given() {
            self.shutdown_timeout.value = Or::new(Duration::ZERO);
        }
        if !self.idle_timeout.is_given() {
            self.idle_timeout = self.netty.idle_timeout;
        }
        // Forwarded fields are checked with `trusted-proxies`.
        self.forward_headers_strategy = None;
        let mark = diagnostics.mark();
        self.acme = self.acme.and_then(|acme| acme::check(acme, self.http.is_some(), diagnostics).ok());
        (self.tls, self.forward_client_cert) =
            server::check(self.ssl.take().as_deref(), self.acme.as_ref(), self.http2.enabled.get(), diagnostics);
        let is_clear = self.tls.is_none() && !diagnostics.has_errors_since(mark);
        self.check_http(is_clear, diagnostics);
        if let Some(protocol) = &mut self.proxy_protocol {
            protocol.value.check(protocol.span.key(), diagnostics);
        }
        self.upgrade_protocols.iter().for_each(|name| check_upgrade(name, diagnostics));
        self
    }

    fn check_http(&self, is_clear: bool, diagnostics: &mut Diagnostics) {
        let Some(http) = &self.http else { return };
        if is_clear {
            diagnostics
                .error(
                    http.span.key(),
                    "`server.http` is a second port, beside one with TLS, and there is no `server.ssl`",
                )
                .help("add `server.ssl` or `server.acme`; without TLS, `server.port` is the port for HTTP");
        } else if http.port.get() == self.port.get() && self.port.get() != 0 {
            diagnostics
                .error(http.span.key(), format!("`server.port` and `server.http.port` are both {}", self.port.get()))
                .help("HTTPS and HTTP have a port each, such as 443 and 80");
        }
    }

    /// Returns the name of the gateway in `Proxy-Status` and `Cache-Status`; `None` without these fields.
    pub fn proxy_status(&self) -> Option<&str> {
        self.proxy_status.as_ref().map(|name| name.value.as_str())
    }

    /// Returns true if requests without TLS are redirected to HTTPS.
    pub fn redirects_to_https(&self) -> bool {
        self.tls.is_some() && self.http.is_some_and(|http| http.redirect.get())
    }

    /// Returns the number of worker threads, each with its own runtime.
    pub fn workers(&self) -> NonZeroUsize {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.workers.unwrap_or_else(cores)
    }

    /// Returns the upper bound of concurrent connections.
    pub fn max_connections(&self) -> NonZeroUsize {
        self.max_connections.unwrap_or_else(default_connections)
    }

    /// Returns the upper bound of concurrent connections of one client.
    pub fn max_connections_per_client(&self) -> usize {
        let quarter = (self.max_connections().get() / 4).max(1);
        self.max_connections_per_client.map_or(quarter, NonZeroUsize::get)
    }

    /// Returns the upper bound of HTTP/2 requests in progress of one client.
    pub fn max_streams_per_client(&self) -> usize {
        self.max_streams_per_client.map_or(self.max_connections_per_client(), NonZeroUsize::get)
    }

    /// Returns the treatment of encoded separators in paths.
    pub fn path_rules(&self) -> PathRules {
        self.path.rules()
    }
}

/// Checks the name of a protocol, with or without a version: `chat` or `chat/2`.
fn check_upgrade(name: &Spanned<String>, diagnostics: &mut Diagnostics) {
    let protocol = name.split('/').next().unwrap_or_default();
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if CARRY_REQUESTS.iter().any(|carrier| protocol.eq_ignore_ascii_case(carrier)) {
        diagnostics
            .error(name.span, format!("`{}` cannot be tunnelled: its requests would pass no filter", name.value))
            .help("remove it: the gateway itself speaks HTTP/2 and TLS with clients and upstreams");
    } else if protocol.is_empty() || !name.bytes().all(|b| is_token(b) || b == b'/') {
        diagnostics.error(name.span, format!("expected a protocol such as `chat`, found `{}`", name.value));
    }
}
