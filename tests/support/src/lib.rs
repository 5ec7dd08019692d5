//! Test support: redis-servers in every topology, a proxy that injects faults, and stand-ins for registries.
//!
//! | Item | Purpose |
//! |---|---|
//! | [`RedisServer`] | one redis-server on a free loopback port and a Unix socket, optionally with TLS |
//! | [`Cluster`] | three primaries, each with or without a replica |
//! | [`Sentinels`] | a primary, two replicas, and three sentinels that watch them |
//! | [`Certificates`] | a certificate authority with a server and a client certificate |
//! | [`FaultProxy`] | proxy in front of a Redis that injects faults |
//! | [`registry`] | stand-ins for service registries |
//! | [`Metronome`] | measures the scheduling delay of this machine |
//!
//! Processes end with their handles. A wait longer than [`PATIENCE`] panics and fails the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // how a test fails

mod cluster;
mod metronome;
mod ports;
mod proxy;
mod redis_server;
pub mod registry;
mod sentinels;
mod slots;
mod tls;

use std::time::{Duration, Instant};

pub use cluster::Cluster;
pub use metronome::Metronome;
pub use ports::{Port, free_address};
pub use proxy::{ERRORS, Fault, FaultProxy};
pub use redis_server::RedisServer;
pub use sentinels::{MASTER, Passwords, Sentinels};
pub use slots::SlotMove;
pub use tls::Certificates;

/// Longest wait of a test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Shortest and longest pause between two polls. In between, pauses are an eighth of the time waited so far: polls of a
/// gateway or a cluster take CPU time from the other tests.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(25));

/// Polls `ready` until it returns true, and returns the duration.
///
/// # Panics
/// Panics after [`PATIENCE`], with the name of the awaited condition.
#[track_caller]
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep((start.elapsed() / 8).clamp(PAUSES.0, PAUSES.1));
    }
    start.elapsed()
}
