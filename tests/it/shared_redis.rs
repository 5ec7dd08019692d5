//! Redis that other environments use too, and Redis that is set up otherwise than the file says.

use tollgate_test_support::Cluster;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// A route with limits of all kinds, which count in the Redis of `settings`.
fn yaml(settings: &str) -> String {
    format!(
        "redis: {{timeout: 20s, {settings}}}
metering: {{flush-every: 50ms}}
routes:
  - id: a
    uri: 'echo:'
    predicates: [Path=/a]
    filters:
      - {{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 2, gateways: auto}}}}
      - {{name: ConcurrencyLimiter, args: {{key-resolver: 'header:x-key', limit: 5}}}}
      - {{name: RequestCounter, args: {{key-resolver: 'header:x-key'}}}}
  - id: sold
    uri: 'echo:'
    predicates: [Path=/sold]
    filters: [{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', algorithm: quota, allowance: 2}}}}]
"
    )
}

fn ask(gateway: &Gateway, path: &str) -> u16 {
    gateway.connect().request("GET", path, &[("x-key", "k")], b"").status
}

fn change(gateway: &Gateway, method: &str, path: &str, body: &str) -> u16 {
    Connection::open(gateway.admin).request(method, path, &[], body.as_bytes()).status
}

/// The user of an environment may use its own keys and channels only.
#[test]
fn environments_with_the_same_routes_share_a_redis_by_their_prefixes() {
    let redis = Redis::start();
    let gateways = ["blue:", "green:"].map(|prefix| {
        let user = ["ACL", "SETUSER", prefix, "reset", "resetchannels", "on", ">p", "+@all"];
        let (keys, channels) = (format!("~{prefix}*"), format!("&{prefix}*"));
        assert_eq!(redis.cli(&[&user[..], &[&keys, &channels]].concat()), "OK");
        let url = redis.url();
        Gateway::start(&yaml(&format!("url: '{url}', key-prefix: '{prefix}', username: '{prefix}', password: p")))
    });
    for gateway in &gateways {
        assert_eq!([(); 3].map(|()| ask(gateway, "/a")), [200, 200, 429]);
        assert_eq!([(); 3].map(|()| ask(gateway, "/sold")), [200, 200, 429]);
        eventually("usage arrives", || gateway.metric("tollgate_metering_flushed_requests_total", &[]) >= 2.0);
        eventually("heartbeats count one gateway", || gateway.metric("tollgate_gateways", &[]) == 1.0);
    }
    // An operator's changes concern one environment.
    let [blue, green] = &gateways;
    assert_eq!(change(blue, "DELETE", "/api/limits/a/k", ""), 200);
    assert_eq!(change(blue, "PUT", "/api/limits/sold/k", "{\"grant\": 1}"), 200);
    assert_eq!([ask(blue, "/a"), ask(green, "/a")], [200, 429]);
    assert_eq!([ask(blue, "/sold"), ask(green, "/sold")], [200, 429]);
    let keys = redis.cli(&["--raw", "KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("blue:") || key.starts_with("green:")), "{keys}");
    let mut channels: Vec<String> = redis.query(&["PUBSUB", "CHANNELS"]).unwrap();
    channels.sort();
    assert_eq!(channels, ["blue:tollgate.returned", "green:tollgate.returned"]);
    assert_eq!(redis.cli(&["ACL", "LOG"]), "", "no command was refused");
    for gateway in &gateways {
        assert_eq!(gateway.metric("tollgate_redis_errors_total", &[]), 0.0);
    }
}

#[test]
fn a_lost_slot_and_a_cluster_named_by_url_have_their_own_advice() {
    let cluster = Cluster::primaries();
    let slot = cluster.slot("a.k");
    let elsewhere = (0..3).find(|node| *node != cluster.primary_of(slot)).unwrap();
    let by_url = Gateway::start(&yaml(&format!("url: 'redis://{}'", cluster.nodes[elsewhere].address)));
    eventually("the section for a cluster is named", || {
        ask(&by_url, "/a");
        by_url.log().contains("list its nodes as those of a cluster")
    });
    cluster.nodes.iter().for_each(|node| node.query::<()>(&["CLUSTER", "DELSLOTS", &slot.to_string()]).unwrap());
    let by_nodes = Gateway::start(&yaml(&format!("cluster: {{nodes: '{}'}}", cluster.addresses().join(","))));
    eventually("the lost slot is named", || {
        ask(&by_nodes, "/a");
        by_nodes.log().contains("redis-cli --cluster check")
    });
    assert!(!by_nodes.log().contains("as those of a cluster"), "{}", by_nodes.log());
}

/// One line for all workers, which use the cluster of the first node.
#[test]
fn nodes_of_two_clusters_are_reported_once() {
    let [used, other] = [Cluster::primaries(), Cluster::primaries()];
    let nodes = format!("cluster: {{nodes: ['{}', '{}']}}", used.nodes[0].address, other.nodes[0].address);
    let gateway = Gateway::start(&format!("server: {{address: 127.0.0.1, workers: 2}}\n{}", yaml(&nodes)));
    eventually("redis decides", || {
        ask(&gateway, "/a") == 200 && used.nodes.iter().any(|node| node.cli(&["DBSIZE"]) != "0")
    });
    let advice = "list nodes of one cluster only";
    eventually("the other node is named", || gateway.log().contains(advice));
    assert_eq!(gateway.log().matches(advice).count(), 1, "{}", gateway.log());
    assert!(other.nodes.iter().all(|node| node.cli(&["DBSIZE"]) == "0"));
}

#[test]
fn a_gateway_warns_when_it_uses_another_cluster_and_when_it_leaves_it() {
    let [known, other] = [Cluster::primaries(), Cluster::primaries()];
    let nodes = format!("cluster: {{nodes: ['{}', '{}']}}", known.nodes[0].address, other.nodes[0].address);
    let gateway = Gateway::start(&yaml(&nodes).replace("timeout: 20s", "timeout: 500ms"));
    let decided_by =
        |cluster: &Cluster| cluster.nodes.iter().any(|node| !node.cli(&["KEYS", "request_rate*"]).is_empty());
    eventually("redis decides", || ask(&gateway, "/a") == 200 && decided_by(&known));
    known.nodes.iter().for_each(Redis::freeze);
    let left = gateway.logged("using another redis cluster: no node of the known one replies");
    assert!(left.contains("WARN") && left.contains(&other.nodes[0].address.to_string()), "{left}");
    known.nodes.iter().for_each(Redis::thaw);
    let returned = gateway.logged("using the known redis cluster again: its nodes reply");
    assert!(returned.contains("WARN") && returned.contains(&known.nodes[0].address.to_string()), "{returned}");
}
