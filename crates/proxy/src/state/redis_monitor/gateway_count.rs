//! Heartbeat that counts live gateways in Redis, if a limiter has `gateways: auto`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tollgate_limiter::store::redis::{Heartbeat, StoreError};

use crate::state::stores::SharedStores;
use tollgate_config::{Config, Filter, GatewayNumber};

/// Longest time that the shutdown waits for deregistration. Without it, other gateways notice after five seconds.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// Pause while no worker has a client yet.
const NO_CLIENT_PAUSE: Duration = Duration::from_millis(50);

/// Sends a heartbeat every second until `stopped` is signalled, then deregisters.
pub(super) async fn beat(
    stores: Arc<SharedStores>,
    config: watch::Receiver<Arc<Config>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut heartbeat: Option<Heartbeat> = None;
    let mut logged = None;
    let beats = async {
        loop {
            let wanted = counts_gateways(&config.borrow());
            let pause = match stores.redis_client() {
                None => NO_CLIENT_PAUSE,
                Some(client) => {
                    if wanted {
                        client.wait_attempted(Heartbeat::EVERY).await;
                        let heartbeat = heartbeat.get_or_insert_with(|| Heartbeat::new(stores.gateways().clone()));
                        log_once(heartbeat.beat(&client).await.err(), &mut logged);
                    } else if let Some(mut heartbeat) = heartbeat.take() {
                        let _ = heartbeat.leave(&client).await;
                        stores.gateways().forget();
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

/// Logs `error` if it differs from the previous one, `logged`. Skips connection errors, which the client logs.
fn log_once(error: Option<StoreError>, logged: &mut Option<StoreError>) {
    use StoreError::{BreakerOpen, Disconnected, Loading, Timeout};

    let error = error.filter(|kind| !matches!(kind, Timeout | Disconnected | BreakerOpen | Loading));
    if error != *logged
        && let Some(kind) = error
    {
        tracing::warn!(
            reason = kind.as_str(),
            error = %kind,
            "cannot count the gateways in redis, the last count stays in use"
        );
    }
    *logged = error;
}

fn counts_gateways(config: &Config) -> bool {
    let mut filters = config.routes.iter().flat_map(|route| &route.filters);
    filters.any(|filter| matches!(filter, Filter::RequestRateLimiter(it) if it.gateways == GatewayNumber::Auto))
}
