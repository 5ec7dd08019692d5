//! How to reach Redis.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use thiserror::Error;

/// How to reach Redis. Its `Debug` form hides the URL, which may hold a password.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://[user:password@]host[:port][/db]`, or `redis+unix:///path`. Speaks RESP3 (Redis 6 and later) unless it
    /// ends in `?protocol=resp2`.
    pub url: String,
    /// The longest time a decision waits for Redis: queueing and reply. The default of 100 ms is what a user hardly
    /// notices and a Redis in the same data centre keeps a hundredfold.
    pub timeout: Duration,
    /// Connections of this client. One carries tens of thousands of decisions a second, and more of them share the
    /// calls out into smaller writes; the default is 1.
    pub connections: NonZeroUsize,
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
    /// Started outside of a tokio runtime.
    #[error("the redis client must be started inside a tokio runtime")]
    NoRuntime,
}

impl RedisSettings {
    /// Settings for `url` with the defaults of the rest.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), timeout: Duration::from_millis(100), connections: NonZeroUsize::MIN }
    }

    /// What the driver needs to know.
    pub(super) fn connection_info(&self) -> Result<ConnectionInfo, RedisSettingsError> {
        if self.timeout.is_zero() {
            return Err(RedisSettingsError::ZeroTimeout);
        }
        let info = self
            .url
            .as_str()
            .into_connection_info()
            .map_err(|error| RedisSettingsError::Url { reason: error.to_string() })?;
        // RESP3 lets an idle connection notice that it was closed.
        let protocol =
            if self.url.contains("protocol=") { info.redis_settings().protocol() } else { ProtocolVersion::RESP3 };
        let redis =
            info.redis_settings().clone().set_protocol(protocol).set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
        Ok(info.set_redis_settings(redis))
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("timeout", &self.timeout)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in ["", "not a url", "http://user:s3cret@host", "redis://user:s3cret@host:port/", "redis://:s3cret@h/x"]
        {
            let text = RedisSettings::new(url).connection_info().unwrap_err().to_string();
            assert!(text.starts_with("`redis.url`") && !text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn a_timeout_of_nothing_is_refused() {
        let settings = RedisSettings { timeout: Duration::ZERO, ..RedisSettings::new("redis://localhost") };
        assert!(matches!(settings.connection_info(), Err(RedisSettingsError::ZeroTimeout)));
    }

    #[test]
    fn resp3_is_spoken_unless_the_url_says_otherwise() {
        let protocol = |url: &str| RedisSettings::new(url).connection_info().unwrap().redis_settings().protocol();
        assert_eq!(protocol("redis://localhost"), ProtocolVersion::RESP3);
        assert_eq!(protocol("redis://localhost?protocol=resp2"), ProtocolVersion::RESP2);
    }

    #[test]
    fn debug_hides_the_password() {
        assert!(!format!("{:?}", RedisSettings::new("redis://:s3cret@localhost")).contains("s3cret"));
    }
}
