//! Cost of a decision while Redis is unreachable and the circuit breaker is open.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_tools::error::ToolError;

use super::load::ids;
use super::server::Server;

/// Stops the server and makes a million decisions without it.
pub(crate) fn measure(server: Server) -> Result<(), ToolError> {
    let worker = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = worker.block_on(async {
        let client = RedisClient::start(&RedisSettings::new(server.url())).map_err(ToolError::design)?;
        if !client.wait_connected(Duration::from_secs(10)).await {
            return Err(ToolError::WithoutRedis);
        }
        drop(server);
        while client.status().connected() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(client)
    })?;
    let local = Arc::new(MemoryStore::new(NonZeroUsize::MIN.saturating_add(1_000_000)));
    let rule = Rule::TokenBucket(TokenBucket::per_second(1_000, 1_000).map_err(ToolError::design)?);
    println!();
    for (name, policy) in [("local", OnStoreFailure::Local), ("deny", OnStoreFailure::Deny)] {
        let store = RedisStore::new(Arc::clone(&client), Arc::clone(&local), policy);
        let ids = ids(100_000);
        let start = Instant::now();
        for id in ids.iter().cycle().take(1_000_000) {
            let check = Check { key: BucketKey { scope: "orders", id }, rule: &rule, cost: 1 };
            if !matches!(store.decide(&[check], &[]), Decision::Ready(_)) {
                return Err(ToolError::Reply("a decision, although the server has ended".to_owned()));
            }
        }
        println!("redis unreachable, {name}: {:.2} µs per decision", start.elapsed().as_secs_f64());
    }
    Ok(())
}
