//! Connections that are refused, reset or closed.

use std::time::{Duration, Instant};

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Fault, FaultProxy};

use super::{BUDGET, Fixture, LONG, Load, MAX_RECOVERY, decide};
use crate::support::{RedisServer, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_are_survived() {
    let fixture = Fixture::start().await;
    fixture.run_fault("refused", Fault::Refuse, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_replies_are_survived() {
    let fixture = Fixture::start().await;
    fixture.run_fault("cut", Fault::Cut, Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatedly_reset_connections_are_replaced() {
    let fixture = Fixture::start().await;
    let load = Load::start(&fixture);
    for _ in 0..5 {
        load.wait_for(30).await;
        let connects = fixture.client.stats().connects.get();
        fixture.proxy.reset_connections();
        eventually("the client reconnects", async || fixture.client.stats().connects.get() > connects).await;
    }
    println!("reset: redis again after {:?}", fixture.recovery().await);
    let worst = load.stop().await.assert_tolerated();
    println!("reset five times: longest {worst:?}");
    assert!(fixture.proxy.accepted() <= 8, "{}: no connection is made in vain", fixture.proxy.accepted());
}

/// Without a listener a decision takes microseconds.
#[tokio::test]
async fn an_open_breaker_decides_at_once() {
    let fixture = Fixture::start().await;
    let store = fixture.store(OnStoreFailure::Local);
    fixture.proxy.set(Fault::Refuse);
    eventually("the loss is noticed", async || fixture.client.status().breaker() == BreakerState::Open).await;
    let mut took = Vec::new();
    for _ in 0..2_000 {
        let start = Instant::now();
        assert_eq!(decide(&store, "k").await, Source::Fallback);
        took.push(start.elapsed());
    }
    took.sort();
    let (median, late) = (took[1_000], took[1_980]);
    println!("without redis: median {median:?}, p99 {late:?}");
    assert!(median < Duration::from_millis(5), "{median:?}");
}

#[tokio::test]
async fn a_redis_that_refuses_connections_at_start_is_found_later() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address);
    proxy.set(Fault::Refuse);
    eventually("no server listens", async || tokio::net::TcpStream::connect(proxy.address).await.is_err()).await;
    let client = RedisClient::start(&RedisSettings::new(proxy.url())).unwrap();
    let fixture = Fixture { server, proxy, client };
    let store = fixture.store(OnStoreFailure::Local);
    for _ in 0..20 {
        assert_eq!(decide(&store, "k").await, Source::Fallback);
    }
    eventually("the error is reported", async || fixture.client.status().last_error().is_some()).await;
    fixture.proxy.set(Fault::Pass);
    let back = fixture.recovery().await;
    println!("refused from the start: redis after {back:?}");
    assert!(back < MAX_RECOVERY, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_loads_its_data_decides_afterwards() {
    let slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let mut fixture = Fixture::with_server(RedisServer::start_with(&slowly), BUDGET).await;
    let fill = "for i = 1, 1000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end";
    fixture.server.query::<()>(&["EVAL", fill, "0"]).unwrap();
    let load = Load::start(&fixture);
    load.wait_for(60).await;
    fixture.proxy.set(Fault::Refuse);
    eventually("no request is sent", async || fixture.proxy.live() == 0).await;
    fixture.proxy.set(Fault::Pass);
    tokio::task::block_in_place(|| fixture.server.restart_with_data());
    let back = fixture.recovery().await;
    let worst = load.stop().await.assert_tolerated();
    println!("loading: longest {worst:?}, redis {back:?} after it was ready");
    assert!(fixture.client.status().last_error().is_none() && back < MAX_RECOVERY, "{back:?}");
}

#[tokio::test]
async fn a_redis_at_maxclients_decides_once_it_accepts_connections() {
    let fixture = Fixture::start().await;
    let mut other = fixture.server.connection();
    let mut room_for =
        |clients: u32| redis::cmd("CONFIG").arg(&["SET", "maxclients"]).arg(clients).exec(&mut other).unwrap();
    room_for(1);
    fixture.proxy.reset_connections();
    eventually("the error is reported", async || fixture.client.status().last_error().is_some()).await;
    assert_eq!(decide(&fixture.store(OnStoreFailure::Local), "k").await, Source::Fallback);
    room_for(100);
    let back = fixture.recovery().await;
    println!("no room: redis again after {back:?}");
    assert!(back < MAX_RECOVERY, "{back:?}");
}
