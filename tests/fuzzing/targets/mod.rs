//! Fuzz targets: each takes any bytes and panics if an invariant does not hold. The binaries in `fuzz/` run them with
//! libFuzzer. `jwt.rs` is apart, since it needs the feature `jwt`.

pub mod api_keys;
pub mod client_certificate;
pub mod forwarded;
pub mod key_store;
pub mod path;
pub mod properties;
pub mod proxy_header;
pub mod redis_reply;
pub mod registry_reply;
pub mod request;
pub mod upstream_response;
