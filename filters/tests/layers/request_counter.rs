//! `RequestCounter`: counts and their time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_counter::{Counted, RequestCounterLayer};
use tollgate_limiter::metering::{Dimensions, Ledger, Meter, MeterSettings, Period};
use tower::{Layer, Service, ServiceExt, service_fn};

fn layer() -> (Arc<Ledger>, RequestCounterLayer) {
    let ledger = Arc::new(Ledger::new(100));
    let settings = MeterSettings {
        scope: "r".into(),
        route: "r".into(),
        dimensions: Dimensions { route: false, method: true, status: true },
        period: Period::Month,
        ttl: Duration::from_secs(86_400),
        hash_ids: false,
    };
    let meter = Meter::new(Arc::clone(&ledger), &settings);
    (ledger, RequestCounterLayer::new(Arc::new(meter), KeyResolver::parse("header:x-key").unwrap()))
}

/// Returns all counts as `key id field=count`, in order.
fn counted(ledger: &Ledger) -> Vec<String> {
    let lines = ledger.usage().into_iter().flat_map(|usage| {
        let id = usage.name.trim_start_matches("request_counter.{r.").split('}').next().unwrap().to_owned();
        usage.fields.into_iter().map(move |(field, count)| format!("{id} {field}={count}"))
    });
    lines.collect()
}

fn request(method: &str, key: Option<&str>, body: &'static str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method);
    let request = key.into_iter().fold(request, |request, key| request.header("x-key", key));
    request.body(Full::from(body)).unwrap()
}

/// Returns a service that reads the request's body and responds with `status` and "hello".
fn reading(
    status: StatusCode,
) -> impl Service<Request<Counted<Full<Bytes>>>, Response = Response<Full<Bytes>>, Error = Infallible> {
    service_fn(move |request: Request<Counted<Full<Bytes>>>| async move {
        request.into_body().collect().await.unwrap();
        Ok(Response::builder().status(status).body(Full::from("hello")).unwrap())
    })
}

#[tokio::test]
async fn requests_and_bytes_are_counted_by_key_method_and_status() {
    let (ledger, layer) = layer();
    for (key, method, status, body) in [
        (Some("a"), "GET", 200, ""),
        (Some("a"), "GET", 204, "four"),
        (Some("a"), "BREW", 418, ""),
        (Some("a"), "WHEN", 429, ""),
        (None, "POST", 200, "x"),
    ] {
        let service = layer.layer(reading(StatusCode::from_u16(status).unwrap()));
        let response = service.oneshot(request(method, key, body)).await.unwrap();
        response.into_body().collect().await.unwrap();
    }
    let expected = [
        "a GET.2xx.bytes_in=4",
        "a GET.2xx.bytes_out=10",
        "a GET.2xx.requests=2",
        "a OTHER.4xx.bytes_out=10",
        "a OTHER.4xx.requests=2",
        " POST.2xx.bytes_in=1",
        " POST.2xx.bytes_out=5",
        " POST.2xx.requests=1",
    ];
    assert_eq!(counted(&ledger), expected);
}

#[tokio::test]
async fn a_request_is_counted_when_its_response_has_been_sent() {
    let (ledger, layer) = layer();
    let response = layer.layer(reading(StatusCode::OK)).oneshot(request("GET", Some("a"), "")).await.unwrap();
    assert_eq!(counted(&ledger), [""; 0]);
    drop(response);
    assert_eq!(counted(&ledger), ["a GET.2xx.requests=1"], "the client disconnected before the body was sent");
}

#[tokio::test]
async fn a_client_that_disconnects_is_counted_with_the_bytes_it_received() {
    let (ledger, layer) = layer();
    let upstream = service_fn(|_: Request<Counted<Full<Bytes>>>| async {
        Ok::<_, Infallible>(Response::new(Pieces(["one", "two", "three"].into_iter())))
    });
    let mut body = layer.layer(upstream).oneshot(request("GET", Some("a"), "")).await.unwrap().into_body();
    body.frame().await;
    body.frame().await;
    assert!(!body.is_end_stream());
    drop(body);
    assert_eq!(counted(&ledger), ["a GET.2xx.bytes_out=6", "a GET.2xx.requests=1"]);
}

#[tokio::test]
async fn a_client_that_disconnects_before_the_response_is_counted_under_none() {
    let (ledger, layer) = layer();
    let upstream = service_fn(|request: Request<Counted<Full<Bytes>>>| async {
        request.into_body().frame().await;
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>().await
    });
    let mut response = Box::pin(layer.layer(upstream).oneshot(request("POST", Some("a"), "seven b")));
    assert!(poll_once(&mut response).is_none());
    drop(response);
    assert_eq!(counted(&ledger), ["a POST.none.bytes_in=7", "a POST.none.requests=1"]);
}

#[tokio::test]
async fn an_upload_that_outlasts_its_response_is_counted_in_full() {
    let (ledger, layer) = layer();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let upstream = service_fn(|request: Request<Counted<Full<Bytes>>>| {
        let _ = sender.lock().unwrap().take().unwrap().send(request.into_body());
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("early"))))
    });
    let response = layer.layer(upstream).oneshot(request("PUT", Some("a"), "the whole")).await.unwrap();
    response.into_body().collect().await.unwrap();
    assert_eq!(counted(&ledger), [""; 0]);
    receiver.await.unwrap().collect().await.unwrap();
    assert_eq!(counted(&ledger), ["a PUT.2xx.bytes_in=9", "a PUT.2xx.bytes_out=5", "a PUT.2xx.requests=1"]);
}

/// Polls once and returns the output if it is ready.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Body in several frames.
struct Pieces<I>(I);

impl<I: Iterator<Item = &'static str> + Unpin> Body for Pieces<I> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}
