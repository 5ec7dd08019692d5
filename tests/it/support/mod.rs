//! What the tests start and talk to. Everything listens on a free loopback port and ends with its handle.

pub mod client;
pub mod gateway;
pub mod load;
pub mod redis;
#[cfg(feature = "jwt")]
pub mod tokens;
pub mod upstream;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long anything in these tests may take before it counts as hung.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A loopback address that nobody listens on: below the ports that the system hands out, so that no listener on port 0 is
/// given it meanwhile, and from a start of this process' own.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, SeqCst));
        let port = u16::try_from(12_000 + number % 18_000).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap();
        }
    }
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
