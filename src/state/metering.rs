//! Brings what was counted to Redis: one flusher a process, which outlives every configuration.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tollgate_limiter::metering::{FlushSettings, Flusher};

use crate::app::worker::Orders;
use crate::state::stores::{SharedLimits, redis_settings};
use tollgate_config::{Config, Filter};

/// How long the end of the process may wait for Redis: twice a flush's timeout, and a connection made anew.
const AT_THE_END: Duration = Duration::from_secs(5);

/// The flusher at work.
#[derive(Debug)]
pub struct Metering {
    stop: oneshot::Sender<()>,
    flushing: JoinHandle<Flusher>,
}

impl Metering {
    /// Sends what `limits` counted to the Redis that `orders` name, if a route counts anything. Called within the
    /// process' set of local tasks.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn start(limits: &SharedLimits, orders: watch::Receiver<Orders>) -> io::Result<Self> {
        let settings = {
            let metering = &orders.borrow().config.metering;
            FlushSettings { every: metering.flush_every, retry_queue: metering.retry_queue, ..FlushSettings::default() }
        };
        let flusher = Flusher::new(Arc::clone(limits.ledger()), settings)?.counting(Arc::clone(limits.usage_stats()));
        let (stop, stopped) = oneshot::channel();
        Ok(Self { stop, flushing: tokio::task::spawn_local(flush(flusher, orders, stopped)) })
    }

    /// Sends what is left, for five seconds at most, and says what could not be sent.
    pub async fn finish(self) {
        let _ = self.stop.send(());
        let Ok(flusher) = self.flushing.await else { return };
        let lost = flusher.finish(AT_THE_END).await;
        if lost > 0 {
            tracing::error!(requests = lost, "usage is lost: redis did not take it before the end");
        }
    }
}

/// Flushes until told to stop.
async fn flush(
    mut flusher: Flusher,
    mut orders: watch::Receiver<Orders>,
    mut stopped: oneshot::Receiver<()>,
) -> Flusher {
    let mut known = None;
    loop {
        let config = Arc::clone(&orders.borrow_and_update().config);
        // Without a counter there is no connection, but what was counted before still goes its way.
        if counts(&config) || known.is_some() {
            let redis = config.redis.as_ref().map(redis_settings);
            if redis != known {
                if let Err(error) = flusher.send_to(redis.as_ref()) {
                    tracing::error!(%error, "cannot use `redis`; usage is kept in memory");
                }
                known = redis;
            }
        }
        let pause = tokio::select! {
            pause = flusher.tick() => pause,
            _ = &mut stopped => return flusher,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = orders.changed() => {}
            _ = &mut stopped => return flusher,
        }
    }
}

fn counts(config: &Config) -> bool {
    config.routes.iter().flat_map(|route| &route.filters).any(|filter| matches!(filter, Filter::RequestCounter(_)))
}
