//! Limits requests in memory, without HTTP: `cargo run -p tollgate-limiter --example plain`

use tollgate_limiter::{MemoryStore, RateLimiter, RuleError, TokenBucket};

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), RuleError> {
    let limiter = RateLimiter::new("api", TokenBucket::per_second(1, 3)?, MemoryStore::default());
    for request in 1..=4 {
        let verdict = limiter.check("alice", 1).await;
        println!("request {request}: {:?}, remaining: {:?}", verdict.outcome, verdict.remaining);
    }
    Ok(())
}
