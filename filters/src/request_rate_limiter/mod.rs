//! Rate limits per key: Spring Cloud Gateway's `RequestRateLimiter`.
//!
//! | Outcome | Status | Headers | [`LocalReply`] reason |
//! |---|---|---|---|
//! | allowed | the inner service's | the configured [families](crate::headers) | none |
//! | denied | [`Settings::status`], 429 | the same, `Retry-After`, `Cache-Control: no-store` | `rate-limited` |
//! | never admitted: the cost exceeds the capacity of a rule | as denied | as denied, without `Retry-After` | `rate-limited` |
//! | denied, and [`OnLimit::Forward`] | the overflow service's | as allowed | none |
//! | store unavailable, `on-store-failure: deny` | 503 | as denied | `limiter-unavailable` |
//! | no key id | [`Settings::empty_key_status`], 403, or forwarded unlimited | none | `empty-key` |
//! | several different key ids | [`Settings::empty_key_status`], 403 | none | `ambiguous-key` |
//! | blocked | [`Settings::block_status`], 403 | none | `blocked` |
//! | exempt | the inner service's | none | none |
//!
//! A denied request never reaches the inner service. Clients that ask for JSON get an RFC 9457 problem of the type
//! `quota-exceeded`, others a line of text. [`ErrorBody::Empty`] sends no body, as Spring does; [`ErrorBody::Template`]
//! sends a custom one. `Retry-After` and `no-store` are additions, the other headers are Spring's.
//!
//! The store decides several rules together: it takes tokens under all of them, or none. Observed rules
//! ([`Enforcement`]) are decided after the enforced rules have allowed the request. They take tokens under all of them, or
//! none, and deny nothing.
//!
//! If a request's cost is known only later, [`Cost::tokens`] are reserved. The response, or the end of a body, settles
//! the difference. The surrounding service must count the bytes of bodies: see [`Metered`].
//!
//! A rule that paces (`leaky-bucket`) delays an allowed request until its slot, on tokio's timer. A client that
//! disconnects before gives its slot back.
//!
//! A store that decides immediately costs no boxed future and no clone of the inner service. A store that responds later
//! costs one box and one clone of the inner service per request. Place the limiter after filters that edit its keys, and
//! before anything costly. A `Retry` outside of it takes tokens for each attempt.
//!
//! # A limiter in ten lines
//!
//! [`RequestRateLimiterLayer::builder`] needs a rule and a key. It counts in a memory store of its own, and requests without
//! a key share one bucket. With a [`RedisStore`](tollgate_limiter::store), several processes share the buckets. `examples/axum.rs` is a
//! complete axum service.
//!
//! ```
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;
//! use tollgate_filters::limiter::rule::TokenBucket;
//!
//! let layer = RequestRateLimiterLayer::builder()
//!     .rule(TokenBucket::per_second(10, 20)?)
//!     .key(KeyResolver::client_ip())
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Every setting, and a store of your own
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{Empty, Full};
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_filters::limiter::rule::TokenBucket;
//! use tollgate_filters::limiter::store::{Check, Decision, Store};
//! use tollgate_filters::limiter::verdict::{Outcome, Verdict};
//! use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! /// Denies every request.
//! struct Exhausted;
//!
//! impl Store for Exhausted {
//!     fn decide(&self, _: &[Check<'_>], _: &[Check<'_>]) -> Decision {
//!         let outcome = Outcome::Denied { retry_after: Duration::from_millis(1_200) };
//!         Decision::Ready(Verdict { remaining: Some(0), ..Verdict::uncounted(outcome) })
//!     }
//!
//!     fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings { key_resolver: KeyResolver::parse("header:X-User")?, ..Settings::default() };
//! let layer = RequestRateLimiterLayer::builder()
//!     .rule(TokenBucket::per_second(1, 20)?)
//!     .settings(settings)
//!     .store("orders", Exhausted)
//!     .build()?;
//! let upstream = service_fn(|_: Request<Empty<Bytes>>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("never called")))
//! });
//! let request = Request::builder().header("x-user", "ada").body(Empty::new())?;
//! let response = layer.layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
//! assert_eq!(response.headers()["retry-after"], "2");
//! assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

mod access;
mod builder;
mod check_set;
mod cost;
mod denial;
mod enforcement;
mod evaluate;
mod event;
mod future;
mod layer;
mod limiter;
mod limits;
mod report;
mod rule_set;
mod settlement;

pub use self::access::AccessList;
#[cfg(feature = "gateway")]
pub use self::access::IdentityCheck;
pub use self::builder::Builder;
pub use self::cost::{Cost, CostSource};
pub use self::enforcement::Enforcement;
pub use self::event::{VerdictEvent, VerdictKind};
pub use self::layer::{RequestRateLimiter, RequestRateLimiterLayer};
pub use self::limits::{Limit, OnLimit, PlanResolver, Plans, RuleSets, Settings};
pub use self::settlement::{Metered, RequestMeter, ResponseMeter};
pub use crate::key_resolver::MissingKey;
pub use crate::limiter_builder::BuildError;
pub use crate::reply::{ErrorBody, Template, TemplateError};
