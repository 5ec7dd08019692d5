//! Keeps a connection alive for as long as its client lives.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::RedisError;
use tokio::time::{Instant, sleep, timeout};

use super::client::Shared;
use super::connection::{CONNECT_WITHIN, Live, News, connect};
use super::error::StoreError;

/// The first and the longest pause between two attempts. The longest keeps recovery within a second of Redis' return.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// A connection that lived this long was a good one: the next attempt follows at once.
const GOOD_AFTER: Duration = Duration::from_secs(1);

/// Connects, waits until the connection is lost, and connects again.
pub(super) async fn run(shared: Arc<Shared>, slot: usize) {
    let mut pause = PAUSES.0;
    for number in 1.. {
        let on_news = {
            let shared = Arc::downgrade(&shared);
            move |news: News<'_>| {
                let Some(shared) = shared.upgrade() else { return };
                match news {
                    News::Lost => shared.lose(&shared.slots[slot], number),
                    News::Returned(key) => shared.hot.returned(key),
                }
            }
        };
        match timeout(CONNECT_WITHIN, connect(&shared.info, on_news)).await {
            Ok(Ok((connection, runs_scripts))) => {
                let since = Instant::now();
                shared.slots[slot].fill(Live { connection, number });
                shared.connected(runs_scripts);
                shared.slots[slot].emptied().await;
                if since.elapsed() >= GOOD_AFTER {
                    pause = PAUSES.0;
                    continue;
                }
            }
            Ok(Err(error)) => shared.not_connected(StoreError::of(&error), &describe(&error)),
            Err(_) => shared.not_connected(StoreError::Timeout, "no answer while connecting"),
        }
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Between half of it and all of it, so that gateways that lost Redis together do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// What Redis or the system said. The driver puts no credentials into it.
fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

impl Shared {
    fn connected(&self, runs_scripts: bool) {
        self.no_scripts.store(!runs_scripts, Ordering::Relaxed);
        self.counters.connects.fetch_add(1, Ordering::Relaxed);
        self.recount();
        self.breaker.probe_now();
        if self.last_error.lock().take().is_some() {
            tracing::info!(redis = %self.info.addr(), "connected to redis again");
        }
    }

    /// Says so once an outage and reason, not once an attempt.
    fn not_connected(&self, kind: StoreError, reason: &str) {
        let news = {
            let mut last = self.last_error.lock();
            let news = last.as_ref().is_none_or(|(known, _)| *known != kind);
            *last = Some((kind, reason.to_owned()));
            news
        };
        self.recount();
        if !self.slots.iter().any(super::connection::Slot::is_live) {
            self.breaker.open();
        }
        if news {
            let hint =
                if kind == StoreError::Auth { kind.to_string() } else { "trying again until it is there".into() };
            tracing::warn!(redis = %self.info.addr(), kind = kind.as_str(), reason, "cannot connect to redis: {hint}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_varies_between_half_and_all_of_itself() {
        let pauses: Vec<Duration> = (0..100).map(|_| jittered(PAUSES.1)).collect();
        assert!(pauses.iter().all(|&pause| pause >= PAUSES.1 / 2 && pause <= PAUSES.1));
        assert!(pauses.iter().any(|&pause| pause != pauses[0]));
    }
}
