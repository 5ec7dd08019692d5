//! Connections to upstreams.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;

/// Connections to upstreams.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpClient {
    /// Time in which a connection must stand.
    pub connect_timeout: Duration,
    /// Time in which a response's head must arrive; `None`: no limit.
    pub response_timeout: Option<Duration>,
    /// Time within which the next piece of a response's body must arrive.
    pub read_timeout: Duration,
    /// Bytes that a response's head may have.
    pub max_header_bytes: usize,
    /// When HTTP/2 is spoken.
    pub http2: Http2,
    /// TLS to `https` targets of routes that say nothing else.
    pub tls: Arc<Tls>,
    /// Time in which TLS must stand, once the connection does.
    pub handshake_timeout: Duration,
    /// How many connections are made and kept.
    pub pool: ConnectionPool,
    /// What connections are made through.
    pub proxy: Option<Arc<Proxy>>,
}

/// How many connections are made to one origin, and how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPool {
    /// Idle connections kept, for each worker; 0: each request has one of its own.
    pub max_idle: usize,
    /// Time for which an idle connection is kept.
    pub max_idle_time: Duration,
    /// Age past which a connection takes no further request.
    pub max_life_time: Option<Duration>,
    /// Connections that all workers together make at most.
    pub max_connections: Option<NonZeroUsize>,
    /// Time that a request waits for one of them.
    pub acquire_timeout: Duration,
    /// Which idle connection is used next.
    pub leasing: Leasing,
}

/// Which idle connection is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leasing {
    /// The one used last: a burst's surplus ages and is closed.
    Newest,
    /// The one that has waited longest: all are used in turn.
    Oldest,
}

/// When HTTP/2 is spoken with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Http2 {
    /// Over TLS where the upstream chooses it; never without.
    Auto,
    /// Never.
    Off,
    /// As [`Http2::Auto`] over TLS, and always without: the upstream is known to speak it.
    PriorKnowledge,
}

/// TLS to an upstream. Equal settings share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// What the gateway shows to an upstream that asks.
    pub identity: Option<Identity>,
    /// The name that the upstream's certificate must have, and that it is asked for by; `None`: the target's host.
    pub server_name: Option<String>,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
}

/// Whose certificates are believed.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Those that the system's authorities have signed.
    #[default]
    System,
    /// Those that these have signed, each in DER.
    Authorities(Vec<Vec<u8>>),
    /// Anybody's.
    Anybody,
}

/// A certificate with its chain, and its key, in DER.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then those that lead to an authority.
    pub chain: Vec<Vec<u8>>,
    /// The private key, in PEM: it says of which kind it is.
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

/// A proxy that connections are made through.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Who logs in to it.
    pub login: Option<ProxyLogin>,
    /// Hosts that are reached without it.
    pub except: Option<Regex>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP's `CONNECT` (RFC 9110 §9.3.6).
    Http,
    /// SOCKS 4a.
    Socks4,
    /// SOCKS 5 (RFC 1928).
    Socks5,
}

/// Who logs in to a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyLogin {
    /// The user.
    pub username: String,
    /// The password, empty where there is none.
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
            Self::Anybody => f.write_str("Anybody"),
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
