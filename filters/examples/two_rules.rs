//! Ten requests a second and three a day per user: a request needs both.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::rule::{Align, FixedWindow, TokenBucket};
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let limiter = RequestRateLimiterLayer::builder()
        .rules([TokenBucket::per_second(10, 20)?.into(), FixedWindow::new(3, DAY, Align::First)?.into()])
        .key(KeyResolver::parse("header:X-User")?)
        .build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
