//! Flushing of counts to a real Redis with outages.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tollgate_limiter::metering::{Counts, Dimensions, FlushSettings, Flusher, Ledger, Meter, MeterSettings, Period};
use tollgate_limiter::store::redis::RedisSettings;

use crate::support::{RedisServer, eventually};

fn meter(ledger: &Arc<Ledger>, scope: &str) -> Meter {
    let settings = MeterSettings {
        scope: scope.into(),
        route: scope.into(),
        dimensions: Dimensions { route: false, method: true, status: true },
        period: Period::Day,
        ttl: Duration::from_secs(35 * 86_400),
        hash_ids: false,
    };
    Meter::new(Arc::clone(ledger), &settings)
}

fn count(meter: &Meter, id: &str) {
    meter.count(meter.name(id.as_bytes()), "GET", 200, &Counts { requests: 1, bytes_in: 3, bytes_out: 0 });
}

fn flusher(ledger: &Arc<Ledger>, server: &RedisServer, timeout: Duration) -> Flusher {
    let settings =
        FlushSettings { every: Duration::from_millis(2), retry_queue: NonZeroUsize::new(4).unwrap(), timeout };
    let mut flusher = Flusher::new(Arc::clone(ledger), settings).unwrap();
    flusher.send_to(Some(&RedisSettings::new(server.url()))).unwrap();
    flusher
}

/// Ticks until the counts of `requests` are in Redis.
async fn landed(flusher: &mut Flusher, ledger: &Ledger, requests: u64) {
    eventually("counts arrive", async || {
        flusher.tick().await;
        ledger.status().flushed == requests
    })
    .await;
}

/// Returns the sums over all hashes, by field.
fn sums(server: &RedisServer) -> BTreeMap<String, u64> {
    let redis = &mut server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("request_counter.*").query(redis).unwrap();
    let mut sums = BTreeMap::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(redis).unwrap();
        if kind == "hash" {
            let fields: BTreeMap<String, u64> = redis::cmd("HGETALL").arg(&key).query(redis).unwrap();
            fields.into_iter().for_each(|(field, count)| *sums.entry(field).or_default() += count);
        }
    }
    sums
}

fn expected(requests: u64) -> BTreeMap<String, u64> {
    [("GET.2xx.bytes_in".to_owned(), requests * 3), ("GET.2xx.requests".to_owned(), requests)].into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_counts_are_exact_although_redis_is_stopped_and_killed_three_times() {
    const THREADS: u64 = 4;
    const EACH: u64 = 250_000;
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let ledger = Arc::new(Ledger::new(10_000));
    let mut flusher = flusher(&ledger, &server, Duration::from_millis(100));
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let flushing = tokio::spawn(async move {
        loop {
            let pause = tokio::select! {
                pause = flusher.tick() => pause,
                _ = &mut stopped => return flusher,
            };
            tokio::time::sleep(pause).await;
        }
    });
    let begun = Instant::now();
    let ended = Arc::new(AtomicBool::new(false));
    let counting: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (meter, ended) = (meter(&ledger, "r"), Arc::clone(&ended));
            std::thread::spawn(move || {
                for n in 0..EACH {
                    count(&meter, &format!("key-{}", (n * 7 + thread) % 50));
                    // Counts continue during all outages.
                    if n % 500 == 0 && !ended.load(SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            })
        })
        .collect();
    for round in 0..3 {
        let flushed = ledger.status().flushed;
        eventually("counts arrive", async || ledger.status().flushed > flushed).await;
        server.signal("STOP");
        let failed = ledger.status().failed_sends;
        eventually("batches fail", async || ledger.status().failed_sends > failed).await;
        server.signal("CONT");
        let flushed = ledger.status().flushed;
        eventually("counts arrive again", async || ledger.status().flushed > flushed).await;
        tokio::time::sleep(Duration::from_millis(7 * round)).await; // at another moment of the tick each time
        server.kill();
        eventually("batches queue", async || ledger.status().waiting_batches > 0).await;
        server.launch();
    }
    ended.store(true, SeqCst);
    counting.into_iter().for_each(|thread| thread.join().unwrap());
    stop.send(()).unwrap();
    let lost = flushing.await.unwrap().finish(Duration::from_secs(10)).await;
    let status = ledger.status();
    println!("{status:?} in {:?}", begun.elapsed());
    assert_eq!((lost, status.lost, status.overflowed), (0, 0, 0));
    assert_eq!((status.counted, status.flushed, status.cells), (THREADS * EACH, THREADS * EACH, 0));
    assert!(status.failed_sends >= 3);
    assert_eq!(sums(&server), expected(THREADS * EACH));
}

/// Redis has added a batch, but the reply is lost.
#[tokio::test]
async fn a_batch_with_a_lost_reply_is_not_added_twice() {
    let server = RedisServer::start();
    let ledger = Arc::new(Ledger::new(100));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_millis(50));
    count(&meter, "a");
    landed(&mut flusher, &ledger, 1).await;
    for rounds in 2..=6 {
        server.signal("STOP");
        count(&meter, "a");
        let failed = ledger.status().failed_sends;
        eventually("the batch is sent without a reply", async || {
            flusher.tick().await;
            ledger.status().failed_sends > failed
        })
        .await;
        server.signal("CONT");
        let sent = |sums: BTreeMap<String, u64>| sums.get("GET.2xx.requests").copied();
        eventually("redis reads the batch", async || sent(sums(&server)) == Some(rounds)).await;
        landed(&mut flusher, &ledger, rounds).await;
        assert_eq!(sums(&server), expected(rounds));
    }
}

#[tokio::test]
async fn all_counts_are_sent_in_one_pipeline_to_keys_with_an_expiry() {
    let server = RedisServer::start();
    let ledger = Arc::new(Ledger::new(1_000));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_secs(20));
    let redis = &mut server.connection();
    count(&meter, "warm");
    landed(&mut flusher, &ledger, 1).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    (0..100).for_each(|id| count(&meter, &id.to_string()));
    landed(&mut flusher, &ledger, 101).await;
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    assert!(info.contains("cmdstat_evalsha:calls=100,"), "{info}");
    let hash = |id: u32| -> String {
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(format!("request_counter.{{r.{id}}}.*")).query(&mut server.connection()).unwrap();
        keys.into_iter().min_by_key(String::len).unwrap()
    };
    let (kept, repaired) = (hash(1), hash(2));
    let ttl = |key: &str| redis::cmd("TTL").arg(key).query::<i64>(&mut server.connection()).unwrap();
    assert!((35 * 86_400 - 60..=35 * 86_400).contains(&ttl(&kept)));
    redis::cmd("PERSIST").arg(&repaired).exec(redis).unwrap();
    redis::cmd("EXPIRE").arg(&kept).arg(1_000).exec(redis).unwrap();
    (0..100).for_each(|id| count(&meter, &id.to_string()));
    flusher.tick().await;
    assert_eq!(ledger.status().flushed, 201);
    assert!(ttl(&repaired) > 35 * 86_400 - 60 && ttl(&kept) <= 1_000);
    assert_eq!(ledger.usage(), []);
}

#[tokio::test]
async fn flushed_scripts_and_foreign_keys_lose_no_other_counts() {
    let server = RedisServer::start();
    let ledger = Arc::new(Ledger::new(1_000));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_secs(20));
    let redis = &mut server.connection();
    count(&meter, "a");
    landed(&mut flusher, &ledger, 1).await;
    redis::cmd("SCRIPT").arg("FLUSH").exec(redis).unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let foreign = keys.iter().min_by_key(|key| key.len()).unwrap().replace("{r.a}", "{r.foreign}");
    redis::cmd("SET").arg(&foreign).arg("x").exec(redis).unwrap();
    for id in ["a", "foreign", "b"] {
        count(&meter, id);
    }
    flusher.tick().await;
    let status = ledger.status();
    assert_eq!((status.flushed, status.lost, status.waiting_batches, status.cells), (3, 1, 0, 0));
    assert_eq!(sums(&server), expected(3));
}

#[tokio::test]
async fn an_outage_loses_no_attribution_with_names_for_half_of_the_room() {
    let mut server = RedisServer::stopped(&[]);
    let ledger = Arc::new(Ledger::new(100));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_secs(20));
    for _ in 0..100 {
        (0..50).for_each(|id| count(&meter, &id.to_string()));
        flusher.tick().await;
    }
    assert_eq!((ledger.status().counted, ledger.status().overflowed), (5_000, 0));
    server.launch();
    landed(&mut flusher, &ledger, 5_000).await;
    assert_eq!(sums(&server), expected(5_000));
}

#[tokio::test]
async fn an_outage_has_bounded_memory_and_loses_only_attribution() {
    let mut server = RedisServer::stopped(&[]);
    let ledger = Arc::new(Ledger::new(100));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_secs(20));
    for id in 0..1_000 {
        count(&meter, &id.to_string());
        flusher.tick().await;
    }
    let status = ledger.status();
    assert!(status.waiting_batches <= 4 && status.cells <= 104, "{status:?}");
    assert_eq!((status.overflowed, status.flushed), (900, 0));
    server.launch();
    assert_eq!(flusher.finish(Duration::from_secs(20)).await, 0);
    assert_eq!(sums(&server), expected(1_000));
}

#[tokio::test]
async fn finish_has_a_deadline_and_returns_the_lost_requests() {
    let server = RedisServer::stopped(&[]);
    let ledger = Arc::new(Ledger::new(100));
    let meter = meter(&ledger, "r");
    let mut flusher = flusher(&ledger, &server, Duration::from_secs(20));
    count(&meter, "a");
    flusher.tick().await;
    count(&meter, "a");
    let begun = Instant::now();
    assert_eq!(flusher.finish(Duration::from_millis(100)).await, 2);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(ledger.status().lost, 2);
}

#[tokio::test]
async fn without_redis_counts_stay_readable_in_memory() {
    let ledger = Arc::new(Ledger::new(100));
    let meter = meter(&ledger, "r");
    let mut flusher = Flusher::new(Arc::clone(&ledger), FlushSettings::default()).unwrap();
    count(&meter, "a");
    flusher.tick().await;
    count(&meter, "a");
    let [usage] = <[_; 1]>::try_from(ledger.usage()).unwrap();
    assert!(usage.name.starts_with("request_counter.{r.a}."));
    assert_eq!(usage.fields, [("GET.2xx.bytes_in".to_owned(), 6), ("GET.2xx.requests".to_owned(), 2)]);
    assert_eq!(flusher.finish(Duration::from_secs(1)).await, 0);
}
