//! Ten requests an hour per client address; the eleventh gets 429.
//!
//! `cargo run -p tollgate-filters --features axum --example axum`, then `for i in $(seq 11); do curl -i localhost:3000; done`

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let ten_an_hour = TokenBucket::new(10, Duration::from_secs(3600), 10)?;
    let limiter = RequestRateLimiterLayer::builder().rule(ten_an_hour).key(KeyResolver::client_ip()).build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter))
}

pub(crate) async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(listener, app()?.into_make_service_with_connect_info::<SocketAddr>()).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?).await
}
