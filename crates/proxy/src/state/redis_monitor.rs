//! Tasks that watch Redis from the process's own thread: server statistics (`INFO`), the number of live gateways, temporary
//! overrides, and the number of API keys.
//!
//! They use a worker's connections within the deadline of a decision. They are not counted as decisions.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::state::stores::SharedStores;
use tollgate_config::{ApiKeyStore, Config, Filter, GatewayNumber, Route};
use tollgate_limiter::store::redis::{Heartbeat, StoreError};
use tollgate_transport::executor::spawn_boxed;

/// Interval between two `INFO` calls of a server: frequent enough for a chart, at 10 KB a reply.
const INFO_EVERY: Duration = Duration::from_secs(10);

/// Pause before the next attempt while no server replies.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Pause between two polls. With it, a change takes effect on every gateway within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Pause between two counts of the API keys.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// Handle of the monitor tasks.
#[derive(Debug)]
pub struct RedisMonitor {
    stop: oneshot::Sender<()>,
    heartbeat: JoinHandle<()>,
}

impl RedisMonitor {
    /// Starts the tasks for the Redis of `stores`. Must be called within the process's `LocalSet`.
    pub fn start(stores: &Arc<SharedStores>, config: watch::Receiver<Arc<Config>>) -> Self {
        spawn_boxed(poll_servers(Arc::clone(stores)));
        spawn_boxed(follow_overrides(Arc::clone(stores), config.clone()));
        spawn_boxed(count_api_keys(Arc::clone(stores), config.clone()));
        let (stop, stopped) = oneshot::channel();
        Self { stop, heartbeat: tokio::task::spawn_local(beat(Arc::clone(stores), config, stopped)) }
    }

    /// Removes this gateway from the count of live gateways, within 200 ms. Call it while workers are still connected.
    pub async fn deregister(self) {
        let _ = self.stop.send(());
        let _ = self.heartbeat.await;
    }
}

/// Calls `INFO` on all servers periodically.
async fn poll_servers(stores: Arc<SharedStores>) {
    loop {
        let replies = match stores.redis_client() {
            Some(client) => {
                client.wait_attempted(RETRY_EVERY).await;
                client.info().await
            }
            None => Vec::new(),
        };
        let pause = if replies.is_empty() { RETRY_EVERY } else { INFO_EVERY };
        stores.redis_servers.update(replies);
        sleep(pause).await;
    }
}

/// Applies changed overrides from Redis and drops expired ones, until the process ends.
async fn follow_overrides(stores: Arc<SharedStores>, config: watch::Receiver<Arc<Config>>) {
    let mut logged = None;
    loop {
        stores.overrides.expire();
        let is_shared = uses_redis(&config.borrow());
        if let Some(client) = stores.redis_client().filter(|_| is_shared) {
            client.wait_attempted(POLL_INTERVAL).await;
            // Redis without scripts has no overrides.
            let error = stores.overrides.follow(&client).await.err().filter(|kind| *kind != StoreError::NoScripts);
            let consequence = "cannot read overrides from redis, known overrides stay in effect until they end";
            log_once(error, &mut logged, consequence);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Counts the API keys in Redis, until the process ends.
async fn count_api_keys(stores: Arc<SharedStores>, config: watch::Receiver<Arc<Config>>) {
    let mut logged = None;
    loop {
        let mut pause = RETRY_EVERY;
        // Not in the condition: the borrowed configuration would block a reload until the keys are counted.
        let name = hash_of_api_keys(&config.borrow());
        if let Some((name, client)) = name.zip(stores.redis_client()) {
            client.wait_attempted(RETRY_EVERY).await;
            let counted = stores.api_keys.count(&client, &name).await;
            pause = if counted.is_ok() { COUNT_EVERY } else { INFO_EVERY };
            log_once(
                counted.err(),
                &mut logged,
                "cannot count the API keys in redis, the last count stays in the metrics",
            );
        }
        sleep(pause).await;
    }
}

fn hash_of_api_keys(config: &Config) -> Option<Arc<str>> {
    match &config.api_keys.as_ref()?.store {
        ApiKeyStore::Redis { hash, .. } => Some(Arc::clone(hash)),
        ApiKeyStore::File(_) => None,
    }
}

/// Returns true if limiters can have overrides in Redis.
fn uses_redis(config: &Config) -> bool {
    config.redis.is_some() && config.routes.iter().flat_map(Route::rate_limiters).next().is_some()
}

/// Logs `error` with `consequence` if it differs from the previous one, `logged`. Skips connection errors, which the client
/// logs.
fn log_once(error: Option<StoreError>, logged: &mut Option<StoreError>, consequence: &str) {
    use StoreError::{BreakerOpen, Disconnected, Loading, Timeout};

    let error = error.filter(|kind| !matches!(kind, Timeout | Disconnected | BreakerOpen | Loading));
    if error != *logged
        && let Some(kind) = error
    {
        tracing::warn!(reason = kind.as_str(), error = %kind, "{consequence}");
    }
    *logged = error;
}

/// Longest time that the shutdown waits for deregistration. Without it, other gateways notice after five seconds.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Pause while no worker has a client yet.
const NO_CLIENT_PAUSE: Duration = Duration::from_millis(50);

/// Counts live gateways in Redis, if a limiter has `gateways: auto`: sends a heartbeat every second until `stopped` is signalled, then deregisters.
async fn beat(stores: Arc<SharedStores>, config: watch::Receiver<Arc<Config>>, mut stopped: oneshot::Receiver<()>) {
    let mut heartbeat: Option<Heartbeat> = None;
    let mut logged = None;
    let beats = async {
        loop {
            let counts = counts_gateways(&config.borrow());
            let pause = match stores.redis_client() {
                None => NO_CLIENT_PAUSE,
                Some(client) => {
                    if counts {
                        client.wait_attempted(Heartbeat::EVERY).await;
                        let heartbeat = heartbeat.get_or_insert_with(|| Heartbeat::new(stores.gateways.clone()));
                        let consequence = "cannot count the gateways in redis, the last count stays in use";
                        log_once(heartbeat.beat(&client).await.err(), &mut logged, consequence);
                    } else if let Some(mut heartbeat) = heartbeat.take() {
                        let _ = heartbeat.leave(&client).await;
                        stores.gateways.forget();
                    }
                    Heartbeat::EVERY
                }
            };
            sleep(pause).await;
        }
    };
    tokio::select! {
        () = beats => {}
        _ = &mut stopped => {}
    }
    if let (Some(mut heartbeat), Some(client)) = (heartbeat, stores.redis_client()) {
        let _ = timeout(LEAVE_TIMEOUT, heartbeat.leave(&client)).await;
    }
}

fn counts_gateways(config: &Config) -> bool {
    let mut filters = config.routes.iter().flat_map(|route| &route.filters);
    filters.any(|filter| matches!(filter, Filter::RequestRateLimiter(it) if it.gateways == GatewayNumber::Auto))
}
