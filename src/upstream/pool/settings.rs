//! What a worker's pools are held to.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_config::{HttpClient, Leasing, Proxy};

/// What a worker's pools are held to; a reload changes it for all of them.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Idle connections that each keeps; 0: every request has a connection of its own.
    pub max_idle: usize,
    /// How long an idle one is kept, in seconds.
    pub max_idle_secs: u64,
    /// Age past which a connection takes no further request, in seconds.
    pub max_life_secs: u64,
    /// Connections that each has at most.
    pub max_connections: Option<NonZeroUsize>,
    /// Time that a request waits for one of them.
    pub acquire_timeout: Duration,
    /// Which idle connection is used next.
    pub leasing: Leasing,
    /// Bytes of an answer's head that are still read: past that the upstream is broken (502).
    pub max_head_bytes: usize,
    /// Time in which TLS must stand.
    pub handshake_timeout: Duration,
    /// What connections are made through.
    pub proxy: Option<Arc<Proxy>>,
}

impl PoolSettings {
    /// What `client` leaves to the worker numbered `worker`, from 0, of `workers`: each has its part of
    /// `max-connections`, at least one.
    #[must_use]
    pub fn for_worker(client: &HttpClient, worker: usize, workers: NonZeroUsize) -> Self {
        let pool = &client.pool;
        Self {
            max_idle: pool.max_idle,
            max_idle_secs: pool.max_idle_time.as_secs().max(1),
            max_life_secs: pool.max_life_time.map_or(u64::MAX, |age| age.as_secs().max(1)),
            max_connections: pool.max_connections.map(|all| share(all, worker, workers)),
            acquire_timeout: pool.acquire_timeout,
            leasing: pool.leasing,
            max_head_bytes: client.max_header_bytes,
            handshake_timeout: client.handshake_timeout,
            proxy: client.proxy.clone(),
        }
    }
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            max_idle: 512,
            max_idle_secs: 60,
            max_life_secs: u64::MAX,
            max_connections: None,
            acquire_timeout: Duration::from_secs(45),
            leasing: Leasing::Newest,
            max_head_bytes: 64 * 1024,
            handshake_timeout: Duration::from_secs(10),
            proxy: None,
        }
    }
}

/// One worker's part of what all have together.
fn share(all: NonZeroUsize, worker: usize, workers: NonZeroUsize) -> NonZeroUsize {
    let rest = usize::from(worker < all.get() % workers.get());
    NonZeroUsize::new(all.get() / workers.get() + rest).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn workers_share_all_connections_and_each_has_one(all in 1_usize..500, workers in 1_usize..65) {
            let number = NonZeroUsize::new(workers).unwrap();
            let shares: Vec<usize> =
                (0..workers).map(|worker| share(NonZeroUsize::new(all).unwrap(), worker, number).get()).collect();
            prop_assert_eq!(shares.iter().sum::<usize>(), all.max(workers));
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
