//! A limit per day, tested in an instant on a clock that the test moves: `cargo run -p tollgate-limiter --example fake_clock`

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::{ManualClock, MemoryStore, RateLimiter, TokenBucket};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(ManualClock::default());
    let limiter = RateLimiter::new("api", TokenBucket::new(2, DAY, 2)?, MemoryStore::with_clock(clock.clone()));
    for expected in [true, true, false] {
        assert_eq!(limiter.check("alice", 1).await.is_allowed(), expected);
    }
    clock.advance(DAY / 2);
    assert!(limiter.check("alice", 1).await.is_allowed(), "half a day refills one of two tokens");
    assert!(!limiter.check("alice", 1).await.is_allowed());
    println!("two requests a day, and a day took no time");
    Ok(())
}
