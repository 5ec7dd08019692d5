//! Tasks that watch Redis from the process's own thread: server statistics (`INFO`), the number of live gateways, temporary
//! overrides, and the number of API keys; and the task that writes usage counts to it.
//!
//! The first use a worker's connections within the deadline of a decision. They are not counted as decisions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::state::stores::SharedStores;
use tollgate_config::{ApiKeyStore, Config, Filter, GatewayNumber, Route};
use tollgate_limiter::metering::{FlushSettings, Flusher};
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

/// Longest time that the shutdown waits for Redis: twice a flush's timeout, and one reconnect.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Handle of the flush task.
#[derive(Debug)]
pub struct Metering {
    stop: oneshot::Sender<()>,
    flushing: JoinHandle<Flusher>,
}

impl Metering {
    /// Starts the task. It writes the usage in `stores` to the Redis of the latest `config`, if a route counts
    /// requests. Must be called within the process's `LocalSet`.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn start(stores: &SharedStores, config: watch::Receiver<Arc<Config>>) -> io::Result<Self> {
        let settings = {
            let metering = &config.borrow().metering;
            FlushSettings {
                every: metering.flush_every.get(),
                retry_queue: metering.retry_queue.get(),
                ..FlushSettings::default()
            }
        };
        let flusher = Flusher::new(Arc::clone(&stores.ledger), settings)?.counting(Arc::clone(&stores.usage_stats));
        let (stop, stopped) = oneshot::channel();
        Ok(Self { stop, flushing: tokio::task::spawn_local(flush(flusher, config, stopped)) })
    }

    /// Writes the remaining usage, for five seconds at most, and logs the usage that was lost.
    pub async fn finish(self) {
        let _ = self.stop.send(());
        let Ok(flusher) = self.flushing.await else { return };
        let lost = flusher.finish(FINISH_TIMEOUT).await;
        if lost > 0 {
            tracing::error!(requests = lost, "usage lost: redis did not accept it before shutdown");
        }
    }
}

/// Flushes until `stopped` is signalled.
async fn flush(
    mut flusher: Flusher,
    mut config: watch::Receiver<Arc<Config>>,
    mut stopped: oneshot::Receiver<()>,
) -> Flusher {
    let mut current = None;
    loop {
        let latest = Arc::clone(&config.borrow_and_update());
        // A configuration without counters opens no connection, but usage counted earlier is still written.
        if counts_requests(&latest) || current.is_some() {
            let redis = latest.redis.as_ref().map(|redis| redis.settings.clone());
            if redis != current {
                if let Err(error) = flusher.send_to(redis.as_ref()) {
                    tracing::error!(%error, "cannot start redis client: usage is kept in memory");
                }
                current = redis;
            }
        }
        let pause = tokio::select! {
            pause = flusher.tick() => pause,
            _ = &mut stopped => return flusher,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = config.changed() => {}
            _ = &mut stopped => return flusher,
        }
    }
}

fn counts_requests(config: &Config) -> bool {
    config.routes.iter().flat_map(|route| &route.filters).any(|filter| matches!(filter, Filter::RequestCounter(_)))
}
