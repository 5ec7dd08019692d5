//! Floods of invented keys: `memory.max-keys` is divided among the limiters.

use crate::support::gateway::Gateway;

#[test]
fn a_flood_of_keys_on_one_route_leaves_room_to_another_and_is_named_in_the_log() {
    let route = |name: &str| {
        format!(
            "  - {{id: {name}, uri: 'echo:', predicates: [Path=/{name}], filters: [{{name: RequestRateLimiter, args: \
             {{replenish-rate: 1, period: 1h, burst-capacity: 2, key-resolver: 'query:k'}}}}]}}\n"
        )
    };
    let gateway = Gateway::start(&format!("memory: {{max-keys: 400}}\nroutes:\n{}{}", route("flooded"), route("calm")));
    let mut client = gateway.connect();
    let mut ask = |path: &str, key: usize| client.request("GET", &format!("/{path}?k={key}"), &[], b"").status;
    let admitted = (0..3_000).filter(|key| ask("flooded", *key) == 200).count();
    // The share of 100 and the pool of 200, and at most 64 shared buckets with a burst of 2.
    assert!((300..=300 + 128).contains(&admitted), "{admitted}");
    for key in 0..100 {
        assert_eq!([ask("calm", key), ask("calm", key), ask("calm", key)], [200, 200, 429], "a bucket of its own");
    }
    assert_eq!(gateway.metric("tollgate_memory_keys", &[]), 400.0);
    assert_eq!(gateway.metric("tollgate_memory_overflowed_total", &[]), 2_700.0);
    let line = gateway.logged("no room for new keys in memory");
    assert!(line.contains("limiter=flooded"), "{line}");
}
