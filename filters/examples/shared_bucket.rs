//! Two routes share three requests a minute per user; a third route has its own.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::limiter::store::memory::MemoryStore;
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let store = Arc::new(MemoryStore::new(NonZeroUsize::MIN.saturating_add(9_999)));
    // Limiters of one name in one store share their buckets.
    let limiter = |name: &str| -> Result<_, Box<dyn Error>> {
        let builder = RequestRateLimiterLayer::builder().rule(TokenBucket::new(3, Duration::from_secs(60), 3)?);
        Ok(builder.key(KeyResolver::parse("header:X-User")?).store(name, store.clone()).build()?)
    };
    let hello = || get(|| async { "hello\n" });
    Ok(Router::new()
        .route("/search", hello().layer(limiter("queries")?))
        .route("/export", hello().layer(limiter("queries")?))
        .route("/profile", hello().layer(limiter("profile")?)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
