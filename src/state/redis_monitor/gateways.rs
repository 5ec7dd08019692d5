//! Counts the gateways, where a limiter asks for it (`gateways: auto`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tollgate_limiter::store::redis::{Heartbeat, StoreError};

use crate::app::worker::Orders;
use crate::state::stores::SharedLimits;
use tollgate_config::{Config, Filter, GatewayNumber};

/// How long the end of the process may wait until Redis knows of it. Without that the others know after five seconds.
const TO_LEAVE: Duration = Duration::from_millis(200);

/// The pause while no worker has a client yet.
const NO_CLIENT: Duration = Duration::from_millis(50);

/// Says every second that this gateway lives, until it is told to stop.
pub(super) async fn beat(
    limits: Arc<SharedLimits>,
    orders: watch::Receiver<Orders>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut heartbeat: Option<Heartbeat> = None;
    let mut trouble = None;
    let beats = async {
        loop {
            let wanted = counts_gateways(&orders.borrow().config);
            let pause = match limits.redis_client() {
                None => NO_CLIENT,
                Some(client) => {
                    if wanted {
                        client.wait_attempted(Heartbeat::EVERY).await;
                        let heartbeat = heartbeat.get_or_insert_with(|| Heartbeat::new(limits.gateways().clone()));
                        tell(heartbeat.beat(&client).await.err(), &mut trouble);
                    } else if let Some(mut heartbeat) = heartbeat.take() {
                        let _ = heartbeat.leave(&client).await;
                        limits.gateways().forget();
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
    if let (Some(mut heartbeat), Some(client)) = (heartbeat, limits.redis_client()) {
        let _ = timeout(TO_LEAVE, heartbeat.leave(&client)).await;
    }
}

/// Says once what hinders the count, unless everybody hears of it anyway.
fn tell(error: Option<StoreError>, trouble: &mut Option<StoreError>) {
    use StoreError::{BreakerOpen, Disconnected, Loading, Timeout};

    let error = error.filter(|kind| !matches!(kind, Timeout | Disconnected | BreakerOpen | Loading));
    if error != *trouble
        && let Some(kind) = error
    {
        tracing::warn!(
            kind = kind.as_str(),
            "cannot count the gateways; the last count stands: the user must be allowed EVALSHA, ZADD, ZREM, \
             ZREMRANGEBYSCORE, ZCOUNT, PEXPIRE and TIME on `tollgate.gateways`"
        );
    }
    *trouble = error;
}

fn counts_gateways(config: &Config) -> bool {
    let mut filters = config.routes.iter().flat_map(|route| &route.filters);
    filters.any(|filter| matches!(filter, Filter::RequestRateLimiter(it) if it.gateways == GatewayNumber::Auto))
}
