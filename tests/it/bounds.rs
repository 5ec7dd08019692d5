//! Two gateways, 64 clients, one key: admissions match the formula of each algorithm, from above and below.

use std::time::{Duration, Instant};

use crate::support::gateway::Gateway;
use crate::support::load::{Exchange, Load, statuses};
use crate::support::redis::Redis;

/// Number of admissions of an algorithm, by seconds.
struct Formula {
    /// Maximum in any interval.
    any: fn(f64) -> f64,
    /// Maximum since the first request of the key.
    first: fn(f64) -> f64,
    /// Tokens available by the time of a denial.
    least: fn(f64) -> f64,
}

/// Longest time that a place of a window stays free while 64 clients want it: two busy cores may let all of them sleep.
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

/// Returns the number of half-second windows that start one after another within `seconds`.
fn windows(seconds: f64, each: f64) -> f64 {
    (seconds / each).floor() + 1.0
}

#[test]
fn fixed_window() {
    let formula = Formula {
        // The end of one window and the start of the next.
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
    // A window's limit immediately; then, with the previous window used up, one limit per window time. The first
    // window lasts up to its full time.
    let most = |seconds| 100.0 + 100.0 * seconds / 0.5;
    let formula = Formula { any: most, first: most, least: |seconds| 100.0 * (seconds - NOTICED) / 0.5 - 1.0 };
    check("algorithm: sliding-window-counter, limit: 100, window: 500ms", &formula);
}

#[test]
fn leaky_bucket() {
    // Requests are 20 ms apart; admitted ones were delayed, so that no burst adds to them.
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

/// One second of load on a limiter with these arguments, shared by two gateways.
fn check(arguments: &str, formula: &Formula) {
    let redis = Redis::start();
    // The timeout is long enough for two busy cores: the fallback must not decide in this test.
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
        assert!(asked > 0.0 && asked + known == all, "decided in redis by each gateway: {asked} and {known} of {all}");
    }
}

/// The time of a decision is unknown; the times of sending and of the response are known. In order, the n-th admission
/// lies between the n-th sending of an admitted request and the n-th response.
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
