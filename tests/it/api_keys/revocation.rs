//! Revoked keys on connections and streams that are open.

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use serde_json::json;
use tokio::sync::mpsc;

use super::{ALICE, BOB, GUESSES, Keys, OPEN, hash, status};
use crate::http2::{Fed, connect};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Sends requests with keys on streams of one HTTP/2 connection, before and after `revoke` revokes that of Alice.
async fn assert_revoked_in_streams(gateway: &Gateway, revoke: impl FnOnce()) {
    let mut connection = connect::<Fed>(gateway).await;
    let mut stream = |key: &str| {
        let (body, fed) = mpsc::channel(1);
        let request = Request::post("http://a/").header("X-Api-Key", key).body(Fed(fed)).unwrap();
        (body, connection.send_request(request))
    };
    let (body, first) = stream(ALICE);
    drop(body);
    assert_eq!(first.await.unwrap().status(), 200);
    // One that was admitted goes on.
    let (body, admitted) = stream(ALICE);
    body.send(Frame::data(Bytes::from_static(b"a"))).await.unwrap();
    let (other, served) = stream(BOB);
    drop(other);
    assert_eq!(served.await.unwrap().status(), 200, "the stream before it has arrived");
    revoke();
    for (key, expected) in [(ALICE, 401), (BOB, 200), (ALICE, 401)] {
        let (body, response) = stream(key);
        drop(body);
        assert_eq!(response.await.unwrap().status(), expected, "{key}");
    }
    drop(body);
    assert_eq!(admitted.await.unwrap().status(), 200);
}

#[tokio::test]
async fn the_next_stream_of_a_key_is_refused_after_a_reload() {
    let keys = Keys::new();
    let gateway = keys.gateway(GUESSES, OPEN);
    let config = std::fs::read_to_string(gateway.config()).unwrap();
    assert_revoked_in_streams(&gateway, || {
        let entries = [(ALICE, "alice", true), (BOB, "bob", false)];
        let lines =
            entries.map(|(key, id, disabled)| format!("- {{id: {id}, sha256: {}, disabled: {disabled}}}", hash(key)));
        keys.write(&lines.join("\n"));
        gateway.reload(&config);
    })
    .await;
}

#[tokio::test]
async fn the_next_stream_of_a_key_is_refused_after_a_change_in_redis() {
    let redis = Redis::start();
    for (key, id) in [(ALICE, "alice"), (BOB, "bob")] {
        redis.query::<i64>(&["HSET", "keys", &hash(key), &json!({"id": id}).to_string()]).unwrap();
    }
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 1s}}\napi-keys: {{redis-hash: keys, cache: 100ms}}\nroutes:\n{OPEN}",
        redis.url()
    ));
    assert_revoked_in_streams(&gateway, || {
        let entry = json!({"id": "alice", "disabled": true}).to_string();
        redis.query::<i64>(&["HSET", "keys", &hash(ALICE), &entry]).unwrap();
        eventually("the cache ends", || status(&gateway, ALICE) == 401);
    })
    .await;
}
