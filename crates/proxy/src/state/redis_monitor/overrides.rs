//! Polls Redis for changed overrides.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tollgate_config::{Config, Route};
use tollgate_limiter::store::redis::StoreError;

use crate::state::stores::SharedStores;

/// Time between two polls. A change reaches every gateway within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Follows the overrides in Redis, and drops those that have ended, until the process ends.
pub(super) async fn follow(stores: Arc<SharedStores>, config: watch::Receiver<Arc<Config>>) {
    let mut logged = None;
    loop {
        stores.overrides().expire();
        let is_shared = uses_redis(&config.borrow());
        if let Some(client) = stores.redis_client().filter(|_| is_shared) {
            client.wait_attempted(POLL_INTERVAL).await;
            log_once(stores.follow_overrides(&client).await.err(), &mut logged);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns true if overrides of a limiter can be in Redis.
fn uses_redis(config: &Config) -> bool {
    config.redis.is_some() && config.routes.iter().flat_map(Route::rate_limiters).next().is_some()
}

/// Logs an error that differs from the one `logged` last. Connection errors are skipped: the client logs them.
fn log_once(error: Option<StoreError>, logged: &mut Option<StoreError>) {
    use StoreError::{BreakerOpen, Disconnected, Loading, NoScripts, Timeout};

    let error = error.filter(|kind| !matches!(kind, Timeout | Disconnected | BreakerOpen | Loading | NoScripts));
    if error != *logged
        && let Some(kind) = error
    {
        tracing::warn!(
            kind = kind.as_str(),
            "cannot read overrides in redis, the known ones stay in use until they end: allow the redis user EVALSHA, \
             TIME, HMGET, HGET, HGETALL, HSET, HDEL and PEXPIRE on `tollgate.overrides`"
        );
    }
    *logged = error;
}
