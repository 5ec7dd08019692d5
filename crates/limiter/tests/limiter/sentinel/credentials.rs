//! Credentials of servers and of Sentinels.

use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{Login, RedisClient, RedisSettings, Sentinel, Servers};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{MASTER, Passwords, Sentinels};

use super::{connected, nodes, settings};
use crate::support::{ask, eventually, rule, store};

fn with_passwords(sentinels: &Sentinels, server: &str, sentinel: &str) -> RedisSettings {
    let login = |password: &str| Login { username: None, password: Some(password.into()) };
    let servers = Sentinel { master: MASTER.into(), nodes: nodes(sentinels), login: login(sentinel) };
    RedisSettings { servers: Servers::Sentinel(servers), login: login(server), ..settings(MASTER, nodes(sentinels)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_sentinels_have_separate_passwords() {
    let passwords = Passwords { data: Some("of-server"), sentinels: Some("of-sentinel") };
    let sentinels = tokio::task::spawn_blocking(move || Sentinels::start_with(passwords, &[])).await.unwrap();
    let client = connected(&with_passwords(&sentinels, "of-server", "of-sentinel")).await;
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1)).await.source, Source::Redis);

    for (server, sentinel, named) in
        [("of-server", "wrong-1", "sentinel 127"), ("wrong-2", "of-sentinel", "server 127")]
    {
        let client = RedisClient::start(&with_passwords(&sentinels, server, sentinel)).unwrap();
        client.wait_attempted(Duration::from_secs(10)).await;
        eventually("the error names its origin", async || {
            client.status().last_error().is_some_and(|text| text.contains(named))
        })
        .await;
        let text = format!("{:?}", client.status());
        assert!(!text.contains("wrong-") && !text.contains("of-se"), "{text}");
    }
}
