//! At most two requests of a user at once; a slot is free again when the response has been sent.

use std::error::Error;

use axum::Router;
use axum::routing::get;
use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
use tollgate_filters::key_resolver::KeyResolver;

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let slots = ConcurrencyLimiterLayer::builder().limit(2).key(KeyResolver::parse("header:X-User")?).build()?;
    Ok(Router::new().route("/", get(|| async { "a long report\n" })).layer(slots))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
