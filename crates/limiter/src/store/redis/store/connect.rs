//! Stores that are connected from the start.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::RedisStore;
use crate::store::OnStoreFailure;
use crate::store::memory::MemoryStore;
use crate::store::redis::{RedisClient, RedisSettings, RedisSettingsError};

/// Longest time for the first connection: that of a slow name server, and of several attempts.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Reason why a store could not be connected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RedisConnectError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] RedisSettingsError),
    /// No server replied within ten seconds, or one refused the login or the TLS handshake.
    #[error("cannot connect to redis: {reason}")]
    Unreachable {
        /// Last error of a connection.
        reason: String,
    },
}

impl RedisStore {
    /// Connects to Redis, by URL or by [`RedisSettings`], and waits for the first connection to each server: at most for ten
    /// seconds. Decisions after that call Redis.
    ///
    /// While Redis is unreachable later, the store decides in memory, or as set by
    /// [`on_store_failure`](Self::on_store_failure). Lost connections are replaced in the background.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_limiter::{RateLimiter, RedisSettings, RedisStore, TokenBucket};
    ///
    /// let url = "redis://127.0.0.1:6379";
    /// let limiter = RateLimiter::new("api", TokenBucket::per_second(10, 20)?, RedisStore::connect(url).await?);
    /// assert!(limiter.check("alice", 1).await.is_allowed());
    ///
    /// // Applications that share a server do not share keys.
    /// let settings = RedisSettings { key_prefix: "shop:".into(), ..RedisSettings::new(url) };
    /// let store = RedisStore::connect(settings).await?;
    /// # let _ = store;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The settings are invalid, Redis is not connected in time, or it refuses the login. [`RedisClient::start`] with [`new`](Self::new) does not
    /// wait.
    pub async fn connect(settings: impl Into<RedisSettings>) -> Result<Self, RedisConnectError> {
        let client = RedisClient::start(&settings.into())?;
        let mut changes = client.context().changes();
        let ended = changes.wait_for(|()| client.status().connected() || client.topology().refusal().is_some());
        let _ = tokio::time::timeout(CONNECT_WITHIN, ended).await;
        if !client.status().connected() {
            let status = client.status();
            let detail = status.last_error().unwrap_or("no connection was attempted");
            let refusal = client.topology().refusal();
            let reason = refusal.map_or_else(|| detail.to_owned(), |refusal| format!("{refusal} ({detail})"));
            return Err(RedisConnectError::Unreachable { reason });
        }
        Ok(Self::new(client, Arc::new(MemoryStore::default()), OnStoreFailure::default()))
    }

    /// Sets the policy for decisions while Redis is unreachable.
    #[must_use]
    pub fn on_store_failure(self, on_store_failure: OnStoreFailure) -> Self {
        Self { on_store_failure, ..self }
    }
}
