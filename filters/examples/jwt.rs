//! Two requests a minute per user of a verified token; requests without one are refused.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate_filters::jwt::{Algorithm, KeySet, Settings, Verifier};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::TokenBucket;
use tollgate_filters::request_rate_limiter::{MissingKey, RequestRateLimiterLayer};

/// The key `secret-of-thirty-three-bytes-long`. Read keys of production from the issuer's JWKS.
const KEYS: &str = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0LW9mLXRoaXJ0eS10aHJlZS1ieXRlcy1sb25n"}]}"#;

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    let mut settings = Settings::default();
    settings.algorithms = vec![Algorithm::HS256];
    let verifier = Arc::new(Verifier::new(settings, KeySet::parse(KEYS.as_bytes())?));
    let limiter = RequestRateLimiterLayer::builder()
        .rule(TokenBucket::new(2, Duration::from_secs(60), 2)?)
        .key(KeyResolver::parse("jwt:sub")?.with_jwt(&verifier))
        .missing_key(MissingKey::Deny)
        .build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limiter))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await?, app()?).await?)
}
