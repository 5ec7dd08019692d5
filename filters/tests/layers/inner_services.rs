//! `RequestRateLimiter` before inner services of several kinds.

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
use tollgate_limiter::rule::{Rule, TokenBucket};
use tower::{Layer, Service, ServiceExt};

use crate::support::{NoRefill, text};

fn limiter(burst: u64, store: NoRefill) -> RequestRateLimiterLayer {
    let settings = Settings { key_resolver: KeyResolver::parse("header:X-User").unwrap(), ..Settings::default() };
    let rule = Rule::TokenBucket(TokenBucket::per_second(10, burst).unwrap());
    RequestRateLimiterLayer::builder().rule(rule).settings(settings).store("orders", store).build().unwrap()
}

fn from_ada() -> Request<()> {
    Request::builder().header("x-user", "ada").body(()).unwrap()
}

/// Service that panics if it was not polled ready before the call.
#[derive(Clone)]
struct RequiresReady {
    ready: bool,
}

impl Service<Request<()>> for RequiresReady {
    type Response = Response<Full<bytes::Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.ready = true;
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        std::future::ready(Ok(Response::default()))
    }
}

#[tokio::test]
async fn the_ready_service_is_called() {
    for deferred in [false, true] {
        let layer = limiter(9, NoRefill { deferred, ..NoRefill::default() });
        let mut service = layer.layer(RequiresReady { ready: false });
        for _ in 0..2 {
            let response = service.ready().await.unwrap().call(from_ada()).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn services_that_are_not_send_are_limited_too() {
    let inner = tower::service_fn(|_: Request<()>| async {
        let local = std::rc::Rc::new(7);
        tokio::task::yield_now().await;
        Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::from(local.to_string())))
    });
    let response = limiter(1, NoRefill::default()).layer(inner).oneshot(from_ada()).await.unwrap();
    assert_eq!(text(response).await, "7");
}
