//! Several gateways that lose one Redis.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_test_support::{Fault, PATIENCE};

use super::{BUDGET, Fixture, LIMIT, Load, MAX_RECOVERY, MAX_WAIT, client};
use crate::model::number;

const GATEWAYS: u32 = 3;

/// The three gateways know their number. Together they admit one limit, and each at most a burst in addition. The outage
/// lasts `TOLLGATE_BLACK_HOLE_SECONDS`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_without_redis_admit_their_shares_of_a_limit() {
    let lasting = Duration::from_secs(number("TOLLGATE_BLACK_HOLE_SECONDS").unwrap_or(5));
    let fixture = Fixture::start().await;
    let ended = Arc::<AtomicBool>::default();
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        let settings = RedisSettings { timeout: BUDGET, ..RedisSettings::new(fixture.proxy.url()) };
        let redis = RedisClient::start(&settings).unwrap();
        assert!(redis.wait_connected(PATIENCE).await);
        let local = Arc::new(MemoryStore::new(NonZeroUsize::new(10).unwrap()));
        let store = RedisStore::new(redis, local, OnStoreFailure::Local);
        let store = store.gateways(NonZeroU32::new(GATEWAYS).unwrap());
        gateways.push(tokio::spawn(client("shared", store, Arc::clone(&ended), Arc::default())));
    }
    let load = Load::start(&fixture);
    load.wait_for(60).await;
    fixture.proxy.set(Fault::BlackHole);
    let begin = Instant::now();
    tokio::time::sleep(lasting).await;
    fixture.proxy.set(Fault::Pass);
    let end = Instant::now();
    let back = fixture.recovery().await;
    ended.store(true, SeqCst);
    load.stop().await.assert_tolerated();
    let (mut asked, mut admitted, mut last) = (0, 0, end);
    for gateway in gateways {
        for entry in gateway.await.unwrap().into_iter().filter(|entry| entry.sent >= begin && entry.sent <= end) {
            assert!(entry.answered - entry.sent < MAX_WAIT, "{entry:?}");
            asked += 1;
            admitted += u64::from(entry.verdict.is_allowed());
            last = last.max(entry.answered);
        }
    }
    let (rate, burst) = LIMIT;
    let (long, parts) = ((last - begin).as_secs_f64(), burst * u64::from(GATEWAYS));
    let most = rate as f64 * long + parts as f64;
    println!(
        "{admitted} of {asked} admitted by {GATEWAYS} gateways in {long:.1} s: {most:.0} are; back after {back:?}"
    );
    assert!(admitted as f64 <= most, "{admitted} of {asked}, {most} at most");
    assert!(admitted as f64 >= rate as f64 * lasting.as_secs_f64() / 2.0, "they keep admitting: {admitted}");
    assert!(back < MAX_RECOVERY, "{back:?}");
}
