//! Tasks that watch Redis from the process's own thread: server statistics (`INFO`), the number of live gateways, and
//! temporary overrides.
//!
//! They use a worker's connections within the deadline of a decision. They are not counted as decisions.

mod gateway_count;
mod overrides;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::state::stores::SharedStores;
use tollgate_config::Config;
use tollgate_transport::executor::spawn_boxed;

/// Interval between two `INFO` calls of a server: frequent enough for a chart, at 10 KB a reply.
const INFO_EVERY: Duration = Duration::from_secs(10);

/// Pause before the next attempt while no server replies.
const RETRY_EVERY: Duration = Duration::from_secs(1);

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
        spawn_boxed(overrides::follow(Arc::clone(stores), config.clone()));
        let (stop, stopped) = oneshot::channel();
        Self { stop, heartbeat: tokio::task::spawn_local(gateway_count::beat(Arc::clone(stores), config, stopped)) }
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
        stores.redis_servers().update(replies);
        sleep(pause).await;
    }
}
