//! Origins: servers that connections are kept for.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;

use tollgate_config::{Http2, Scheme, Tls};

/// Server that connections are kept for. Two origins that differ in any field share no connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Address to connect to, instead of resolving `host`.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// Value of the `Host` field: host and port, without the port if it is the scheme's default.
    pub authority: HeaderValue,
    /// TLS settings; `None` for cleartext.
    pub tls: Option<Arc<Tls>>,
    /// Use of HTTP/2.
    pub http2: Http2,
}

impl Origin {
    /// Creates an origin. An IPv6 address in `host` may have brackets. `tls` applies to [`Scheme::Https`] only.
    pub fn new(scheme: Scheme, host: &str, port: u16, tls: &Arc<Tls>, http2: Http2) -> Self {
        let host = host.trim_matches(['[', ']']);
        let authority = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == scheme.default_port() { authority } else { format!("{authority}:{port}") };
        Self {
            host: host.to_owned(),
            address: None,
            port,
            // Every byte of a URI's host or an address is valid in a field value.
            authority: HeaderValue::from_str(&authority).unwrap_or_else(|_| HeaderValue::from_static("")),
            tls: (scheme == Scheme::Https).then(|| Arc::clone(tls)),
            http2,
        }
    }

    /// Returns the scheme of the origin's URIs.
    pub fn scheme(&self) -> http::uri::Scheme {
        if self.tls.is_some() { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP }
    }
}
