//! Two gateways, 64 clients, one key: what each algorithm's formula admits, and no less.

use std::time::{Duration, Instant};

use crate::support::gateway::Gateway;
use crate::support::load::{Exchange, Load, statuses};
use crate::support::redis::Redis;

/// How many an algorithm admits, by seconds.
struct Formula {
    /// Most in any interval.
    any: fn(f64) -> f64,
    /// Most since the key's first request.
    first: fn(f64) -> f64,
    /// What was there by the time at which somebody was denied.
    least: fn(f64) -> f64,
}

/// How long a place of a window may stay free while 64 clients want it: two busy cores let them all sleep.
const NOTICED: f64 = 0.1;

#[test]
fn token_bucket() {
    check("replenish-rate: 50, burst-capacity: 100", &BUCKET);
}

#[test]
fn gcra() {
    check("algorithm: gcra, replenish-rate: 50, burst-capacity: 100", &BUCKET);
}

const BUCKET: Formula = Formula { any: bucket, first: bucket, least: |seconds| bucket(seconds) - 1.0 };

fn bucket(seconds: f64) -> f64 {
    100.0 + 50.0 * seconds
}

/// Windows of half a second that begin one after another in so many seconds.
fn windows(seconds: f64, each: f64) -> f64 {
    (seconds / each).floor() + 1.0
}

#[test]
fn fixed_window() {
    let formula = Formula {
        // The end of one window and the beginning of the next.
        any: |seconds| 100.0 * (windows(seconds, 0.5) + 1.0),
        first: |seconds| 100.0 * windows(seconds, 0.5),
        least: |seconds| 100.0 * windows(seconds, 0.5 + NOTICED),
    };
    check("algorithm: fixed-window, limit: 100, window: 500ms", &formula);
}

#[test]
fn sliding_window_log() {
    let most = |seconds| 100.0 * windows(seconds, 0.5);
    let formula = Formula { any: most, first: most, least: |seconds| 100.0 * windows(seconds, 0.5 + NOTICED) };
    check("algorithm: sliding-window-log, limit: 100, window: 500ms", &formula);
}

#[test]
fn sliding_window_counter() {
    // A window's limit at once; then, while the window before was used up, a limit over a window's time. The first
    // window lasts for up to its whole time.
    let most = |seconds| 100.0 + 100.0 * seconds / 0.5;
    let formula = Formula { any: most, first: most, least: |seconds| 100.0 * (seconds - NOTICED) / 0.5 - 1.0 };
    check("algorithm: sliding-window-counter, limit: 100, window: 500ms", &formula);
}

#[test]
fn leaky_bucket() {
    // Turns are 20 ms apart; those who were admitted waited for theirs, so that no burst comes on top.
    let most = |seconds| 1.0 + 50.0 * seconds;
    let formula = Formula { any: most, first: most, least: |seconds| 50.0 * (seconds - NOTICED) };
    check("algorithm: leaky-bucket, rate: 50, max-wait: 10s, max-queue: 10", &formula);
}

#[test]
fn quota() {
    check("algorithm: quota, allowance: 120", &Formula { any: |_| 120.0, first: |_| 120.0, least: |_| 120.0 });
}

#[test]
fn three_rules() {
    let most = |seconds: f64| bucket(seconds).min(120.0).min(100.0 * windows(seconds, 0.5));
    let least = |seconds: f64| (bucket(seconds) - 1.0).min(120.0).min(100.0 * windows(seconds, 0.5 + NOTICED));
    check(
        "limits: [{name: rate, replenish-rate: 50, burst-capacity: 100}, {name: stock, algorithm: quota, allowance: 120}, \
         {name: log, algorithm: sliding-window-log, limit: 100, window: 500ms}]",
        &Formula { any: most, first: most, least },
    );
}

/// A second of load on a limiter of these arguments, which two gateways share.
fn check(arguments: &str, formula: &Formula) {
    let redis = Redis::start();
    // A timeout that two busy cores keep: here nothing may be decided without Redis.
    let yaml = format!(
        "redis: {{url: '{}', timeout: 5s}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [\
         {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}]",
        redis.url()
    );
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let load = Load::start(&gateways.each_ref().map(|gateway| gateway.address), 64, &["/a"]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1_250) {
        load.more(64);
    }
    let exchanges = load.stop();
    assert!(exchanges.iter().all(|exchange| matches!(exchange.status(), 200 | 429)), "{:?}", statuses(&exchanges));
    assert_bounds(&exchanges, formula);
    for gateway in &gateways {
        let by = |source| gateway.metric("tollgate_limiter_decisions_total", &[source]);
        let all = gateway.metric("tollgate_limiter_decisions_total", &[]);
        let [asked, known] = [by("source=\"redis\""), by("source=\"denial-cache\"")];
        assert!(asked > 0.0 && asked + known == all, "each gateway knows from redis: {asked} and {known} of {all}");
    }
}

/// Nobody saw the moments at which requests were decided, but when they were sent and answered. In order, the n-th
/// admission was between the n-th to be sent of those that were admitted and the n-th to be answered.
fn assert_bounds(exchanges: &[Exchange], formula: &Formula) {
    let origin = exchanges.iter().map(|exchange| exchange.sent).min().unwrap();
    let seconds = |at: Instant| at.duration_since(origin).as_secs_f64();
    let sorted = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times
    };
    let of = |status: u16| exchanges.iter().filter(move |exchange| exchange.status() == status);
    let sent = sorted(of(200).map(|exchange| seconds(exchange.sent)).collect());
    let answered = sorted(of(200).map(|exchange| seconds(exchange.sent + exchange.took)).collect());
    let admitted = sent.len() as f64;
    let denied_last = of(429).map(|exchange| seconds(exchange.sent)).fold(0.0, f64::max);
    let (longest, shortest) = (answered[answered.len() - 1] - sent[0], denied_last - answered[0]);
    let (most, least) = ((formula.first)(longest), (formula.least)(shortest));
    println!(
        "{admitted} of {} admitted: at least {least:.1} were there in {shortest:.3} s, at most {most:.1} in {longest:.3} s",
        exchanges.len()
    );
    assert!(admitted <= most, "{admitted} of {most}");
    assert!(admitted >= least.floor(), "{admitted} of {least}");
    for (first, from) in sent.iter().enumerate() {
        for (count, to) in (1u32..).zip(&answered[first..]) {
            let most = (formula.any)(to - from);
            assert!(f64::from(count) <= most, "{count} of {most} from {from} s to {to} s");
        }
    }
}
