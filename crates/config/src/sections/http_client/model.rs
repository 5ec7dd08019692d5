//! Connections to upstreams.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;

/// Connections to upstreams.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpClient {
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for the head of a response; `None`: no limit.
    pub response_timeout: Option<Duration>,
    /// Timeout for each part of a response body.
    pub read_timeout: Duration,
    /// Upper bound of a response's head in bytes.
    pub max_header_bytes: usize,
    /// Use of HTTP/2.
    pub http2: Http2,
    /// TLS to `https` targets of routes without their own.
    pub tls: Arc<Tls>,
    /// Timeout for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Connection pool.
    pub pool: ConnectionPool,
    /// Proxy for connections.
    pub proxy: Option<Arc<Proxy>>,
}

/// Connection pool for one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPool {
    /// Idle connections per worker; 0: one connection per request.
    pub max_idle: usize,
    /// Time after which an idle connection is closed.
    pub max_idle_time: Duration,
    /// Age after which a connection serves no new request.
    pub max_life_time: Option<Duration>,
    /// Upper bound of connections over all workers.
    pub max_connections: Option<NonZeroUsize>,
    /// Time for which a request waits for a connection.
    pub acquire_timeout: Duration,
    /// Order in which idle connections are used.
    pub leasing: Leasing,
}

/// Order in which idle connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leasing {
    /// Most recently used first: connections of a past burst age and are closed.
    Newest,
    /// Least recently used first: all are used in turn.
    Oldest,
}

/// Use of HTTP/2 with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Http2 {
    /// Over TLS if the upstream selects it; never without TLS.
    Auto,
    /// Never.
    Off,
    /// As [`Http2::Auto`] over TLS, and always without TLS (h2c with prior knowledge).
    PriorKnowledge,
}

/// TLS to an upstream. Equal settings share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates.
    pub trust: Trust,
    /// Client certificate of the gateway.
    pub identity: Option<Identity>,
    /// Name that the upstream's certificate must have, also sent as SNI; `None`: the target's host.
    pub server_name: Option<String>,
    /// Oldest accepted version.
    pub min_version: TlsVersion,
}

/// Trusted certificates.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Certificates signed by the system's trusted CAs.
    #[default]
    System,
    /// Certificates signed by these CAs, each in DER.
    Authorities(Vec<Vec<u8>>),
    /// All certificates.
    AnyCertificate,
}

/// A certificate with its chain, and its key, in DER.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then its chain.
    pub chain: Vec<Vec<u8>>,
    /// Private key in PEM, which names its type.
    pub key: Vec<u8>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Proxy for connections to upstreams.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its protocol.
    pub kind: ProxyKind,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Credentials.
    pub login: Option<ProxyLogin>,
    /// Hosts that bypass it.
    pub except: Option<Regex>,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP's `CONNECT` (RFC 9110 §9.3.6).
    Http,
    /// SOCKS 4a.
    Socks4,
    /// SOCKS 5 (RFC 1928).
    Socks5,
}

/// Credentials for a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyLogin {
    /// User name.
    pub username: String,
    /// Password; empty if there is none.
    pub password: String,
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        let text = |except: &Option<Regex>| except.as_ref().map(|regex| regex.as_str().to_owned());
        (self.kind, &self.host, self.port, &self.login, text(&self.except))
            == (other.kind, &other.host, other.port, &other.login, text(&other.except))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Authorities(all) => write!(f, "Authorities({})", all.len()),
            Self::AnyCertificate => f.write_str("AnyCertificate"),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}

impl fmt::Debug for ProxyLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyLogin").field("username", &self.username).finish_non_exhaustive()
    }
}
