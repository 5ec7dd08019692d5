//! Rate limiting and concurrency limiting, in memory or in Redis. This crate knows nothing of HTTP.
//!
//! [`RateLimiter`] checks requests of keys under one or more rules:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate_limiter::RuleError> {
//! use tollgate_limiter::{MemoryStore, Outcome, RateLimiter, TokenBucket};
//!
//! let limiter = RateLimiter::new("api", TokenBucket::per_second(1, 1)?, MemoryStore::default());
//! assert!(limiter.check("alice", 1).await.is_allowed());
//! match limiter.check("alice", 1).await.outcome {
//!     Outcome::Denied { retry_after } => assert!(retry_after.as_millis() <= 1_000),
//!     outcome => panic!("{outcome:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`MemoryStore`] decides at once, in this process. A `RedisStore` (feature `redis`) shares the limits of several processes, and
//! decides by a policy while Redis is unreachable; the feature `redis-tls` adds TLS. [`RateLimiter::until_allowed`] waits instead of
//! denying, for jobs.
//!
//! | Module | Contents |
//! |---|---|
//! | [`rule`] | settings of the seven algorithms |
//! | [`store`] | decisions on shared state: [`store::memory`], and `store::redis` with the feature `redis` |
//! | [`verdict`] | results of decisions |
//! | [`concurrency`] | limits of in-flight requests |
//! | [`quota`] | withdrawals from prepaid quotas |
//! | [`metering`] | counts per key for billing and statistics |
//!
//! Enums of rules, outcomes and sources are complete, so that a `match` finds every place that a new variant concerns: a new
//! variant is a breaking change. Errors and results that only this crate creates are `#[non_exhaustive]`. Settings and verdicts
//! with open fields have constructors or a `Default`; write the changed fields and `..`, since versions may add fields. Items
//! of the feature `gateway`, and those that this documentation hides, serve the Tollgate gateway: any version may change them.

#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without its feature, nothing uses the gateway's parts.
#![cfg_attr(not(feature = "gateway"), allow(dead_code, unreachable_pub))]

#[cfg(not(feature = "gateway"))]
mod algorithm;
#[cfg(feature = "gateway")]
pub mod algorithm;
pub mod concurrency;
pub mod key;
mod label;
pub mod limiter;
pub mod metering;
pub mod plan;
pub mod quota;
pub mod rule;
pub mod store;
mod sync;
pub mod verdict;

pub use self::limiter::{RateLimiter, RuleCountError, WaitError};
pub use self::rule::{
    Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Rule, RuleError, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};
pub use self::store::memory::{ManualClock, MemoryStore, TokioClock};
#[cfg(feature = "redis")]
pub use self::store::redis::{RedisClient, RedisConnectError, RedisSettings, RedisStore};
pub use self::store::{OnStoreFailure, Store};
pub use self::verdict::{Outcome, Verdict};
