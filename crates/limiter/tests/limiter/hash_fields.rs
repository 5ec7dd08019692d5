//! Fields of a hash: the value that was read is replaced, and no other.

use std::sync::Arc;

use tollgate_limiter::store::redis::{RedisHash, StoreError};

use crate::support::RedisServer;

#[tokio::test]
async fn a_value_is_replaced_only_if_it_is_the_one_that_was_read() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let hash = RedisHash::new(Arc::clone(&client), "keys".into());
    let entry = r#"{"id": "a", "routes": []}"#;
    server.query::<()>(&["HSET", "keys", "a", entry]).unwrap();
    let read = hash.get("a").await.unwrap().unwrap();
    // Another client changes the field between the read and the replacement.
    server.query::<()>(&["HSET", "keys", "a", "changed"]).unwrap();
    assert_eq!(hash.replace("a", &read, "late").await, Ok(false));
    assert_eq!(hash.get("a").await.unwrap().as_deref(), Some("changed"));
    assert_eq!(hash.replace("a", "changed", &read).await, Ok(true));
    assert_eq!(hash.get("a").await.unwrap().as_deref(), Some(entry), "unchanged by a parser of JSON");
    server.query::<()>(&["HDEL", "keys", "a"]).unwrap();
    for absent in ["", entry] {
        assert_eq!(hash.replace("a", absent, "new").await, Ok(false), "{absent}");
    }
    assert_eq!(server.query::<u64>(&["EXISTS", "keys"]), Ok(0));
    server.query::<()>(&["SET", "keys", "text"]).unwrap();
    assert_eq!(hash.replace("a", entry, "new").await, Err(StoreError::Other), "a key of another type");
}
