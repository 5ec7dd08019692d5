//! Limiters in stacks with each other, with tower-http, axum and tonic, and around bodies without `From<Bytes>`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Empty, Full};
use tokio::net::{TcpListener, TcpStream};
use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::refusal_body::RefusalBodyLayer;
use tollgate_filters::request_header_size::{self, RequestHeaderSizeLayer};
use tollgate_filters::request_rate_limiter::RequestRateLimiterLayer;
use tollgate_limiter::rule::TokenBucket;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::trace::TraceLayer;

fn two_an_hour() -> RequestRateLimiterLayer {
    let rule = TokenBucket::new(2, std::time::Duration::from_secs(3600), 2).unwrap();
    RequestRateLimiterLayer::builder().rule(rule).key(KeyResolver::parse("header:x-user").unwrap()).build().unwrap()
}

fn one_at_a_time() -> ConcurrencyLimiterLayer {
    ConcurrencyLimiterLayer::builder().limit(1).key(KeyResolver::parse("header:x-user").unwrap()).build().unwrap()
}

fn from_ada<B: Default>() -> Request<B> {
    Request::builder().uri("http://localhost/").header("x-user", "ada").body(B::default()).unwrap()
}

async fn boxed<B>(_: Request<B>) -> Result<Response<BoxBody<Bytes, std::io::Error>>, Infallible> {
    Ok(Response::new(Full::from("hello").map_err(std::io::Error::other).boxed()))
}

/// Sends three requests, each of which ends before the next: the last is over the limit of two an hour.
async fn third_is_denied<S, B, R>(service: S)
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone,
    B: Default,
    R: HttpBody<Error: std::fmt::Debug>,
{
    for expected in
        [(StatusCode::OK, "hello"), (StatusCode::OK, "hello"), (StatusCode::TOO_MANY_REQUESTS, "Too Many Requests\n")]
    {
        let response = service.clone().oneshot(from_ada()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((status, std::str::from_utf8(&body).unwrap()), expected);
    }
}

#[tokio::test]
async fn limiters_fit_around_each_other_in_both_orders() {
    let stack = ServiceBuilder::new;
    third_is_denied(stack().layer(two_an_hour()).layer(one_at_a_time()).service_fn(boxed::<()>)).await;
    third_is_denied(stack().layer(one_at_a_time()).layer(two_an_hour()).service_fn(boxed::<()>)).await;
    third_is_denied(stack().layer(two_an_hour()).layer(two_an_hour()).service_fn(boxed::<()>)).await;
}

#[tokio::test]
async fn a_slot_is_held_through_the_other_limiter() {
    let service = ServiceBuilder::new().layer(two_an_hour()).layer(one_at_a_time()).service_fn(boxed::<()>);
    let held = service.clone().oneshot(from_ada()).await.unwrap();
    assert_eq!(service.clone().oneshot(from_ada()).await.unwrap().headers()["x-concurrency-remaining"], "0");
    drop(held);
}

#[tokio::test]
async fn limiters_fit_around_and_within_tower_http() {
    let stack = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(two_an_hour())
        .layer(TraceLayer::new_for_http())
        .layer(one_at_a_time())
        .layer(TraceLayer::new_for_http());
    third_is_denied(stack.service_fn(boxed::<Empty<Bytes>>)).await;
}

#[tokio::test]
async fn other_layers_take_any_body_behind_the_layer_of_refusal_bodies() {
    let limit = RequestHeaderSizeLayer::new(request_header_size::Settings::new(16));
    let unsync = service_fn(|_: Request<()>| async {
        let body: UnsyncBoxBody<Bytes, Infallible> = Full::from("hello").boxed_unsync();
        Ok::<_, Infallible>(Response::new(body))
    });
    let service = ServiceBuilder::new().layer(limit).layer(RefusalBodyLayer::default()).service(unsync);
    assert_eq!(service.clone().oneshot(from_ada()).await.unwrap().status(), StatusCode::OK);
    let long = Request::builder().header("x-long", "a".repeat(17)).body(()).unwrap();
    assert_eq!(service.oneshot(long).await.unwrap().status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn axum_routers_take_both_limiters_in_one_stack() {
    let stack = ServiceBuilder::new().layer(TraceLayer::new_for_http()).layer(two_an_hour()).layer(one_at_a_time());
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "hello" })).layer(stack);
    third_is_denied::<_, axum::body::Body, _>(router).await;
    let stack = ServiceBuilder::new().layer(two_an_hour()).layer(one_at_a_time());
    let route = axum::routing::get(|| async { "hello" }).layer::<_, Infallible>(stack);
    third_is_denied::<_, axum::body::Body, _>(axum::Router::new().route("/", route)).await;
}

/// gRPC service whose calls succeed without a message.
#[derive(Clone)]
struct Echo;

impl tonic::server::NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<tonic::body::Body>> for Echo {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<tonic::body::Body>) -> Self::Future {
        std::future::ready(Ok(tonic::Status::ok("").into_http()))
    }
}

#[tokio::test]
async fn tonic_servers_take_both_limiters() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stack = ServiceBuilder::new().layer(TraceLayer::new_for_grpc()).layer(two_an_hour()).layer(one_at_a_time());
    let server = tonic::transport::Server::builder().layer(stack.into_inner()).add_service(Echo);
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let (client, connection) = h2::client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let (mut statuses, mut last) = (Vec::new(), None);
    for _ in 0..3 {
        let request = Request::post(format!("http://{address}/test.Echo/Call")).header("x-user", "ada");
        let request = request.header("content-type", "application/grpc").body(()).unwrap();
        let (response, _) = client.clone().ready().await.unwrap().send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::OK, &"application/grpc".parse().unwrap())
        );
        statuses.push(response.headers()["grpc-status"].to_str().unwrap().to_owned());
        last = Some(response);
    }
    assert_eq!(statuses, ["0", "0", "8"]);
    let denied = last.unwrap();
    let headers = denied.headers();
    assert_eq!(headers["grpc-message"], "Too Many Requests");
    let pushback: u64 = headers["grpc-retry-pushback-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..=1_800_000).contains(&pushback), "{pushback}");
    // In base64: "type.googleapis.com/google.rpc.RetryInfo", where it begins on a whole group of three bytes or not.
    let details = headers["grpc-status-details-bin"].to_str().unwrap();
    assert!(details.len() > 60, "{details}");
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    serving.abort();
    connection.abort();
}

#[tokio::test]
async fn plain_bodies_of_hyper_fit_too() {
    let empty = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
    let service = ServiceBuilder::new().layer(two_an_hour()).service(empty);
    let mut last = None;
    for _ in 0..3 {
        last = Some(service.clone().oneshot(from_ada()).await.unwrap());
    }
    let denied = last.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.body().size_hint().exact(), Some(18));
    assert!(!denied.body().is_end_stream());
}
