//! What tests need around them: redis-servers in every topology, and a proxy that makes them fail.
//!
//! | Item | Is |
//! |---|---|
//! | [`RedisServer`] | one redis-server, on a free loopback port and a Unix socket, with TLS if asked for |
//! | [`Cluster`] | three primaries, with a replica each or without |
//! | [`Sentinels`] | a primary, two replicas, and three sentinels that watch them |
//! | [`Certificates`] | an authority of the test's own, with what a server and a client show each other |
//! | [`FaultProxy`] | stands before a Redis and fails as told |
//!
//! Processes end with their handles. Whatever does not come about within [`PATIENCE`] is a panic, which fails the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // how a test fails

mod cluster;
mod ports;
mod proxy;
mod redis_server;
mod sentinels;
mod slots;
mod tls;

use std::time::{Duration, Instant};

pub use cluster::Cluster;
pub use ports::{Port, free_address};
pub use proxy::{ERRORS, Fault, FaultProxy};
pub use redis_server::RedisServer;
pub use sentinels::{MASTER, Passwords, Sentinels};
pub use slots::SlotMove;
pub use tls::Certificates;

/// How long anything in a test may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `ready` holds, for what can be asked but does not tell; returns how long that took.
///
/// # Panics
/// After [`PATIENCE`], with `what` was awaited.
#[track_caller]
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}
