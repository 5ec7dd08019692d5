//! Where requests go.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;

use tollgate_config::{Http2, Scheme, Tls};

/// One server as connections are kept for it: two origins that differ in anything share no connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// A host name or an address, without brackets.
    pub host: String,
    /// Where connections are made to instead of looking `host` up.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Both, as the `Host` field says it: without the port where that is the scheme's own.
    pub authority: HeaderValue,
    /// How TLS is spoken with it; `None`: it is not.
    pub tls: Option<Arc<Tls>>,
    /// Whether HTTP/2 is.
    pub http2: Http2,
}

/// Which versions of HTTP a connection to an origin may turn out to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking.
    Http2,
    /// What the server chooses when TLS is set up (ALPN, RFC 7301).
    Negotiated,
}

impl Origin {
    /// `host`, an IPv6 address with or without its brackets, at `port`; `tls` is for [`Scheme::Https`].
    #[must_use]
    pub fn new(scheme: Scheme, host: &str, port: u16, tls: &Arc<Tls>, http2: Http2) -> Self {
        let host = host.trim_matches(['[', ']']);
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let shown = if port == scheme.default_port() { shown } else { format!("{shown}:{port}") };
        Self {
            host: host.to_owned(),
            address: None,
            port,
            // Neither a name of a URI nor an address has a byte that a field cannot have.
            authority: HeaderValue::from_str(&shown).unwrap_or_else(|_| HeaderValue::from_static("")),
            tls: (scheme == Scheme::Https).then(|| Arc::clone(tls)),
            http2,
        }
    }

    pub(super) fn speaks(&self) -> Speaks {
        match (&self.tls, self.http2) {
            (_, Http2::Off) | (None, Http2::Auto) => Speaks::Http1,
            (None, Http2::PriorKnowledge) => Speaks::Http2,
            (Some(_), Http2::Auto | Http2::PriorKnowledge) => Speaks::Negotiated,
        }
    }

    /// As URIs name it.
    #[must_use]
    pub fn scheme(&self) -> http::uri::Scheme {
        if self.tls.is_some() { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP }
    }
}
