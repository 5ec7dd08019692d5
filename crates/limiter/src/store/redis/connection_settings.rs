//! Settings of a Redis client: servers, credentials, TLS and deadlines.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Settings of a Redis client. The `Debug` form omits everything that may hold a password.
///
/// Create them by [`new`](Self::new) and change fields by `..`, since versions may add fields:
/// `RedisSettings { key_prefix: "shop:".into(), ..RedisSettings::new(url) }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Servers to connect to.
    pub servers: Servers,
    /// Credentials. They take precedence over those in a URL.
    pub login: Login,
    /// Database number; `None`: the URL's, or 0. A cluster has database 0 only.
    pub database: Option<u32>,
    /// Text before the name of every key and channel, without braces: gateways of different environments that share
    /// servers do not share limits. Empty by default.
    pub key_prefix: Arc<str>,
    /// TLS settings; `None`: plain TCP, unless the URL begins with `rediss://`.
    pub tls: Option<Tls>,
    /// Uses RESP2, which servers before Redis 6 and some proxies need. It has no notices of returned tokens.
    pub resp2: bool,
    /// Longest time a decision waits for Redis, queueing included. The default is 100 ms: users hardly notice it, and a
    /// Redis in the same data centre replies a hundred times faster.
    pub timeout: Duration,
    /// Connections to each server. The default is 1, which carries tens of thousands of decisions a second. More
    /// connections split the calls into smaller writes.
    pub connections: NonZeroUsize,
    /// Sends decisions that wait at the same moment as one call of one script (the default). This saves a fifth to a
    /// third of Redis' time for each decision (`crates/limiter/benches/README.md`). It has no effect in a cluster. Disable it
    /// behind a proxy that spreads keys over several servers: such a call has keys of many hash tags.
    pub batch: bool,
}

/// Servers that keep the keys.
#[derive(Clone, PartialEq, Eq)]
pub enum Servers {
    /// One server, by URL: `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, or `redis+unix:///path`.
    /// The suffix `?protocol=resp2` selects RESP2.
    One(String),
    /// The primary that Sentinels name.
    Sentinel(Sentinel),
    /// A cluster, discovered through any of these nodes.
    Cluster(Vec<HostPort>),
}

/// Sentinels that know the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// Name of the primary in the Sentinels' configuration.
    pub master: String,
    /// Sentinels, in the order of queries.
    pub nodes: Vec<HostPort>,
    /// Credentials for the Sentinels; the default has none.
    pub login: Login,
}

/// Host name or address, and TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// User name (Redis 6 and later) and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// User name; `None`: the user `default`.
    pub username: Option<String>,
    /// Password; `None`: no authentication.
    pub password: Option<String>,
}

/// TLS settings. Each connection reads the files again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Trusted CA certificates; `None`: the system's.
    pub ca: Option<Authorities>,
    /// Client certificate with its chain and key.
    pub client: Option<ClientCertificate>,
}

/// File of CA certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorities {
    /// In PEM.
    Pem(PathBuf),
    /// Trust store.
    Store(KeyStoreFile),
}

/// Files of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// In PEM.
    Pem {
        /// The certificate, then its chain.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// Key store.
    Store(KeyStoreFile),
}

/// Store in PKCS#12. The `Debug` form omits the password.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyStoreFile {
    /// The file.
    pub path: PathBuf,
    /// Password of the store.
    pub password: String,
    /// Name of the private key; `None`: the only one.
    pub alias: Option<String>,
}

impl fmt::Debug for KeyStoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStoreFile").field("path", &self.path).field("alias", &self.alias).finish_non_exhaustive()
    }
}

/// Settings that no client can start with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RedisSettingsError {
    /// Invalid URL. The message does not repeat it, since it may hold a password.
    #[error("the URL of redis must look like redis://user:password@host:6379/0: {reason}")]
    Url {
        /// Parser's message.
        reason: String,
    },
    /// The timeout is 0.
    #[error("the timeout of redis must be more than 0")]
    ZeroTimeout,
    /// A topology or TLS setting that cannot work.
    #[error("{0}")]
    Unusable(String),
    /// The client was started outside of a tokio runtime.
    #[error("the redis client must be started inside a tokio runtime")]
    NoRuntime,
}

impl RedisSettings {
    /// Settings for the server at `url`, with default values for the rest.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self::of(Servers::One(url.into()))
    }

    /// Settings for `servers`, with default values for the rest.
    #[must_use]
    pub fn of(servers: Servers) -> Self {
        Self {
            servers,
            login: Login::default(),
            database: None,
            key_prefix: Arc::default(),
            tls: None,
            resp2: false,
            timeout: Duration::from_millis(100),
            connections: NonZeroUsize::MIN,
            batch: true,
        }
    }
}

impl From<&str> for RedisSettings {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for RedisSettings {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(_) => f.write_str("One(..)"),
            Self::Sentinel(sentinel) => f.debug_tuple("Sentinel").field(sentinel).finish(),
            Self::Cluster(nodes) => f.debug_tuple("Cluster").field(nodes).finish(),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_passwords() {
        let login = Login { username: Some("app".into()), password: Some("s3cret".into()) };
        let settings = RedisSettings { login, ..RedisSettings::new("redis://:s3cret@localhost") };
        let text = format!("{settings:?}");
        assert!(text.contains("app") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn an_ipv6_address_is_shown_in_brackets() {
        let shown = |host: &str| HostPort { host: host.into(), port: 6379 }.to_string();
        assert_eq!([shown("::1"), shown("cache")], ["[::1]:6379", "cache:6379"]);
    }
}
