//! Connections that are refused, reset or closed.

use std::time::{Duration, Instant};

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Fault, FaultProxy};

use super::{BUDGET, LONG, Load, SOON, Stage, decide};
use crate::support::{RedisServer, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_are_survived() {
    let stage = Stage::start().await;
    stage.bear("refused", Fault::Refuse, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_replies_are_survived() {
    let stage = Stage::start().await;
    stage.bear("cut", Fault::Cut, Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatedly_reset_connections_are_replaced() {
    let stage = Stage::start().await;
    let load = Load::start(&stage);
    for _ in 0..5 {
        load.more(30).await;
        let connects = stage.client.status().connects;
        stage.proxy.reset_connections();
        eventually("it connects again", async || stage.client.status().connects > connects).await;
    }
    println!("reset: redis again after {:?}", stage.recovery().await);
    let worst = load.stop().await.assert_bearable();
    println!("reset five times: longest {worst:?}");
    assert!(stage.proxy.accepted() <= 8, "{}: no connection is made in vain", stage.proxy.accepted());
}

/// Without a listener a decision takes microseconds.
#[tokio::test]
async fn an_open_breaker_decides_at_once() {
    let stage = Stage::start().await;
    let store = stage.store(OnStoreFailure::Local);
    stage.proxy.set(Fault::Refuse);
    eventually("the loss is noticed", async || stage.client.status().breaker() == BreakerState::Open).await;
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
    eventually("nobody listens", async || tokio::net::TcpStream::connect(proxy.address).await.is_err()).await;
    let client = RedisClient::start(&RedisSettings::new(proxy.url())).unwrap();
    let stage = Stage { server, proxy, client };
    let store = stage.store(OnStoreFailure::Local);
    for _ in 0..20 {
        assert_eq!(decide(&store, "k").await, Source::Fallback);
    }
    eventually("it says so", async || stage.client.status().last_error().is_some()).await;
    stage.proxy.set(Fault::Pass);
    let back = stage.recovery().await;
    println!("refused from the start: redis after {back:?}");
    assert!(back < SOON, "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_loads_its_data_decides_afterwards() {
    let slowly = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let mut stage = Stage::before(RedisServer::start_with(&slowly), BUDGET).await;
    let fill = "for i = 1, 1000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end";
    stage.server.query::<()>(&["EVAL", fill, "0"]).unwrap();
    let load = Load::start(&stage);
    load.more(60).await;
    stage.proxy.set(Fault::Refuse);
    eventually("nobody asks", async || stage.proxy.live() == 0).await;
    stage.proxy.set(Fault::Pass);
    tokio::task::block_in_place(|| stage.server.restart_with_data());
    let back = stage.recovery().await;
    let worst = load.stop().await.assert_bearable();
    println!("loading: longest {worst:?}, redis {back:?} after it was ready");
    assert!(stage.client.status().last_error().is_none() && back < SOON, "{back:?}");
}

#[tokio::test]
async fn a_redis_at_maxclients_decides_once_it_accepts_connections() {
    let stage = Stage::start().await;
    let mut other = stage.server.connection();
    let mut room_for =
        |clients: u32| redis::cmd("CONFIG").arg(&["SET", "maxclients"]).arg(clients).exec(&mut other).unwrap();
    room_for(1);
    stage.proxy.reset_connections();
    eventually("it says so", async || stage.client.status().last_error().is_some()).await;
    assert_eq!(decide(&stage.store(OnStoreFailure::Local), "k").await, Source::Fallback);
    room_for(100);
    let back = stage.recovery().await;
    println!("no room: redis again after {back:?}");
    assert!(back < SOON, "{back:?}");
}
