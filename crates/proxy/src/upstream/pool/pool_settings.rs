//! Settings of a worker's connection pools.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_config::{HttpClient, Leasing, Proxy};

/// Settings of a worker's connection pools. A reload changes them for all pools.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Maximum number of idle connections in a pool; 0 uses a new connection for each request.
    pub max_idle: usize,
    /// Maximum idle time of a connection, in seconds.
    pub max_idle_secs: u64,
    /// Age in seconds from which a connection takes no more requests.
    pub max_life_secs: u64,
    /// Maximum number of connections of a pool; `None` for no limit.
    pub max_connections: Option<NonZeroUsize>,
    /// Maximum time that a request waits for a free connection.
    pub acquire_timeout: Duration,
    /// Order in which idle connections are reused.
    pub leasing: Leasing,
    /// Maximum size of a response head in bytes. A larger one fails the request with 502.
    pub max_head_bytes: usize,
    /// Maximum number of fields in a response head. More fail the request with 502.
    pub max_head_fields: usize,
    /// Time limit of the TLS handshake.
    pub handshake_timeout: Duration,
    /// Proxy for connections to upstreams.
    pub proxy: Option<Arc<Proxy>>,
    /// Address of this host to which no connection is made.
    pub refused: Option<SocketAddr>,
}

impl PoolSettings {
    /// Returns the settings of one worker, numbered from 0, out of `workers`. Workers divide `max-connections` among
    /// them; each gets at least one.
    #[must_use]
    pub fn for_worker(client: &HttpClient, worker: usize, workers: NonZeroUsize) -> Self {
        let pool = &client.pool;
        Self {
            max_idle: pool.max_idle.get(),
            max_idle_secs: pool.max_idle_time.get().as_secs().max(1),
            max_life_secs: pool.max_life_time.map_or(u64::MAX, |age| age.get().as_secs().max(1)),
            max_connections: pool.max_connections().map(|all| share(all, worker, workers)),
            acquire_timeout: pool.acquire_timeout.get(),
            leasing: pool.leasing_strategy.0,
            max_head_bytes: client.max_header_size.get(),
            max_head_fields: client.max_headers.get(),
            handshake_timeout: client.handshake_timeout.get(),
            proxy: client.proxy.clone(),
            refused: None,
        }
    }
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self::for_worker(&HttpClient::default(), 0, NonZeroUsize::MIN)
    }
}

/// Returns one worker's share of `all`.
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
        fn workers_divide_all_connections_and_each_gets_at_least_one(all in 1_usize..500, workers in 1_usize..65) {
            let number = NonZeroUsize::new(workers).unwrap();
            let shares: Vec<usize> =
                (0..workers).map(|worker| share(NonZeroUsize::new(all).unwrap(), worker, number).get()).collect();
            prop_assert_eq!(shares.iter().sum::<usize>(), all.max(workers));
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
