//! Responses of a program to refused requests.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::refusal::{ErrorFormat, Refusal};
use tollgate_filters::request_rate_limiter::{AccessList, MissingKey, RequestRateLimiterLayer, Settings};
use tollgate_limiter::rule::TokenBucket;
use tollgate_limiter::verdict::{Outcome, Verdict};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use crate::support::{Fixed, hello, text};

fn by_user() -> KeyResolver {
    KeyResolver::parse("header:x-user").unwrap()
}

fn from(user: &str) -> Request<()> {
    Request::builder().header("x-user", user).body(()).unwrap()
}

/// Response with a boxed body that cannot be made from bytes.
fn teapot(refusal: &Refusal) -> Response<UnsyncBoxBody<Bytes, std::io::Error>> {
    let rule = refusal.rule.as_deref().unwrap_or("none");
    let body =
        Full::from(format!("{} {} {rule}", refusal.status.as_u16(), refusal.reason)).map_err(std::io::Error::other);
    Response::builder().status(418).header("x-ratelimit-remaining", "own").body(body.boxed_unsync()).unwrap()
}

/// Returns status, text and header fields.
async fn send<S, B>(service: &S, request: Request<()>) -> (u16, String, HeaderMap)
where
    S: Service<Request<()>, Response = Response<B>, Error: std::fmt::Debug> + Clone,
    B: http_body::Body<Error: std::fmt::Debug>,
{
    let response = service.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, text(response).await, headers)
}

#[tokio::test]
async fn every_refusal_of_a_rate_limiter_is_the_response_of_the_program() {
    let settings = Settings {
        key_resolver: by_user(),
        block: AccessList::new(["eve".to_owned()], Vec::new()),
        ..Settings::default()
    };
    let one = TokenBucket::new(1, std::time::Duration::from_secs(3600), 1).unwrap();
    let builder = RequestRateLimiterLayer::builder().rule(one.clone()).settings(settings.clone()).on_refusal(teapot);
    let service = builder.build().unwrap().layer(hello(&Default::default()));
    assert_eq!(send(&service, from("ada")).await.1, "hello");
    let (status, text, headers) = send(&service, from("ada")).await;
    assert_eq!((status, &*text), (418, "429 rate-limited default"));
    assert_eq!(headers["x-ratelimit-remaining"], "own");
    assert!(headers.contains_key("retry-after") && !headers.contains_key("content-type"), "{headers:?}");
    assert_eq!(send(&service, from("eve")).await.1, "403 blocked none");
    assert_eq!(send(&service, Request::new(())).await.1, "403 empty-key none");
    let twice = Request::builder().header("x-user", "ada").header("x-user", "bob").body(()).unwrap();
    assert_eq!(send(&service, twice).await.1, "403 ambiguous-key none");

    let unavailable = Verdict::uncounted(Outcome::StoreUnavailable { retry_after: std::time::Duration::from_secs(1) });
    let builder = RequestRateLimiterLayer::builder().rule(one).settings(settings).on_refusal(teapot);
    let service = builder.store("orders", Fixed(unavailable)).build().unwrap().layer(hello(&Default::default()));
    assert_eq!(send(&service, from("ada")).await.1, "503 limiter-unavailable none");
}

#[tokio::test]
async fn every_refusal_of_a_concurrency_limiter_is_the_response_of_the_program() {
    let builder = ConcurrencyLimiterLayer::builder().limit(1).key(by_user()).missing_key(MissingKey::Deny);
    let service = builder.on_refusal(teapot).build().unwrap().layer(hello(&Default::default()));
    let held = service.clone().oneshot(from("ada")).await.unwrap();
    assert_eq!(send(&service, from("ada")).await.1, "429 concurrency-limited default");
    assert_eq!(send(&service, Request::new(())).await.1, "403 empty-key none");
    drop(held);
    assert_eq!(send(&service, from("ada")).await.1, "hello");
}

#[tokio::test]
async fn a_program_responds_to_the_refusals_of_its_own_limiter_only() {
    let outer = ConcurrencyLimiterLayer::builder().limit(9).key(by_user()).on_refusal(teapot).build().unwrap();
    let none = TokenBucket::new(1, std::time::Duration::from_secs(3600), 1).unwrap();
    let inner = RequestRateLimiterLayer::builder().rule(none).key(by_user()).build().unwrap();
    let service = ServiceBuilder::new().layer(outer).layer(inner).service(hello(&Default::default()));
    send(&service, from("ada")).await;
    let (status, text, _) = send(&service, from("ada")).await;
    assert_eq!((status, &*text), (429, "Too Many Requests\n"));
}

#[tokio::test]
async fn clients_of_grpc_get_an_error_of_grpc_unless_the_format_is_http() {
    let service = |format| {
        let builder = ConcurrencyLimiterLayer::builder().limit(1).key(by_user()).missing_key(MissingKey::Deny);
        builder.error_format(format).on_refusal(teapot).build().unwrap().layer(hello(&Default::default()))
    };
    let call = || Request::builder().header("content-type", "application/grpc+proto").body(()).unwrap();
    let (status, body, headers) = send(&service(ErrorFormat::Auto), call()).await;
    assert_eq!((status, &*body, &headers["grpc-status"]), (200, "", &"7".parse().unwrap()));
    assert_eq!(headers["content-type"], "application/grpc");
    assert_eq!(headers["grpc-message"], "Forbidden");
    let (status, body, headers) = send(&service(ErrorFormat::Http), call()).await;
    assert_eq!((status, &*body), (StatusCode::IM_A_TEAPOT.as_u16(), "403 empty-key none"));
    assert!(!headers.contains_key("grpc-status"));
}

#[tokio::test]
async fn each_limiter_of_a_stack_makes_its_refusals_errors_of_grpc() {
    let rates = |burst| {
        let rule = TokenBucket::new(1, std::time::Duration::from_secs(3600), burst).unwrap();
        RequestRateLimiterLayer::builder().rule(rule).key(by_user()).on_refusal(teapot).build().unwrap()
    };
    let slots = || ConcurrencyLimiterLayer::builder().limit(1).key(by_user()).build().unwrap();
    let call =
        || Request::builder().header("content-type", "application/grpc").header("x-user", "ada").body(()).unwrap();
    let refused = |headers: &HeaderMap| headers["grpc-status"] == "8" && headers["content-type"] == "application/grpc";

    let service = ServiceBuilder::new().layer(rates(9)).layer(slots()).service(hello(&Default::default()));
    let held = service.clone().oneshot(call()).await.unwrap();
    let (status, body, headers) = send(&service, call()).await;
    assert!(status == 200 && body.is_empty() && refused(&headers), "{status} {headers:?}");
    drop(held);

    let service = ServiceBuilder::new().layer(slots()).layer(rates(1)).service(hello(&Default::default()));
    send(&service, call()).await;
    let (status, body, headers) = send(&service, call()).await;
    assert!(status == 200 && body.is_empty() && refused(&headers), "{status} {headers:?}");
}
