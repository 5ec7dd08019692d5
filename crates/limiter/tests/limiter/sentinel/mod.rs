//! Discovery of the primary through Sentinels.

mod credentials;
mod failover;
mod fake;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::store::redis::{HostPort, Login, RedisClient, RedisSettings, Sentinel, Servers};
use tollgate_test_support::{RedisServer, Sentinels};

/// Settings with a timeout that a busy machine does not exceed.
fn settings(master: &str, nodes: Vec<HostPort>) -> RedisSettings {
    let sentinel = Sentinel { master: master.into(), nodes, login: Login::default() };
    RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::of(Servers::Sentinel(sentinel)) }
}

fn nodes(of: &Sentinels) -> Vec<HostPort> {
    of.sentinels.iter().map(|sentinel| HostPort { host: "127.0.0.1".into(), port: sentinel.port }).collect()
}

async fn connected(settings: &RedisSettings) -> Arc<RedisClient> {
    let client = RedisClient::start(settings).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await, "{:?}", client.status());
    client
}

/// Returns the number of scripts that a server has run.
fn script_calls(server: &RedisServer) -> u64 {
    let info: String = server.query(&["INFO", "commandstats"]).unwrap();
    let calls =
        info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}
