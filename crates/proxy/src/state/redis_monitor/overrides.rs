//! Polls Redis for changed overrides.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tollgate_config::{Config, Route};
use tollgate_limiter::store::redis::StoreError;

use crate::state::stores::SharedStores;

/// Pause between two polls. With it, a change takes effect on every gateway within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Applies changed overrides from Redis and drops expired ones, until the process ends.
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

/// Returns true if limiters can have overrides in Redis.
fn uses_redis(config: &Config) -> bool {
    config.redis.is_some() && config.routes.iter().flat_map(Route::rate_limiters).next().is_some()
}

/// Logs `error` if it differs from the previous one, `logged`. Skips connection errors, which the client logs.
fn log_once(error: Option<StoreError>, logged: &mut Option<StoreError>) {
    use StoreError::{BreakerOpen, Disconnected, Loading, NoScripts, Timeout};

    let error = error.filter(|kind| !matches!(kind, Timeout | Disconnected | BreakerOpen | Loading | NoScripts));
    if error != *logged
        && let Some(kind) = error
    {
        tracing::warn!(
            reason = kind.as_str(),
            error = %kind,
            "cannot read overrides from redis, known overrides stay in effect until they end"
        );
    }
    *logged = error;
}
