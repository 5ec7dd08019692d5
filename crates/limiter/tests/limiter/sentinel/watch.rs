//! Verification of Sentinels' replies, and the delay until a client follows them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::rule::{Align, FixedWindow, Rule};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{LockSettings, LockedStore, RedisClient, Retry, StoreError};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::RedisServer;

use super::fake::{FakeSentinel, Says};
use super::{connected, script_calls, settings};
use crate::support::{ask, eventually, memory, rule, store};

fn three(says: Says) -> [FakeSentinel; 3] {
    [(); 3].map(|()| FakeSentinel::start(says))
}

fn watched_by(sentinels: &[FakeSentinel]) -> tollgate_limiter::store::redis::RedisSettings {
    settings("m", sentinels.iter().map(|sentinel| sentinel.address.clone()).collect())
}

fn is_at(client: &RedisClient, server: &RedisServer) -> bool {
    let status = &client.status().nodes[0];
    status.live_connections > 0 && status.primary == Some(server.address.to_string())
}

/// All servers work all the time: no error reports that the old primary was demoted.
#[tokio::test]
async fn an_old_primary_that_takes_writes_is_abandoned() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinels = three(Says::Primary(old.port, 1));
    let client = connected(&watched_by(&sentinels)).await;
    let store = store(&client, OnStoreFailure::Deny);
    assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Redis);
    assert_eq!(script_calls(&old), 1);

    // Two Sentinels still name the old primary.
    sentinels[2].says(Says::Primary(new.port, 2));
    let took = eventually("the new primary is found", async || is_at(&client, &new)).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    let before = script_calls(&old);
    for _ in 0..50 {
        assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Redis);
    }
    assert_eq!((script_calls(&old), script_calls(&new)), (before, 50));
}

#[tokio::test]
async fn a_replica_is_not_used_even_if_sentinels_name_it() {
    let primary = RedisServer::start();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let sentinels = three(Says::Primary(primary.port, 1));
    sentinels[0].says(Says::Primary(replica.port, 9));
    sentinels[1].says(Says::Nothing);
    let client = connected(&watched_by(&sentinels)).await;
    assert!(is_at(&client, &primary));
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1)).await.source, Source::Redis);
    assert_eq!(script_calls(&replica), 0);
}

/// One Sentinel is cut off together with the old primary, and names it.
#[tokio::test]
async fn a_minority_does_not_lead_back_to_the_old_primary() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let [first, second, third] = three(Says::Primary(new.port, 2));
    let nodes = [&first, &second, &third].map(|sentinel| sentinel.address.clone());
    let client = connected(&settings("m", nodes.to_vec())).await;
    assert!(is_at(&client, &new));
    drop((first, second));
    third.says(Says::Primary(old.port, 1));
    new.query::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    eventually("the client reconnects", async || client.stats().connects.get() == 2).await;
    let verdict = ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1)).await;
    assert_eq!((verdict.source, script_calls(&old)), (Source::Redis, 0));
    assert!(is_at(&client, &new));
}

#[tokio::test]
async fn an_unknown_primary_name_is_reported() {
    let sentinels = three(Says::Unknown);
    let client = RedisClient::start(&watched_by(&sentinels)).unwrap();
    client.wait_attempted(Duration::from_secs(10)).await;
    let text = client.status().last_error().unwrap().to_owned();
    assert!(text.contains(&sentinels[0].address.port.to_string()) || text.contains("sentinel"), "{text}");
    assert!(text.contains("No such master"), "{text}");
    let primary = RedisServer::start();
    sentinels[1].says(Says::Primary(primary.port, 0));
    eventually("the primary is found once a sentinel knows it", async || is_at(&client, &primary)).await;
    assert!(client.status().last_error().is_none());
}

/// A replica has not run a call that it refused, so the call goes on to the primary.
#[tokio::test]
async fn a_call_to_a_demoted_primary_follows_to_the_new_one() {
    let old = RedisServer::start();
    let new = RedisServer::start();
    let sentinels = three(Says::Primary(old.port, 1));
    let client = connected(&watched_by(&sentinels)).await;
    let store = store(&client, OnStoreFailure::Deny);
    assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Redis);
    old.query::<()>(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]).unwrap();
    sentinels.iter().for_each(|sentinel| sentinel.says(Says::Primary(new.port, 2)));
    assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Redis);
    assert!(is_at(&client, &new));
    let failures = client.stats().failures.by_reason();
    assert!(failures.iter().all(|(kind, count)| *count == 0 || *kind == StoreError::Disconnected), "{failures:?}");
}

#[tokio::test]
async fn locked_stores_follow_as_well() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinels = three(Says::Primary(old.port, 1));
    let client = connected(&watched_by(&sentinels)).await;
    let retry = Retry::Fixed { delay: Duration::from_millis(2), tries: NonZeroU32::MAX };
    let lock = LockSettings { retry, ..LockSettings::default() };
    let locked = LockedStore::new(Arc::clone(&client), lock, memory().0, OnStoreFailure::Deny, false).unwrap();
    let hourly = Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(3_600), Align::First).unwrap());
    assert_eq!(ask(&locked, "a", &hourly).await.remaining, Some(8));
    assert_eq!(ask(&locked, "a", &hourly).await.remaining, Some(7));
    sentinels.iter().for_each(|sentinel| sentinel.says(Says::Primary(new.port, 2)));
    eventually("the new primary is found", async || is_at(&client, &new)).await;
    assert_eq!(ask(&locked, "a", &hourly).await.remaining, Some(8), "the new primary has no state");
    assert_eq!(old.query::<String>(&["GET", "window.{r.a}"]).unwrap().split(' ').next(), Some("2"));
}
