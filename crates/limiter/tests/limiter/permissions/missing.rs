//! Permissions that are missing, or that stand for others.

use tollgate_limiter::metering::Counts;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{BreakerState, StoreError};
use tollgate_limiter::verdict::Source;

use super::{flusher, grant, metering, refused, rules, server_for};
use crate::support::{ask, connected, eventually, store};

#[tokio::test]
async fn a_user_may_load_scripts_instead_of_sending_them() {
    let (server, settings) = server_for(&["gcra", "RequestCounter"]);
    grant(&server, &["-eval", "+script|load"]);
    let client = connected(&settings).await;
    let store = store(&client, OnStoreFailure::Deny);
    assert_eq!(ask(&store, "k", &rules().remove(1).1).await.source, Source::Redis);
    let (ledger, meter) = metering();
    let mut flusher = flusher(&ledger, &settings);
    meter.count(meter.name(b"k"), "GET", 200, &Counts { requests: 1, bytes_in: 3, bytes_out: 4 });
    eventually("counts arrive", async || {
        flusher.tick().await;
        ledger.status().flushed == 1
    })
    .await;
    assert_eq!((client.status().breaker(), refused(&server)), (BreakerState::Closed, ["eval".to_owned()].into()));
}

/// Forbidden, granted, and partly forbidden: never treated as a server that is down.
#[tokio::test]
async fn missing_permissions_are_reported_until_granted() {
    let (server, settings) = server_for(&["gcra"]);
    grant(&server, &["-script", "-evalsha"]);
    let client = connected(&settings).await;
    let store = store(&client, OnStoreFailure::Deny);
    let gcra = rules().remove(1).1;
    assert_eq!(ask(&store, "k", &gcra).await.source, Source::Fallback);
    let failures = |kind| client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1;
    assert_eq!((failures(StoreError::NoPerm), failures(StoreError::Disconnected)), (1, 0));
    grant(&server, &["+script|load", "+evalsha"]);
    eventually("redis decides", async || ask(&store, "k", &gcra).await.source == Source::Redis).await;
    assert_eq!((client.stats().connects.get(), failures(StoreError::Disconnected)), (1, 0));
}

/// A missing permission of one limiter must not send the others to the fallback.
#[tokio::test]
async fn a_missing_permission_of_one_limiter_does_not_affect_others() {
    let (server, settings) = server_for(&["gcra", "notices"]);
    let client = connected(&settings).await;
    let store = store(&client, OnStoreFailure::Deny);
    let [(_, bucket), (_, gcra), ..] = &rules()[..] else { panic!("there are more errors") };
    for _ in 0..20 {
        assert_eq!(ask(&store, "k", bucket).await.source, Source::Fallback);
    }
    assert_eq!(ask(&store, "k", gcra).await.source, Source::Redis);
    assert_eq!(client.status().breaker(), BreakerState::Closed);
    drop(server);
}

#[tokio::test]
async fn revoked_credentials_are_reported_as_such() {
    let (server, settings) = server_for(&["gcra"]);
    let client = connected(&settings).await;
    let store = store(&client, OnStoreFailure::Deny);
    let gcra = rules().remove(1).1;
    assert_eq!(ask(&store, "k", &gcra).await.source, Source::Redis);
    server.query::<()>(&["ACL", "DELUSER", "gateway"]).unwrap();
    eventually("the error is reported", async || {
        client.status().last_error().is_some_and(|text| text.contains("WRONGPASS"))
    })
    .await;
    let failures = |kind| client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1;
    let before = failures(StoreError::Disconnected);
    assert_eq!(ask(&store, "k", &gcra).await.source, Source::Fallback);
    assert_eq!((failures(StoreError::Auth), failures(StoreError::Disconnected)), (1, before));
}
