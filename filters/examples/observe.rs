//! A limit that denies no request yet, and counts those that it would deny.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::{Enforcement, RequestRateLimiterLayer, VerdictKind};

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let over_limit = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&over_limit);
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(2, Duration::from_secs(60), 2)?)
        .key(KeyResolver::parse("header:X-User")?)
        .enforcement(Enforcement::OBSERVE)
        .on_verdict(move |event| {
            if event.kind == VerdictKind::Observed {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })
        .build()?;
    let metrics = get(move || async move { format!("over_limit {}\n", over_limit.load(Ordering::Relaxed)) });
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter).route("/metrics", metrics))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
