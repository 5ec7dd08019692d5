//! Cost of a verdict on the response: the headers of an allowed response, and a whole denial.
//! `cargo bench -p tollgate-filters --bench headers`

#![allow(clippy::unwrap_used, missing_docs)]

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use tollgate_filters::headers::{HeaderNames, NamedRule, RateLimitHeaders};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};
use tower::{Layer, Service, service_fn};

/// Store that always gives the same verdict.
struct Fixed(Verdict);

impl Store for Fixed {
    fn decide(&self, _: &[Check<'_>], _: &[Check<'_>]) -> Decision {
        Decision::Ready(self.0.clone())
    }

    fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
}

fn verdict(outcome: Outcome, remaining: u64) -> Verdict {
    let reset_after = Duration::from_secs(2);
    Verdict { remaining: Some(remaining), reset_after, source: Source::Memory, ..Verdict::uncounted(outcome) }
}

fn bucket(burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::per_second(10, burst).unwrap())
}

fn headers(c: &mut Criterion) {
    let rules = [NamedRule { name: "orders", rule: &bucket(2_000), cost: 1 }];
    let headers = RateLimitHeaders::new(HeaderNames::default(), &rules);
    for remaining in [17, 1_999] {
        let verdict = verdict(Outcome::Allowed, remaining);
        c.bench_function(&format!("append, {remaining} remaining"), |b| {
            b.iter_batched_ref(
                || HeaderMap::with_capacity(12),
                |map| headers.append(black_box(&verdict), map),
                criterion::BatchSize::SmallInput,
            );
        });
    }
}

fn replies(c: &mut Criterion) {
    let denied = Outcome::Denied { retry_after: Duration::from_millis(90) };
    for (name, outcome) in [("allowed", Outcome::Allowed), ("denied", denied)] {
        let settings = Settings { key_resolver: KeyResolver::parse("header:x-user").unwrap(), ..Settings::default() };
        let rule = bucket(20);
        let builder = RequestRateLimiterLayer::builder().rule(rule).settings(settings);
        let layer = builder.store("orders", Fixed(verdict(outcome, 0))).build().unwrap();
        let mut service = layer.layer(service_fn(|_: Request<()>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
        }));
        let request = || Request::builder().header("x-user", "ada").header("accept", "*/*").body(()).unwrap();
        c.bench_function(&format!("request rate limiter, {name}"), |b| {
            b.iter_batched(
                request,
                |request| {
                    let future = pin!(service.call(request));
                    match future.poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(Ok(response)) => response,
                        Poll::Pending => unreachable!("everything is ready"),
                    }
                },
                criterion::BatchSize::SmallInput,
            );
        });
    }
}

criterion_group!(benches, headers, replies);
criterion_main!(benches);
