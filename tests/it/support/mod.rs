//! What the tests start and talk to. Everything listens on a free loopback port and ends with its handle.

pub mod client;
pub mod gateway;
pub mod load;
pub mod redis;
pub mod upstream;

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long anything in these tests may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A loopback address that nobody listens on.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Waits until `ready` holds: for what can be asked but does not tell.
#[track_caller]
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
