//! `RedisStore::connect`.

use tollgate_limiter::store::redis::{RedisConnectError, RedisSettings, RedisStore};
use tollgate_limiter::verdict::Source;
use tollgate_limiter::{OnStoreFailure, RateLimiter, TokenBucket};

use crate::support::RedisServer;

#[tokio::test]
async fn the_first_decision_of_a_connected_store_is_made_in_redis() {
    let server = RedisServer::start();
    let settings = RedisSettings { key_prefix: "shop:".into(), ..RedisSettings::new(server.url()) };
    for (settings, remaining) in [(server.url().into(), 1), (server.url().into(), 0), (settings, 1)] {
        let settings = RedisSettings { timeout: std::time::Duration::from_secs(20), ..settings };
        let store = RedisStore::connect(settings).await.unwrap().on_store_failure(OnStoreFailure::Deny);
        let limiter =
            RateLimiter::new("a", TokenBucket::new(1, std::time::Duration::from_secs(3_600), 2).unwrap(), store);
        let verdict = limiter.check("a", 1).await;
        assert_eq!((verdict.source, verdict.remaining), (Source::Redis, Some(remaining)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_reply_and_an_invalid_url_are_errors() {
    let server = RedisServer::stopped(&[]);
    let error = RedisStore::connect(server.url()).await.err().unwrap();
    assert!(matches!(&error, RedisConnectError::Unreachable { reason } if reason.contains("refused")), "{error}");
    let error = RedisStore::connect("http://redis").await.err().unwrap();
    assert!(matches!(error, RedisConnectError::Settings(_)), "{error}");
}

#[tokio::test]
async fn a_refused_login_is_an_error_at_once() {
    let server = RedisServer::start_with(&["--requirepass", "secret"]);
    let start = std::time::Instant::now();
    let wrong = server.url().replace("redis://", "redis://:wrong@");
    for (url, reason) in [(server.url(), "(NOAUTH"), (wrong, "(WRONGPASS")] {
        let error = RedisStore::connect(url).await.err().unwrap().to_string();
        assert!(error.contains("check user name and password") && error.contains(reason), "{error}");
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "without waiting for it");
}
