//! docs/operations: every kind of failure is documented, and the documented permissions are enough.

use tollgate_limiter::store::redis::StoreError;

use super::replay::shell;
use super::{blocks, file};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

#[test]
fn every_redis_error_kind_is_documented_with_a_remedy() {
    let (table, runbook) = (file("docs/operations/failures.md"), file("docs/operations/runbook.md"));
    for kind in StoreError::ALL.into_iter().filter(|kind| *kind != StoreError::BreakerOpen) {
        let kind = kind.as_str();
        // A wrong clock is not a failure of Redis.
        assert!(table.contains(&format!("`{kind}`")) || kind == "clocks", "{kind}: no row of the table");
        assert!(runbook.contains(&format!("| kind `{kind}` |")) || kind == "other", "{kind}: not in the runbook");
    }
}

#[test]
fn the_documented_redis_permissions_suffice() {
    let (_, command) = blocks(&file("docs/operations/acl.md"), "sh").remove(0);
    assert!(command.starts_with("redis-cli ACL SETUSER gateway "));
    // The page says where the prefix stands.
    let prefixed = command.replace("'~", "'~prod:").replace("'&", "'&prod:");
    for (command, prefix) in [(command, ""), (prefixed, "prod:")] {
        // The default of Redis 6.2, where a reset user may use all channels.
        let redis = Redis::start_with(&["--acl-pubsub-default", "allchannels"]);
        let port = format!("redis-cli -p {} ", redis.address.port());
        assert_eq!(shell(&command.replacen("redis-cli ", &port, 1)).0, ["OK"]);
        let yaml = format!(
            "redis: {{url: '{}', key-prefix: '{prefix}', username: gateway, password: PASSWORD, timeout: 20s}}
routes:
  - id: a
    uri: 'echo:'
    predicates: [Path=/**]
    filters: [{{name: RequestRateLimiter, args: {{replenish-rate: 1, period: 1h, burst-capacity: 2, key-resolver: ip}}}}]
",
            redis.url()
        );
        let gateway = Gateway::start(&yaml);
        assert_eq!([(); 3].map(|()| gateway.get("/").status), [200, 200, 429], "{prefix}");
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"fallback\""]), 0.0);
        assert_eq!(gateway.metric("tollgate_redis_errors_total", &[]), 0.0);
        let own = format!("{prefix}request_rate_limiter.");
        let keys = redis.cli(&["--raw", "KEYS", "*"]);
        assert!(keys.lines().any(|key| key.starts_with(&own)), "{keys}");
        let channels: Vec<String> = redis.query(&["PUBSUB", "CHANNELS"]).unwrap();
        assert_eq!(channels, [format!("{prefix}tollgate.returned")]);
        assert_eq!(redis.cli(&["ACL", "LOG"]), "", "no command was refused");
    }
}
