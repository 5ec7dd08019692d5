//! Processes and servers that tests start. Everything listens on a free loopback port and ends with its handle.

pub mod client;
pub mod clients;
pub mod dns;
pub mod gateway;
pub mod load;
pub mod raw_http2;
pub mod secure;
#[cfg(feature = "jwt")]
pub mod tokens;
pub mod upstream;

pub use tollgate_test_support::{PATIENCE, eventually, free_address};

/// Redis, as a process.
pub mod redis {
    pub use tollgate_test_support::RedisServer as Redis;
}
