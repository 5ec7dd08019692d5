//! Forms of Redis URLs.

use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{Login, RedisSettings};
use tollgate_limiter::verdict::Source;

use crate::support::{RedisServer, ask, connected, rule, store};

fn settings(url: &str) -> RedisSettings {
    RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(url.to_owned()) }
}

/// By socket, with a database, with both protocols and with Valkey's URL schemes.
#[tokio::test]
async fn every_form_of_url_connects() {
    let server = RedisServer::start_with(&["--requirepass", "p"]);
    let (socket, port) = (server.socket().to_str().unwrap().to_owned(), server.port);
    let login = Login { username: None, password: Some("p".into()) };
    for (n, (url, login)) in [
        (format!("redis://:p@127.0.0.1:{port}/1"), Login::default()),
        (format!("redis://default:p@localhost:{port}/2?protocol=resp2"), Login::default()),
        (format!("valkey://127.0.0.1:{port}/3?protocol=resp3"), login.clone()),
        (format!("redis+unix://{socket}?db=4"), login.clone()),
        (format!("unix://{socket}?db=5&pass=p&protocol=resp2"), Login::default()),
        (format!("valkey+unix://{socket}?db=6"), login.clone()),
    ]
    .into_iter()
    .enumerate()
    {
        let client = connected(&RedisSettings { login, ..settings(&url) }).await;
        assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "k", &rule(1, 9)).await.source, Source::Redis, "{url}");
        let keys = format!("db{}:keys=", n + 1);
        assert!(server.query::<String>(&["INFO", "keyspace"]).unwrap().contains(&keys), "{url}");
    }
    let separate = RedisSettings { login, database: Some(7), ..settings(&format!("redis://127.0.0.1:{port}/1")) };
    assert!(ask(&store(&connected(&separate).await, OnStoreFailure::Deny), "k", &rule(1, 9)).await.is_allowed());
    assert!(server.query::<String>(&["INFO", "keyspace"]).unwrap().contains("db7:keys="));
}
