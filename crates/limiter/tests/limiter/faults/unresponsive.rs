//! A Redis that is slow, or does not reply.

use std::time::{Duration, Instant};

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Fault;

use super::{Fixture, LONG, MAX_RECOVERY, MAX_WAIT, decide, resident};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_redis_costs_the_timeout_and_no_more() {
    let fixture = Fixture::start().await;
    fixture.run_fault("slow", Fault::Delay(LONG), LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_slower_than_usual_still_decides() {
    let fixture = Fixture::with_budget(Duration::from_secs(10)).await;
    fixture.proxy.set(Fault::Delay(Duration::from_millis(50)));
    let store = fixture.store(OnStoreFailure::Deny);
    let start = Instant::now();
    let all: Vec<_> = (0..50).map(|n| (store.clone(), n)).collect();
    let all = all.into_iter().map(|(store, n)| tokio::spawn(async move { decide(&store, &format!("k{n}")).await }));
    for source in all.collect::<Vec<_>>() {
        assert_eq!(source.await.unwrap(), Source::Redis);
    }
    println!("50 decisions of 50 ms each, side by side: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_millis(50 * 25), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_is_survived() {
    let fixture = Fixture::start().await;
    fixture.run_fault("black hole", Fault::BlackHole, LONG).await;
}

/// A flood while the breaker is closed, then one while it is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_queues_for_a_black_hole() {
    let fixture = Fixture::start().await;
    let store = fixture.store(OnStoreFailure::Local);
    decide(&store, "k").await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (tasks_before, memory_before) = (tasks(), resident());
    fixture.proxy.set(Fault::BlackHole);
    for flood in 0..3 {
        let asking: Vec<_> = (0..5_000)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    let start = Instant::now();
                    let source = decide(&store, &format!("k{}", n % 100)).await;
                    (source, start.elapsed())
                })
            })
            .collect();
        let mut worst = Duration::ZERO;
        for asked in asking {
            let (source, took) = asked.await.unwrap();
            assert_eq!(source, Source::Fallback);
            worst = worst.max(took);
        }
        let sockets = fixture.sockets();
        println!("flood {flood}: longest {worst:?}, {sockets} connections");
        assert!(worst < MAX_WAIT, "{worst:?}");
        // One closed connection, and one attempt to replace it.
        assert!(sockets <= 2, "{sockets} connections");
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    eventually("no call waits any more", async || tasks() <= tasks_before + 1).await;
    let grown = resident().saturating_sub(memory_before);
    println!("memory grew by {} KiB", grown / 1_024);
    assert!(grown < 64 << 20, "{grown} bytes");
    fixture.proxy.set(Fault::Pass);
    let back = fixture.recovery().await;
    println!("redis again after {back:?}");
    assert!(back < MAX_RECOVERY, "{back:?}");
}
