//! Endpoints from DNS.
//!
//! A lookup is repeated when the time to live of its records expires, and after `refresh` at the latest. A failed or empty
//! lookup changes nothing: health checks and ejections decide whether the known endpoints work.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::upstream::balance::upstream::Upstream;
use tollgate_config::{Dns, DnsQuery};
use tollgate_discovery::dns::{LookupError, look_up};

/// Minimum time between two lookups, even if the records expire sooner.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Pause after the first failed lookup. It doubles with each further failure, up to `refresh`.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Looks up the endpoints of `upstream` periodically. Sends `attempted` after the first lookup.
pub(super) async fn run(upstream: Arc<Upstream>, query: DnsQuery, dns: Dns, attempted: oneshot::Sender<()>) {
    let mut attempted = Some(attempted);
    let mut failures = 0_u32;
    loop {
        let pause = match look_up(&query, &dns).await {
            Ok(discovered) => {
                if failures > 0 {
                    tracing::info!(upstream = %upstream.name(), name = query.name(), "dns lookup succeeded again");
                }
                failures = 0;
                upstream.list(&discovered.endpoints);
                refresh_after(discovered.valid_until.saturating_duration_since(Instant::now()), query.refresh.get())
            }
            Err(error) => {
                upstream.stats().failed_lookups.fetch_add(1, Relaxed);
                if failures == 0 {
                    log_failure(&upstream, &query, &error);
                }
                failures = failures.saturating_add(1);
                FIRST_RETRY.saturating_mul(1 << (failures - 1).min(8)).min(query.refresh.get())
            }
        };
        if let Some(attempted) = attempted.take() {
            let _ = attempted.send(());
        }
        sleep(pause).await;
    }
}

fn log_failure(upstream: &Upstream, query: &DnsQuery, error: &LookupError) {
    let reason = std::error::Error::source(error).map(ToString::to_string);
    let endpoints = upstream.endpoints().len();
    tracing::error!(upstream = %upstream.name(), name = query.name(), %error, reason, endpoints, "dns lookup failed; known endpoints are kept");
}

/// Returns the time until the next lookup, for records with the time to live `ttl`.
fn refresh_after(ttl: Duration, refresh: Duration) -> Duration {
    ttl.max(MIN_TTL).min(refresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_for_their_time_to_live_within_bounds() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(refresh_after(Duration::ZERO, minute), second);
        assert_eq!(refresh_after(second * 20, minute), second * 20);
        assert_eq!(refresh_after(minute * 60, minute), minute);
        assert_eq!(refresh_after(Duration::ZERO, second / 10), second / 10);
    }
}
