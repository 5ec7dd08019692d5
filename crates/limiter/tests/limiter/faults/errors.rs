//! Error replies.

use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{RedisSettings, StoreError};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{ERRORS, Fault};

use super::{Fixture, Load, MAX_RECOVERY, decide};
use crate::support::{RedisServer, eventually};

/// Returns the reason that an error is counted under, if it has one of its own.
fn kind(error: &str) -> Option<StoreError> {
    match error.split(' ').next().unwrap() {
        "LOADING" => Some(StoreError::Loading),
        "READONLY" | "MASTERDOWN" => Some(StoreError::ReadOnly),
        "BUSY" => Some(StoreError::Busy),
        "OOM" => Some(StoreError::Oom),
        "MISCONF" => Some(StoreError::Misconf),
        "NOREPLICAS" => Some(StoreError::NoReplicas),
        "NOPERM" => Some(StoreError::NoPerm),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_error_degrades_and_recovers() {
    let fixture = Fixture::start().await;
    let load = Load::start(&fixture);
    load.wait_for(60).await;
    for error in ERRORS {
        let (failures, accepted) = (fixture.failures(), fixture.proxy.accepted());
        let named = kind(error).map(|kind| (kind, fixture.failures_of(kind)));
        fixture.proxy.set(Fault::error(error));
        eventually("the fault takes effect", async || {
            fixture.failures() >= failures + 40 && fixture.proxy.struck() >= 3
        })
        .await;
        fixture.proxy.set(Fault::Pass);
        let back = fixture.recovery().await;
        let connects = fixture.proxy.accepted() - accepted;
        println!("{error:.20}: redis again after {back:?}, {connects} connections made");
        assert!(back < MAX_RECOVERY, "{error}: {back:?}");
        assert!(connects <= 10, "{error}: {connects} connections");
        if let Some((kind, before)) = named {
            assert!(fixture.failures_of(kind) > before, "{error} is not counted as {kind:?}");
        }
    }
    let worst = load.stop().await.assert_tolerated();
    println!("longest {worst:?}");
    let commands: String = fixture.server.query(&["INFO", "commandstats"]).unwrap();
    assert!(!commands.contains("script|kill"), "no scripts are killed: {commands}");
}

/// An error belongs to one call: other calls in the same write get their own replies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_error_among_many_replies_affects_one_caller() {
    let alone = |settings: &mut RedisSettings| (settings.timeout, settings.batch) = (Duration::from_secs(20), false);
    let fixture = Fixture::with_settings(RedisServer::start(), alone).await;
    let store = fixture.store(OnStoreFailure::Deny);
    for error in ["OOM for a test", "BUSY for a test", "ERR for a test", "TRYAGAIN for a test"] {
        fixture.proxy.once(Fault::error(error));
        let asking: Vec<_> = (0..100)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { decide(&store, &format!("k{n}")).await })
            })
            .collect();
        let mut without = 0;
        for asked in asking {
            without += usize::from(asked.await.unwrap() == Source::Fallback);
        }
        assert!(without <= 1, "{error}: {without} of 100 without redis");
        assert_eq!(fixture.proxy.struck(), 1);
    }
}
