//! Task that writes usage counts to Redis: one per process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tollgate_limiter::metering::{FlushSettings, Flusher};

use crate::state::stores::SharedStores;
use tollgate_config::{Config, Filter};

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
