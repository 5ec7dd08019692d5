//! Error replies.

use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{RedisSettings, StoreError};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{ERRORS, Fault};

use super::{Load, SOON, Stage, decide};
use crate::support::{RedisServer, eventually};

/// Reason that an error is counted under, if it has one of its own.
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
    let stage = Stage::start().await;
    let load = Load::start(&stage);
    load.more(60).await;
    for error in ERRORS {
        let (failures, accepted) = (stage.failures(), stage.proxy.accepted());
        let named = kind(error).map(|kind| (kind, stage.failures_of(kind)));
        stage.proxy.set(Fault::error(error));
        eventually("it is felt", async || stage.failures() >= failures + 40 && stage.proxy.struck() >= 3).await;
        stage.proxy.set(Fault::Pass);
        let back = stage.recovery().await;
        let connects = stage.proxy.accepted() - accepted;
        println!("{error:.20}: redis again after {back:?}, {connects} connections made");
        assert!(back < SOON, "{error}: {back:?}");
        assert!(connects <= 10, "{error}: {connects} connections");
        if let Some((kind, before)) = named {
            assert!(stage.failures_of(kind) > before, "{error} is not counted as {kind:?}");
        }
    }
    let worst = load.stop().await.assert_bearable();
    println!("longest {worst:?}");
    let commands: String = stage.server.query(&["INFO", "commandstats"]).unwrap();
    assert!(!commands.contains("script|kill"), "no scripts are killed: {commands}");
}

/// An error belongs to one call: other calls in the same write get their own replies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_error_among_many_replies_affects_one_caller() {
    let alone = |settings: &mut RedisSettings| (settings.timeout, settings.batch) = (Duration::from_secs(20), false);
    let stage = Stage::before_with(RedisServer::start(), alone).await;
    let store = stage.store(OnStoreFailure::Deny);
    for error in ["OOM for a test", "BUSY for a test", "ERR for a test", "TRYAGAIN for a test"] {
        stage.proxy.once(Fault::error(error));
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
        assert_eq!(stage.proxy.struck(), 1);
    }
}
