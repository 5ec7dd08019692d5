//! Overrides of keys whose tokens were taken in advance.

use serde_json::json;

use super::{admitted, redis_settings, remove, set};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

#[test]
fn a_stricter_law_also_holds_for_leased_tokens() {
    let redis = Redis::start();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, port: 0, workers: 1}}\naccess-log: {{output: off}}\n{}
routes:
- id: leased
  uri: 'echo:'
  predicates: [Path=/leased]
  filters: [{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 1000, lease: 10s}}}}]
",
        redis_settings(&redis)
    ));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let ask = |count| admitted(&gateway, "/leased", "alice", count);
    assert_eq!(ask(100), 100, "a busy key");
    set(&gateway, "leased/alice", &json!({"block": true, "expires-in": "1h"}));
    assert_eq!(ask(10), 0);
    set(&gateway, "leased/alice", &json!({"burst-capacity": 150, "expires-in": "1h"}));
    let more = ask(100);
    assert!(more <= 50, "{more} beyond the 100 of 150");
    set(&gateway, "leased/alice", &json!({"unlimited": true, "expires-in": "1h"}));
    assert_eq!(ask(100), 100);
    assert_eq!(remove(&gateway, "leased/alice"), 200);
    let rest = ask(1000);
    assert!(rest <= 900 - more, "{rest} beyond {more} and 100 of 1000");
}
