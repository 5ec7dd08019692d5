//! Rate limit headers of a verdict: three families of header fields, and `Retry-After`.
//!
//! | Family | Fields |
//! |---|---|
//! | `spring` | `X-RateLimit-Remaining`, `-Replenish-Rate`, `-Burst-Capacity`, `-Requested-Tokens`, each renamable |
//! | `draft` | `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11), an item for each rule |
//! | `legacy` | `X-RateLimit-Limit`, `-Remaining`, `-Reset` (seconds until the full limit is available again) |
//!
//! If there are several rules, `spring` and `legacy` report the rule that is nearest to denying. A rule that is no
//! bucket reports its limit as rate and burst. Values that depend only on the rules are prepared at load. A response
//! only formats its remaining tokens, without an allocation up to 999.

mod draft;
mod names;
mod rate_limit;
mod value;

pub use self::names::{Families, HeaderNames};
#[cfg(feature = "request-rate-limiter")]
pub(crate) use self::rate_limit::CheckedRules;
#[cfg(feature = "concurrency-limiter")]
pub(crate) use self::rate_limit::DEGRADED;
pub use self::rate_limit::{NamedRule, RateLimitHeaders};
#[cfg(feature = "concurrency-limiter")]
pub(crate) use self::value::prepend;
pub use self::value::{number_value, retry_after_secs};
