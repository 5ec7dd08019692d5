//! `leaky-bucket` over two gateways, one of which gets the replies of Redis late.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_test_support::{Fault, FaultProxy};

use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

const INTERVAL: Duration = Duration::from_millis(50);

#[test]
fn requests_of_a_gateway_with_late_replies_start_in_their_turn() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(([127, 0, 0, 1], redis.port).into());
    let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&starts);
    let upstream = Upstream::start(move |_| {
        noted.lock().unwrap().push(Instant::now());
        response(200, &[], b"")
    });
    // The timeout is long enough for two busy cores: the fallback must not decide in this test.
    let gateway = |url: &str| {
        Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1}}\nredis: {{url: '{url}', timeout: 5s}}\nroutes: [{{id: a, uri: '{}', \
             predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {{algorithm: leaky-bucket, rate: 20, \
             max-wait: 20s, max-queue: 100, key-resolver: 'header:x-key'}}}}]}}]",
            upstream.uri()
        ))
    };
    let gateways = [gateway(&redis.url()), gateway(&proxy.url())];
    proxy.set(Fault::Delay(Duration::from_millis(90)));
    std::thread::scope(|scope| {
        for gateway in &gateways {
            scope.spawn(|| {
                let mut client = gateway.connect();
                for _ in 0..8 {
                    assert_eq!(client.request("GET", "/", &[("x-key", "k")], b"").status, 200);
                }
            });
        }
    });
    let mut starts = std::mem::take(&mut *starts.lock().unwrap());
    starts.sort_unstable();
    let gaps: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    println!("gaps of {INTERVAL:?}: {gaps:?}");
    // A busy machine delays single requests, each of which shortens the next gap; without the correction most gaps are short.
    let short = gaps.iter().filter(|gap| **gap < INTERVAL * 3 / 4).count();
    assert_eq!(starts.len(), 16);
    assert!(short <= 4, "{short} gaps are short: {gaps:?}");
}
