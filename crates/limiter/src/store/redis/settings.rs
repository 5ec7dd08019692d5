//! Which servers there are, and how to reach them.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::dial::Dial;

/// How to reach Redis. Its `Debug` form hides what may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// Which servers there are.
    pub servers: Servers,
    /// Who logs in. Goes before what a URL says.
    pub login: Login,
    /// The number of the database; `None`: the URL's, or 0. A cluster has only 0.
    pub database: Option<u32>,
    /// How TLS is spoken; `None`: not at all, unless the URL begins with `rediss://`.
    pub tls: Option<Tls>,
    /// Speak RESP2, which servers before Redis 6 need. With RESP3 an idle connection notices that it was closed.
    pub resp2: bool,
    /// The longest time a decision waits for Redis: queueing and reply. The default of 100 ms is what a user hardly
    /// notices and a Redis in the same data centre keeps a hundredfold.
    pub timeout: Duration,
    /// Connections of this client to each server. One carries tens of thousands of decisions a second, and more of them
    /// share the calls out into smaller writes; the default is 1.
    pub connections: NonZeroUsize,
    /// Whether decisions that wait at the same moment go out as one call of one script, which saves a fifth to a third of
    /// Redis' time for each (`filters/benches/README.md`); the default, and without effect in a cluster. A proxy in front
    /// of Redis that sends keys to different servers does not want this: such a call has keys of many hash tags.
    pub batch: bool,
}

/// The servers that keep the keys.
#[derive(Clone, PartialEq, Eq)]
pub enum Servers {
    /// One, by its URL: `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, or `redis+unix:///path`. Ending
    /// in `?protocol=resp2` it asks for that.
    One(String),
    /// The one that Sentinels call the primary.
    Sentinel(Sentinel),
    /// A cluster, found through any of these nodes.
    Cluster(Vec<HostPort>),
}

/// Where to ask for the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// The name under which Sentinels watch the primary.
    pub master: String,
    /// The Sentinels, in the order in which they are asked.
    pub nodes: Vec<HostPort>,
    /// Who logs in to a Sentinel; nobody, unless told.
    pub login: Login,
}

/// A host, by name or address, and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// User (Redis 6 and later) and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// `None`: the user `default`.
    pub username: Option<String>,
    /// `None`: no login.
    pub password: Option<String>,
}

/// How TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authorities that are trusted, as a PEM file; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// This client's certificate, with its chain, and its key, as PEM files.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Settings with which no client can start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RedisSettingsError {
    /// The URL is none that the client understands. It is not repeated, since it may hold a password.
    #[error("`redis.url` must look like redis://user:password@host:6379/0: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// A budget of nothing.
    #[error("`redis.timeout` must be more than 0")]
    ZeroTimeout,
    /// A topology or TLS setting that cannot work.
    #[error("{0}")]
    Unusable(String),
    /// Started outside of a tokio runtime.
    #[error("the redis client must be started inside a tokio runtime")]
    NoRuntime,
}

impl RedisSettings {
    /// Settings for the one server at `url` with the defaults of the rest.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self::of(Servers::One(url.into()))
    }

    /// Finds what no client could start with, as far as it shows without a server: the URL, and TLS with its files.
    ///
    /// # Errors
    /// As [`RedisClient::start`](super::RedisClient::start).
    pub fn check(&self) -> Result<(), RedisSettingsError> {
        Dial::new(self).map(drop)
    }

    /// Settings for `servers` with the defaults of the rest.
    #[must_use]
    pub fn of(servers: Servers) -> Self {
        Self {
            servers,
            login: Login::default(),
            database: None,
            tls: None,
            resp2: false,
            timeout: Duration::from_millis(100),
            connections: NonZeroUsize::MIN,
            batch: true,
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("servers", &self.servers)
            .field("login", &self.login)
            .field("database", &self.database)
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
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
