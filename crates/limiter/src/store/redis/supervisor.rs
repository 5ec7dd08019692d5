//! Keeps a connection alive for as long as its client lives.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::RedisError;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use super::batch::Batches;
use super::connect::{CONNECT_WITHIN, News, connect};
use super::error::StoreError;
use super::link::Live;
use super::node::{Address, Node};
use super::route::Route;
use super::shared::Shared;

/// The first and the longest time between the beginnings of two attempts. The longest keeps recovery within a second of
/// Redis' return; one that lasted longer is followed at once, or its length would be added.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// A connection that lived this long was a good one: the next attempt follows at once.
const GOOD_AFTER: Duration = Duration::from_secs(1);

/// Starts to keep the connections to `node` alive.
pub(super) fn start(shared: &Arc<Shared>, node: &Arc<Node>, runtime: &Handle) {
    if let Address::Primary(primary) = &node.address {
        let task = runtime.spawn(Arc::clone(primary).watch(Arc::clone(shared), Arc::clone(node)));
        node.supervised_by(task.abort_handle());
    }
    for link in 0..node.links.len() {
        let task = runtime.spawn(run(Arc::clone(shared), Arc::clone(node), link));
        node.supervised_by(task.abort_handle());
    }
}

/// Connects, waits until the connection is lost, and connects again.
async fn run(shared: Arc<Shared>, node: Arc<Node>, link: usize) {
    let mut route = Route::to(&node.address);
    let mut pause = PAUSES.0;
    for number in 1.. {
        let on_news = {
            let (shared, node) = (Arc::downgrade(&shared), Arc::downgrade(&node));
            move |news: News<'_>| {
                let (Some(shared), Some(node)) = (shared.upgrade(), node.upgrade()) else { return };
                match news {
                    News::Lost => shared.lose(&node, &node.links[link], number),
                    News::Returned(key) => shared.hot.returned(key),
                }
            }
        };
        let begun = Instant::now();
        let only_primary = route.leads_to_primary();
        let info = route.info(&shared.dial).await;
        let made = tokio::select! {
            made = timeout(CONNECT_WITHIN, async { connect(&info?, only_primary, on_news).await }) => made,
            () = route.moved() => continue,
        };
        match made {
            Ok(Ok((connection, refused))) => {
                let since = Instant::now();
                let batches = shared.batch.then(|| Batches::start(connection.clone(), Arc::clone(&shared.stats)));
                node.links[link].fill(Live { connection, number, batches });
                shared.connected(&node, refused.as_ref());
                let stays = tokio::select! {
                    () = node.links[link].emptied() => true,
                    () = route.moved() => false,
                };
                if !stays {
                    shared.lose(&node, &node.links[link], number);
                    continue;
                }
                node.doubt();
                if since.elapsed() >= GOOD_AFTER {
                    pause = PAUSES.0;
                    continue;
                }
            }
            Ok(Err(error)) => shared.not_connected(&node, StoreError::of(&error), &describe(&error)),
            Err(_) if shared.dial.speaks_tls() => {
                shared.not_connected(
                    &node,
                    StoreError::Timeout,
                    "no answer while connecting: does it speak TLS there?",
                );
            }
            Err(_) => shared.not_connected(&node, StoreError::Timeout, "no answer while connecting"),
        }
        node.doubt();
        tokio::select! {
            () = sleep_until(begun + jittered(pause)) => {}
            () = route.moved() => {}
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Between half of it and all of it, so that gateways that lost Redis together do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() as u32;
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// What Redis or the system said. The driver puts no credentials into it, and a server that repeats a command that it does
/// not know, such as `HELLO 3 AUTH …`, is cut short.
pub(super) fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            format!("{code} {}", detail.split_once(", with args beginning with").map_or(detail, |(start, _)| start))
        }
        _ => error.to_string(),
    }
}

impl Shared {
    /// `refused`: what the server said instead of loading the scripts.
    fn connected(&self, node: &Node, refused: Option<&RedisError>) {
        node.attempted.store(true, Ordering::Relaxed);
        let kind = refused.map(StoreError::of);
        node.no_scripts.store(kind == Some(StoreError::NoScripts), Ordering::Relaxed);
        if let (Some(kind @ StoreError::NoPerm), Some(error)) = (kind, refused) {
            // Rights may change while connected, so the calls are left to find out.
            tracing::error!(redis = %node.name, kind = kind.as_str(), reason = describe(error), "{kind}");
        }
        self.stats.connects.fetch_add(1, Ordering::Relaxed);
        self.recount();
        node.breaker.probe_now();
        node.told.store(0, Ordering::Relaxed);
        if node.last_error.lock().take().is_some() {
            tracing::info!(redis = %node.name, "connected to redis again");
        }
    }

    /// Says so once an outage and kind, not once an attempt: Sentinels and the server may fail in turn, each in its way.
    pub(super) fn not_connected(&self, node: &Node, kind: StoreError, reason: &str) {
        *node.last_error.lock() = Some((kind, reason.to_owned()));
        let bit = 1 << kind.index();
        let news = node.told.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        node.attempted.store(true, Ordering::Relaxed);
        self.recount();
        if node.live_connections() == 0 {
            node.breaker.open(kind);
        }
        if news {
            let hint = match kind {
                StoreError::Auth | StoreError::NoPerm | StoreError::Tls => kind.to_string(),
                _ => "trying again until it is there".into(),
            };
            tracing::warn!(redis = %node.name, kind = kind.as_str(), reason, "cannot connect to redis: {hint}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_server_that_repeats_the_login_is_not_repeated() {
        let reply = "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 's3cret' \r\n";
        let error = redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err();
        assert_eq!(describe(&error), "ERR unknown command 'HELLO'");
    }

    #[test]
    fn a_pause_varies_between_half_and_all_of_itself() {
        let pauses: Vec<Duration> = (0..100).map(|_| jittered(PAUSES.1)).collect();
        assert!(pauses.iter().all(|&pause| pause >= PAUSES.1 / 2 && pause <= PAUSES.1));
        assert!(pauses.iter().any(|&pause| pause != pauses[0]));
    }
}
