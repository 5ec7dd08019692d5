//! Two requests a minute per API key; the third gets 429 with a body in JSON.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::{MissingKey, RequestRateLimiterLayer};

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(2, Duration::from_secs(60), 2)?)
        .key(KeyResolver::from_fn(|head| head.headers.get("x-api-key")))
        .missing_key(MissingKey::Deny)
        .on_refusal(|refusal| {
            let json = format!(r#"{{"error":"{}"}}"#, refusal.reason);
            let status = if refusal.is_denial { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::UNAUTHORIZED };
            (status, [(CONTENT_TYPE, "application/json")], json).into_response()
        })
        .build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
