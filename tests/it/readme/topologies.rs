//! The files in config/ for each topology, on servers of that topology.

#[cfg(feature = "redis-tls")]
use tollgate_test_support::Certificates;
use tollgate_test_support::{Cluster, MASTER, Sentinels};

use super::file;
use crate::support::eventually;
use crate::support::gateway::Gateway;
#[cfg(feature = "redis-tls")]
use crate::support::redis::Redis;

/// Starts a gateway on `config`, and checks that Redis decides as the file says: ten concurrent requests.
fn counts(config: &str, environment: &[(&str, &str)]) -> Gateway {
    // A busy machine may respond slowly; latency is not tested here.
    let yaml = file(config)
        .replace("timeout: 100ms", "timeout: 20s")
        .replace("replenish-rate: 5", "replenish-rate: 1\n          period: 1h");
    let gateway = Gateway::start_with(&yaml, environment);
    eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    let statuses: Vec<u16> = (0..11).map(|_| gateway.get("/orders/1").status).collect();
    assert_eq!(statuses, [[200; 10].as_slice(), &[429]].concat(), "{config}");
    assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"fallback\""]), 0.0, "{config}");
    assert!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"redis\""]) >= 11.0, "{config}");
    gateway
}

#[test]
fn limits_work_on_a_documented_cluster() {
    let cluster = Cluster::start_with(0, &["--requirepass", "secret"]);
    let nodes = cluster.addresses().join(",");
    counts("config/redis-cluster.yaml", &[("REDIS_NODES", &nodes), ("REDIS_PASSWORD", "secret")]);
}

#[test]
fn limits_work_on_the_primary_of_documented_sentinels() {
    let sentinels = Sentinels::start();
    let nodes = sentinels.addresses().join(",");
    counts("config/redis-sentinel.yaml", &[("REDIS_MASTER", MASTER), ("REDIS_SENTINELS", &nodes)]);
}

#[test]
#[cfg(feature = "redis-tls")]
fn a_server_that_wants_certificates_counts() {
    let certificates = Certificates::new();
    let redis = Redis::start_tls(&certificates, true, &["--user", "gateway", "on", ">secret", "~*", "&*", "+@all"]);
    let path = |path: std::path::PathBuf| path.display().to_string();
    let (ca, cert, key) = (path(certificates.ca()), path(certificates.client()), path(certificates.client_key()));
    let environment = [
        ("REDIS_URL", redis.tls_url()),
        ("REDIS_CA", ca),
        ("REDIS_CERT", cert),
        ("REDIS_KEY", key),
        ("REDIS_USERNAME", "gateway".into()),
        ("REDIS_PASSWORD", "secret".into()),
    ];
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    counts("config/redis-tls.yaml", &environment);
}
