//! Jobs that wait until they may start: `cargo run -p tollgate-limiter --example jobs`

use std::time::{Duration, Instant};

use tollgate_limiter::{MemoryStore, RateLimiter, TokenBucket, WaitError};

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 20 mails per second, with bursts of 2.
    let limiter = RateLimiter::new("jobs", TokenBucket::per_second(20, 2)?, MemoryStore::default());
    let start = Instant::now();
    let jobs: Vec<_> = (1..=5)
        .map(|job| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                limiter.until_allowed("mail", 1).await?;
                println!("job {job} starts after {:?}", start.elapsed());
                Ok::<_, WaitError>(())
            })
        })
        .collect();
    for job in jobs {
        job.await??;
    }
    match limiter.try_wait_for("mail", 1, Duration::from_millis(1)).await {
        Ok(_) => println!("another job starts"),
        Err(error) => println!("another job is not started: {error}"),
    }
    Ok(())
}
