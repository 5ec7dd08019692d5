//! Changes of overrides: in Redis, if there is one, or else in this process.

use std::time::Instant;

use tollgate_config::Config;
use tollgate_limiter::store::redis::{OverrideTable, RedisClient, StoreError};

use crate::state::overrides::{Override, OverrideError, OverrideTarget};
use crate::state::stores::SharedStores;

impl SharedStores {
    /// Sets an override: in Redis, if `config` has one, or else in this process.
    ///
    /// # Errors
    /// Redis failed, or there are too many overrides.
    pub async fn set_override(&self, new: Override, config: &Config) -> Result<(), OverrideError> {
        if config.redis.is_none() {
            return self.overrides().set(new);
        }
        let client = self.redis_client().ok_or(OverrideError::NoClient)?;
        let time = new.until.saturating_duration_since(Instant::now());
        if !OverrideTable::set(&client, &new.target.field(), &new.text(), time).await? {
            return Err(OverrideError::TooMany);
        }
        // If this fails, the next poll applies the override.
        let _ = self.overrides().follow(&client).await;
        Ok(())
    }

    /// Removes an override. Returns false if there is none.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn remove_override(&self, target: &OverrideTarget, config: &Config) -> Result<bool, OverrideError> {
        if config.redis.is_none() {
            return Ok(self.overrides().remove(target));
        }
        let client = self.redis_client().ok_or(OverrideError::NoClient)?;
        let was_set = OverrideTable::remove(&client, &target.field()).await?;
        let _ = self.overrides().follow(&client).await;
        Ok(was_set)
    }

    /// Reads the overrides in Redis, if they have changed.
    ///
    /// # Errors
    /// Redis did not reply. The known overrides stay.
    pub(in crate::state) async fn follow_overrides(&self, client: &RedisClient) -> Result<(), StoreError> {
        self.overrides().follow(client).await
    }
}
