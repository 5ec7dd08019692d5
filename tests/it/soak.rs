//! Random faults for `TOLLGATE_SOAK_SECONDS` (default 30): limits hold, requests are not delayed, nothing leaks.
//! `TOLLGATE_SOAK_SEED` selects the faults.

use std::time::{Duration, Instant};

use tollgate_test_support::{ERRORS, Fault, FaultProxy, Metronome};

use crate::outage::PATHS;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Exchange, Load};
use crate::support::redis::Redis;

const RATE: f64 = 40.0;
const BURST: f64 = 10.0;

/// Pause between two requests of a client: a soak is long, not heavy.
const PACE: Duration = Duration::from_millis(25);

/// Longest duration of a request on a busy machine; faults last longer.
const MOST: Duration = Duration::from_secs(2);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Resources of a process.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    kilobytes: usize,
    redis_connections: usize,
}

impl Held {
    fn by(gateway: &Gateway, redis: &Redis) -> Self {
        let proc = format!("/proc/{}", gateway.pid());
        let status = std::fs::read_to_string(format!("{proc}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: std::fs::read_dir(format!("{proc}/fd")).unwrap().count(),
            kilobytes: line.split_whitespace().next().unwrap().parse().unwrap(),
            redis_connections: redis.info("connected_clients").parse().unwrap(),
        }
    }
}

/// One route for each `on-store-failure`, and one that only shows that Redis decides.
fn yaml(url: &str) -> String {
    let mut yaml = format!("redis: {{url: '{url}'}}\nroutes:\n");
    let routes = PATHS.map(|path| (&path[1..], RATE, BURST)).into_iter().chain([("probe", 1e6, 1e6)]);
    for (id, rate, burst) in routes {
        let policy = if id == "probe" { "local" } else { id };
        yaml.push_str(&format!(
            "  - {{id: {id}, uri: 'echo:', predicates: [Path=/{id}], filters: [{{name: RequestRateLimiter, args: \
             {{key-resolver: 'header:x-key', replenish-rate: {rate}, burst-capacity: {burst}, on-store-failure: \
             {policy}}}}}]}}\n"
        ));
    }
    yaml
}

/// Waits until Redis decides; returns the time that it took.
fn recovered(gateway: &Gateway) -> Duration {
    eventually("redis decides again", || {
        let answer = gateway.connect().request("GET", "/probe", &[("x-key", "k")], b"");
        assert_eq!(answer.status, 200);
        answer.header("x-ratelimit-degraded").is_none()
    })
}

fn is_degraded(exchange: &Exchange) -> bool {
    exchange.header("x-ratelimit-degraded").is_some()
}

#[test]
fn random_faults_exceed_no_limit_delay_no_request_and_leak_nothing() {
    let lasting = Duration::from_secs(variable("TOLLGATE_SOAK_SECONDS").unwrap_or(30));
    let seed = variable("TOLLGATE_SOAK_SEED").unwrap_or(1);
    println!("TOLLGATE_SOAK_SEED={seed}");
    let mut random = Random(seed);

    let mut redis = Redis::start();
    let proxy = FaultProxy::start(redis.address);
    let gateway = Gateway::start(&yaml(&proxy.url()));
    let load = Load::paced(&[gateway.address], 6, PATHS, PACE);
    load.more(100);
    let before = Held::by(&gateway, &redis);

    let metronome = Metronome::start();
    let (start, mut slowest, mut faults) = (Instant::now(), Duration::ZERO, 0);
    while start.elapsed() < lasting {
        let what = strike(&mut random, &mut redis, &proxy);
        std::thread::sleep(random.millis(200, 2_500));
        proxy.set(Fault::Pass);
        let back = recovered(&gateway);
        assert!(back < Duration::from_secs(4), "{what}: {back:?}, seed {seed}");
        slowest = slowest.max(back);
        faults += 1;
        std::thread::sleep(random.millis(50, 600));
    }

    eventually("nothing is left behind", || {
        let after = Held::by(&gateway, &redis);
        after.descriptors <= before.descriptors && after.redis_connections <= before.redis_connections
    });
    let after = Held::by(&gateway, &redis);
    let exchanges = load.stop();
    let longest = exchanges.iter().max_by_key(|exchange| exchange.took).unwrap();
    let (took, machine) = (longest.took, metronome.latest());
    let degraded = exchanges.iter().filter(|exchange| is_degraded(exchange)).count();
    println!(
        "{faults} faults, {} requests, {degraded} without redis, longest {took:?} (the machine's {machine:?}), slowest \
         return {slowest:?}\n{before:?}\n{after:?}",
        exchanges.len()
    );
    assert!(after.kilobytes < before.kilobytes + 30_000, "{before:?} {after:?}");
    assert!(took < MOST + machine, "{longest:?} after {:?}, seed {seed}", longest.sent - start);
    assert!(degraded > 0);
    for path in PATHS {
        let to_path: Vec<&Exchange> = exchanges.iter().filter(|exchange| exchange.path == *path).collect();
        assert_answers(path, &to_path);
        assert_bounded(path, to_path.iter().copied().filter(|exchange| !is_degraded(exchange)));
        if *path == "/local" {
            assert_bounded(path, to_path.iter().copied().filter(|exchange| is_degraded(exchange)));
        }
    }
}

/// Injects a fault, which lasts unless it is over immediately; returns its name.
fn strike(random: &mut Random, redis: &mut Redis, proxy: &FaultProxy) -> String {
    let fault = match random.below(12) {
        0 => {
            // No request is sent meanwhile: tokens spent after the save would be lost, and admitted twice.
            proxy.set(Fault::Refuse);
            eventually("no connection is open", || proxy.live() == 0);
            redis.restart_with_data();
            proxy.set(Fault::Pass);
            return "restart".into();
        }
        1 => {
            proxy.reset_connections();
            return "reset".into();
        }
        2 => {
            redis.query::<()>(&["SCRIPT", "FLUSH"]).unwrap();
            return "script flush".into();
        }
        3 => Fault::BlackHole,
        4 => Fault::Refuse,
        5 => Fault::Delay(random.millis(20, 3_000)),
        6 => Fault::HoldReplies,
        7 => Fault::Cut,
        8 => Fault::garbage(),
        9 => Fault::wrong_type(),
        10 => Fault::huge_text(),
        _ => Fault::error(ERRORS[random.below(ERRORS.len() as u64) as usize]),
    };
    let what = format!("{fault:?}");
    proxy.set(fault);
    what
}

/// Checks that every request got a response, as its policy requires.
fn assert_answers(path: &str, exchanges: &[&Exchange]) {
    for exchange in exchanges {
        let meant = match (path, exchange.status(), is_degraded(exchange)) {
            (_, 200 | 429, false) | ("/local", 200 | 429, true) | ("/allow", 200, true) => true,
            ("/deny", 503, true) => exchange.header("retry-after") == Some("1"),
            _ => false,
        };
        assert!(meant, "{exchange:?}");
    }
}

/// Checks that no time window admitted more than burst + rate × time.
fn assert_bounded<'a>(path: &str, exchanges: impl Iterator<Item = &'a Exchange>) {
    let mut admitted: Vec<&Exchange> = exchanges.filter(|exchange| exchange.status() == 200).collect();
    admitted.sort_by_key(|exchange| exchange.sent);
    // Only the start of a window matters: the admission with the largest surplus after it.
    let mut spare = f64::INFINITY;
    let Some(first) = admitted.first() else { return };
    let mut latest = first.sent;
    for (count, exchange) in admitted.iter().enumerate() {
        // The admission lies between sending and response.
        let (sent, answered) = (exchange.sent - first.sent, exchange.sent + exchange.took);
        latest = latest.max(answered);
        spare = spare.min(count as f64 - RATE * sent.as_secs_f64());
        let window = (count + 1) as f64 - spare - RATE * (latest - first.sent).as_secs_f64();
        assert!(window <= BURST + 1e-3, "{path}: {window} in a window that ends with {exchange:?}");
    }
}
