//! Limits shared by several gateways.

use std::time::Instant;

use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::redis::Redis;

/// `/a` with one limiter by `X-Key`, with buckets in `redis`.
fn yaml(redis: &Redis, arguments: &str) -> String {
    // The timeout is long enough for two busy cores: the fallback must not decide in this test.
    format!(
        "redis: {{url: '{}', timeout: 5s}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [\
         {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', {arguments}}}}}]}}]",
        redis.url()
    )
}

#[test]
fn two_gateways_admit_exactly_burst_and_rate() {
    const RATE: f64 = 50.0;
    const BURST: f64 = 100.0;
    let redis = Redis::start();
    let yaml = yaml(&redis, "replenish-rate: 50, burst-capacity: 100");
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let addresses = gateways.each_ref().map(|gateway| gateway.address);
    let start = Instant::now();
    let load = Load::start(&addresses, 64, &["/a"]);
    while start.elapsed().as_secs_f64() < 2.0 {
        load.more(64);
    }
    let exchanges = load.stop();
    let seconds = start.elapsed().as_secs_f64();
    let admitted = exchanges.iter().filter(|exchange| exchange.status() == 200).count() as f64;
    let most = BURST + RATE * seconds;
    println!("{admitted} of {} admitted in {seconds:.3} s; at most {most:.1} may be", exchanges.len());
    assert!(exchanges.iter().all(|exchange| matches!(exchange.status(), 200 | 429)), "{:?}", statuses(&exchanges));
    assert!(admitted <= most, "{admitted} of {most}");
    assert!(admitted >= BURST + RATE * (seconds - 0.5), "no request was denied wrongly: {admitted} of {most}");
    for gateway in &gateways {
        let by = |source| gateway.metric("tollgate_limiter_decisions_total", &[source]);
        let all = gateway.metric("tollgate_limiter_decisions_total", &[]);
        let [asked, known] = [by("source=\"redis\""), by("source=\"denial-cache\"")];
        assert!(asked > 0.0 && asked + known == all, "decided in redis by each gateway: {asked} and {known} of {all}");
    }
}

/// Reimplementation of Spring Cloud Gateway's script: whole seconds, both keys are written even on a denial.
const SPRING: &str = "
local rate, capacity, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local now = tonumber(ARGV[3]) or tonumber(redis.call('TIME')[1])
local before = tonumber(redis.call('GET', KEYS[1])) or capacity
local at = tonumber(redis.call('GET', KEYS[2])) or 0
local level = math.min(capacity, before + math.max(0, now - at) * rate)
local allowed = level >= requested
if allowed then level = level - requested end
local ttl = math.floor(2 * capacity / rate)
if ttl > 0 then
  redis.call('SETEX', KEYS[1], ttl, level)
  redis.call('SETEX', KEYS[2], ttl, now)
end
return {allowed and 1 or 0, level}
";

#[test]
fn spring_and_the_gateway_on_one_bucket_admit_burst_rate_and_the_refill_of_a_second() {
    const RATE: f64 = 50.0;
    const BURST: f64 = 100.0;
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "replenish-rate: 50, burst-capacity: 100"));
    let [tokens, timestamp] = ["tokens", "timestamp"].map(|word| format!("request_rate_limiter.{{a.k}}.{word}"));
    let call = ["EVAL", SPRING, "2", &tokens, &timestamp, "50", "100", "", "1"];
    let start = Instant::now();
    let (ours, replies) = std::thread::scope(|scope| {
        let spring = scope.spawn(|| redis.cli(&[&["--raw", "-r", "1500", "-i", "0.002"][..], &call].concat()));
        let (mut client, mut ours) = (gateway.connect(), 0);
        while !spring.is_finished() {
            ours += u32::from(client.request("GET", "/a", &[("x-key", "k")], b"").status == 200);
        }
        (ours, spring.join().unwrap())
    });
    let seconds = start.elapsed().as_secs_f64();
    let springs = replies.split_ascii_whitespace().step_by(2).filter(|allowed| *allowed == "1").count() as f64;
    let most = BURST + RATE * seconds + RATE;
    println!("{ours} by the gateway and {springs} by Spring in {seconds:.3} s; at most {most:.1} may be");
    assert!(ours > 0 && springs > 0.0, "both take part: {ours} and {springs}");
    assert!(f64::from(ours) + springs <= most, "{ours} and {springs} of {most}");
    assert!(f64::from(ours) + springs >= BURST + RATE * (seconds - 2.0), "{ours} and {springs} in {seconds} s");
}

#[test]
fn buckets_are_named_and_written_as_spring_writes_them() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "replenish-rate: 2, burst-capacity: 60"));
    assert_eq!(gateway.connect().request("GET", "/a", &[("x-key", "alice")], b"").status, 200);
    let mut keys: Vec<String> = redis.cli(&["--raw", "KEYS", "*"]).lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["request_rate_limiter.{a.alice}.timestamp", "request_rate_limiter.{a.alice}.tokens"]);
    for id in ["dGVzdA==", "a+b|c d", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl", &"x".repeat(2_000)]
    {
        assert_eq!(gateway.connect().request("GET", "/a", &[("x-key", id)], b"").status, 200);
        assert_eq!(redis.cli(&["EXISTS", &format!("request_rate_limiter.{{a.{id}}}.tokens")]), "1", "{id}");
    }
    let left: f64 = redis.cli(&["GET", &keys[1]]).parse().unwrap();
    assert!((59.0..60.0).contains(&left), "a number that Spring's script reads: {left}");
    let now: f64 = redis.cli(&["--raw", "TIME"]).lines().next().unwrap().parse().unwrap();
    let stamp: f64 = redis.cli(&["GET", &keys[0]]).parse().unwrap();
    assert!((now - stamp).abs() < 30.0, "unix seconds: {stamp} at {now}");
    for key in &keys {
        let seconds: i64 = redis.cli(&["TTL", key]).parse().unwrap();
        assert!((30..=60).contains(&seconds), "as long as two bucketfuls flow: {key} {seconds}");
    }
}

#[test]
fn a_key_cannot_leave_its_hash_tag_or_meet_another() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "replenish-rate: 1, burst-capacity: 1"));
    let long = "x".repeat(5000);
    for key in ["a}{b", "*", "#a%7D%7Bb", "k\"'\\", &long] {
        let statuses = [200, 429].map(|_| gateway.connect().request("GET", "/a", &[("x-key", key)], b"").status);
        assert_eq!(statuses, [200, 429], "{key:.20}");
    }
    let keys = redis.cli(&["--raw", "KEYS", "*"]);
    assert_eq!(keys.lines().count(), 10, "{keys}");
    for key in keys.lines() {
        assert!(key.starts_with("request_rate_limiter.{a.") && key.len() < 200, "{key}");
        assert_eq!((key.matches('{').count(), key.matches('}').count()), (1, 1), "{key}");
    }
}

#[test]
fn two_limiters_on_a_route_have_a_bucket_each() {
    let redis = Redis::start();
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [\
         {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: 100}}}}, \
         {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', replenish-rate: 1, burst-capacity: 50}}}}]}}]",
        redis.url()
    ));
    let answer = gateway.connect().request("GET", "/a", &[("x-key", "k")], b"");
    assert_eq!(answer.all("x-ratelimit-remaining"), ["99", "49"]);
    let left: f64 = redis.cli(&["GET", "request_rate_limiter.{a.k}.tokens"]).parse().unwrap();
    assert!((99.0..100.0).contains(&left), "the first is Spring's own: {left}");
    assert_eq!(redis.cli(&["DBSIZE"]), "4");
}

#[test]
fn a_decision_is_one_call_of_the_loaded_script() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "replenish-rate: 1, burst-capacity: 50"));
    let mut client = gateway.connect();
    client.request("GET", "/a", &[("x-key", "warm")], b"");
    redis.cli(&["CONFIG", "RESETSTAT"]);
    for _ in 0..50 {
        client.request("GET", "/a", &[("x-key", "k")], b"");
    }
    let stats = redis.cli(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:calls=50,"), "{stats}");
    for unwanted in ["cmdstat_eval:", "cmdstat_ping:", "cmdstat_script|load:", "cmdstat_client", "cmdstat_hello:"] {
        assert!(!stats.contains(unwanted), "{unwanted} {stats}");
    }
}

#[test]
fn a_flush_of_scripts_under_load_is_invisible_and_charges_each_request_once() {
    let redis = Redis::start();
    let gateway = Gateway::start(&yaml(&redis, "replenish-rate: 1, burst-capacity: 1000000"));
    let start = Instant::now();
    let load = Load::start(&[gateway.address], 8, &["/a"]);
    for _ in 0..10 {
        load.more(50);
        assert_eq!(redis.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
    load.more(50);
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    assert!(exchanges.iter().all(|exchange| exchange.header("x-ratelimit-degraded").is_none()));
    assert!(gateway.metric("tollgate_script_misses_total", &[]) >= 10.0);
    let left: f64 = redis.cli(&["GET", "request_rate_limiter.{a.k}.tokens"]).parse().unwrap();
    let spent = 1_000_000.0 - left;
    let (sent, refilled) = (exchanges.len() as f64, start.elapsed().as_secs_f64());
    assert!(spent <= sent && spent >= sent - refilled, "{spent} of {sent}");
}

#[test]
fn the_first_request_after_startup_is_decided_in_redis() {
    let redis = Redis::start();
    let yaml = yaml(&redis, "replenish-rate: 1, burst-capacity: 100");
    for left in (95..100).rev() {
        let gateway = Gateway::start(&yaml);
        let answer = gateway.connect().request("GET", "/a", &[("x-key", "k")], b"");
        assert_eq!(answer.header("x-ratelimit-degraded"), None);
        let remaining: u32 = answer.header("x-ratelimit-remaining").unwrap().parse().unwrap();
        assert!((left..left + 5).contains(&remaining), "{remaining}: the bucket is the others' too");
    }
}

#[test]
fn spring_redis_settings_apply_including_password_and_database() {
    let redis = Redis::start_with(&["--requirepass", "s3cret"]);
    let gateway = Gateway::start_with(
        &format!(
            "spring:\n  data: {{redis: {{host: 127.0.0.1, port: {}, password: '${{REDIS_PASSWORD}}', database: 3}}}}\n  \
             cloud: {{gateway: {{routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: \
             RequestRateLimiter, args: {{redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 9, \
             key-resolver: '#{{@user}}'}}}}]}}]}}}}\nkey-resolvers: {{user: 'header:x-key'}}\nserver: {{address: 127.0.0.1}}\n",
            redis.address.port()
        ),
        &[("REDIS_PASSWORD", "s3cret")],
    );
    let answer = gateway.connect().request("GET", "/a", &[("x-key", "k")], b"");
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("8")));
    assert_eq!(answer.header("x-ratelimit-degraded"), None);
    let stored =
        redis.cli(&["--no-auth-warning", "-a", "s3cret", "-n", "3", "EXISTS", "request_rate_limiter.{a.k}.tokens"]);
    assert_eq!(stored, "1");
    assert!(!gateway.log().contains("s3cret"));
}

#[test]
fn secret_key_ids_reach_redis_as_hashes() {
    let redis = Redis::start();
    let yaml =
        yaml(&redis, "replenish-rate: 2, burst-capacity: 60").replace("timeout: 5s", "timeout: 5s, hash-keys: true");
    let gateway = Gateway::start(&yaml);
    assert_eq!(gateway.connect().request("GET", "/a", &[("x-key", "s3cret")], b"").status, 200);
    let keys = redis.cli(&["--raw", "KEYS", "*"]);
    assert!(
        keys.lines().count() == 2 && keys.lines().all(|key| key.contains("{a.#")) && !keys.contains("s3cret"),
        "{keys}"
    );
}

#[test]
fn an_observing_rule_beside_others_costs_no_call_of_redis() {
    let redis = Redis::start();
    let arguments = "limits: [\
        {name: held, algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 100}, \
        {name: tried, algorithm: fixed-window, limit: 100, window: 1h, mode: observe}]";
    let gateway = Gateway::start(&yaml(&redis, arguments));
    let mut client = gateway.connect();
    let calls = || {
        let info = redis.cli(&["INFO", "commandstats"]);
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=").map(str::to_owned));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    let mut ask = |key| client.request("GET", "/a", &[("x-key", key)], b"").status;
    assert_eq!(ask("warm"), 200);
    let before = calls();
    assert!((0..20).all(|_| ask("k") == 200));
    assert_eq!(calls() - before, 20, "one for each request");
}
