//! Three requests a minute per user, over all processes that use one Redis.
//!
//! Start it twice: `cargo run -p tollgate-filters --features redis --example redis -- 127.0.0.1:3000`, and with port 3001.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::{OnStoreFailure, RedisStore, TokenBucket};
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;

pub(crate) async fn app(redis: &str) -> Result<Router, Box<dyn Error>> {
    // While Redis is unreachable, requests get 503. By default, each process decides in its memory.
    let store = RedisStore::connect(redis).await?.on_store_failure(OnStoreFailure::Deny);
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(3, Duration::from_secs(60), 3)?)
        .key(KeyResolver::parse("header:X-User")?)
        .store("orders", store)
        .build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, app("redis://127.0.0.1:6379").await?).await?)
}
